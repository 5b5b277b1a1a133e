package geneve

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// A header with one critical option of 4 octets, by RFC 8926 sections 3.4 and
// 3.5.
const sample = "02c06558" + "00abcd00" + "ff0081" + "01" + "01020304"

func TestHeader(t *testing.T) {
	want, err := hex.DecodeString(sample)
	if err != nil {
		t.Fatal(err)
	}
	h, o := Header{Control: true, Critical: true, Protocol: TypeEthernet, VNI: 0xabcd}, Option{Class: 0xff00, Type: 0x81, Length: 4}
	b := make([]byte, len(want))
	at := h.Put(b, 8)
	at += o.Put(b[at:])
	copy(b[at:], []byte{1, 2, 3, 4})
	if !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	got, options, payload, err := Parse(append(b, 0xaa))
	if err != nil || got != h || len(payload) != 1 {
		t.Fatalf("%+v, payload % x, %v", got, payload, err)
	}
	g, data, rest, err := ParseOption(options)
	if err != nil || g != o || !bytes.Equal(data, []byte{1, 2, 3, 4}) || len(rest) != 0 {
		t.Errorf("%+v % x, rest % x, %v", g, data, rest, err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		want error
	}{
		{make([]byte, 7), ErrTruncated}, {[]byte{1, 0, 0, 0, 0, 0, 0, 0}, ErrTruncated},
		{[]byte{0x40, 0, 0, 0, 0, 0, 0, 0}, ErrVersion}, {make([]byte, 8), nil},
	} {
		if _, _, _, err := Parse(c.b); err != c.want {
			t.Errorf("% x: %v, want %v", c.b, err, c.want)
		}
	}
	for _, b := range [][]byte{{0, 1, 2}, {0, 1, 2, 1}, {0, 1, 2, 1, 1, 0, 0}} {
		if _, _, _, err := ParseOption(b); err != ErrTruncated {
			t.Errorf("% x: %v", b, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	b, _ := hex.DecodeString(sample)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, options, payload, err := Parse(b)
		if err != nil {
			return
		}
		again := make([]byte, HeaderLen)
		h.Put(again, len(options))
		h2, o2, p2, err := Parse(append(append(again, options...), payload...))
		if err != nil || h2 != h || !bytes.Equal(o2, options) || !bytes.Equal(p2, payload) {
			t.Fatalf("%x: %v", b, err)
		}
		for len(options) > 0 {
			if _, _, options, err = ParseOption(options); err != nil {
				return
			}
		}
	})
}
