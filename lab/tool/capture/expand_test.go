package capture

import (
	"bytes"
	"io"
	"testing"

	"pgregory.net/rapid"

	"tapir/wire/frame"
)

// octets is the file of a capture of records.
func octets(t *testing.T, opt Options, records []*frame.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	s := New(&b, info, opt)
	s.Live()
	for _, r := range records {
		s.Trace(r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// mixed is a super-frame with what the end of one message and the beginning of
// the next have to say.
func mixed(v6 bool) *frame.Record {
	r := long(30)
	if v6 {
		r = long6(30)
	}
	r.Notes = []frame.Note{{Text: []byte("QP 3 WR 17 RDMA Write"), Times: 12}, {Text: []byte("QP 3 WR 17 RDMA Write last"), Times: 1}, {Text: []byte("QP 3 WR 18 RDMA Write"), Times: 17}}
	return r
}

// long6 is long over IPv6.
func long6(n int) *frame.Record {
	r := long(n)
	h := make([]byte, 40)
	h[0], h[4], h[5], h[6], h[7] = 6<<4, byte((20+100*n)>>8), byte(20+100*n), 6, 64
	r.Data = append(append(bytes.Clone(r.Data[:14]), h...), r.Data[34:]...)
	r.Data[12], r.Data[13] = 0x86, 0xdd
	r.Offload.GSO, r.Offload.CsumStart = frame.GSOTCPv6, 54
	return r
}

func TestExpanderUndoesCompact(t *testing.T) {
	records := []*frame.Record{long(40), superFrame(40), {Data: make([]byte, 60)}, mixed(false), mixed(true), long6(bulkRun + 1), long(bulkRun)}
	wrapped := long(20)
	wrapped.Data[18], wrapped.Data[19] = 0xff, 0xf8 // the IPv4 identification passes 0xffff
	records = append(records, wrapped)
	for _, opt := range []Options{{Bulk: 24}, {Bulk: 24, Count: 100}, {Bulk: 24, SnapLen: 70}, {Bulk: 200}} {
		want := octets(t, opt, records)
		opt.Compact = true
		compact := octets(t, opt, records)
		if opt.Bulk < 100 && opt.Count == 0 && len(compact) > len(want)*3/4 {
			t.Errorf("%+v: %d octets of %d", opt, len(compact), len(want))
		}
		rapid.Check(t, func(t *rapid.T) {
			var got bytes.Buffer
			x := NewExpander(&got)
			for b := compact; len(b) > 0; {
				n := rapid.IntRange(1, len(b)).Draw(t, "n")
				if k, err := x.Write(b[:n]); k != n || err != nil {
					t.Fatalf("%d of %d octets: %v", k, n, err)
				}
				b = b[n:]
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Fatalf("%+v: the file is another", opt)
			}
		})
	}
}

func TestExpanderRefusesOtherOctets(t *testing.T) {
	if _, err := NewExpander(io.Discard).Write(make([]byte, 64)); err == nil {
		t.Error("a block of no length was taken")
	}
}

func FuzzExpander(f *testing.F) {
	var b bytes.Buffer
	s := New(&b, info, Options{Bulk: 24, Compact: true})
	s.Trace(mixed(false))
	s.Close()
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = NewExpander(io.Discard).Write(b)
	})
}

func TestExpandingDoesNotAllocate(t *testing.T) {
	b := octets(t, Options{Bulk: 24, Compact: true}, []*frame.Record{long(40)})
	x := NewExpander(io.Discard)
	if n := testing.AllocsPerRun(100, func() { _, _ = x.Write(b) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
