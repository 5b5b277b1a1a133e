package udp

import (
	"bytes"
	"testing"
)

func TestHeader(t *testing.T) {
	h := Header{Src: 0xc05a, Dst: 6081, Checksum: 0x1234}
	b := make([]byte, HeaderLen, 16)
	h.Put(b, 3)
	if want := []byte{0xc0, 0x5a, 0x17, 0xc1, 0, 11, 0x12, 0x34}; !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	got, payload, err := Parse(append(b, 1, 2, 3, 0xee))
	if err != nil || got != h || !bytes.Equal(payload, []byte{1, 2, 3}) {
		t.Errorf("%+v, % x, %v", got, payload, err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		want error
	}{{make([]byte, 7), ErrTruncated}, {[]byte{0, 0, 0, 0, 0, 9, 0, 0}, ErrTruncated}, {[]byte{0, 0, 0, 0, 0, 7, 0, 0}, ErrMalformed}} {
		if _, _, err := Parse(c.b); err != c.want {
			t.Errorf("% x: %v, want %v", c.b, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{0xc0, 0x5a, 0x17, 0xc1, 0, 11, 0x12, 0x34, 1, 2, 3, 0xee})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := Parse(b)
		if err != nil {
			return
		}
		again := make([]byte, HeaderLen)
		h.Put(again, len(payload))
		if again = append(again, payload...); !bytes.Equal(again, b[:len(again)]) {
			t.Fatalf("re-encoded % x, was % x", again, b)
		}
	})
}
