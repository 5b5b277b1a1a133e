package ptp

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/ip"
)

var source = msg.PortIdentity{Clock: msg.ClockIdentity{1, 2, 3, 0xff, 0xfe, 4, 5, 6}, Port: 7}

func message(typ, version byte) []byte {
	b := make([]byte, 44)
	b[0], b[1] = typ, version
	copy(b[20:], source.Clock[:])
	binary.BigEndian.PutUint16(b[28:], source.Port)
	binary.BigEndian.PutUint16(b[30:], 0xabcd)
	return b
}

func overUDP(src netip.Addr, port uint16, msg []byte) []byte {
	typ, version := ether.TypeIPv6, uint8(6)
	if src.Is4() {
		typ, version = ether.TypeIPv4, 4
	}
	b := ether.Header{Src: ether.Addr{2}, Type: typ}.AppendTo(nil)
	h := ip.Header{Version: version, TTL: 1, Proto: ip.ProtoUDP, Src: src, Dst: src, PayloadLen: 8 + len(msg)}
	n := len(b)
	b = append(b, make([]byte, h.HeaderLen())...)
	h.Put(b[n:])
	b = binary.BigEndian.AppendUint16(b, 5000)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(msg)))
	return append(append(b, 0, 0), msg...)
}

func TestParse(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1")
	tagged := ether.Header{Src: ether.Addr{2}, NTags: 1, Tags: [2]ether.Tag{{TPID: ether.TypeVLAN, TCI: 5}},
		Type: ether.TypePTP}
	raw := func(m []byte) []byte {
		return append(ether.Header{Src: ether.Addr{2}, Type: ether.TypePTP}.AppendTo(nil), m...)
	}
	want := func(typ msg.Type, k transport.Kind, version uint8) Packet {
		return Packet{ID: ID{Type: typ, Sequence: 0xabcd, Source: source}, Kind: k, Version: version, Event: true}
	}
	for name, c := range map[string]struct {
		frame []byte
		want  Packet
		ok    bool
	}{
		"L2 Sync":          {raw(message(0x10, 2)), want(0, transport.Ethernet, 2), true},
		"L2 2.1":           {raw(message(3, 0x12)), want(3, transport.Ethernet, 2), true},
		"L2 general":       {raw(message(8, 2)), Packet{}, false},
		"tagged":           {append(tagged.AppendTo(nil), message(2, 2)...), want(2, transport.Ethernet, 2), true},
		"UDPv4":            {overUDP(v4, 319, message(1, 2)), want(1, transport.UDPv4, 2), true},
		"UDPv4 version 1":  {overUDP(v4, 319, message(0, 1)), want(0, transport.UDPv4, 1), true},
		"UDPv4 general":    {overUDP(v4, 320, message(8, 2)), Packet{}, false},
		"UDPv6":            {overUDP(v6, 319, message(1, 2)), want(1, transport.UDPv6, 2), true},
		"no PTP":           {overUDP(v6, 53, message(1, 2)), Packet{}, false},
		"another protocol": {ether.Header{Type: ether.TypeARP}.AppendTo(nil), Packet{}, false},
	} {
		got, ok := Parse(c.frame)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
		for n := range len(c.frame) { // cut frames are no event messages, or whole ones
			if p, ok := Parse(c.frame[:n]); ok && p != c.want {
				t.Fatalf("%s cut to %d: %+v", name, n, p)
			}
		}
	}
}

// FuzzParse: whatever comes, the unit decides by itself whether it is an event
// message, and one that it takes has a header.
func FuzzParse(f *testing.F) {
	v4 := netip.MustParseAddr("10.0.0.1")
	f.Add(append(ether.Header{Src: ether.Addr{2}, Type: ether.TypePTP}.AppendTo(nil), message(0, 2)...))
	f.Add(overUDP(v4, 319, message(1, 2)))
	f.Add(overUDP(netip.MustParseAddr("fe80::1"), 319, message(2, 2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := Parse(b)
		switch {
		case !ok:
		case !p.Event || len(b) < ether.HeaderLen+headerLen:
			t.Errorf("%d octets are %+v", len(b), p)
		case p.Kind == transport.Ethernet && p.Type > 3:
			t.Errorf("type %v is an event message", p.Type)
		}
	})
}
