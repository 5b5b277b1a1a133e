package opa

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestFE(t *testing.T) {
	for _, c := range []struct{ octets, last, kept int }{
		{2048, 0, 40}, {2048, 39, 40}, {2048, 40, 48}, {2048, 319, 320}, {2048, 2047, 2048}, {256, 100, 104}, {41, 40, 41},
	} {
		mad := make([]byte, c.octets)
		mad[c.last] = 1
		b := AppendFE([]byte{9}, mad)[1:]
		got, n, err := ParseFE(append(b, 7, 7))
		if err != nil || n != len(b) || len(got) != c.kept || !bytes.Equal(got, mad[:c.kept]) {
			t.Errorf("%+v: %d octets kept, %d of message, %v", c, len(got), n, err)
		}
		for i := range b {
			if got, n, err := ParseFE(b[:i]); got != nil || n != 0 || err != nil {
				t.Fatalf("%d of %d octets: %d, %v", i, len(b), n, err)
			}
		}
	}
}

func TestFEHeader(t *testing.T) {
	b := AppendFE(nil, bytes.Repeat([]byte{1}, 40))
	if got := hex.EncodeToString(b[:FEHeaderLen]); got != "31e0cc0100000040"+"0000008000000028"+"0000000000000000" {
		t.Error(got)
	}
	for at, v := range map[int]byte{0: 0, 3: 2, 4: 1, 6: 0x10, 7: 0x3f, 11: 1, 15: 0x27} {
		was := b[at]
		b[at] = v
		if _, _, err := ParseFE(b); err != ErrFE {
			t.Errorf("octet %d = %#x: %v", at, v, err)
		}
		b[at] = was
	}
	if _, _, err := ParseFE([]byte("GET")); err != ErrFE {
		t.Errorf("HTTP: %v", err)
	}
}

func FuzzFE(f *testing.F) {
	f.Add(AppendFE(nil, make([]byte, 256)))
	f.Fuzz(func(t *testing.T, b []byte) {
		mad, n, err := ParseFE(b)
		if err != nil || n == 0 {
			return
		}
		if n > len(b) || len(mad) != n-FEHeaderLen {
			t.Fatalf("%d octets of MAD in %d of %d", len(mad), n, len(b))
		}
		again, _, err := ParseFE(AppendFE(nil, mad))
		if err != nil || !bytes.Equal(append(bytes.Clone(again), make([]byte, len(mad)-len(again))...), mad) {
			t.Fatalf("%v: %x\nbecame %x", err, mad, again)
		}
	})
}
