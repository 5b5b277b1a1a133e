package verbs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// ahead is a fixture with memory that is reached by calls alone, and requests of it.
func newAhead(t *testing.T) (f *fixture, far *distant, mr *MR, post func(op Opcode, flags SendFlags, off, n int)) {
	f = newFixture(t, QPConfig{MaxSend: 256, MaxInline: 64})
	f.up(t)
	far = &distant{Bytes: make([]byte, 64<<10)}
	for i := range far.Bytes {
		far.Bytes[i] = byte('a' + i%26)
	}
	mr, err := f.pd.RegMemory(far, 0x1000, LocalWrite|RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	return f, far, mr, func(op Opcode, flags SendFlags, off, n int) {
		t.Helper()
		wr := SendWR{Opcode: op, Flags: flags, SGEs: []SGE{{Addr: mr.Addr() + uint64(off), Length: uint32(n), LKey: mr.LKey()}}}
		if flags&Inline != 0 {
			wr.SGEs, wr.Inline = nil, far.Bytes[off:off+n]
		}
		if _, err := f.qp.PostSend(wr); err != nil {
			t.Fatal(err)
		}
	}
}

// take fetches the message of the request at seq as a transport does.
func (f *fixture) take(t *testing.T, seq uint64) string {
	t.Helper()
	w := f.qp.SendWQE(seq)
	if fault := f.qp.Resolve(w); fault != FaultNone {
		t.Fatal(fault)
	}
	p := make([]byte, w.Length)
	if err := w.Fetch(p, 0); err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// TestReadAhead: one call reads for requests that were posted, and nothing that may change.
func TestReadAhead(t *testing.T) {
	f, far, mr, post := newAhead(t)
	check := func(what string, seq uint64, off, n int, calls ...string) {
		t.Helper()
		if got := f.take(t, seq); got != string(far.Bytes[off:off+n]) {
			t.Errorf("%s: %q", what, got)
		}
		if !slices.Equal(far.calls, calls) {
			t.Errorf("%s: %q, want %q", what, far.calls, calls)
		}
		far.calls = nil
	}
	read := func(off, n int) string { return "read " + string(far.Bytes[off:off+n]) }
	post(OpWrite, 0, 10, 4)
	post(OpWrite, 0, 2, 4)
	post(OpWrite, Inline, 700, 4)
	post(OpWrite, 0, 20, 4)
	check("two, then one inline", 0, 10, 4, read(2, 12))
	post(OpWrite, 0, 3, 4)
	check("the second", 1, 2, 4)
	check("inline", 2, 700, 4)
	check("posted before the read, behind the inline one", 3, 20, 4, read(3, 21))
	check("posted after the first read", 4, 3, 4)
	post(OpWrite, 0, 0, 8)
	post(OpRead, 0, 100, 8)
	post(OpWrite, Fence, 100, 8)
	check("before a Read", 5, 0, 8, read(0, 8))
	copy(far.Bytes[100:], "the Read")
	check("behind a Read", 7, 100, 8, read(100, 8))
	post(OpWrite, 0, 0, 8)
	post(OpWrite, 0, 6000, 8)
	check("another page", 8, 0, 8, read(0, 8))
	check("there", 9, 6000, 8, read(6000, 8))
	post(OpWrite, 0, 0, 8)
	post(OpWrite, 0, 8, 8)
	check("registered", 10, 0, 8, read(0, 16))
	if fault := f.qp.Resolve(f.qp.SendWQE(11)); fault != FaultNone {
		t.Fatal(fault)
	}
	if err := mr.Dereg(); err != nil {
		t.Fatal(err)
	}
	if err := f.qp.SendWQE(11).Fetch(make([]byte, 8), 0); err == nil {
		t.Error("a region that has gone is still read")
	}
}

// TestReadAheadAgrees: whatever is posted, each request gets the octets of its elements.
func TestReadAheadAgrees(t *testing.T) {
	f, far, _, post := newAhead(t)
	r := rand.New(rand.NewPCG(1, 2))
	type message struct{ off, n int }
	var want []message
	taken := 0
	for range 2000 {
		m := message{r.IntN(300) * r.IntN(30), r.IntN(shortRequest + 20)}
		post([]Opcode{OpWrite, OpWrite, OpSend}[r.IntN(3)], []SendFlags{0, 0, 0, Fence}[r.IntN(4)], m.off, m.n)
		want = append(want, m)
		for ; taken < len(want) && (len(want)-taken > 200 || r.IntN(4) == 0); taken++ {
			m := want[taken]
			if got := f.take(t, uint64(taken)); !bytes.Equal([]byte(got), far.Bytes[m.off:m.off+m.n]) {
				t.Fatal(fmt.Sprint("request ", taken))
			}
			f.qp.BeginSend()
			f.qp.FinishSend(uint64(taken), StatusSuccess)
			var wcs [16]WC
			f.cq.Poll(wcs[:])
		}
	}
	if n := len(far.calls); n > taken*3/4 {
		t.Errorf("%d calls for %d messages", n, taken)
	}
}
