package ip

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"reflect"
	"testing"

	"tapir/wire/wiretest"
)

var (
	a4, b4 = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	a6, b6 = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
)

func TestHeaderTable(t *testing.T) {
	for _, c := range []struct {
		name string
		h    Header
	}{
		{"v4", Header{Version: 4, TOS: 2, TTL: 64, Proto: ProtoTCP, Src: a4, Dst: b4, ID: 77, DF: true}},
		{"v4 options", Header{Version: 4, TTL: 1, Proto: ProtoICMP, Src: a4, Dst: b4, Options: []byte{148, 4, 0, 0}}},
		{"v4 first fragment", Header{Version: 4, TTL: 9, Proto: ProtoUDP, Src: a4, Dst: b4, ID: 3, MF: true}},
		{"v4 later fragment", Header{Version: 4, TTL: 9, Proto: ProtoUDP, Src: a4, Dst: b4, FragOffset: 65528}},
		{"v6", Header{Version: 6, TOS: 0xb8, FlowLabel: 0xabcde, TTL: 64, Proto: ProtoTCP, Src: a6, Dst: b6}},
		{"v6 hop-by-hop and options", Header{Version: 6, TTL: 1, Proto: ProtoICMPv6, Src: a6, Dst: b6,
			ExtFirst: ProtoHopByHop, Ext: []byte{ProtoDestOpts, 0, 5, 2, 0, 0, 1, 0, ProtoICMPv6, 0, 1, 4, 0, 0, 0, 0}}},
		{"v6 atomic fragment", Header{Version: 6, TTL: 1, Proto: ProtoTCP, Src: a6, Dst: b6, Fragment: true, FragID: 9,
			ExtFirst: ProtoFragment, Ext: []byte{ProtoTCP, 0, 0, 0, 0, 0, 0, 9}}},
		{"v6 fragment", Header{Version: 6, TTL: 1, Proto: ProtoDestOpts, Src: a6, Dst: b6, Fragment: true, FragID: 9,
			FragOffset: 1448, MF: true, ExtFirst: ProtoFragment, Ext: []byte{ProtoDestOpts, 0, 1448 >> 8, 1448&0xff | 1, 0, 0, 0, 9}}},
	} {
		payload := []byte("sixteen octets..")
		c.h.PayloadLen = len(payload)
		b := make([]byte, c.h.HeaderLen())
		if n := c.h.Put(b); n != len(b) {
			t.Errorf("%s: put %d of %d", c.name, n, len(b))
		}
		b = append(b, payload...)
		got, p, err := Parse(append(b[:len(b):len(b)], 0, 0, 0)) // with Ethernet padding
		if err != nil || !reflect.DeepEqual(got, c.h) || !bytes.Equal(p, payload) {
			t.Errorf("%s:\n got %+v %q %v\nwant %+v", c.name, got, p, err, c.h)
		}
		for i := range b {
			if _, _, err := Parse(b[:i]); err != ErrTruncated {
				t.Errorf("%s cut to %d: %v", c.name, i, err)
			}
		}
	}
}

func TestPutWritesFragmentHeader(t *testing.T) {
	h := Header{Version: 6, TTL: 64, Proto: ProtoICMPv6, Src: a6, Dst: b6, Fragment: true, FragID: 7, FragOffset: 8, MF: true, PayloadLen: 8}
	b := make([]byte, h.HeaderLen()+8)
	h.Put(b)
	got, p, err := Parse(b)
	if err != nil || got.Proto != ProtoICMPv6 || got.FragID != 7 || got.FragOffset != 8 || !got.MF || len(p) != 8 {
		t.Fatalf("%+v %v", got, err)
	}
}

func TestBadHeaders(t *testing.T) {
	good4 := func() []byte {
		h := Header{Version: 4, TTL: 64, Proto: ProtoTCP, Src: a4, Dst: b4, PayloadLen: 20}
		b := make([]byte, 40)
		h.Put(b)
		return b
	}
	good6 := func(ext ...byte) []byte {
		h := Header{Version: 6, TTL: 64, Proto: ProtoTCP, Src: a6, Dst: b6, PayloadLen: 20 + len(ext)}
		b := make([]byte, 40, 100)
		h.Put(b)
		return append(append(b, ext...), make([]byte, 20)...)
	}
	edit := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, ErrTruncated},
		{"version 5", edit(good4(), 0, 0x55), ErrMalformed},
		{"short header length", edit(good4(), 0, 0x44), ErrMalformed},
		{"total below header", edit(good4(), 3, 10), ErrMalformed},
		{"total beyond packet", edit(good4(), 3, 41), ErrTruncated},
		{"flipped bit", edit(good4(), 8, 65), ErrChecksum},
		{"v6 length beyond packet", edit(good6(), 5, 21), ErrTruncated},
		{"v6 extension beyond packet", edit(good6(6, 9, 1, 4, 0, 0, 0, 0), 6, ProtoDestOpts), ErrTruncated},
	} {
		if _, _, err := Parse(c.b); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	reserved := good4()
	reserved[6] = 0x80
	binary.BigEndian.PutUint16(reserved[10:], 0)
	binary.BigEndian.PutUint16(reserved[10:], Checksum(reserved[:20], 0))
	if _, _, err := Parse(reserved); err != ErrMalformed {
		t.Errorf("reserved bit: %v", err)
	}
}

func TestSourceRouted(t *testing.T) {
	for _, c := range []struct {
		h    Header
		want bool
	}{
		{Header{Version: 4, Options: []byte{1, 131, 7, 4, 10, 0, 0, 1}}, true},
		{Header{Version: 4, Options: []byte{148, 4, 0, 0}}, false},
		{Header{Version: 4, Options: []byte{7, 0, 0, 0}}, false},
	} {
		if got := c.h.SourceRouted(); got != c.want {
			t.Errorf("%+v: %v", c.h, got)
		}
	}
}

func TestExtensions(t *testing.T) {
	in := Header{Version: 6, Proto: ProtoHopByHop, Src: netip.MustParseAddr("fd00::1"), Dst: netip.MustParseAddr("fd00::2"),
		PayloadLen: 8, ExtFirst: ProtoDestOpts, Ext: []byte{ProtoRouting, 0, 1, 4, 0, 0, 0, 0, ProtoAH, 0, 0, 1, 0, 0, 0, 0,
			ProtoHopByHop, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}
	b := make([]byte, in.HeaderLen())
	in.Put(b)
	h, body, err := Parse(append(b, 6, 0, 1, 4, 0, 0, 0, 0))
	if err != nil || h.Proto != ProtoHopByHop || body[0] != 6 {
		t.Fatalf("hop-by-hop options that are not first: %+v % x %v", h, body, err)
	}
	var types []uint8
	var octets []byte
	for typ, ext := range h.Extensions() {
		types, octets = append(types, typ), append(octets, ext...)
	}
	if !bytes.Equal(types, []byte{ProtoDestOpts, ProtoRouting, ProtoAH}) || !bytes.Equal(octets, h.Ext) || len(octets) != 28 {
		t.Errorf("types %v, octets % x", types, octets)
	}
}

func TestReassembledFollowsExtensions(t *testing.T) {
	h := Header{Version: 6, Proto: ProtoDestOpts, Fragment: true, MF: true}
	p, err := h.Reassembled([]byte{ProtoTCP, 0, 1, 4, 0, 0, 0, 0, 'x'})
	if err != nil || string(p) != "x" || h.Proto != ProtoTCP || h.PayloadLen != 1 || h.IsFragment() {
		t.Fatalf("%+v %q %v", h, p, err)
	}
	h = Header{Version: 6, Proto: ProtoFragment, Fragment: true, MF: true}
	if _, err := h.Reassembled(make([]byte, 16)); err != ErrMalformed {
		t.Fatalf("nested Fragment header: %v", err)
	}
}

func TestParseQuoted(t *testing.T) {
	for _, name := range []string{"port-unreachable", "port-unreachable6"} {
		_, outer, err := Parse(wiretest.Get(name)[14:])
		if err != nil {
			t.Fatal(name, err)
		}
		quoted := outer[8:]
		h, p, err := ParseQuoted(quoted[:len(quoted)-2])
		if err != nil || h.Proto != ProtoUDP || h.PayloadLen != 10 || len(p) != 8 || binary.BigEndian.Uint16(p[2:]) != 9 {
			t.Errorf("%s: %+v % x %v", name, h, p, err)
		}
	}
}

// reencode checks that the header of packet b comes out of its value struct
// as it went in.
func reencode(t *testing.T, b []byte) {
	h, p, err := Parse(b)
	if err != nil {
		return
	}
	if len(p) != h.PayloadLen {
		t.Fatalf("payload %d, header says %d", len(p), h.PayloadLen)
	}
	enc := make([]byte, h.HeaderLen())
	h.Put(enc)
	want := bytes.Clone(b[:len(enc)])
	if h.Version == 4 && want[10] == 0xff && want[11] == 0xff {
		want[10], want[11] = 0, 0 // both forms of zero verify
	}
	if !bytes.Equal(enc, want) {
		t.Fatalf("re-encoded % x\n       was % x", enc, want)
	}
}

func TestCapturedPacketsReencode(t *testing.T) {
	n := 0
	for _, f := range wiretest.Frames() {
		if f.Data[12] == 8 && f.Data[13] == 6 {
			continue
		}
		if _, _, err := Parse(f.Data[14:]); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		reencode(t, f.Data[14:])
		n++
	}
	if n < 15 {
		t.Fatalf("only %d packets", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, fr := range wiretest.Frames() {
		f.Add(fr.Data[14:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		reencode(t, b)
		if h, _, err := ParseQuoted(b); err == nil {
			h.SourceRouted()
		}
		h, p, err := Parse(b)
		if err == nil {
			h.SourceRouted()
			if _, err = h.Reassembled(p); err == nil && h.PayloadLen > len(p) {
				t.Fatal("reassembly grew the payload")
			}
		}
	})
}

func TestNoAllocation(t *testing.T) {
	for _, name := range []string{"data", "data6"} {
		b := wiretest.Get(name)[14:]
		buf := make([]byte, 128)
		if n := testing.AllocsPerRun(100, func() {
			h, p, _ := Parse(b)
			h.Put(buf)
			Checksum(p, PseudoSum(h.Src, h.Dst, h.Proto, len(p)))
		}); n != 0 {
			t.Errorf("%s: %v allocations per packet", name, n)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"data", "data6"} {
		p := wiretest.Get(name)[14:]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Parse(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPut(b *testing.B) {
	for _, name := range []string{"data", "data6"} {
		h, _, _ := Parse(wiretest.Get(name)[14:])
		buf := make([]byte, 128)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.Put(buf)
			}
		})
	}
}
