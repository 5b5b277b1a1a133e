package ring

import (
	"encoding/binary"

	"tapir/nic/verbs"
)

// Offsets within a send request (struct rxe_send_wqe).
const (
	sendID         = 0   // u64
	sendNumSGE     = 8   // u32, as posted
	sendOpcode     = 12  // u32
	sendFlags      = 16  // u32
	sendImm        = 20  // u32: immediate data, big-endian, or an STag
	sendAddr       = 24  // u64: remote, of Writes, Reads and atomics
	sendRKey       = 32  // u32: of Writes and Reads
	sendCompareAdd = 32  // u64
	sendSwap       = 40  // u64
	sendAtomicRKey = 48  // u32
	sendXRCSRQ     = 52  // u32: of XRC initiators; the driver's structure has no field for it
	sendRemoteQPN  = 24  // u32: of datagrams
	sendQKey       = 28  // u32
	sendAH         = 36  // u32: the number of the address handle
	bindAddr       = 24  // u64
	bindLength     = 32  // u64
	bindLKey       = 40  // u32: of the region
	bindRKey       = 44  // u32: of the window, as it was
	bindNewRKey    = 48  // u32: of the window, as it is to be
	bindAccess     = 52  // u32
	sendIOVA       = 152 // u64: the remote address again
	sendLength     = 184 // u32: octets of the message
	sendResid      = 188 // u32: the same
	sendDMASGE     = 196 // u32: number of elements
	sendData       = 208 // elements, or inline data
)

// Offsets within a receive request (struct rxe_recv_wqe).
const (
	recvID     = 0  // u64
	recvNumSGE = 8  // u32, as posted
	recvLength = 16 // u32: octets of room
	recvResid  = 20 // u32: the same
	recvDMASGE = 28 // u32: number of elements
	recvData   = 40 // elements
)

// Offsets within an element (struct rxe_sge), and its length.
const (
	sgeAddr   = 0  // u64
	sgeLength = 8  // u32
	sgeLKey   = 12 // u32
	sgeLen    = 16
)

// sendFlagBits are the bits of enum ibv_send_flags, from bit 0 on.
var sendFlagBits = [...]verbs.SendFlags{verbs.Fence, verbs.Signaled, verbs.Solicited, verbs.Inline}

// FlagsNumber is f as ibv_send_flags; a fence of any kind is the one fence there.
func FlagsNumber(f verbs.SendFlags) (n uint32) {
	if f&verbs.ReadFence != 0 {
		f |= verbs.Fence
	}
	for i, bit := range sendFlagBits {
		if f&bit != 0 {
			n |= 1 << i
		}
	}
	return n
}

// Flags reads ibv_send_flags.
func Flags(n uint32) (f verbs.SendFlags) {
	for i, bit := range sendFlagBits {
		if n&(1<<i) != 0 {
			f |= bit
		}
	}
	return f
}

// opcodes translates enum ibv_wr_opcode (with the kernel's Read with
// Invalidate) to verbs.
var opcodes = [...]struct {
	op    verbs.Opcode
	known bool
}{
	0:  {verbs.OpWrite, true},
	1:  {verbs.OpWriteImm, true},
	2:  {verbs.OpSend, true},
	3:  {verbs.OpSendImm, true},
	4:  {verbs.OpRead, true},
	5:  {verbs.OpCompSwap, true},
	6:  {verbs.OpFetchAdd, true},
	7:  {verbs.OpLocalInv, true},
	8:  {verbs.OpBindMW, true},
	9:  {verbs.OpSendInv, true},
	11: {verbs.OpReadInv, true},
}

var host = binary.NativeEndian

// getSGEs reads n elements from b into dst.
func getSGEs(dst []verbs.SGE, b []byte, n int) []verbs.SGE {
	for i := range n {
		s := b[i*sgeLen:][:sgeLen]
		dst = append(dst, verbs.SGE{
			Addr: host.Uint64(s[sgeAddr:]), Length: host.Uint32(s[sgeLength:]), LKey: host.Uint32(s[sgeLKey:]),
		})
	}
	return dst
}

// putSGEs writes list to b and returns the octets that it names.
func putSGEs(b []byte, list []verbs.SGE) (total uint32) {
	for i := range list {
		s := b[i*sgeLen:][:sgeLen]
		host.PutUint64(s[sgeAddr:], list[i].Addr)
		host.PutUint32(s[sgeLength:], list[i].Length)
		host.PutUint32(s[sgeLKey:], list[i].LKey)
		total += list[i].Length
	}
	return total
}

// BindKeys is a binding as a program writes it: with STags, not objects.
type BindKeys struct {
	RKey    uint32 // of the window now
	NewRKey uint32 // of the window then: another low octet
	LKey    uint32 // of the region
	Addr    uint64
	Length  uint64 // 0 unbinds
	Access  verbs.Access
}

// getBind reads the binding in raw into b, but for the right to write locally, which is of
// no use to a window, with the objects of d that it
// names; false if there are none.
func getBind(b *verbs.Bind, raw []byte, d *verbs.Device) bool {
	was, is, access := host.Uint32(raw[bindRKey:]), host.Uint32(raw[bindNewRKey:]), host.Uint32(raw[bindAccess:])
	*b = verbs.Bind{
		MW: d.Window(was), Key: uint8(is), Access: verbs.Access(access) &^ verbs.LocalWrite,
		Addr: host.Uint64(raw[bindAddr:]), Length: host.Uint64(raw[bindLength:]),
	}
	if b.Length > 0 {
		b.MR = d.Region(host.Uint32(raw[bindLKey:]))
	}
	return b.MW != nil && is>>8 == was>>8 && access <= 0xff && (b.Length == 0 || b.MR != nil)
}

// put writes the binding to raw.
func (k *BindKeys) put(raw []byte) {
	host.PutUint64(raw[bindAddr:], k.Addr)
	host.PutUint64(raw[bindLength:], k.Length)
	host.PutUint32(raw[bindLKey:], k.LKey)
	host.PutUint32(raw[bindRKey:], k.RKey)
	host.PutUint32(raw[bindNewRKey:], k.NewRKey)
	host.PutUint32(raw[bindAccess:], uint32(k.Access))
}
