package verbs

import "fmt"

// Opcode says what a send work request does.
type Opcode uint8

const (
	OpSend           Opcode = iota // Send, or with Solicited: Send with Solicited Event
	OpSendInv                      // Send with Invalidate, or with Solicited: with both
	OpSendImm                      // Immediate Data without payload (RFC 7306 section 6); with a Fabric a Send with it
	OpWrite                        // RDMA Write
	OpWriteImm                     // RDMA Write, then Immediate Data
	OpRead                         // RDMA Read
	OpReadInv                      // RDMA Read that invalidates its local STag
	OpCompSwap                     // Atomic CmpSwap of 64 bits (RFC 7306 section 5)
	OpFetchAdd                     // Atomic FetchAdd
	OpSwap                         // Atomic Swap
	OpMaskedCompSwap               // Atomic CmpSwap with masks
	OpMaskedFetchAdd               // Atomic FetchAdd of several fields
	OpLocalInv                     // invalidate an STag of this side
	OpRegMR                        // fast-register a region
	OpBindMW                       // bind a memory window
	numOpcodes
)

// AtomicLen is the length of an atomic operation's operand and result.
const AtomicLen = 8

// opTraits are the properties of an opcode that the rules of posting and
// completing follow.
type opTraits struct {
	name     string
	wc       WCOpcode
	reads    bool // occupies one of the outbound Read slots
	atomic   bool
	local    bool // never leaves this side
	noData   bool // takes neither elements nor inline data
	noInline bool
}

var opcodes = [numOpcodes]opTraits{
	OpSend:           {name: "Send", wc: WCSend},
	OpSendInv:        {name: "Send with Invalidate", wc: WCSend},
	OpSendImm:        {name: "Immediate Data", wc: WCSend, noData: true},
	OpWrite:          {name: "RDMA Write", wc: WCWrite},
	OpWriteImm:       {name: "RDMA Write with Immediate", wc: WCWrite},
	OpRead:           {name: "RDMA Read", wc: WCRead, reads: true, noInline: true},
	OpReadInv:        {name: "RDMA Read with Invalidate", wc: WCRead, reads: true, noInline: true},
	OpCompSwap:       {name: "CmpSwap", wc: WCCompSwap, reads: true, atomic: true, noInline: true},
	OpFetchAdd:       {name: "FetchAdd", wc: WCFetchAdd, reads: true, atomic: true, noInline: true},
	OpSwap:           {name: "Swap", wc: WCSwap, reads: true, atomic: true, noInline: true},
	OpMaskedCompSwap: {name: "masked CmpSwap", wc: WCMaskedCompSwap, reads: true, atomic: true, noInline: true},
	OpMaskedFetchAdd: {name: "masked FetchAdd", wc: WCMaskedFetchAdd, reads: true, atomic: true, noInline: true},
	OpLocalInv:       {name: "Local Invalidate", wc: WCLocalInv, local: true, noData: true},
	OpRegMR:          {name: "Fast Register", wc: WCRegMR, local: true, noData: true},
	OpBindMW:         {name: "Bind MW", wc: WCBindMW, local: true, noData: true},
}

func (o Opcode) String() string {
	if o < numOpcodes {
		return opcodes[o].name
	}
	return fmt.Sprintf("opcode %d", uint8(o))
}

// Reads tells whether o occupies one of the outbound Read slots: the Reads
// and the atomic operations (RFC 7306 section 5.3).
func (o Opcode) Reads() bool { return o < numOpcodes && opcodes[o].reads }

// Atomic tells whether o is an atomic operation.
func (o Opcode) Atomic() bool { return o < numOpcodes && opcodes[o].atomic }

// Local tells whether o is done on this side alone.
func (o Opcode) Local() bool { return o < numOpcodes && opcodes[o].local }

// OpSet is a set of opcodes.
type OpSet uint32

// Ops returns the set of ops.
func Ops(ops ...Opcode) (s OpSet) {
	for _, o := range ops {
		s |= 1 << o
	}
	return s
}

// LocalOps are the operations that need no transport's help.
const LocalOps OpSet = 1<<OpLocalInv | 1<<OpRegMR | 1<<OpBindMW

// Has tells whether o is in the set.
func (s OpSet) Has(o Opcode) bool { return o < numOpcodes && s&(1<<o) != 0 }

// SendFlags modify a send work request.
type SendFlags uint8

const (
	// Signaled asks for a completion also on success.
	Signaled SendFlags = 1 << iota
	// Solicited raises an event at the receiver (Sends and immediate data).
	Solicited
	// Fence begins the request only after all earlier Reads and atomic
	// operations are complete.
	Fence
	// Inline takes the data from Inline, not from the elements.
	Inline
	// ReadFence is iWARP's name for Fence.
	ReadFence
	// LocalFence begins the request only after all earlier ones are complete.
	LocalFence
)

// Operands are the values of an atomic operation, in host order.
type Operands struct {
	// CompareAdd is the value to compare with, or to add.
	CompareAdd uint64
	// Swap is the value to store.
	Swap uint64
	// CompareAddMask names the bits to compare, or the highest bit of each
	// field to add (none: one field of 64 bits). Masked operations only.
	CompareAddMask uint64
	// SwapMask names the bits to store. Masked operations only.
	SwapMask uint64
}

// normal fills the masks in for the operations that have none, so that a
// transport need not tell them apart.
func (a Operands) normal(o Opcode) Operands {
	switch o {
	case OpCompSwap:
		a.CompareAddMask, a.SwapMask = ^uint64(0), ^uint64(0)
	case OpSwap:
		a.CompareAdd, a.CompareAddMask, a.SwapMask = 0, 0, ^uint64(0)
	case OpFetchAdd:
		a.CompareAddMask = 0
		fallthrough
	case OpMaskedFetchAdd:
		a.Swap, a.SwapMask = 0, 0
	}
	return a
}

// FastReg describes a fast registration (OpRegMR) of a region made by
// PD.AllocMR.
type FastReg struct {
	MR     *MR
	Key    uint8 // becomes the low octet of the STag
	Access Access
	IOVA   uint64 // address of the first octet; 0 with ZeroBased
	Pages  PageList
}

// Bind describes the binding of a window (OpBindMW, QP.BindMW). A Length of
// 0 unbinds.
type Bind struct {
	MW     *MW
	Key    uint8 // type 2: becomes the low octet of the STag
	MR     *MR
	Addr   uint64 // within MR's addresses
	Length uint64
	Access Access // RemoteRead, RemoteWrite, RemoteAtomic, ZeroBased
}
