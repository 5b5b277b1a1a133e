package opa

import (
	"bytes"
	"testing"

	"tapir/wire/drop"
	"tapir/wire/frame"
)

// MADs and congestion notifications in 16B packets, in every framing, come out as they
// went in, and each flipped bit of what the ICRC covers is found.
func TestPacketsWithoutEthernet(t *testing.T) {
	h := Header{SLID: 0x123456, DLID: 0xabcdef, SC: 3, PKey: 0xffff}
	for _, size := range []int{0, 1, 3, 256, MaxMAD} {
		for _, framing := range []Framing{FramingNSH, Framing88B5, FramingGeneve} {
			f := frame.New(make([]byte, 4096), nil)
			f.Extend(8)
			f.TrimFront(8) // more room in front
			data := bytes.Repeat([]byte{0xa5}, size)
			f.Append(data)
			if r := EncapsulateMAD(f, &h, 1, 0x777, ICRCv1); r != frame.DropNone || f.Len() != SizeMAD(size) {
				t.Fatalf("%d octets: %v, %d", size, r, f.Len())
			}
			framing.Wrap16B(f)
			if sc, n, ok := ServiceClass(f.Bytes()); sc != 3 || n != SizeMAD(size) || !ok {
				t.Errorf("%v: service class %d, %d octets", framing, sc, n)
			}
			if !MarkFECN(f.Bytes()) {
				t.Errorf("%v: not marked", framing)
			}
			format, r := Unwrap(f)
			p, bad := ParseMAD(f.Bytes(), ICRCv1)
			if format != Format16B || r != frame.DropNone || bad != frame.DropNone {
				t.Fatalf("%v, %d octets: %v %v %v", framing, size, format, r, bad)
			}
			if p.SLID() != h.SLID || p.DLID() != h.DLID || p.DestQP() != 1 || p.SrcQP() != 0x777 || p.PKey() != 0xffff ||
				!p.FECN() || !bytes.Equal(p.Payload(), data) {
				t.Errorf("%v, %d octets: %+v", framing, size, p.Header())
			}
		}
	}
	cnp := make([]byte, SizeCNP)
	PutCNP(cnp, h, ICRCv1)
	if p, r := ParseCNP(cnp, ICRCv1); r != frame.DropNone || !IsCNP(cnp) || !p.BECN() || p.SLID() != h.SLID {
		t.Errorf("%v %x", r, cnp)
	}
	cnp[20] ^= 1
	if _, r := ParseCNP(cnp, ICRCv1); r != DropICRC {
		t.Error(r)
	}
	short := h
	b := short.AppendTo(nil, make([]byte, 0), ICRCv1) // room for no management header
	b[8] = L4FM                                       // 32 octets, of which 7 are pad
	if _, r := ParseMAD(b, ICRCNone); r != DropLength {
		t.Error(r)
	}
	full := frame.New(make([]byte, 256), nil)
	full.Prepend(full.Headroom())
	if r := EncapsulateMAD(full, &h, 0, 0, ICRCv1); r != drop.NoBuffer {
		t.Error(r)
	}
}

// What a switch marks with FECN is received as before but for the mark: Ethernet in all
// framings and MADs in 9B packets; subnet management, notifications of congestion and
// strangers are left alone.
func TestMarkFECN(t *testing.T) {
	h := Header{SLID: 1, DLID: 2, SC: 4, PKey: 0x8001, VESW: 2}
	wrapped := func(framing Framing, packet []byte, format Format) *frame.Frame {
		f := frame.New(make([]byte, 4096), nil)
		f.Append(packet)
		if format == Format9B {
			framing.Wrap9B(f)
		} else {
			framing.Wrap(f, 1)
		}
		return f
	}
	mad9 := Header9B{SLID: 1, DLID: 2, PKey: 0x8001, DestQP: 1, SrcQP: 1, QKey: QKeyGSI}
	for _, framing := range []Framing{FramingNSH, Framing88B5, FramingGeneve} {
		f := wrapped(framing, h.AppendTo(nil, make([]byte, 60), ICRCv1), Format16B)
		if sc, n, ok := ServiceClass(f.Bytes()); sc != 4 || !ok || n != 88 || !MarkFECN(f.Bytes()) {
			t.Errorf("%v: not marked: %d %d", framing, sc, n)
		}
		Unwrap(f)
		if p, r := Parse(f.Bytes(), ICRCv1); r != frame.DropNone || !p.FECN() || p.BECN() {
			t.Errorf("%v: %v", framing, r)
		}
		f = wrapped(framing, mad9.AppendTo(nil, make([]byte, 60), ICRCv1), Format9B)
		if !MarkFECN(f.Bytes()) {
			t.Errorf("%v: 9B: not marked", framing)
		}
		Unwrap(f)
		if p, r := Parse9B(f.Bytes(), ICRCv1); r != frame.DropNone || !p.FECN() || p.BECN() {
			t.Errorf("%v: 9B: %v", framing, r)
		}
	}
	smp := mad9
	smp.DestQP, smp.SC = 0, SCManagement
	cnp := make([]byte, SizeCNP)
	PutCNP(cnp, h, ICRCv1)
	alone := [][]byte{wrapped(FramingNSH, smp.AppendTo(nil, make([]byte, 60), ICRCv1), Format9B).Bytes(),
		wrapped(Framing88B5, cnp, Format16B).Bytes(), bytes.Repeat([]byte{8, 0}, 60), bytes.Repeat([]byte{0x89, 0x4f}, 60), nil}
	for i, b := range alone {
		if was := bytes.Clone(b); MarkFECN(b) || !bytes.Equal(b, was) {
			t.Errorf("%d: marked", i)
		}
	}
}
