package mpa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"tapir/wire/crc"
)

// Tests of RFC 5044 sections 3 to 6 and 8, clause by clause. The FPDUs are
// put together and taken apart here octet by octet.

// layouts are the four ways to frame.
var layouts = []Layout{{}, {CRC: true}, {Markers: true}, {CRC: true, Markers: true}}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + 1)
	}
	return b
}

// unmarked removes the markers from a stream that starts at pos and returns
// them too.
func unmarked(b []byte, pos uint64) (plain []byte, markers []uint32) {
	for i := 0; i < len(b); {
		if (pos+uint64(i))%512 == 0 {
			markers = append(markers, binary.BigEndian.Uint32(b[i:]))
			i += 4
			continue
		}
		plain = append(plain, b[i])
		i++
	}
	return plain, markers
}

// Section 3 (5044-3-1, 5044-3-7): one ULPDU per FPDU, handed on with its
// length. Section 4.1 (5044-4.1-1): length, ULPDU, pad, CRC.
func TestOneULPDUPerFPDU(t *testing.T) {
	for _, l := range layouts {
		for n := 1; n < 40; n++ {
			u := pattern(n)
			b := stream(l, u)
			plain, _ := unmarked(b, 0)
			if !l.Markers {
				plain = b
			}
			want := binary.BigEndian.AppendUint16(nil, uint16(n))
			want = append(want, u...)
			for len(want)%4 != 0 {
				want = append(want, 0)
			}
			if !bytes.Equal(plain[:len(plain)-4], want) {
				t.Fatalf("%+v, %d octets: %x, want %x", l, n, plain, want)
			}
			s := &sink{}
			if err := NewReceiver(l, nil).Receive(b, s); err != nil || len(s.got) != 1 || !bytes.Equal(s.got[0], u) {
				t.Fatalf("%+v: received %x, %v", l, s.got, err)
			}
		}
	}
}

// Sections 3 and 4.5 (5044-3-2, 5044-3-4, 5044-3-5, 5044-4.5-1, 5044-4.5-2,
// 5044-4.5-4, 5044-4.5-5).
func TestMULPDU(t *testing.T) {
	for emss := 1; emss < 1<<17; emss += 1 + emss/90 {
		for _, l := range layouts {
			want := emss - (6 + emss%4)
			if l.Markers {
				want = emss - (6 + 4*((emss+511)/512) + emss%4)
			}
			want = min(max(want, 128), 64768)
			got := l.MULPDU(emss)
			if got != want {
				t.Fatalf("%+v emss %d: %d, want %d", l, emss, got, want)
			}
			for pos := uint64(0); pos < 1024; pos += 4 {
				if n := l.FPDULen(pos, got); n > emss && got > 128 {
					t.Fatalf("%+v emss %d, position %d: the FPDU has %d octets", l, emss, pos, n)
				}
			}
		}
	}
}

// Section 4.1 (5044-4.1-2).
func TestPadIsZeroAndIgnored(t *testing.T) {
	for _, l := range layouts {
		for n := range 8 {
			u := pattern(n)
			dst := bytes.Repeat([]byte{0xaa}, l.FPDULen(4, n))
			l.Put(dst, 4, u)
			for i := 2 + n; i < len(dst)-4; i++ {
				if dst[i] != 0 {
					t.Errorf("%+v: pad of %d octets is %x", l, n, dst[2+n:len(dst)-4])
				}
				dst[i] = 0xbb
			}
			if l.CRC {
				binary.LittleEndian.PutUint32(dst[len(dst)-4:], crc.CRC32C(dst[:len(dst)-4]))
			}
			if got, _, err := l.ParseFPDU(dst, 4, make([]byte, n)); err != nil || !bytes.Equal(got, u) {
				t.Errorf("%+v: with another pad %x, %v", l, got, err)
			}
		}
	}
}

// Sections 4.1, 4.4 and 7.1.1 (5044-4.1-3, 5044-4.4-8, 5044-7.1.1-12).
func TestFieldWithoutCRCIsPresentAndNotChecked(t *testing.T) {
	for _, field := range []string{"\x00\x00\x00\x00", "junk", "\xff\xff\xff\xff"} {
		b := stream(Layout{}, []byte("payload!!!"))
		if len(b) != 16 {
			t.Fatalf("FPDU of %d octets", len(b))
		}
		copy(b[12:], field)
		s := &sink{}
		if err := NewReceiver(Layout{}, nil).Receive(b, s); err != nil || len(s.got) != 1 {
			t.Errorf("field %x: %v", field, err)
		}
	}
}

// Sections 4.2 and 4.3 (5044-4.2-1, 5044-4.3-1, 5044-4.3-2, 5044-4.3-3,
// 5044-4.3-5, 5044-4.3-7, 5044-4.3-8, 5044-4.3-9, 5044-7.1.1-9).
func TestMarkersInTheStream(t *testing.T) {
	l := Layout{CRC: true, Markers: true}
	sizes := []int{0, 1, 2, 3, 10, 42, 100, 480, 490, 494, 498, 502, 506, 508, 510, 700, 1500, 3000, 64768, 5}
	pos := uint64(0)
	if b := stream(l, nil); !bytes.Equal(b[:4], make([]byte, 4)) {
		t.Fatalf("the first FPDU begins with %x", b[:4])
	}
	for i := range 4000 {
		n := sizes[i%len(sizes)]
		b := make([]byte, l.FPDULen(pos, n))
		l.Put(b, pos, pattern(n))
		start := 0 // of the length field
		if pos%512 == 0 {
			start = 4
		}
		for at := int(-pos % 512); at < len(b); at += 512 {
			want := uint32(max(at-start, 0))
			if got := binary.BigEndian.Uint32(b[at:]); got != want {
				t.Fatalf("FPDU of %d at %d: marker at %d is %#x, want %#x", n, pos, at, got, want)
			}
		}
		plain, _ := unmarked(b, pos)
		if int(binary.BigEndian.Uint16(plain)) != n || !bytes.Equal(plain[2:2+n], pattern(n)) {
			t.Fatalf("FPDU of %d at %d: what lies between the markers differs", n, pos)
		}
		if got := binary.LittleEndian.Uint32(b[len(b)-4:]); got != crc.CRC32C(b[:len(b)-4]) {
			t.Fatalf("FPDU of %d at %d: the CRC does not cover the markers", n, pos)
		}
		pos += uint64(len(b))
	}
}

// Section 4.3 (5044-4.3-4): positions do not wrap where TCP's do.
func TestMarkerAcrossSequenceWrap(t *testing.T) {
	l := Layout{CRC: true, Markers: true}
	for _, pos := range []uint64{1<<32 - 512, 1<<32 - 508, 1<<32 - 8, 1<<32 - 4, 1 << 32} {
		b := make([]byte, l.FPDULen(pos, 1200))
		l.Put(b, pos, pattern(1200))
		_, markers := unmarked(b, pos)
		for i, m := range markers {
			if want := max(int(-pos%512)+512*i-4*b2i(pos%512 == 0), 0); int(m) != want {
				t.Errorf("position %#x: marker %d is %d, want %d", pos, i, m, want)
			}
		}
		if u, _, err := l.ParseFPDU(b, pos, make([]byte, 1200)); err != nil || !bytes.Equal(u, pattern(1200)) {
			t.Errorf("position %#x: %v", pos, err)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Sections 4.2 and 4.3 (5044-4.2-2, 5044-4.2-3, 5044-4.3-6).
func TestReservedBitsOfMarkers(t *testing.T) {
	l := Layout{CRC: true, Markers: true}
	for _, pos := range []uint64{0, 4, 508, 300} {
		b := make([]byte, l.FPDULen(pos, 1201))
		l.Put(b, pos, pattern(1201))
		for at := int(-pos % 512); at < len(b); at += 512 {
			if m := binary.BigEndian.Uint32(b[at:]); m>>16 != 0 || m&3 != 0 {
				t.Errorf("position %d: marker %#x", pos, m)
			}
			b[at], b[at+1], b[at+3] = 0xa5, 0x5a, b[at+3]|3
		}
		binary.LittleEndian.PutUint32(b[len(b)-4:], crc.CRC32C(b[:len(b)-4]))
		if u, _, err := l.ParseFPDU(b, pos, make([]byte, 1201)); err != nil || !bytes.Equal(u, pattern(1201)) {
			t.Errorf("position %d: %v", pos, err)
		}
	}
}

// Section 4.4 (5044-4.4-9, 5044-4.4-10): the CRC of the iSCSI specification,
// over everything from the marker in front or the length field to the pad.
func TestCRCOfAnFPDU(t *testing.T) {
	if got := crc.CRC32C(make([]byte, 32)); got != 0x8a9136aa {
		t.Fatalf("CRC32C of 32 zeros is %#x", got)
	}
	for _, l := range []Layout{{CRC: true}, {CRC: true, Markers: true}} {
		good := stream(l, pattern(1201))
		if got := binary.LittleEndian.Uint32(good[len(good)-4:]); got != crc.CRC32C(good[:len(good)-4]) {
			t.Fatalf("%+v: CRC field %#x", l, got)
		}
		for i := range good {
			b := bytes.Clone(good)
			b[i] ^= 0x10
			s := &sink{}
			err := NewReceiver(l, nil).Receive(append(b, good[:4]...), s)
			if len(s.got) != 0 || err != nil && !errors.Is(err, &Error{Code: CRC}) {
				t.Fatalf("%+v: octet %d damaged: %v, %d ULPDUs", l, i, err, len(s.got))
			}
			if i > 8 && err == nil {
				t.Fatalf("%+v: octet %d damaged: no error", l, i)
			}
		}
	}
}

// Sections 4.4 and 6 (5044-4.4-11, 5044-4.4-12, 5044-6-1, 5044-6-2): nothing
// is handed on before the whole FPDU is there and verified; the CRC comes
// before the markers.
func TestVerifiedBeforePassedOn(t *testing.T) {
	l := Layout{CRC: true, Markers: true}
	b := stream(l, pattern(900), pattern(30))
	first := l.FPDULen(0, 900)
	r, s := NewReceiver(l, nil), &sink{}
	for i := range b {
		if err := r.Receive(b[i:i+1], s); err != nil {
			t.Fatal(err)
		}
		if want := b2i(i+1 >= first) + b2i(i+1 == len(b)); len(s.got) != want {
			t.Fatalf("after %d octets: %d ULPDUs, want %d", i+1, len(s.got), want)
		}
	}
	bad := bytes.Clone(b[:first])
	bad[512+3] ^= 8 // marker and CRC are both wrong now
	s = &sink{}
	if err := NewReceiver(l, nil).Receive(bad, s); !errors.Is(err, &Error{Code: CRC}) || len(s.got) != 0 {
		t.Errorf("%v, %d ULPDUs", err, len(s.got))
	}
}

// Sections 6 and 8 (5044-6-3, 5044-8-1, 5044-8-2, 5044-8-3): the start that
// follows from the lengths must be the one that the markers give.
func TestMarkerAndLengthDisagree(t *testing.T) {
	l := Layout{CRC: true, Markers: true}
	for _, pos := range []uint64{0, 300, 508} {
		good := make([]byte, l.FPDULen(pos, 1400))
		l.Put(good, pos, pattern(1400))
		for at := int(-pos % 512); at < len(good); at += 512 {
			b := bytes.Clone(good)
			binary.BigEndian.PutUint16(b[at+2:], binary.BigEndian.Uint16(b[at+2:])+4)
			binary.LittleEndian.PutUint32(b[len(b)-4:], crc.CRC32C(b[:len(b)-4]))
			if _, _, err := l.ParseFPDU(b, pos, make([]byte, 1400)); !errors.Is(err, &Error{Code: Marker}) {
				t.Errorf("position %d, marker at %d: %v", pos, at, err)
			}
		}
	}
}

// Sections 4.3, 5.2 and 6 and annex A (5044-4.3-10, 5044-4.3-11, 5044-5.1-4,
// 5044-5.2-1, 5044-6-4, 5044-A.4-1): boundaries come from the length field
// alone, wherever TCP segments begin and end.
func TestBoundariesFollowFromLengths(t *testing.T) {
	for _, l := range layouts {
		var ulpdus [][]byte
		for n := range 60 {
			ulpdus = append(ulpdus, pattern(n*23%700))
		}
		b := stream(l, ulpdus...)
		for _, step := range []int{1, 2, 3, 5, 508, 512, 1448, len(b)} {
			r, s := NewReceiver(l, nil), &sink{}
			for i := 0; i < len(b); i += step {
				if err := r.Receive(b[i:min(i+step, len(b))], s); err != nil {
					t.Fatal(err)
				}
			}
			for i := range ulpdus {
				if len(s.got) != len(ulpdus) || !bytes.Equal(s.got[i], ulpdus[i]) {
					t.Fatalf("%+v, pieces of %d: %d ULPDUs, number %d differs", l, step, len(s.got), i)
				}
			}
		}
	}
}

// Section 8 (5044-8-5): nothing is handed on behind an error.
func TestNothingBehindAnError(t *testing.T) {
	l := Layout{CRC: true}
	one := stream(l, pattern(20))
	bad := bytes.Clone(one)
	bad[5] ^= 1
	b := append(append(bytes.Clone(one), bad...), one...)
	r, s := NewReceiver(l, nil), &sink{}
	err := r.Receive(b, s)
	if again := r.Receive(one, s); !errors.Is(err, &Error{Code: CRC}) || again != err || len(s.got) != 1 {
		t.Errorf("%v, then %v, %d ULPDUs", err, again, len(s.got))
	}
}
