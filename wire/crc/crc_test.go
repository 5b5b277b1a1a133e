package crc

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func TestCRC32CKnownValues(t *testing.T) { // RFC 3720 appendix B.4
	ascending := make([]byte, 32)
	for i := range ascending {
		ascending[i] = byte(i)
	}
	for _, c := range []struct {
		name string
		in   []byte
		wire []byte
	}{
		{"zeros", make([]byte, 32), []byte{0xaa, 0x36, 0x91, 0x8a}},
		{"ones", bytes.Repeat([]byte{0xff}, 32), []byte{0x43, 0xab, 0xa8, 0x62}},
		{"ascending", ascending, []byte{0x4e, 0x79, 0xdd, 0x46}},
	} {
		if got := binary.LittleEndian.AppendUint32(nil, CRC32C(c.in)); !bytes.Equal(got, c.wire) {
			t.Errorf("%s: % x, want % x", c.name, got, c.wire)
		}
	}
}

func BenchmarkCRC32C(b *testing.B) {
	p := make([]byte, 1460)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		CRC32C(p)
	}
}
