package abi

import (
	"encoding/binary"

	"tapir/nic/verbs/qpattr"
)

// Fields of struct ib_uverbs_qp_dest: flow label, index of the source's GID (then hop
// limit and traffic class), service level, whether there is a GID, port.
const (
	destFlow   = 16
	destSGID   = 24
	destSL     = 27
	destGlobal = 30
	destPort   = 31
	ahSGID     = 20
	ahSL       = 26
	ahGlobal   = 29
	ahPort     = 30
)

// flowLabel is what the kernel takes of the flow label, of which UCX sets all 32 bits.
const flowLabel = 1<<20 - 1

func path(b []byte, sgid, sl int) (p qpattr.Path) {
	copy(p.DGID[:], b[:16])
	p.FlowLabel = binary.NativeEndian.Uint32(b[destFlow:]) & flowLabel
	p.SGIDIndex, p.HopLimit, p.TClass, p.SL = b[sgid], b[sgid+1], b[sgid+2], b[sl]
	return p
}

// DestPath reads struct ib_uverbs_qp_dest, which has 32 octets.
func DestPath(b []byte) qpattr.Path { return path(b, destSGID, destSL) }

// AHPath reads struct ib_uverbs_ah_attr, which has 32 octets.
func AHPath(b []byte) qpattr.Path { return path(b, ahSGID, ahSL) }

// AHOf is a path as struct ib_uverbs_ah_attr.
func AHOf(p *qpattr.Path) (d [32]byte) {
	copy(d[:16], p.DGID[:])
	binary.NativeEndian.PutUint32(d[destFlow:], p.FlowLabel)
	d[ahSGID], d[ahSGID+1], d[ahSGID+2], d[ahSL] = p.SGIDIndex, p.HopLimit, p.TClass, p.SL
	d[ahGlobal], d[ahPort] = 1, 1
	return d
}

// DestOf is a path as struct ib_uverbs_qp_dest; one without a GID is zero.
func DestOf(p *qpattr.Path) (d [32]byte) {
	if p.DGID == [16]byte{} {
		return d
	}
	copy(d[:16], p.DGID[:])
	binary.NativeEndian.PutUint32(d[destFlow:], p.FlowLabel)
	d[destSGID], d[destSGID+1], d[destSGID+2], d[destSL] = p.SGIDIndex, p.HopLimit, p.TClass, p.SL
	d[destGlobal], d[destPort] = 1, 1
	return d
}
