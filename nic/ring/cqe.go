package ring

import (
	"encoding/binary"

	"tapir/nic/verbs"
)

// Offsets within a completion (struct ib_uverbs_wc), and the length of its
// element.
const (
	cqeID      = 0  // u64
	cqeStatus  = 8  // u32
	cqeOpcode  = 12 // u32
	cqeByteLen = 20 // u32
	cqeImm     = 24 // u32: immediate data, big-endian, or an STag
	cqeQPN     = 28 // u32
	cqeSrcQP   = 32 // u32
	cqeFlags   = 36 // u32
	cqePKey    = 40 // u16
	cqeSL      = 44 // u8
	cqePort    = 46 // u8
	cqeLen     = 64
)

// Completion flags, of enum ibv_wc_flags.
const (
	flagGRH     = 1
	flagWithImm = 2
	flagWithInv = 8
)

// getImm and putImm carry 32 bits of immediate data, all that a program has,
// in the low half of the 64 that iWARP carries (RFC 7306 section 6.2).
func getImm(b []byte) uint64      { return uint64(binary.BigEndian.Uint32(b)) }
func putImm(b []byte, imm uint64) { binary.BigEndian.PutUint32(b, uint32(imm)) }

func putCQE(b *[cqeLen]byte, wc *verbs.WC) {
	*b = [cqeLen]byte{cqePort: 1}
	host.PutUint64(b[cqeID:], wc.ID)
	host.PutUint32(b[cqeStatus:], uint32(wc.Status))
	host.PutUint32(b[cqeOpcode:], uint32(wc.Opcode))
	host.PutUint32(b[cqeByteLen:], wc.ByteLen)
	if wc.QP != nil {
		host.PutUint32(b[cqeQPN:], wc.QP.QPN())
	}
	host.PutUint32(b[cqeSrcQP:], wc.SrcQP)
	host.PutUint16(b[cqePKey:], wc.PKeyIndex)
	b[cqeSL] = wc.SL
	flags := uint32(0)
	if wc.GRH {
		flags = flagGRH
	}
	switch {
	case wc.WithImm:
		putImm(b[cqeImm:], wc.Imm)
		flags |= flagWithImm
	case wc.WithInv:
		host.PutUint32(b[cqeImm:], wc.Invalidated)
		flags |= flagWithInv
	}
	host.PutUint32(b[cqeFlags:], flags)
}

// Completion is what a program finds in its completion queue.
type Completion struct {
	ID          uint64
	QPN         uint32
	ByteLen     uint32 // octets received, read or sent
	Imm         uint32 // immediate data, if WithImm
	Invalidated uint32 // STag that the peer's Send invalidated, if WithInv
	Status      verbs.Status
	Opcode      verbs.WCOpcode
	WithImm     bool
	WithInv     bool
}

// Parse reads a completion, of which POLL_CQ answers the first 48 octets (struct
// ib_uverbs_wc).
func (c *Completion) Parse(b []byte) {
	*c = Completion{
		ID: host.Uint64(b[cqeID:]), QPN: host.Uint32(b[cqeQPN:]), ByteLen: host.Uint32(b[cqeByteLen:]),
		Status: verbs.Status(host.Uint32(b[cqeStatus:])), Opcode: verbs.WCOpcode(host.Uint32(b[cqeOpcode:])),
	}
	switch flags := host.Uint32(b[cqeFlags:]); {
	case flags&flagWithImm != 0:
		c.WithImm, c.Imm = true, uint32(getImm(b[cqeImm:]))
	case flags&flagWithInv != 0:
		c.WithInv, c.Invalidated = true, host.Uint32(b[cqeImm:])
	}
}
