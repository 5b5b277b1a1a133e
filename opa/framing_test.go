package opa

import (
	"bytes"
	"encoding/hex"
	"testing"

	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

func TestOuterAddresses(t *testing.T) {
	for lid, want := range map[LID]string{5: "02:00:00:00:00:05", 0x123456: "02:00:00:12:34:56",
		0xf00001: "03:00:00:f0:00:01", Permissive: "03:00:00:ff:ff:ff"} {
		if got := lid.Outer().String(); got != want {
			t.Errorf("%v: %s, want %s", lid, got, want)
		}
	}
}

// TestFramings: each framing is what it should be, octet by octet, and comes
// off again.
func TestFramings(t *testing.T) {
	packet := vectors[2].octets(t)
	outer := "0200000abcde020000123456"
	for _, c := range []struct {
		framing Framing
		head    string
	}{
		{FramingNSH, outer + "894f" + "0fc80203301abcff" + "fff67814"},
		{Framing88B5, outer + "88b5"},
		{FramingGeneve, outer + "0800" + "450000880000400040113515" + "0a1234560a0abcde" +
			"feef17c100740000" + "060065580" + "00abc00" + "fff67805"},
	} {
		f := holding(packet)
		if drop := c.framing.Wrap(f, 0x301); drop != frame.DropNone {
			t.Fatal(drop)
		}
		if got, want := hex.EncodeToString(f.Bytes()), c.head+vectors[2].packet; got != want {
			t.Errorf("%v:\n%s, want\n%s", c.framing, got, want)
		}
		if inner := Inner(f.Bytes()); !bytes.Equal(inner, packet[HeaderLen:]) {
			t.Errorf("%v: the frame inside begins with %x", c.framing, inner[:14])
		}
		if format, drop := Unwrap(f); drop != frame.DropNone || format != Format16B || !bytes.Equal(f.Bytes(), packet) {
			t.Errorf("%v: %v, %v, %x", c.framing, drop, format, f.Bytes())
		}
		if got, err := ParseFraming(c.framing.String()); got != c.framing || err != nil {
			t.Errorf("%v: %v", got, err)
		}
	}
	if _, err := ParseFraming("raw"); err == nil {
		t.Error("framing raw accepted")
	}
}

func TestFramingsOf9B(t *testing.T) {
	packet := mad9B.AppendTo(nil, make([]byte, 256), ICRCv1)
	for _, framing := range []Framing{FramingNSH, Framing88B5, FramingGeneve} {
		f := holding(packet)
		if drop := framing.Wrap9B(f); drop != frame.DropNone {
			t.Fatal(drop)
		}
		if h, _, err := ether.Parse(f.Bytes()); err != nil || h.Src != mad9B.SLID.Outer() || h.Dst != mad9B.DLID.Outer() {
			t.Errorf("%v: %+v, %v", framing, h, err)
		}
		if format, drop := Unwrap(f); drop != frame.DropNone || format != Format9B || !bytes.Equal(f.Bytes(), packet) {
			t.Errorf("%v: %v, %v, %x", framing, drop, format, f.Bytes())
		}
	}
}

func TestMTU(t *testing.T) {
	for _, c := range []struct{ eth, nsh int }{{1500, 2092}, {9000, 9060}, {10240, 10300}} {
		if got := FramingNSH.MTU(c.eth); got != c.nsh {
			t.Errorf("%d: %d, want %d", c.eth, got, c.nsh)
		}
	}
}

func TestWrapNeedsHeadroom(t *testing.T) {
	for framing, need := range map[Framing]int{FramingNSH: nshOverhead, Framing88B5: ether.HeaderLen, FramingGeneve: geneveOverhead} {
		f := holding(vectors[0].octets(t))
		f.Prepend(frame.DefaultHeadroom - need + 1)
		if got := framing.Wrap(f, 1); got != drop.NoBuffer {
			t.Errorf("%v: %v", framing, got)
		}
	}
}

// TestUnwrapRefuses alters one octet of a good frame, or cuts it.
func TestUnwrapRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		framing Framing
		at      int
		value   byte
		want    frame.DropReason
	}{
		{"EtherType", Framing88B5, 13, 0x01, drop.EtherType},
		{"NSH version", FramingNSH, 14, 0x4f, drop.Malformed},
		{"NSH OAM", FramingNSH, 14, 0x2f, drop.Malformed},
		{"NSH length", FramingNSH, 15, 0xc7, drop.Malformed},
		{"NSH longer than the frame", FramingNSH, 15, 0xff, drop.Truncated},
		{"NSH metadata type 1", FramingNSH, 16, 1, drop.Malformed},
		{"NSH next IPv4", FramingNSH, 17, 1, drop.Malformed},
		{"NSH path of another vESW", FramingNSH, 20, 3, drop.Malformed},
		{"metadata class", FramingNSH, 22, 0, drop.Malformed},
		{"metadata length", FramingNSH, 25, 16, drop.Malformed},
		{"IP checksum", FramingGeneve, 24, 0, drop.IPChecksum},
		{"UDP port", FramingGeneve, 36, 0, drop.NoListener},
		{"UDP length", FramingGeneve, 39, 7, drop.Malformed},
		{"UDP checksum", FramingGeneve, 41, 1, drop.L4Checksum},
		{"Geneve version", FramingGeneve, 42, 0x46, drop.Malformed},
		{"Geneve control", FramingGeneve, 43, 0x80, drop.Malformed},
		{"Geneve protocol", FramingGeneve, 45, 0, drop.EtherType},
		{"VNI of another vESW", FramingGeneve, 48, 3, drop.Malformed},
		{"option class", FramingGeneve, 51, 0, drop.Malformed},
		{"option type", FramingGeneve, 52, 0, drop.Malformed},
		{"option length", FramingGeneve, 53, 4, drop.Malformed},
	} {
		f := holding(vectors[0].octets(t))
		c.framing.Wrap(f, 0x301)
		n := f.Len()
		f.Bytes()[c.at] = c.value
		if _, drop := Unwrap(f); drop != c.want || f.Len() != n {
			t.Errorf("%s: %v and %d octets, want %v", c.name, drop, f.Len(), c.want)
		}
	}
	f := holding(make([]byte, 13))
	if _, got := Unwrap(f); got != drop.Truncated {
		t.Errorf("13 octets: %v", got)
	}
}

func FuzzUnwrap(f *testing.F) {
	for _, framing := range []Framing{FramingNSH, Framing88B5, FramingGeneve} {
		fr := holding(vectors[0].octets(f))
		framing.Wrap(fr, 0x301)
		f.Add(fr.Bytes())
		fr = holding(mad9B.AppendTo(nil, make([]byte, 256), ICRCv1))
		framing.Wrap9B(fr)
		f.Add(fr.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr := holding(b)
		format, drop := Unwrap(fr)
		if drop != frame.DropNone {
			if !bytes.Equal(fr.Bytes(), b) {
				t.Fatalf("%v, but altered", drop)
			}
			return
		}
		if !bytes.Contains(b, fr.Bytes()) {
			t.Fatalf("%x is not in %x", fr.Bytes(), b)
		}
		if format == Format9B {
			Parse9B(fr.Bytes(), ICRCv1)
		} else {
			Parse(fr.Bytes(), ICRCv1)
		}
	})
}
