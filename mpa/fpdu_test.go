package mpa

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// sendULPDU is the DDP segment of RFC 5044 figures 5 and 6.
func sendULPDU(msn byte) []byte {
	b := make([]byte, 42)
	b[0], b[1], b[13] = 0x41, 0x43, msn
	return b
}

func TestPutFiguresOfRFC5044(t *testing.T) {
	zeros := hex.EncodeToString(make([]byte, 24))
	for _, c := range []struct {
		name string
		pos  uint64
		msn  byte
		want string
	}{
		{"figure 5", 0, 1, "00000000" + "002a" + "4143" + "00000000" + "00000000" + "00000001" + "00000000" + zeros + "52239983"},
		{"figure 6", 0x1ec, 2, "002a" + "4143" + "00000000" + "00000000" + "00000002" + "00000000" + "00000014" + zeros + "84925898"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := Layout{CRC: true, Markers: true}
			dst := make([]byte, l.FPDULen(c.pos, 42))
			u := sendULPDU(c.msn)
			n := l.Put(dst, c.pos, u[:18], u[18:30], u[30:])
			if got := hex.EncodeToString(dst[:n]); got != c.want || n != len(dst) {
				t.Fatalf("got  %s\nwant %s", got, c.want)
			}
			back, size, err := l.ParseFPDU(dst, c.pos, make([]byte, 42))
			if err != nil || size != n || !bytes.Equal(back, u) {
				t.Fatalf("parsed %x, %d, %v", back, size, err)
			}
		})
	}
}

func TestPutRangeGivesTheOctetsOfPut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Layout{CRC: rapid.Bool().Draw(t, "crc"), Markers: rapid.Bool().Draw(t, "markers")}
		pos := 4 * rapid.Uint64Range(0, 300).Draw(t, "pos")
		u := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "ulpdu")
		cut := rapid.IntRange(0, len(u)).Draw(t, "cut")
		whole := make([]byte, l.FPDULen(pos, len(u)))
		if n := l.Put(whole, pos, u[:cut], u[cut:]); n != len(whole) || n%4 != 0 {
			t.Fatalf("length %d, want %d", n, len(whole))
		}
		from := rapid.IntRange(0, len(whole)).Draw(t, "from")
		part := make([]byte, rapid.IntRange(0, len(whole)-from).Draw(t, "length"))
		l.PutRange(part, make([]byte, MaxFPDULen), from, pos, u)
		if !bytes.Equal(part, whole[from:from+len(part)]) {
			t.Fatal("range differs from the whole")
		}
	})
}

func TestCompleteGivesTheOctetsOfPut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Layout{CRC: rapid.Bool().Draw(t, "crc"), Markers: rapid.Bool().Draw(t, "markers")}
		pos := rapid.Uint64Range(0, 1<<20).Draw(t, "pos") &^ 3
		header := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "header")
		payload := rapid.SliceOfN(rapid.Byte(), 0, 1500).Draw(t, "payload")
		ulpdu := len(header) + len(payload)
		want := make([]byte, l.FPDULen(pos, ulpdu))
		l.Put(want, pos, header, payload)
		got := bytes.Repeat([]byte{0xee}, len(want)+8)
		PutLength(got, ulpdu)
		copy(got[LengthLen:], header)
		n := l.Complete(got, pos, LengthLen+len(header), payload)
		if !bytes.Equal(got[:n], want) || !bytes.Equal(got[n:], bytes.Repeat([]byte{0xee}, 8)) {
			t.Fatalf("%v at %d, header %d, payload %d:\n% x, want\n% x", l, pos, len(header), len(payload), got[:n], want)
		}
	})
}

func TestTrailerReadsWhatSealTrailerWrote(t *testing.T) {
	for _, l := range []Layout{{}, {Markers: true}, {CRC: true, Markers: true}} {
		for pos := uint64(0); pos <= MarkerInterval; pos += 4 {
			for n := 480; n < 520; n++ {
				dst := make([]byte, l.FPDULen(pos, n))
				want := Trailer{CRC: 0x01020304}
				copy(want.Pad[:-(n+2)&3], "abc")
				l.SealTrailer(dst, pos, n, want)
				got := l.Trailer(dst, pos)
				if got.Pad != want.Pad || !l.CRC && got != want {
					t.Fatalf("%+v pos %d length %d: %v, want %v", l, pos, n, got, want)
				}
				if err := l.check(dst, pos); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// sink collects ULPDUs and can refuse one.
type sink struct {
	got    [][]byte
	refuse error
}

func (s *sink) ULPDU(b []byte) error {
	s.got = append(s.got, bytes.Clone(b))
	return s.refuse
}

// lender counts the memory in use.
type lender struct {
	t    interface{ Fatalf(string, ...any) }
	lent int
}

func (l *lender) Get(n int) []byte {
	if n > MaxFPDULen {
		l.t.Fatalf("asked for %d octets", n)
	}
	l.lent++
	return make([]byte, n)
}

func (l *lender) Put([]byte) { l.lent-- }

// stream frames ulpdus one behind another.
func stream(l Layout, ulpdus ...[]byte) (b []byte) {
	for _, u := range ulpdus {
		pos := uint64(len(b))
		f := make([]byte, l.FPDULen(pos, len(u)))
		l.Put(f, pos, u)
		b = append(b, f...)
	}
	return b
}

func TestAnySplitGivesTheSameULPDUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Layout{CRC: rapid.Bool().Draw(t, "crc"), Markers: rapid.Bool().Draw(t, "markers")}
		size := rapid.OneOf(rapid.IntRange(0, 30), rapid.IntRange(480, 530), rapid.IntRange(0, 4000))
		var ulpdus [][]byte
		for i := range rapid.IntRange(1, 12).Draw(t, "count") {
			u := make([]byte, size.Draw(t, "size"))
			for j := range u {
				u[j] = byte(i + j*7)
			}
			ulpdus = append(ulpdus, u)
		}
		in := stream(l, ulpdus...)
		mem := &lender{t: t}
		r, s := NewReceiver(l, mem), &sink{}
		piece := rapid.OneOf(rapid.IntRange(1, 9), rapid.IntRange(1, 3000))
		for rest := in; len(rest) > 0; {
			n := min(piece.Draw(t, "piece"), len(rest))
			if err := r.Receive(bytes.Clone(rest[:n]), s); err != nil {
				t.Fatalf("receive: %v", err)
			}
			rest = rest[n:]
		}
		if len(s.got) != len(ulpdus) {
			t.Fatalf("%d ULPDUs, want %d", len(s.got), len(ulpdus))
		}
		for i := range ulpdus {
			if !bytes.Equal(s.got[i], ulpdus[i]) {
				t.Fatalf("ULPDU %d differs", i)
			}
		}
		if mem.lent != 0 || r.Partial() != 0 || r.Pos() != uint64(len(in)) {
			t.Fatalf("%d buffers held, %d octets pending, position %d of %d", mem.lent, r.Partial(), r.Pos(), len(in))
		}
	})
}

func TestReceiverLongestFPDU(t *testing.T) {
	for _, l := range []Layout{{CRC: true}, {CRC: true, Markers: true}} {
		u := bytes.Repeat([]byte{0xa5}, MaxULPDU)
		in := stream(l, u, u)
		r, s := NewReceiver(l, &lender{t: t}), &sink{}
		for i := 0; i < len(in); i += 1448 {
			if err := r.Receive(in[i:min(i+1448, len(in))], s); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.got) != 2 || !bytes.Equal(s.got[1], u) {
			t.Fatalf("%+v: %d ULPDUs", l, len(s.got))
		}
	}
}

func TestReceiverErrorsAreSticky(t *testing.T) {
	marked := Layout{CRC: true, Markers: true}
	good := stream(marked, make([]byte, 700), make([]byte, 10))
	badCRC := bytes.Clone(good)
	badCRC[100] ^= 1
	noCRC := Layout{Markers: true}
	badMarker := stream(noCRC, make([]byte, 700))
	badMarker[512+3] ^= 4
	refusal := errors.New("refused")
	for _, c := range []struct {
		name   string
		layout Layout
		in     []byte
		refuse error
		want   error
		passed int // ULPDUs handed on
	}{
		{"CRC", marked, badCRC, nil, &Error{Code: CRC}, 0},
		{"marker", noCRC, badMarker, nil, &Error{Code: Marker}, 0},
		{"consumer", marked, good, refusal, refusal, 1},
	} {
		for _, step := range []int{1, 3, 512, len(c.in)} {
			mem := &lender{t: t}
			r, s := NewReceiver(c.layout, mem), &sink{refuse: c.refuse}
			var err error
			for i := 0; i < len(c.in); i += step {
				err = r.Receive(c.in[i:min(i+step, len(c.in))], s)
			}
			if !errors.Is(err, c.want) || !errors.Is(r.Err(), c.want) {
				t.Errorf("%s, step %d: error %v", c.name, step, err)
			}
			if len(s.got) != c.passed || mem.lent != 0 {
				t.Errorf("%s, step %d: %d ULPDUs passed, %d buffers held", c.name, step, len(s.got), mem.lent)
			}
		}
	}
}

func TestCRCOffIgnoresTheField(t *testing.T) {
	in := stream(Layout{}, []byte("payload"))
	if !bytes.Equal(in[len(in)-4:], make([]byte, 4)) {
		t.Fatalf("field is %x", in[len(in)-4:])
	}
	copy(in[len(in)-4:], "junk")
	s := &sink{}
	if err := NewReceiver(Layout{}, nil).Receive(in, s); err != nil || string(s.got[0]) != "payload" {
		t.Fatalf("%q, %v", s.got, err)
	}
}

func TestResetFreesMemory(t *testing.T) {
	mem := &lender{t: t}
	r := NewReceiver(Layout{}, mem)
	if err := r.Receive(stream(Layout{}, make([]byte, 100))[:50], &sink{}); err != nil || mem.lent != 1 {
		t.Fatalf("%v, %d buffers", err, mem.lent)
	}
	gone := &Error{Code: Closed}
	r.Reset(gone)
	if mem.lent != 0 || !errors.Is(r.Receive([]byte{1}, &sink{}), gone) {
		t.Fatalf("%d buffers held, error %v", mem.lent, r.Err())
	}
}

type discard struct{ n int }

func (d *discard) ULPDU(b []byte) error { d.n += len(b); return nil }

func TestFPDUPathAllocatesNothing(t *testing.T) {
	l := Layout{CRC: true}
	header, payload := make([]byte, 14), [][]byte{make([]byte, 1000), make([]byte, 428)}
	dst := make([]byte, l.FPDULen(0, 1442))
	r, d := NewReceiver(l, nil), &discard{}
	if n := testing.AllocsPerRun(100, func() {
		l.Put(dst, 0, header, payload...)
		if err := r.Receive(dst, d); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations per FPDU", n)
	}
}

func benchmarkPut(b *testing.B, l Layout) {
	header, payload := make([]byte, 14), [][]byte{make([]byte, 1400)}
	dst := make([]byte, l.FPDULen(512, 1414))
	b.SetBytes(1414)
	b.ReportAllocs()
	for b.Loop() {
		l.Put(dst, 512, header, payload...)
	}
}

func BenchmarkPutCRC(b *testing.B)     { benchmarkPut(b, Layout{CRC: true}) }
func BenchmarkPutMarkers(b *testing.B) { benchmarkPut(b, Layout{CRC: true, Markers: true}) }

func BenchmarkReceive(b *testing.B) {
	l := Layout{CRC: true}
	in := stream(l, make([]byte, 1442))
	r, d := NewReceiver(l, nil), &discard{}
	b.SetBytes(1442)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Receive(in, d); err != nil {
			b.Fatal(err)
		}
	}
}

// The firmware's lengths of FPDUs.
func TestFPDULengths(t *testing.T) {
	for ulpdu, want := range map[int]int{0: 8, 1: 8, 2: 8, 3: 12, 100: 108} {
		if got := (Layout{CRC: true}).FPDULen(0, ulpdu); got != want {
			t.Errorf("ULPDU of %d octets: %d, want %d", ulpdu, got, want)
		}
	}
}
