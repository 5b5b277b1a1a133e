package icmp

import (
	"bytes"
	"net/netip"
	"testing"

	"tapir/wire/ether"
	"tapir/wire/ip"
	"tapir/wire/wiretest"
)

// captured returns the IP header and the ICMP message of a captured frame.
func captured(t testing.TB, name string) (ip.Header, []byte, Message) {
	h, b, err := ip.Parse(wiretest.Get(name)[14:])
	if err != nil {
		t.Fatal(name, err)
	}
	m, err := Parse(b)
	if err != nil {
		t.Fatal(name, err)
	}
	return h, b, m
}

func TestCapturedMessagesReencode(t *testing.T) {
	for name, typ := range map[string]uint8{
		"echo-request": Echo4, "echo-reply": EchoReply4, "port-unreachable": Unreachable4,
		"echo6-request": Echo6, "echo6-reply": EchoReply6, "port-unreachable6": Unreachable6,
		"ns": NeighborSolicitation, "na": NeighborAdvertisement,
	} {
		h, b, m := captured(t, name)
		if m.Type != typ {
			t.Errorf("%s: type %d", name, m.Type)
		}
		enc := make([]byte, m.Len())
		m.Put(enc)
		ok := false
		if h.Version == 4 {
			SetChecksum4(enc)
			ok = Verify4(b) && !Verify4(append(b[:len(b)-1:len(b)-1], b[len(b)-1]^1))
		} else {
			SetChecksum6(h.Src, h.Dst, enc)
			ok = Verify6(h.Src, h.Dst, b) && !Verify6(h.Src, h.Dst.Next(), b)
		}
		if !ok || !bytes.Equal(enc, b) {
			t.Errorf("%s: checksum verified %v\nencoded % x\nwas     % x", name, ok, enc, b)
		}
	}
}

func TestEchoFields(t *testing.T) {
	_, _, m := captured(t, "echo-request")
	again := Echo(Echo4, m.EchoID(), m.EchoSeq(), m.Body)
	if m.EchoSeq() != 1 || again.Rest != m.Rest || len(m.Body) != 8 {
		t.Fatalf("%+v", m)
	}
}

func TestQuoted(t *testing.T) {
	for _, name := range []string{"port-unreachable", "port-unreachable6"} {
		h, _, m := captured(t, name)
		q, p, err := m.Quoted()
		if err != nil || q.Src != h.Dst || q.Dst != h.Src || q.Proto != ip.ProtoUDP || len(p) != 10 {
			t.Errorf("%s: %+v % x %v", name, q, p, err)
		}
	}
	big := Message{Type: PacketTooBig6, Rest: 1<<31 | 1280}
	if big.MTU6() != 65535 {
		t.Errorf("an MTU beyond IP: %d", big.MTU6())
	}
	frag := Message{Type: Unreachable4, Code: FragmentationNeeded4, Rest: 0xffff0578}
	if frag.MTU4() != 1400 {
		t.Errorf("MTU4 = %d", frag.MTU4())
	}
}

func TestNeighborMessages(t *testing.T) {
	mac := ether.Addr{2, 0, 0, 0, 0, 10}
	_, _, m := captured(t, "ns")
	n, err := m.Neighbor()
	if err != nil || n.Target.String() != "fd09::2" || n.Options.SourceMAC != mac {
		t.Fatalf("NS: %+v %v", n, err)
	}
	_, _, m = captured(t, "na")
	n, err = m.Neighbor()
	if err != nil || !n.Solicited || !n.Override || n.Router || n.Options.TargetMAC != (ether.Addr{2, 0, 0, 0, 0, 11}) {
		t.Fatalf("NA: %+v %v", n, err)
	}
	for _, typ := range []uint8{NeighborSolicitation, NeighborAdvertisement} {
		_, b, m := captured(t, map[uint8]string{NeighborSolicitation: "ns", NeighborAdvertisement: "na"}[typ])
		n, _ := m.Neighbor()
		again := n.Message(typ, nil)
		if again.Rest != m.Rest || !bytes.Equal(again.Body, b[HeaderLen:]) {
			t.Errorf("type %d: % x, was % x", typ, again.Body, b[HeaderLen:])
		}
	}
}

func TestRedirectMessages(t *testing.T) {
	quote := ip.Header{Version: 4, TTL: 1, Proto: ip.ProtoTCP, Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("192.0.2.7"), PayloadLen: 20}
	packet := make([]byte, quote.HeaderLen()+20)
	quote.Put(packet)
	for _, want := range []Redirect{
		{Hop: netip.MustParseAddr("10.0.0.3"), Dst: quote.Dst, Packet: packet},
		{Hop: netip.MustParseAddr("fe80::3"), Dst: netip.MustParseAddr("2001:db8::7"), Packet: packet},
		{Hop: netip.MustParseAddr("2001:db8::7"), Dst: netip.MustParseAddr("2001:db8::7")},
	} {
		m := want.Message(nil)
		got, err := m.Redirect()
		if err != nil || got.Hop != want.Hop || got.Dst != want.Dst || !bytes.Equal(got.Packet, want.Packet) {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
		if _, err := (&Message{Type: m.Type, Code: 9, Body: m.Body}).Redirect(); err == nil {
			t.Errorf("%v: code 9", want.Dst)
		}
	}
}

func TestRouterMessages(t *testing.T) {
	prefix := Prefix{Prefix: netip.MustParsePrefix("fd00:1::/64"), OnLink: true, Autonomous: true, Valid: 0xffffffff, Preferred: 600}
	want := Router{HopLimit: 64, Other: true, Lifetime: 1800, Reachable: 30000, Retrans: 1000,
		Options: Options{SourceMAC: ether.Addr{2, 0, 0, 0, 0, 1}, MTU: 1400, NPrefix: 1, Prefix: [maxPrefixes]Prefix{prefix}}}
	m := want.Message(RouterAdvertisement, nil)
	if got, err := m.Router(); err != nil || got != want {
		t.Errorf("RA: %+v, %v", got, err)
	}
	sol := Router{Options: Options{SourceMAC: ether.Addr{2}}}
	m = sol.Message(RouterSolicitation, nil)
	if got, err := m.Router(); err != nil || got != sol || len(m.Body) != 8 {
		t.Errorf("RS: %+v, %v", got, err)
	}
}

func TestBadMessages(t *testing.T) {
	if _, err := Parse(make([]byte, 7)); err != ErrTruncated {
		t.Error(err)
	}
	target := netip.MustParseAddr("fd00::1").AsSlice()
	for _, c := range []struct {
		name string
		m    Message
		want error
	}{
		{"short target", Message{Type: NeighborSolicitation, Body: target[:15]}, ErrTruncated},
		{"code 1", Message{Type: NeighborSolicitation, Code: 1, Body: target}, ErrMalformed},
		{"multicast target", Message{Type: NeighborSolicitation, Body: netip.MustParseAddr("ff02::1").AsSlice()}, ErrMalformed},
		{"option length 0", Message{Type: NeighborSolicitation, Body: append(target[:16:16], 1, 0, 0, 0, 0, 0, 0, 0)}, ErrMalformed},
		{"option cut off", Message{Type: NeighborSolicitation, Body: append(target[:16:16], 1, 2, 0, 0, 0, 0, 0, 0)}, ErrMalformed},
		{"odd tail", Message{Type: NeighborSolicitation, Body: append(target[:16:16], 1)}, ErrMalformed},
	} {
		if _, err := c.m.Neighbor(); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	short := Message{Type: RouterAdvertisement, Body: make([]byte, 7)}
	if _, err := short.Router(); err != ErrTruncated {
		t.Errorf("short RA: %v", err)
	}
}

func TestDerivedAddresses(t *testing.T) {
	a := netip.MustParseAddr("fd09::12:3456")
	if s := SolicitedNode(a); s.String() != "ff02::1:ff12:3456" || MulticastMAC(s).String() != "33:33:ff:12:34:56" {
		t.Errorf("%v %v", s, MulticastMAC(s))
	}
	if l := LinkLocal(ether.Addr{2, 0, 0, 0, 0, 0x0a}); l.String() != "fe80::ff:fe00:a" {
		t.Errorf("link-local %v", l)
	}
}

func FuzzParse(f *testing.F) {
	for _, fr := range wiretest.Frames() {
		if h, b, err := ip.Parse(fr.Data[14:]); err == nil && (h.Proto == ip.ProtoICMP || h.Proto == ip.ProtoICMPv6) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		enc := make([]byte, m.Len())
		m.Put(enc)
		if enc[2], enc[3] = b[2], b[3]; !bytes.Equal(enc, b) {
			t.Fatalf("re-encoded % x, was % x", enc, b)
		}
		_, _, _ = m.Quoted()
		if r, err := m.Redirect(); err == nil && m.Type == Redirect6 {
			again := r.Message(nil)
			if r2, err := again.Redirect(); err != nil || r2.Hop != r.Hop || r2.Dst != r.Dst || !bytes.Equal(r2.Packet, r.Packet) {
				t.Fatalf("%+v became %+v, %v", r, r2, err)
			}
		}
		if n, err := m.Neighbor(); err == nil {
			again := n.Message(m.Type, nil)
			if n2, err := again.Neighbor(); err != nil || n2 != n {
				t.Fatalf("%+v became %+v, %v", n, n2, err)
			}
		}
		if r, err := m.Router(); err == nil {
			again := r.Message(m.Type, nil)
			if r2, err := again.Router(); err != nil || r2 != r {
				t.Fatalf("%+v became %+v, %v", r, r2, err)
			}
		}
	})
}

func TestNoAllocation(t *testing.T) {
	_, echo, _ := captured(t, "echo6-request")
	_, na, _ := captured(t, "na")
	buf, body := make([]byte, 128), make([]byte, 0, 128)
	if n := testing.AllocsPerRun(100, func() {
		m, _ := Parse(echo)
		m.Put(buf)
		m, _ = Parse(na)
		nb, _ := m.Neighbor()
		m = nb.Message(NeighborAdvertisement, body)
		m.Put(buf)
	}); n != 0 {
		t.Fatalf("%v allocations per message", n)
	}
}

func BenchmarkEcho(b *testing.B) {
	_, msg, _ := captured(b, "echo-request")
	buf := make([]byte, 128)
	b.ReportAllocs()
	for b.Loop() {
		m, _ := Parse(msg)
		m.Type = EchoReply4
		SetChecksum4(buf[:m.Put(buf)])
	}
}

func BenchmarkNeighbor(b *testing.B) {
	_, _, m := captured(b, "na")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Neighbor(); err != nil {
			b.Fatal(err)
		}
	}
}
