package nsh

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// A header with one piece of metadata of 5 octets, padded, by RFC 8300
// sections 2.2, 2.3 and 2.5.1.
const sample = "2f850203" + "000102fe" + "fff60105" + "0102030405000000"

func TestHeader(t *testing.T) {
	want, err := hex.DecodeString(sample)
	if err != nil {
		t.Fatal(err)
	}
	h, tlv := Header{OAM: true, TTL: 62, Next: NextEthernet, Path: 0x000102, Index: 254}, TLV{Class: 0xfff6, Type: 1, Length: 5}
	b := make([]byte, len(want))
	at := h.Put(b, 12)
	at += tlv.Put(b[at:])
	copy(b[at:], []byte{1, 2, 3, 4, 5})
	if !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	got, metadata, payload, err := Parse(append(b, 0xaa))
	if err != nil || got != h || len(payload) != 1 {
		t.Fatalf("%+v, payload % x, %v", got, payload, err)
	}
	g, value, rest, err := ParseTLV(metadata)
	if err != nil || g != tlv || !bytes.Equal(value, []byte{1, 2, 3, 4, 5}) || len(rest) != 0 {
		t.Errorf("%+v % x, rest % x, %v", g, value, rest, err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		octets string
		want   error
	}{
		{"0fc20203000102", ErrTruncated}, {"0fc3020300010201", ErrTruncated}, {"4fc2020300010201", ErrMalformed},
		{"0fc1020300010201", ErrMalformed}, {"0fc6010300010201", ErrMalformed}, {"0fc2020300010201", nil},
	} {
		b, err := hex.DecodeString(c.octets)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := Parse(b); err != c.want {
			t.Errorf("%s: %v, want %v", c.octets, err, c.want)
		}
	}
	for _, b := range [][]byte{{0, 1, 2}, {0, 1, 2, 1}, {0, 1, 2, 1, 1, 0, 0}} {
		if _, _, _, err := ParseTLV(b); err != ErrTruncated {
			t.Errorf("% x: %v", b, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	b, _ := hex.DecodeString(sample)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, metadata, payload, err := Parse(b)
		if err != nil {
			return
		}
		again := make([]byte, HeaderLen)
		h.Put(again, len(metadata))
		h2, m2, p2, err := Parse(append(append(again, metadata...), payload...))
		if err != nil || h2 != h || !bytes.Equal(m2, metadata) || !bytes.Equal(p2, payload) {
			t.Fatalf("%x: %v", b, err)
		}
		for len(metadata) > 0 {
			if _, _, metadata, err = ParseTLV(metadata); err != nil {
				return
			}
		}
	})
}
