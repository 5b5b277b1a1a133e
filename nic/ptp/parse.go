package ptp

import (
	"encoding/binary"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// headerLen is what the unit looks at of a message: source port and sequence
// number lie at the same place in both versions.
const headerLen = 34

// Parse finds the event message in the Ethernet frame b, tagged or not; false
// if there is none.
func Parse(b []byte) (Packet, bool) {
	t, ok := transport.Find(b)
	if !ok || !t.Event {
		return Packet{}, false
	}
	p, ok := ParseEvent(t.Kind, t.Body)
	if p.Kind == transport.Ethernet && p.Type > msg.PdelayResp {
		return Packet{}, false // the filter knows four types
	}
	return p, ok
}

// ParseEvent reads the header of the event message b, which a packet of that
// kind carried; false if it is too short.
func ParseEvent(kind transport.Kind, b []byte) (Packet, bool) {
	if len(b) < headerLen {
		return Packet{}, false
	}
	id := ID{
		Type: msg.Type(b[0] & 0x0f), Sequence: binary.BigEndian.Uint16(b[30:]),
		Source: msg.PortIdentity{Clock: msg.ClockIdentity(b[20:28]), Port: binary.BigEndian.Uint16(b[28:])},
	}
	return Packet{ID: id, Kind: kind, Version: b[1] & 0x0f, Event: true}, true
}
