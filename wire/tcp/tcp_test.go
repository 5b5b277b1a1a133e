package tcp

import (
	"bytes"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"tapir/wire/ip"
	"tapir/wire/wiretest"
)

func TestHeaderTable(t *testing.T) {
	base := Header{SrcPort: 1, DstPort: 65535, Seq: 0xfffffff0, Ack: 7, Flags: ACK | PSH, Window: 512, Checksum: 0xbeef, Urgent: 3}
	with := func(o Options) Header { h := base; h.Opts = o; return h }
	four := [4]SACKBlock{{1, 2}, {3, 4}, {5, 6}, {7, 8}}
	three := four
	three[3] = SACKBlock{}
	for _, c := range []struct {
		name string
		h    Header
		len  int
	}{
		{"plain", base, 20},
		{"all flags", Header{Flags: 0xfff}, 20},
		{"MSS", with(Options{MSS: 1460}), 24},
		{"SYN", with(Options{MSS: 1460, HasWS: true, WS: 7, SACKPermitted: true, HasTS: true, TSVal: 9, TSEcr: 8}), 40},
		{"SYN without timestamps", with(Options{MSS: 1460, HasWS: true, SACKPermitted: true}), 32},
		{"timestamps", with(Options{HasTS: true, TSVal: 1 << 31}), 32},
		{"4 SACK", with(Options{NSACK: 4, SACK: four}), 56},
		{"3 SACK and timestamps", with(Options{HasTS: true, NSACK: 3, SACK: three}), 60},
	} {
		b := make([]byte, c.h.Len(), 64)
		if n := c.h.Put(b); n != c.len || c.h.Len() != c.len {
			t.Errorf("%s: length %d, put %d, want %d", c.name, c.h.Len(), n, c.len)
		}
		got, p, err := Parse(append(b, "data"...))
		if err != nil || got != c.h || string(p) != "data" {
			t.Errorf("%s:\n got %+v %q %v\nwant %+v", c.name, got, p, err, c.h)
		}
		for i := range b {
			if _, _, err := Parse(b[:i]); err != ErrTruncated {
				t.Errorf("%s cut to %d: %v", c.name, i, err)
			}
		}
	}
	full := with(Options{HasTS: true, NSACK: 4, SACK: four})
	if full.Len() != MaxHeaderLen {
		t.Errorf("a fourth SACK block beside timestamps: length %d", full.Len())
	}
}

func TestOptionBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want Options
	}{
		{"end stops", []byte{0, 2, 9, 9}, Options{}},
		{"unknown skipped", []byte{253, 4, 1, 2, 3, 3, 20, 1}, Options{HasWS: true, WS: 14}},
		{"length 0", []byte{4, 2, 253, 0, 3, 3, 7, 1}, Options{SACKPermitted: true}},
		{"beyond header", []byte{4, 2, 253, 5, 3, 3, 7, 1}, Options{SACKPermitted: true}},
		{"kind alone", []byte{1, 1, 1, 2}, Options{}},
		{"MSS of 3", []byte{2, 3, 1, 1, 4, 2, 1, 1}, Options{SACKPermitted: true}},
		{"half a SACK block", []byte{5, 6, 0, 0, 0, 0, 1, 1}, Options{}},
	} {
		b := make([]byte, 20+len(c.b))
		b[12] = byte(len(b)/4) << 4
		copy(b[20:], c.b)
		if h, _, err := Parse(b); err != nil || h.Opts != c.want {
			t.Errorf("%s: %+v, %v", c.name, h.Opts, err)
		}
	}
	if _, _, err := Parse(make([]byte, 20)); err != ErrMalformed {
		t.Errorf("data offset 0: %v", err)
	}
}

func TestSeqWraps(t *testing.T) {
	a := Seq(0xfffffffe)
	b := a.Add(4)
	if b != 2 || !a.Less(b) || b.Less(a) || b.Sub(a) != 4 || a.Sub(b) != -4 || !a.LessEq(a) || a.Less(a) || b.Add(-4) != a {
		t.Fatal("sequence arithmetic across zero")
	}
	if !b.InWindow(a, 5) || b.InWindow(a, 4) || a.InWindow(b, 100) {
		t.Fatal("window across zero")
	}
}

func TestFlagsString(t *testing.T) {
	if s := (SYN | ACK | NS).String(); s != "SYN,ACK,NS" {
		t.Fatal(s)
	}
}

// segments returns the captured TCP segments by name, without their IP header.
func segments(t testing.TB) map[string][]byte {
	m := map[string][]byte{}
	for _, f := range wiretest.Frames() {
		if h, p, err := ip.Parse(f.Data[14:]); err == nil && h.Proto == ip.ProtoTCP {
			m[f.Name] = p
		}
	}
	if len(m) != 8 {
		t.Fatalf("%d segments", len(m))
	}
	return m
}

func TestLinuxSegmentsReencode(t *testing.T) {
	for name, seg := range segments(t) {
		h, p, err := Parse(seg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b := make([]byte, h.Len())
		h.Put(b)
		if !bytes.Equal(append(b, p...), seg) {
			t.Errorf("%s: re-encoded % x\nwas % x", name, b, seg)
		}
	}
}

func TestAgreesWithGopacket(t *testing.T) {
	for name, seg := range segments(t) {
		h, p, _ := Parse(seg)
		l := gopacket.NewPacket(seg, layers.LayerTypeTCP, gopacket.Default).Layer(layers.LayerTypeTCP).(*layers.TCP)
		if l.Seq != uint32(h.Seq) || l.Ack != uint32(h.Ack) || l.Window != h.Window || l.SYN != h.Flags.Has(SYN) ||
			uint16(l.DstPort) != h.DstPort || l.Checksum != h.Checksum || !bytes.Equal(l.Payload, p) {
			t.Errorf("%s: %+v, gopacket %+v", name, h, l)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seg := range segments(f) {
		f.Add(seg)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, _, err := Parse(b)
		if err != nil {
			return
		}
		enc := make([]byte, h.Len())
		h.Put(enc)
		again, rest, err := Parse(enc)
		if err != nil || len(rest) != 0 {
			t.Fatalf("own encoding refused: %v", err)
		}
		// Options that together exceed the header lose SACK blocks only.
		if again.Opts.NSACK > h.Opts.NSACK {
			t.Fatal("SACK blocks grew")
		}
		h.Opts.NSACK, h.Opts.SACK = again.Opts.NSACK, again.Opts.SACK
		if again != h {
			t.Fatalf("%+v became %+v", h, again)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	seg := segments(t)["data"]
	buf := make([]byte, MaxHeaderLen)
	if n := testing.AllocsPerRun(100, func() {
		h, _, _ := Parse(seg)
		h.Put(buf)
	}); n != 0 {
		t.Fatalf("%v allocations per header", n)
	}
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"syn", "data"} {
		seg := segments(b)[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Parse(seg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPut(b *testing.B) {
	h, _, _ := Parse(segments(b)["data"])
	buf := make([]byte, MaxHeaderLen)
	b.ReportAllocs()
	for b.Loop() {
		h.Put(buf)
	}
}
