package virtio

import (
	"bytes"
	"errors"
	"testing"

	"tapir/wire/frame"
)

func TestHeader(t *testing.T) {
	tests := []struct {
		name string
		raw  []byte
		off  frame.Offload
	}{
		{"nothing to do", make([]byte, 10), frame.Offload{}},
		{"partial checksum", []byte{1, 0, 0, 0, 0, 0, 34, 0, 16, 0}, frame.Offload{NeedsCsum: true, CsumStart: 34, CsumOffset: 16}},
		{"checked", []byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0}, frame.Offload{DataValid: true}},
		{"TCPv4", []byte{1, 1, 66, 0, 0xa8, 5, 34, 0, 16, 0},
			frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv4, HdrLen: 66, GSOSize: 1448, CsumStart: 34, CsumOffset: 16}},
		{"TCPv6", []byte{1, 4, 86, 0, 0x94, 5, 54, 0, 16, 0},
			frame.Offload{NeedsCsum: true, GSO: frame.GSOTCPv6, HdrLen: 86, GSOSize: 1428, CsumStart: 54, CsumOffset: 16}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			off, err := Parse(tt.raw)
			if err != nil || off != tt.off {
				t.Errorf("Parse = %+v, %v; want %+v", off, err, tt.off)
			}
			b := bytes.Repeat([]byte{0xff}, HeaderLen)
			if n := Put(b, tt.off); n != HeaderLen || !bytes.Equal(b, tt.raw) {
				t.Errorf("Put = % x; want % x", b, tt.raw)
			}
		})
	}
}

func TestBadHeader(t *testing.T) {
	tests := []struct {
		raw  []byte
		want error
	}{
		{make([]byte, 9), ErrTruncated},
		{nil, ErrTruncated},
		{[]byte{0, 3, 0, 0, 0, 0, 0, 0, 0, 0}, ErrGSOType},    // UFO
		{[]byte{0, 2, 0, 0, 0, 0, 0, 0, 0, 0}, ErrGSOType},    // none
		{[]byte{0, 0x81, 0, 0, 0, 0, 0, 0, 0, 0}, ErrGSOType}, // with ECN, which needs TUN_F_TSO_ECN
	}
	for _, tt := range tests {
		if _, err := Parse(tt.raw); !errors.Is(err, tt.want) {
			t.Errorf("Parse(% x) = %v, want %v", tt.raw, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{1, 1, 66, 0, 0xa8, 5, 34, 0, 16, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		off, err := Parse(in)
		if err != nil {
			return
		}
		var b [HeaderLen]byte
		Put(b[:], off)
		if again, err := Parse(b[:]); err != nil || again != off {
			t.Fatalf("% x: %+v became %+v, %v", in, off, again, err)
		}
	})
}
