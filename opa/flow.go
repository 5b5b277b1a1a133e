package opa

import (
	"encoding/binary"
	"math/bits"

	"tapir/wire/ether"
	"tapir/wire/headers"
	"tapir/wire/ip"
)

// Proto is the class of protocol that routing control is chosen by. The
// numbers are the places in RCWord.
type Proto uint8

const (
	ProtoOther Proto = iota
	ProtoIPv4
	ProtoIPv4UDP
	ProtoIPv4TCP
	ProtoIPv6
	ProtoIPv6TCP
	ProtoIPv6UDP
)

// Flow is what a sender needs to know of an Ethernet frame to choose entropy,
// SC, VL and RC.
type Flow struct {
	Group  bool // the destination is multicast or broadcast
	Tagged bool
	PCP    uint8 // of the outer tag
	Proto  Proto
	// Hash is the same for both directions of a flow: over VLAN ids, then IP
	// addresses, protocol and ports, or what else there is.
	Hash uint32
}

// ParseFlow reads the Ethernet frame b as far as it can be understood;
// anything is accepted. IPv6 extension headers are walked. Fragments of a
// packet are one flow with each other, whatever ports the first shows.
func ParseFlow(b []byte) (f Flow) {
	if len(b) < ether.HeaderLen {
		return f
	}
	f.Group = b[0]&1 != 0
	var v headers.View
	v.Parse(b)
	f.Tagged, f.PCP = v.Tags > 0, uint8(v.TCI>>13)
	mix, typ, at := hash(0), v.Type, v.L3
	for n := range v.Tags {
		mix = mix.add(uint64(binary.BigEndian.Uint16(b[ether.HeaderLen+n*ether.TagLen:]) & 0xfff))
	}
	switch {
	case typ == ether.TypeIPv4 && f.ipv4(b[at:], mix):
	case typ == ether.TypeIPv6 && f.ipv6(b[at:], mix):
	default:
		f.Hash = mix.ends(hash(0).add(mac(b)), hash(0).add(mac(b[6:]))).add(uint64(typ)).fold()
	}
	return f
}

func mac(b []byte) uint64 {
	return uint64(binary.BigEndian.Uint32(b))<<16 | uint64(binary.BigEndian.Uint16(b[4:]))
}

func (f *Flow) ipv4(b []byte, mix hash) bool {
	if len(b) < ip.HeaderLen4 || b[0]>>4 != 4 {
		return false
	}
	proto, l4 := b[9], []byte(nil)
	if hl := int(b[0]&15) * 4; hl >= ip.HeaderLen4 && hl <= len(b) && binary.BigEndian.Uint16(b[6:])&0x3fff == 0 {
		l4 = b[hl:]
	}
	f.Proto = ProtoIPv4
	switch proto {
	case ip.ProtoUDP:
		f.Proto = ProtoIPv4UDP
	case ip.ProtoTCP:
		f.Proto = ProtoIPv4TCP
	}
	src, dst := ports(proto, l4)
	f.Hash = mix.ends(
		hash(0).add(uint64(binary.BigEndian.Uint32(b[12:]))<<16|src),
		hash(0).add(uint64(binary.BigEndian.Uint32(b[16:]))<<16|dst)).add(uint64(proto)).fold()
	return true
}

func (f *Flow) ipv6(b []byte, mix hash) bool {
	if len(b) < ip.HeaderLen6 || b[0]>>4 != 6 {
		return false
	}
	proto, l4 := upper6(b[6], b[ip.HeaderLen6:])
	f.Proto = ProtoIPv6
	switch proto {
	case ip.ProtoUDP:
		f.Proto = ProtoIPv6UDP
	case ip.ProtoTCP:
		f.Proto = ProtoIPv6TCP
	}
	src, dst := ports(proto, l4)
	f.Hash = mix.ends(
		hash(src).add(binary.BigEndian.Uint64(b[8:])).add(binary.BigEndian.Uint64(b[16:])),
		hash(dst).add(binary.BigEndian.Uint64(b[24:])).add(binary.BigEndian.Uint64(b[32:]))).add(uint64(proto)).fold()
	return true
}

// upper6 walks IPv6 extension headers, the first of type next, to the upper
// protocol. Its header is nil if the packet is a fragment or ends before.
func upper6(next uint8, b []byte) (proto uint8, l4 []byte) {
	fragment := false
	for {
		n := 8
		switch next {
		case ip.ProtoHopByHop, ip.ProtoRouting, ip.ProtoDestOpts, ip.ProtoAH, ip.ProtoFragment:
		default:
			if fragment {
				return next, nil
			}
			return next, b
		}
		if len(b) < n {
			return next, nil
		}
		switch next {
		case ip.ProtoFragment:
			if binary.BigEndian.Uint16(b[2:])&^7 != 0 {
				return b[0], nil // what follows is not a header
			}
			fragment = fragment || b[3]&1 != 0
		case ip.ProtoAH:
			n += int(b[1]) * 4
		default:
			n += int(b[1]) * 8
		}
		if len(b) < n {
			return next, nil
		}
		next, b = b[0], b[n:]
	}
}

// protoSCTP has its ports where UDP and TCP have them.
const protoSCTP = 132

func ports(proto uint8, l4 []byte) (src, dst uint64) {
	if len(l4) >= 4 && (proto == ip.ProtoUDP || proto == ip.ProtoTCP || proto == protoSCTP) {
		return uint64(binary.BigEndian.Uint16(l4)), uint64(binary.BigEndian.Uint16(l4[2:]))
	}
	return 0, 0
}

// hash is the state of a multiplicative hash of 64-bit words.
type hash uint64

func (h hash) add(v uint64) hash {
	hi, lo := bits.Mul64(uint64(h)^v^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hash(hi ^ lo)
}

// ends adds both ends of a flow, in whichever order they are given.
func (h hash) ends(a, b hash) hash { return h.add(uint64(a + b)).add(uint64(a ^ b)) }

func (h hash) fold() uint32 { return uint32(h>>32) ^ uint32(h) }

// Entropy is the 8 bits that the Linux driver makes of a flow's hash: the XOR
// of its octets.
func Entropy(hash uint32) uint8 {
	hash ^= hash >> 16
	return uint8(hash ^ hash>>8)
}

// FlowID is the place, 0 to 30, of a packet's default port in a table of 32:
// the sum of the nibbles of its entropy.
func FlowID(entropy uint8) int { return int(entropy&15 + entropy>>4) }
