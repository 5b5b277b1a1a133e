package nic

import (
	"net/netip"
	"testing"
	"time"

	nicip "tapir/nic/ip"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// RFC 8200 says what becomes of each packet whose extension headers a station
// does not know, and which octet it reports; RFC 1122 what of an IPv4 packet of
// another protocol.
func TestUnknownHeaders(t *testing.T) {
	const none, silent = -1, -2
	option := func(typ, n uint8) []byte { // a header of options with one of that type
		return append([]byte{ip.ProtoICMPv6, 0, typ, n}, 0, 0, 0, 0)
	}
	v6 := func(first uint8, ext ...byte) ip.Header {
		return ip.Header{Proto: ip.ProtoICMPv6, Src: peer6, Dst: nic6, ExtFirst: first, Ext: ext}
	}
	group := func(h ip.Header) ip.Header {
		h.Dst = netip.MustParseAddr("ff02::1")
		return h
	}
	of := func(proto uint8) ip.Header { return ip.Header{Proto: proto, Src: peer6, Dst: nic6} }
	padded := append([]byte{ip.ProtoDestOpts, 0, 1, 4, 0, 0, 0, 0}, option(0x80, 4)...)
	late := []byte{ip.ProtoHopByHop, 0, 1, 4, 0, 0, 0, 0}
	for _, c := range []struct {
		name string
		h    ip.Header
		code int // of the Parameter Problem; none: an answer, silent: no frame at all
		at   uint32
	}{
		{"padding", v6(ip.ProtoHopByHop, option(1, 4)...), none, 0},
		{"Pad1s", v6(ip.ProtoDestOpts, option(0, 0)...), none, 0},
		{"router alert", v6(ip.ProtoHopByHop, ip.ProtoICMPv6, 0, 5, 2, 0, 0, 1, 0), none, 0},
		{"skip", v6(ip.ProtoDestOpts, option(0x1e, 4)...), none, 0},
		{"discard", v6(ip.ProtoDestOpts, option(0x40, 4)...), silent, 0},
		{"discard hop by hop", v6(ip.ProtoHopByHop, option(0x40, 4)...), silent, 0},
		{"report", v6(ip.ProtoDestOpts, option(0x80, 4)...), 2, 42},
		{"report second header", v6(ip.ProtoHopByHop, padded...), 2, 50},
		{"report jumbo", v6(ip.ProtoHopByHop, option(0xc2, 4)...), 2, 42},
		{"report to a group", group(v6(ip.ProtoDestOpts, option(0x80, 4)...)), 2, 42},
		{"unicast only, to a group", group(v6(ip.ProtoDestOpts, option(0xc0, 4)...)), silent, 0},
		{"overrun", v6(ip.ProtoDestOpts, option(0x1e, 5)...), silent, 0},
		{"routing ended", v6(ip.ProtoRouting, ip.ProtoICMPv6, 0, 9, 0, 0, 0, 0, 0), none, 0},
		{"routing", v6(ip.ProtoRouting, ip.ProtoICMPv6, 0, 0, 1, 0, 0, 0, 0), 0, 42},
		{"routing second", v6(ip.ProtoDestOpts, ip.ProtoRouting, 0, 1, 4, 0, 0, 0, 0, ip.ProtoICMPv6, 0, 0, 1, 0, 0, 0, 0), 0, 50},
		{"unknown next header", of(253), 1, 6},
		{"no next header", of(ip.ProtoNoNext), silent, 0},
		{"unknown next header later", ip.Header{Proto: 253, Src: peer6, Dst: nic6, ExtFirst: ip.ProtoDestOpts,
			Ext: []byte{253, 0, 1, 4, 0, 0, 0, 0}}, 1, 40},
		{"hop by hop later", ip.Header{Proto: ip.ProtoHopByHop, Src: peer6, Dst: nic6, ExtFirst: ip.ProtoDestOpts, Ext: late}, 1, 40},
		{"unknown protocol", ip.Header{Proto: 253, Src: peer4, Dst: nic4}, 2, 0},
		{"odd fragment", ip.Header{Proto: ip.ProtoICMPv6, Src: peer6, Dst: nic6, Fragment: true, MF: true, FragID: 1,
			ExtFirst: ip.ProtoFragment, Ext: []byte{ip.ProtoICMPv6, 0, 0, 1, 0, 0, 0, 1}}, 0, 4},
		{"fragment beyond 64 KiB", v6(ip.ProtoFragment, ip.ProtoUDP, 0, 0xff, 0xf8, 0, 0, 0, 1), 0, 42},
		{"first fragment without the rest of the chain", v6(ip.ProtoFragment, ip.ProtoDestOpts, 0, 0, 1, 0, 0, 0, 1), 3, 0},
	} {
		w, n, s := pair(t, Config{})
		body := echoBody(c.h.Src, c.h.Dst, 8)
		switch c.name {
		case "odd fragment":
			body = body[:9]
		case "first fragment without the rest of the chain":
			body = []byte{ip.ProtoICMPv6, 9, 1, 4, 0, 0, 0, 0}
		}
		b := packet(c.h, body)
		s.transmit(n.dev.cfg.MAC, etherTypeOf(b), b)
		w.run(10 * time.Millisecond)
		got := s.take()
		switch {
		case c.code == silent:
			if len(got) != 0 {
				t.Errorf("%s: %d answers", c.name, len(got))
			}
			continue
		case len(got) != 1:
			t.Errorf("%s: %d answers", c.name, len(got))
			continue
		}
		m, err := icmp.Parse(got[0].body)
		typ := icmp.ParamProblem6
		if c.h.Src.Is4() {
			typ = icmp.Unreachable4
		}
		switch {
		case c.code == none:
			if m.Type != icmp.EchoReply6 {
				t.Errorf("%s: answer %+v", c.name, m)
			}
		case err != nil || m.Type != typ || int(m.Code) != c.code || m.Rest != c.at || string(m.Body) != string(b):
			t.Errorf("%s: type %d, code %d, at %d, %d of %d octets quoted; want code %d at %d", c.name, m.Type, m.Code, m.Rest,
				len(m.Body), len(b), c.code, c.at)
		}
		if w.pool.Lent() != 0 {
			t.Errorf("%s: %d frames leaked", c.name, w.pool.Lent())
		}
	}
}

// No ICMP error answers an ICMP error or a redirect (RFC 4443 section 2.4 e, RFC
// 1122 section 3.2.2): two stations would go on for ever.
func TestErrorsAreNotAnswered(t *testing.T) {
	bad := []byte{ip.ProtoICMPv6, 0, 0x80, 4, 0, 0, 0, 0} // an option that asks for a report
	for typ, answers := range map[uint8]int{icmp.Echo6: 1, icmp.Unreachable6: 0, icmp.PacketTooBig6: 0, icmp.ParamProblem6: 0,
		100: 0, icmp.Redirect6: 0, icmp.NeighborSolicitation: 1} {
		w, n, s := pair(t, Config{})
		body := icmpBytes(icmp.Message{Type: typ, Body: make([]byte, 48)}, peer6, nic6)
		b := packet(ip.Header{Proto: ip.ProtoICMPv6, Src: peer6, Dst: nic6, ExtFirst: ip.ProtoDestOpts, Ext: bad}, body)
		s.transmit(n.dev.cfg.MAC, etherTypeOf(b), b)
		w.run(time.Millisecond)
		if got := len(s.take()); got != answers {
			t.Errorf("type %d: %d answers, want %d", typ, got, answers)
		}
	}
	for typ, answers := range map[uint8]int{icmp.Echo4: 1, icmp.Unreachable4: 0, icmp.TimeExceeded4: 0} {
		w, n, s := pair(t, Config{})
		part := ip.Header{Proto: ip.ProtoICMP, Src: peer4, Dst: nic4, ID: 9, MF: true}
		b := packet(part, icmpBytes(icmp.Message{Type: typ, Body: make([]byte, 48)}, peer4, nic4))
		s.transmit(n.dev.cfg.MAC, etherTypeOf(b), b)
		w.run(nicip.ReassembleFor + time.Second)
		if got := len(s.take()); got != answers {
			t.Errorf("a fragment of type %d that stays alone: %d answers, want %d", typ, got, answers)
		}
	}
}

// Errors about headers are as rare as others.
func TestUnknownHeadersAreLimited(t *testing.T) {
	w, n, s := pair(t, Config{})
	b := packet(ip.Header{Proto: 253, Src: peer6, Dst: nic6}, []byte("12345678"))
	for range 100 {
		s.transmit(n.dev.cfg.MAC, etherTypeOf(b), b)
	}
	w.run(time.Millisecond)
	if got := len(s.take()); got == 0 || got > 12 {
		t.Errorf("%d errors for 100 packets", got)
	}
}
