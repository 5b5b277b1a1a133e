package opa

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"tapir/wire/drop"
	"tapir/wire/frame"
)

// vector is a whole packet with the fields that make it.
type vector struct {
	name   string
	header Header
	icrc   uint32
	pad    int
	packet string
}

var vectors = []vector{
	{"ARP broadcast", Header{SLID: 5, DLID: 0xf00001, VESW: 2, PKey: 0x8001, Entropy: 0x5a}, 0xe89c9ff0, 3,
		"0500b000010000c078f001805a00000000000200ffffffffffff062c0005000008060001080006040001062c00050000" +
			"0a0000050000000000000a000006000000000000000000000000000000000000000000f09f9ce843"},
	{"ICMP echo", Header{SLID: 5, DLID: 6, VESW: 2, PKey: 0x8001, Entropy: 0x3c, SC: 3, RC: 4}, 0x64b737f8, 5,
		"05000001060030c8780001803c00000000000200062c00060000062c00050000080045000054000140004001269e0a00" +
			"00050a0000060800eeb712340001000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021" +
			"22232425262728292a2b2c2d2e2f30313233343536370000000000f837b76445"},
	{"all fields", Header{SLID: 0x123456, DLID: 0x0abcde, VESW: 0xabc, PKey: 0xffff, Entropy: 0xbeef, SC: 31, RC: 7, FECN: true, BECN: true}, 0x4f2cabb1, 4,
		"5634c280debcfadf7801ffffefbe00000000bc0a062c00060000062c0005000008004500003500014000400126bd0a00" +
			"00050a0000060800493a12340001000102030405060708090a0b0c0d0e0f10111213141516171800000000b1ab2c4f44"},
	{"no pad", Header{SLID: 1, DLID: 1, VESW: 1, PKey: 0x8001}, 0x49b12351, 0,
		"0100b000010000c0780001800000000000000100" + strings.Repeat("00", 63) + "5123b14940"},
}

func (v *vector) octets(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(v.packet)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// holding returns a frame with room around the octets of b.
func holding(b []byte) *frame.Frame {
	f := frame.New(make([]byte, frame.DefaultHeadroom+len(b)+80), nil)
	f.Append(b)
	return f
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		want := v.octets(t)
		p, drop := Parse(want, ICRCv1)
		if drop != frame.DropNone {
			t.Errorf("%s: %v", v.name, drop)
			continue
		}
		if p.Header() != v.header || p.ICRC() != v.icrc || p.Pad() != v.pad || p.Length() != len(want) || p.L4() != L4Ethernet || p.L2() != 2 {
			t.Errorf("%s: %+v ICRC %#x pad %d length %d", v.name, p.Header(), p.ICRC(), p.Pad(), p.Length())
		}
		if got := v.header.AppendTo([]byte("x"), p.Frame(), ICRCv1); !bytes.Equal(got[1:], want) {
			t.Errorf("%s: built\n%x, want\n%x", v.name, got[1:], want)
		}
		f := holding(p.Frame())
		if drop := Encapsulate(f, &v.header, ICRCv1); drop != frame.DropNone || !bytes.Equal(f.Bytes(), want) {
			t.Errorf("%s: %v, encapsulated\n%x, want\n%x", v.name, drop, f.Bytes(), want)
		}
		Decapsulate(f)
		if !bytes.Equal(f.Bytes(), p.Frame()) {
			t.Errorf("%s: decapsulated %x", v.name, f.Bytes())
		}
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct{ n, pad, size, length int }{
		{60, 3, 88, 11}, {61, 2, 88, 11}, {62, 1, 88, 11}, {63, 0, 88, 11}, {64, 7, 96, 12}, {65, 6, 96, 12},
		{66, 5, 96, 12}, {67, 4, 96, 12}, {1514, 5, 1544, 193}, {1518, 1, 1544, 193}, {9018, 5, 9048, 1131},
		{10258, 5, 10288, 1286}, {0, 7, MinPacket, 4}, {MaxFrame, 0, MaxPacket, 2047},
	} {
		b := (&Header{SLID: 1, DLID: 2}).AppendTo(nil, make([]byte, c.n), ICRCv1)
		p, drop := Parse(b, ICRCv1)
		if drop != frame.DropNone || len(b) != c.size || Size(c.n) != c.size || p.Pad() != c.pad || p.Length() != c.length*8 ||
			len(p.Frame()) != c.n || b[len(b)-1] != 0x40|byte(c.pad) {
			t.Errorf("%d octets: %v, size %d, %d", c.n, drop, len(b), Size(c.n))
		}
	}
}

func TestEncapsulatePadsAndRefuses(t *testing.T) {
	f := holding(bytes.Repeat([]byte{0xaa}, 42))
	if drop := Encapsulate(f, &Header{SLID: 1, DLID: 2}, ICRCv1); drop != frame.DropNone || f.Len() != 88 {
		t.Fatalf("%v, %d octets", drop, f.Len())
	}
	p, got := Parse(f.Bytes(), ICRCv1)
	if got != frame.DropNone || len(p.Frame()) != MinFrame || !bytes.Equal(p.Frame()[42:], make([]byte, 18)) {
		t.Errorf("%v, %x", got, p.Frame())
	}
	for want, f := range map[frame.DropReason]*frame.Frame{
		drop.Oversize: holding(make([]byte, MaxFrame+1)),
		drop.NoBuffer: frame.New(make([]byte, frame.DefaultHeadroom+10), nil),
	} {
		n := f.Len()
		if drop := Encapsulate(f, &Header{}, ICRCv1); drop != want || f.Len() != n {
			t.Errorf("%v with %d octets, want %v with %d", drop, f.Len(), want, n)
		}
	}
	full := holding(make([]byte, 60))
	full.Prepend(frame.DefaultHeadroom - HeaderLen + 1)
	if got := Encapsulate(full, &Header{}, ICRCv1); got != drop.NoBuffer {
		t.Errorf("without headroom: %v", got)
	}
}

// TestParseRefuses alters one good packet, with pad and a multicast DLID.
func TestParseRefuses(t *testing.T) {
	last := len(vectors[0].octets(t)) - 1
	for _, c := range []struct {
		name string
		with func(b []byte) []byte
		want frame.DropReason
	}{
		{"empty", func(b []byte) []byte { return nil }, drop.Truncated},
		{"cut", func(b []byte) []byte { return b[:MinPacket-1] }, drop.Truncated},
		{"quadword missing", func(b []byte) []byte { return b[:len(b)-8] }, DropLength},
		{"quadword more", func(b []byte) []byte { return append(b, make([]byte, 8)...) }, DropLength},
		{"octet more", func(b []byte) []byte { return append(b, 0) }, DropLength},
		{"8B", func(b []byte) []byte { b[7] &^= 0x60; return b }, DropL2},
		{"9B", func(b []byte) []byte { b[7] |= 0x60; return b }, DropL2},
		{"L4 FM", func(b []byte) []byte { b[8] = L4FM; return b }, DropL4},
		{"SLID 0", func(b []byte) []byte { b[0] = 0; return b }, DropSLID},
		{"SLID multicast", func(b []byte) []byte { b[9] |= 0xf; return b }, DropSLID},
		{"SLID permissive", func(b []byte) []byte { b[0], b[1], b[2], b[9] = 0xff, 0xff, b[2]|0xf, b[9]|0xf; return b }, DropSLID},
		{"DLID 0", func(b []byte) []byte { b[4], b[9] = 0, 0; return b }, DropDLID},
		{"DLID collective", func(b []byte) []byte { b[6] |= 8; return b }, DropDLID},
		{"DLID multicast on SC 15", func(b []byte) []byte { b[6] |= 0xf0; return b }, DropDLID},
		{"DLID permissive on SC 0", func(b []byte) []byte { b[4], b[5], b[6] = 0xff, 0xff, 0xf; return b }, DropDLID},
		{"tail bit", func(b []byte) []byte { b[last] |= 8; return b }, DropTail},
		{"tail with LT 2", func(b []byte) []byte { b[last] ^= 0xc0; return b }, DropTail},
		{"pad", func(b []byte) []byte { b[last-5] = 1; return b }, DropPad},
		{"ICRC", func(b []byte) []byte { b[last-1] ^= 1; return b }, DropICRC},
		{"payload", func(b []byte) []byte { b[50] ^= 1; return b }, DropICRC},
		{"P_Key", func(b []byte) []byte { b[11] ^= 0x80; return b }, DropICRC},
		{"vESW", func(b []byte) []byte { b[18]++; return b }, DropICRC},
		{"as it is", func(b []byte) []byte { return b }, frame.DropNone},
		{"software's tail", func(b []byte) []byte { b[last] &= 7; return b }, frame.DropNone},
		{"software's LT", func(b []byte) []byte { b[7] &= 0x7f; return b }, frame.DropNone},
	} {
		b := c.with(vectors[0].octets(t))
		p, drop := Parse(b, ICRCv1)
		if drop != c.want || (p == nil) != (drop != frame.DropNone) {
			t.Errorf("%s: %v, want %v", c.name, drop, c.want)
		}
		if _, drop := Parse(b, ICRCNone); c.want == DropICRC && drop != frame.DropNone {
			t.Errorf("%s, ICRC not checked: %v", c.name, drop)
		}
	}
}

func TestICRCModes(t *testing.T) {
	h, eth := vectors[1].header, Packet(vectors[1].octets(t)).Frame()
	if p := Packet(h.AppendTo(nil, eth, ICRCNone)); p.ICRC() != 0 {
		t.Errorf("none: %#x", p.ICRC())
	}
	if p := Packet(h.AppendTo(nil, eth, ICRCBad)); p.ICRC() != ^vectors[1].icrc || p.ICRCGood() {
		t.Errorf("bad: %#x", p.ICRC())
	}
	for _, m := range []ICRC{ICRCv1, ICRCNone, ICRCBad} {
		if got, err := ParseICRC(m.String()); got != m || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseICRC("v2"); err == nil {
		t.Error("v2 accepted")
	}
}

// TestVariantFields: what a fabric rewrites leaves the ICRC good, anything
// else does not.
func TestVariantFields(t *testing.T) {
	p := Packet(vectors[1].octets(t))
	for sc := range uint8(32) {
		p.SetSC(sc)
		p.SetFECN(sc&1 != 0)
		p.SetBECN(sc&2 != 0)
		p.SetAge(sc * 5)
		want := vectors[1].header
		want.SC, want.FECN, want.BECN, want.Age = sc, sc&1 != 0, sc&2 != 0, sc*5
		if p.Header() != want || !p.ICRCGood() {
			t.Fatalf("%+v, good %v", p.Header(), p.ICRCGood())
		}
	}
	variant := map[int]byte{3: 0x80, 6: 0xf0, 7: 0x91, 14: 0xff, 15: 0xff}
	p = vectors[1].octets(t)
	for i := range p[:len(p)-1] {
		for bit := byte(1); bit != 0; bit <<= 1 {
			p[i] ^= bit
			if good := p.ICRCGood(); good != (variant[i]&bit != 0) {
				t.Errorf("octet %d bit %#x altered: good %v", i, bit, good)
			}
			p[i] ^= bit
		}
	}
}

func TestPacketsDoNotAllocate(t *testing.T) {
	f := holding(make([]byte, 1514))
	h := Header{SLID: 5, DLID: 6, VESW: 2, PKey: 0x8001}
	if n := testing.AllocsPerRun(100, func() {
		if Encapsulate(f, &h, ICRCv1) != frame.DropNone || FramingNSH.Wrap(f, 1) != frame.DropNone {
			t.Fatal("not sent")
		}
		if _, drop := Unwrap(f); drop != frame.DropNone {
			t.Fatal(drop)
		}
		if _, drop := Parse(f.Bytes(), ICRCv1); drop != frame.DropNone {
			t.Fatal(drop)
		}
		Decapsulate(f)
		ParseFlow(f.Bytes())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.octets(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		was := bytes.Clone(b)
		p, drop := Parse(b, ICRCv1)
		if !bytes.Equal(b, was) {
			t.Fatal("packet altered")
		}
		if drop != frame.DropNone {
			return
		}
		h := p.Header()
		again := Packet(h.AppendTo(nil, p.Frame(), ICRCv1))
		// Of the reserved octets and the sender's marks nothing is kept.
		again[7], again[15], again[16], again[17] = again[7]&0x7f|p[7]&0x80, p[15], p[16], p[17]
		again[19], again[len(again)-1] = again[19]|p[19]&0xf0, p[len(p)-1]
		copy(again[len(again)-TrailerLen:], p[len(p)-TrailerLen:])
		if !again.ICRCGood() || !bytes.Equal(again, p) {
			t.Fatalf("%x\nencodes as\n%x", p, again)
		}
	})
}
