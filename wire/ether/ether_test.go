package ether

import (
	"bytes"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"tapir/wire/wiretest"
)

func TestHeaderTable(t *testing.T) {
	dst, src := Addr{2, 0, 0, 0, 0, 1}, Addr{2, 0, 0, 0, 0, 2}
	macs := append(append([]byte{}, dst[:]...), src[:]...)
	for _, c := range []struct {
		name string
		h    Header
		wire []byte
	}{
		{"untagged", Header{Dst: dst, Src: src, Type: TypeIPv4}, append(macs[:12:12], 8, 0)},
		{"802.1Q", Header{Dst: dst, Src: src, NTags: 1, Tags: [2]Tag{{TypeVLAN, 0xa064}}, Type: TypeIPv6},
			append(macs[:12:12], 0x81, 0, 0xa0, 0x64, 0x86, 0xdd)},
		{"802.1ad", Header{Dst: dst, Src: src, NTags: 2, Tags: [2]Tag{{TypeQinQ, 5}, {TypeVLAN, 7}}, Type: TypeARP},
			append(macs[:12:12], 0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 8, 6)},
	} {
		got, n, err := Parse(append(c.wire[:len(c.wire):len(c.wire)], 1, 2, 3))
		if err != nil || got != c.h || n != len(c.wire) || n != c.h.Len() {
			t.Errorf("%s: parsed %+v, %d, %v", c.name, got, n, err)
		}
		if enc := c.h.AppendTo(nil); !bytes.Equal(enc, c.wire) {
			t.Errorf("%s: encoded % x, want % x", c.name, enc, c.wire)
		}
		for i := range c.wire {
			if _, _, err := Parse(c.wire[:i]); err != ErrTruncated {
				t.Errorf("%s cut to %d: %v", c.name, i, err)
			}
		}
	}
	tag := Tag{TypeVLAN, 0xa064}
	if tag.VID() != 100 || tag.PCP() != 5 {
		t.Errorf("tag: vid %d pcp %d", tag.VID(), tag.PCP())
	}
}

func TestAddr(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Addr
		ok   bool
	}{
		{"02:00:00:00:00:0a", Addr{2, 0, 0, 0, 0, 10}, true},
		{"FF-ff-Ff-fF-00-9C", Addr{0xff, 0xff, 0xff, 0xff, 0, 0x9c}, true},
		{"02:00:00:00:00", Addr{}, false},
		{"02:00:00-00:00:0a", Addr{}, false},
		{"02:00:00:00:00:0g", Addr{}, false},
		{"0200.0000.000a", Addr{}, false},
	} {
		got, err := ParseAddr(c.in)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %v, %v", c.in, got, err)
		}
		var back Addr
		if err := back.UnmarshalText([]byte(got.String())); err != nil || back != got {
			t.Errorf("%v: text form does not come back: %v", got, err)
		}
	}
	if !Broadcast.IsMulticast() || !Broadcast.IsBroadcast() || (Addr{2}).IsMulticast() || !(Addr{}).IsZero() {
		t.Error("address classes")
	}
}

func TestAgreesWithGopacket(t *testing.T) {
	for _, f := range wiretest.Frames() {
		h, n, err := Parse(f.Data)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		p := gopacket.NewPacket(f.Data, layers.LayerTypeEthernet, gopacket.Default)
		e := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
		if e.SrcMAC.String() != h.Src.String() || e.DstMAC.String() != h.Dst.String() ||
			uint16(e.EthernetType) != h.Type || len(e.Payload) != len(f.Data)-n {
			t.Errorf("%s: %+v, gopacket %+v", f.Name, h, e)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, fr := range wiretest.Frames() {
		f.Add(fr.Data)
	}
	f.Add(Header{NTags: 2, Tags: [2]Tag{{TypeQinQ, 5}, {TypeVLAN, 7}}, Type: TypeARP}.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, n, err := Parse(b); err == nil && !bytes.Equal(h.AppendTo(nil), b[:n]) {
			t.Fatalf("re-encoded % x, was % x", h.AppendTo(nil), b[:n])
		}
	})
}

func TestNoAllocation(t *testing.T) {
	b := wiretest.Get("data")
	buf := make([]byte, MaxHeaderLen)
	if n := testing.AllocsPerRun(100, func() {
		h, _, _ := Parse(b)
		h.Put(buf)
	}); n != 0 {
		t.Fatalf("%v allocations per header", n)
	}
}

func BenchmarkParse(b *testing.B) {
	frame := wiretest.Get("data")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Parse(frame); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	h := Header{Type: TypeIPv4}
	buf := make([]byte, MaxHeaderLen)
	b.ReportAllocs()
	for b.Loop() {
		h.Put(buf)
	}
}
