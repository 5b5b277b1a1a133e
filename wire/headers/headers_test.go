package headers

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"tapir/wire/ether"
	"tapir/wire/ip"
)

var peer4, nic4 = netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")

// framed is a frame around a packet from port 5 to port 80.
func framed(h ip.Header, tags int) []byte {
	body := append([]byte{0, 5, 0, 80}, make([]byte, 40)...)
	if h.Src == (netip.Addr{}) {
		h.Src, h.Dst = peer4, nic4
	}
	eth := ether.Header{Type: ether.TypeIPv6, NTags: tags,
		Tags: [2]ether.Tag{{TPID: ether.TypeQinQ, TCI: 0xe005}, {TPID: ether.TypeVLAN, TCI: 6}}}
	h.Version, h.TTL, h.PayloadLen = 6, 9, len(body)
	if h.Src.Is4() {
		h.Version, eth.Type = 4, ether.TypeIPv4
	}
	if h.Proto == 0 {
		h.Proto = ip.ProtoTCP
	}
	b := eth.AppendTo(nil)
	n := len(b)
	b = append(b, make([]byte, h.HeaderLen())...)
	h.Put(b[n:])
	return append(b, body...)
}

var six = ip.Header{Src: netip.MustParseAddr("fd00::2"), Dst: netip.MustParseAddr("fd00::1")}

// A segment has its ends with options and tags, too, and as the first fragment; a
// later one has none.
func TestTCPEnds(t *testing.T) {
	withExt := six
	withExt.ExtFirst, withExt.Ext = ip.ProtoHopByHop, []byte{ip.ProtoTCP, 0, 1, 4, 0, 0, 0, 0}
	for what, c := range map[string]struct {
		h    ip.Header
		tags int
		want bool
	}{
		"plain": {want: true}, "tagged": {tags: 1, want: true}, "first fragment": {h: ip.Header{MF: true}, want: true},
		"later fragment": {h: ip.Header{FragOffset: 1480}}, "UDP": {h: ip.Header{Proto: ip.ProtoUDP}},
		"options": {h: ip.Header{Options: make([]byte, 8)}, want: true}, "IPv6": {h: six, want: true}, "extension headers": {h: withExt, want: true},
	} {
		b := framed(c.h, c.tags)
		src, dst, ok := TCPEnds(b)
		if c.h.Src == (netip.Addr{}) {
			c.h.Src, c.h.Dst = peer4, nic4
		}
		if ok != c.want || ok && (src != netip.AddrPortFrom(c.h.Src, 5) || dst != netip.AddrPortFrom(c.h.Dst, 80)) {
			t.Errorf("%s: %v, %v to %v", what, ok, src, dst)
		}
		for n := range b {
			TCPEnds(b[:n])
		}
	}
	if _, _, ok := TCPEnds(ether.Header{Type: ether.TypeARP}.AppendTo(nil)); ok {
		t.Error("ARP has ends")
	}
}

func TestView(t *testing.T) {
	for what, c := range map[string]struct {
		b    []byte
		want View
	}{
		"plain":    {framed(ip.Header{}, 0), View{Type: ether.TypeIPv4, L3: 14, Network: Network{4, 6, 9, false, true, 34, 78}}},
		"two tags": {framed(ip.Header{}, 2), View{Tags: 2, TCI: 0xe005, Type: ether.TypeIPv4, L3: 22, Network: Network{4, 6, 9, false, true, 42, 86}}},
		"fragment": {framed(ip.Header{FragOffset: 8}, 0), View{Type: ether.TypeIPv4, L3: 14, Network: Network{4, 6, 9, true, false, 34, 78}}},
		"options": {framed(ip.Header{MF: true, Options: make([]byte, 4)}, 0),
			View{Type: ether.TypeIPv4, L3: 14, Network: Network{4, 6, 9, true, true, 38, 82}}},
		"IPv6": {framed(six, 1), View{Tags: 1, TCI: 0xe005, Type: ether.TypeIPv6, L3: 18, Network: Network{6, 6, 9, false, true, 58, 102}}},
		"ARP":  {append(ether.Header{Type: ether.TypeARP}.AppendTo(nil), 1), View{Type: ether.TypeARP, L3: 14}},
		"impossible length": {append(ether.Header{Type: ether.TypeIPv4}.AppendTo(nil), append([]byte{0x45, 0, 0, 19}, make([]byte, 20)...)...),
			View{Type: ether.TypeIPv4, L3: 14, Network: Network{4, 0, 0, false, true, 34, 33}}},
	} {
		var v View
		ok := v.Parse(c.b)
		network := v.ParseNetwork()
		if &v.Frame[0] != &c.b[0] || len(v.Frame) != len(c.b) {
			t.Errorf("%s: another frame", what)
		}
		v.Frame = nil
		if !ok || network != (c.want.Version != 0 && c.want.End >= c.want.L4) || v.Network != c.want.Network || v.Tags != c.want.Tags || v.TCI != c.want.TCI ||
			v.Type != c.want.Type || v.L3 != c.want.L3 {
			t.Errorf("%s: %v %v %+v, want %+v", what, ok, network, v, c.want)
		}
	}
	b := framed(six, 2)
	for n, tags := range map[int]int{0: 0, 13: 0, 17: 0, 21: 1} {
		var v View
		if v.Parse(b[:n]) || v.Tags != tags {
			t.Errorf("%d octets: %+v", n, v)
		}
	}
}

// The view agrees with the codecs about packets that these take.
func FuzzView(f *testing.F) {
	f.Add(framed(ip.Header{}, 1))
	f.Add(framed(six, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v View
		h, n, err := ether.Parse(b)
		if ok := v.Parse(b); ok != (err == nil) {
			t.Fatalf("%v, %v", ok, err)
		}
		TCPEnds(b)
		if err != nil {
			return
		}
		if v.Type != h.Type || v.L3 != n || v.Tags != h.NTags || v.TCI != h.Tags[0].TCI {
			t.Fatalf("%+v, %+v", v, h)
		}
		p, body, err := ip.Parse(b[n:])
		if ok := v.ParseNetwork(); err != nil || !ok {
			return
		}
		if p.Version != v.Version || p.TTL != v.TTL || v.End > len(b) {
			t.Fatalf("%+v, %+v", v, p)
		}
		if len(p.Ext) == 0 && (p.Proto != v.Proto || !bytes.Equal(body, v.Upper()) || v.Fragment != p.IsFragment() || v.First != (p.FragOffset == 0)) {
			t.Fatalf("%+v, %+v", v, p)
		}
		if src, ok := netip.AddrFromSlice(v.Addrs()[:len(v.Addrs())/2]); !ok || src != p.Src {
			t.Fatalf("from %v, want %v", src, p.Src)
		}
	})
}

func TestNothingAllocates(t *testing.T) {
	b, tagged := framed(ip.Header{}, 0), framed(six, 2)
	if n := testing.AllocsPerRun(100, func() {
		var v View
		if v.Parse(tagged) && v.ParseNetwork() {
			_ = binary.BigEndian.Uint16(v.Upper())
		}
		Peek(b)
		TCPEnds(tagged)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPeek(b *testing.B) {
	f := framed(ip.Header{}, 0)
	for b.Loop() {
		Peek(f)
	}
}

func BenchmarkView(b *testing.B) {
	f := framed(six, 1)
	var v View
	for b.Loop() {
		v.Parse(f)
		v.ParseNetwork()
	}
}
