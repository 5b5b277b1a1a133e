// Package rdmap is the Remote Direct Memory Access Protocol, RFC 5040, with
// the extensions of RFC 7306 (immediate data and atomic operations): message
// headers on top of package ddp and the error that ends a stream.
package rdmap

import "tapir/ddp"

// Version is the RDMAP version (RV) of RFC 5040. Version 0, the RDMA
// Consortium's, is as valid (section 4.1).
const Version = 1

// Opcode says what a message is: RFC 5040 section 4.1, RFC 7306 section 4.1.
type Opcode uint8

// The opcodes. Those that share their name with a header end in Op.
const (
	Write            Opcode = 0
	ReadRequestOp    Opcode = 1
	ReadResponse     Opcode = 2
	Send             Opcode = 3
	SendInvalidate   Opcode = 4
	SendSE           Opcode = 5
	SendSEInvalidate Opcode = 6
	TerminateOp      Opcode = 7
	ImmediateOp      Opcode = 8
	ImmediateSE      Opcode = 9
	AtomicRequestOp  Opcode = 10
	AtomicResponseOp Opcode = 11
	NumOpcodes              = 12
)

// The untagged queues (RFC 5040 section 4.1, RFC 7306 section 4.1).
const (
	QueueSend      uint32 = 0 // Sends and Immediate Data
	QueueRequest   uint32 = 1 // Read Requests and Atomic Requests
	QueueTerminate uint32 = 2
	QueueAtomic    uint32 = 3 // Atomic Responses
	NumQueues             = 4
)

var opcodes = [NumOpcodes]struct {
	name       string
	tagged     bool
	queue      uint32
	invalidate bool
	solicited  bool
	header     int
}{
	Write:            {name: "RDMA Write", tagged: true},
	ReadRequestOp:    {name: "RDMA Read Request", queue: QueueRequest, header: ReadRequestLen},
	ReadResponse:     {name: "RDMA Read Response", tagged: true},
	Send:             {name: "Send"},
	SendInvalidate:   {name: "Send with Invalidate", invalidate: true},
	SendSE:           {name: "Send with Solicited Event", solicited: true},
	SendSEInvalidate: {name: "Send with Solicited Event and Invalidate", invalidate: true, solicited: true},
	TerminateOp:      {name: "Terminate", queue: QueueTerminate, header: terminateControlLen},
	ImmediateOp:      {name: "Immediate Data", header: ImmediateLen},
	ImmediateSE:      {name: "Immediate Data with Solicited Event", solicited: true, header: ImmediateLen},
	AtomicRequestOp:  {name: "Atomic Request", queue: QueueRequest, header: AtomicRequestLen},
	AtomicResponseOp: {name: "Atomic Response", queue: QueueAtomic, header: AtomicResponseLen},
}

// Valid reports whether o is assigned.
func (o Opcode) Valid() bool { return o < NumOpcodes }

// String is the message's name in the RFCs.
func (o Opcode) String() string {
	if o.Valid() {
		return opcodes[o].name
	}
	return "reserved opcode"
}

// Tagged reports whether the message uses the tagged buffer model.
func (o Opcode) Tagged() bool { return o.Valid() && opcodes[o].tagged }

// Queue is the queue number of an untagged message.
func (o Opcode) Queue() uint32 {
	if o.Valid() {
		return opcodes[o].queue
	}
	return 0
}

// Invalidates reports whether the Invalidate STag field is valid.
func (o Opcode) Invalidates() bool { return o.Valid() && opcodes[o].invalidate }

// Solicited reports whether the message asks for an event at the data sink.
func (o Opcode) Solicited() bool { return o.Valid() && opcodes[o].solicited }

// IsImmediate reports whether o is one of the two kinds of Immediate Data.
func (o Opcode) IsImmediate() bool { return o == ImmediateOp || o == ImmediateSE }

// ImmediateOpcode is the Immediate Data that has the given property.
func ImmediateOpcode(solicited bool) Opcode {
	if solicited {
		return ImmediateSE
	}
	return ImmediateOp
}

// IsSend reports whether o is one of the four Sends.
func (o Opcode) IsSend() bool { return o >= Send && o <= SendSEInvalidate }

// HeaderLen is the (least) length of the RDMAP header behind the DDP header.
func (o Opcode) HeaderLen() int {
	if o.Valid() {
		return opcodes[o].header
	}
	return 0
}

// SendOpcode is the Send that has the given properties.
func SendOpcode(solicited, invalidate bool) Opcode {
	o := Send
	if invalidate {
		o++
	}
	if solicited {
		o += SendSE - Send
	}
	return o
}

// Control is the RDMAP control octet, RFC 5040 section 4.1.
type Control struct {
	Version  uint8 // 2 bits
	Reserved uint8 // 2 bits, zero when sending
	Opcode   Opcode
}

// ParseControl takes the octet (ddp.Header.ULP) apart.
func ParseControl(b uint8) Control {
	return Control{Version: b >> 6, Reserved: b >> 4 & 3, Opcode: Opcode(b & 0x0f)}
}

// Byte puts the octet together.
func (c Control) Byte() uint8 {
	return c.Version<<6 | c.Reserved&3<<4 | uint8(c.Opcode)&0x0f
}

// Control returns the control octet of a message of this opcode.
func (o Opcode) Control() uint8 { return Control{Version: Version, Opcode: o}.Byte() }

// TaggedHeader is the DDP header of a tagged message's segment.
func TaggedHeader(o Opcode, last bool, stag uint32, to uint64) ddp.Header {
	return ddp.Header{Tagged: true, Last: last, Version: ddp.Version, ULP: o.Control(), STag: stag, TO: to}
}

// UntaggedHeader is the DDP header of an untagged message's segment. The
// queue number follows from the opcode; invalidate is the Invalidate STag, 0
// for opcodes without one.
func UntaggedHeader(o Opcode, last bool, invalidate, msn, mo uint32) ddp.Header {
	return ddp.Header{Last: last, Version: ddp.Version, ULP: o.Control(), ULPWord: invalidate,
		QN: o.Queue(), MSN: msn, MO: mo}
}
