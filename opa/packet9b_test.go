package opa

import (
	"bytes"
	"testing"

	"tapir/wire/drop"
	"tapir/wire/frame"
)

// mad9B is the header of a MAD to the general agent of LID 6.
var mad9B = Header9B{SLID: 5, DLID: 6, SL: 2, PKey: 0xffff, DestQP: QPGeneral, SrcQP: QPGeneral, QKey: QKeyGSI, PSN: 7}

func TestPacket9B(t *testing.T) {
	for _, c := range []struct {
		name   string
		header Header9B
		n      int
		size   int
	}{
		{"general", mad9B, 256, 288},
		{"longest MAD", mad9B, MaxMAD, 2080},
		{"pad", mad9B, 41, 76},
		{"empty", mad9B, 0, 32},
		{"subnet", Header9B{SLID: Permissive, DLID: Permissive, SC: 15, PKey: 0x7fff}, 64, 96},
		{"multicast", Header9B{SLID: 0xbfff, DLID: 0xf00001, SC: 3, FECN: true, BECN: true, PKey: 0x8001, DestQP: qpMask, SrcQP: 0x123456, QKey: 1, PSN: qpMask}, 100, 132},
	} {
		payload := bytes.Repeat([]byte{0xa5}, c.n)
		b := c.header.AppendTo([]byte("x"), payload, ICRCv1)[1:]
		p, drop := Parse9B(b, ICRCv1)
		if drop != frame.DropNone || len(b) != c.size || Size9B(c.n) != c.size || p.Header() != c.header || !bytes.Equal(p.Payload(), payload) {
			t.Errorf("%s: %v, %d octets, %+v", c.name, drop, len(b), p)
		}
		f := holding(payload)
		if drop := Encapsulate9B(f, &c.header, ICRCv1); drop != frame.DropNone || !bytes.Equal(f.Bytes(), b) {
			t.Errorf("%s: %v, %x, want %x", c.name, drop, f.Bytes(), b)
		}
		b[0] ^= 0x10 // the fabric changes SC and marks
		b[12] ^= 0xc0
		if !p.ICRCGood() {
			t.Errorf("%s: ICRC covers what may change", c.name)
		}
	}
}

func TestEncapsulate9BRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(h *Header9B)
		f    *frame.Frame
		want frame.DropReason
	}{
		{"SLID beyond 16 bits", func(h *Header9B) { h.SLID = 0xc000 }, holding(make([]byte, 64)), DropSLID},
		{"DLID beyond 16 bits", func(h *Header9B) { h.DLID = 0xf7ffff }, holding(make([]byte, 64)), DropDLID},
		{"too long", func(*Header9B) {}, holding(make([]byte, 1<<14)), drop.Oversize},
		{"no room", func(*Header9B) {}, frame.New(make([]byte, frame.DefaultHeadroom), nil), drop.NoBuffer},
	} {
		h, n := mad9B, c.f.Len()
		c.with(&h)
		if drop := Encapsulate9B(c.f, &h, ICRCv1); drop != c.want || c.f.Len() != n {
			t.Errorf("%s: %v, want %v", c.name, drop, c.want)
		}
	}
}

func TestParse9BRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(b []byte) []byte
		want frame.DropReason
	}{
		{"cut", func(b []byte) []byte { return b[:31] }, drop.Truncated},
		{"word missing", func(b []byte) []byte { return b[:len(b)-4] }, DropLength},
		{"octet more", func(b []byte) []byte { return append(b, 0) }, DropLength},
		{"link version", func(b []byte) []byte { b[0] |= 1; return b }, DropL2},
		{"GRH", func(b []byte) []byte { b[1] |= 1; return b }, DropL4},
		{"RC SEND", func(b []byte) []byte { b[8] = 4; return b }, DropL4},
		{"transport version", func(b []byte) []byte { b[9] |= 1; return b }, DropL4},
		{"SLID 0", func(b []byte) []byte { b[7] = 0; return b }, DropSLID},
		{"SLID permissive on SC 0", func(b []byte) []byte { b[6], b[7] = 0xff, 0xff; return b }, DropSLID},
		{"SLID multicast", func(b []byte) []byte { b[6] = 0xc0; return b }, DropSLID},
		{"DLID 0", func(b []byte) []byte { b[3] = 0; return b }, DropDLID},
		{"DLID permissive on SC 0", func(b []byte) []byte { b[2], b[3] = 0xff, 0xff; return b }, DropDLID},
		{"pad", func(b []byte) []byte { b[len(b)-5] = 1; return b }, DropPad},
		{"ICRC", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, DropICRC},
		{"SL", func(b []byte) []byte { b[1] ^= 0x10; return b }, DropICRC},
		{"as it is", func(b []byte) []byte { return b }, frame.DropNone},
	} {
		b := c.with(mad9B.AppendTo(nil, bytes.Repeat([]byte{1}, 41), ICRCv1))
		if _, drop := Parse9B(b, ICRCv1); drop != c.want {
			t.Errorf("%s: %v, want %v", c.name, drop, c.want)
		}
		if _, drop := Parse9B(b, ICRCNone); c.want == DropICRC && drop != frame.DropNone {
			t.Errorf("%s, ICRC not checked: %v", c.name, drop)
		}
	}
}

func TestPad9BBeyondPacket(t *testing.T) {
	b := mad9B.AppendTo(nil, nil, ICRCv1)
	b[9] |= 0x30 // three octets of pad in a packet without payload
	if _, drop := Parse9B(b, ICRCNone); drop != DropLength {
		t.Error(drop)
	}
}

func FuzzParse9B(f *testing.F) {
	f.Add(mad9B.AppendTo(nil, make([]byte, 64), ICRCv1))
	f.Add(mad9B.AppendTo(nil, make([]byte, 41), ICRCv1))
	f.Fuzz(func(t *testing.T, b []byte) {
		was := bytes.Clone(b)
		p, drop := Parse9B(b, ICRCv1)
		if !bytes.Equal(b, was) {
			t.Fatal("packet altered")
		}
		if drop != frame.DropNone {
			return
		}
		h := p.Header()
		q, drop := Parse9B(h.AppendTo(nil, p.Payload(), ICRCv1), ICRCv1)
		if drop != frame.DropNone || q.Header() != h || !bytes.Equal(q.Payload(), p.Payload()) {
			t.Fatalf("%v: %x\nencodes as\n%x", drop, p, q)
		}
	})
}
