package opa

import "slices"

// QoS maps the priority of Ethernet frames to service classes and virtual
// lanes, as attribute VESWPORT_INFO carries it. SCs have 5 bits, VLs 4.
type QoS struct {
	Unicast, Multicast Lanes
}

// Lanes are the SC and VL of each priority code point and of frames without
// VLAN tag.
type Lanes struct {
	SC, VL                 [8]uint8
	UntaggedSC, UntaggedVL uint8
}

// Valid reports whether all SCs and VLs are at most 31.
func (l *Lanes) Valid() bool {
	return max(slices.Max(l.SC[:]), slices.Max(l.VL[:]), l.UntaggedSC, l.UntaggedVL) <= 31
}

// Select returns SC and VL of a frame.
func (q *QoS) Select(f *Flow) (sc, vl uint8) {
	l := &q.Unicast
	if f.Group {
		l = &q.Multicast
	}
	if !f.Tagged {
		return l.UntaggedSC, l.UntaggedVL
	}
	return l.SC[f.PCP&7], l.VL[f.PCP&7]
}

// RCWord holds a routing control for each protocol class, three bits of every
// four: bit 0 other, 4 IPv4, 8 IPv4 with UDP, 12 with TCP, 16 IPv6, 20 IPv6
// with TCP, 24 with UDP.
type RCWord uint32

// Select returns the routing control of class p, 0 to 7.
func (w RCWord) Select(p Proto) uint8 { return uint8(w >> (4 * p) & rcMask) }
