package ptp

import (
	"encoding/binary"

	"tapir/ptp/msg"
	"tapir/wire/ether"
	"tapir/wire/ip"
)

// headerLen is what the unit looks at of a message: source port and sequence
// number lie at the same place in both versions.
const headerLen = 34

// eventPort is the UDP port of event messages.
const eventPort = 319

// Parse finds the event message in the Ethernet frame b, tagged or not; false
// if there is none.
func Parse(b []byte) (p Packet, ok bool) {
	h, n, err := ether.Parse(b)
	if err != nil {
		return p, false
	}
	b = b[n:]
	switch h.Type {
	case ether.TypePTP:
		p.Event = len(b) > 0 && b[0]&0x0f < 4
	case ether.TypeIPv4, ether.TypeIPv6:
		ih, body, err := ip.Parse(b)
		if err != nil || ih.Proto != ip.ProtoUDP || ih.IsFragment() || len(body) < 8 {
			return p, false
		}
		p.Carriage = UDPv4
		if ih.Version == 6 {
			p.Carriage = UDPv6
		}
		p.Event = binary.BigEndian.Uint16(body[2:]) == eventPort
		b = body[8:]
	default:
		return p, false
	}
	if !p.Event || len(b) < headerLen {
		return p, false
	}
	p.Version = b[1] & 0x0f
	p.Type = msg.Type(b[0] & 0x0f)
	p.Source = msg.PortIdentity{Clock: msg.ClockIdentity(b[20:28]), Port: binary.BigEndian.Uint16(b[28:])}
	p.Sequence = binary.BigEndian.Uint16(b[30:])
	return p, true
}
