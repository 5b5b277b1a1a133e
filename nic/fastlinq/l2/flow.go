package l2

import (
	"encoding/binary"

	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Flow is what is looked at ahead of the vports, where a device has more than
// one engine: the station and protocol that a frame is for, and its hash.
type Flow struct {
	Dst              ether.Addr
	EtherType        uint16 // behind the tags
	Proto            uint8  // of IP, if the ports count
	SrcPort, DstPort uint16
	Hash             uint32 // of RSS
}

// Hasher looks at frames as the RSS of a vport does.
type Hasher struct {
	pkt packet
	rss rss
}

// NewHasher hashes packets of these kinds with a key.
func NewHasher(key [KeyLen]byte, types HashTypes) *Hasher {
	return &Hasher{rss: rss{hashes: types, key: key, toeplitz: NewToeplitz(key)}}
}

// Look describes a frame, which it borrows. A frame too short for its Ethernet
// header has the zero Flow.
func (h *Hasher) Look(f *frame.Frame) (flow Flow) {
	p := &h.pkt
	if p.parse(f) != frame.DropNone {
		return Flow{}
	}
	flow.Dst, flow.EtherType = p.dst, p.Type
	if n := p.network(); n.ports {
		flow.Proto = n.Proto
		flow.SrcPort, flow.DstPort = binary.BigEndian.Uint16(p.Frame[n.L4:]), binary.BigEndian.Uint16(p.Frame[n.L4+2:])
	}
	flow.Hash, _ = h.rss.hash(p)
	p.Frame = nil
	return flow
}
