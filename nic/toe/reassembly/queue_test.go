package reassembly

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// pool counts the frames that are out.
type pool struct{ out int }

func (p *pool) Get(n int) *frame.Frame {
	p.out++
	return frame.New(make([]byte, frame.DefaultHeadroom+max(n, 256)), p)
}

func (p *pool) Put(*frame.Frame) { p.out-- }

// audit recomputes what a queue keeps as running sums.
func audit(t *testing.T, q *Queue, s *Store) {
	t.Helper()
	octets, memory, end := 0, 0, uint64(0)
	for p := q.head; p != nil; p = p.next {
		if p.off < end || p.n == 0 || p.f != nil && p.f.Len() != int(p.n) || p.next == nil && q.tail != p {
			t.Fatalf("piece at %d after %d", p.off, end)
		}
		end = p.End()
		octets += p.held()
		memory += p.memory()
	}
	if octets != q.Octets() || memory != q.Memory() || memory != s.Memory {
		t.Fatalf("holds %d in %d, says %d in %d, all hold %d", octets, memory, q.Octets(), q.Memory(), s.Memory)
	}
}

// TestRandomPieces inserts pieces of a text in any order, with and without a
// Taker, and takes out what is in order: each octet once, as it was.
func TestRandomPieces(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		text := make([]byte, 1+r.IntN(4000))
		for i := range text {
			text[i] = byte(r.Uint32())
		}
		frames := &pool{}
		s := &Store{Pool: frames, PerQueue: 1 << 20, Total: 1 << 20}
		var q Queue
		early := make([]bool, len(text))
		take := Taker(func(off uint64, data []byte) int {
			n := r.IntN(len(data) + 1)
			for i := range n {
				if early[int(off)+i] || data[i] != text[int(off)+i] {
					t.Fatalf("seed %d: octet %d is offered again, or wrong", seed, int(off)+i)
				}
				early[int(off)+i] = true
			}
			return n
		})
		if seed%2 == 0 {
			take = nil
		}
		next := uint64(0)
		for next < uint64(len(text)) {
			off := uint64(r.IntN(len(text)))
			data := text[off:min(len(text), int(off)+1+r.IntN(300))]
			if off > next {
				if why := q.Insert(s, take, off, data); why != frame.DropNone && why != drop.TCPDuplicate {
					t.Fatalf("seed %d: dropped: %v", seed, why)
				}
			} else if end := off + uint64(len(data)); end > next {
				next = min(end, max(next, q.Next()))
			}
			for p := q.Pop(next); p != nil; p = q.Pop(next) {
				if p.End() > next {
					rest := p.Rest(next)
					if rest != nil && !bytes.Equal(rest, text[next:p.End()]) || rest == nil && !early[next] {
						t.Fatalf("seed %d: wrong octets at %d", seed, next)
					}
					next = p.End()
				}
				s.Free(p)
			}
			q.Trim(next)
			audit(t, &q, s)
		}
		if q.Release(s); s.Memory != 0 || frames.out != 0 {
			t.Fatalf("seed %d: %d octets, %d frames left", seed, s.Memory, frames.out)
		}
	}
}

// TestReport gathers ranges, joins them, and reports each at least once, the
// most recent first (RFC 2018 section 4), duplicates before all (RFC 2883).
func TestReport(t *testing.T) {
	var r Report
	for i := range uint64(6) {
		r.note(Block{100 * i, 100*i + 50})
	}
	r.note(Block{550, 600})
	r.Repeated(Block{10, 20})
	var got [][]tcp.SACKBlock
	for r.Owed() {
		o := tcp.Options{HasTS: true}
		r.Fill(&o, 1000)
		got = append(got, o.SACK[:o.NSACK])
	}
	want := [][]tcp.SACKBlock{
		{{Left: 1010, Right: 1020}, {Left: 1500, Right: 1600}, {Left: 1400, Right: 1450}},
		{{Left: 1300, Right: 1350}, {Left: 1200, Right: 1250}, {Left: 1100, Right: 1150}},
		{{Left: 1000, Right: 1050}, {Left: 1500, Right: 1600}, {Left: 1400, Right: 1450}},
	}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i, blocks := range want {
		for j, b := range blocks {
			if got[i][j] != b {
				t.Fatalf("acknowledgement %d reports %v, want %v", i, got[i], blocks)
			}
		}
	}
	if r.Trim(450); r.nblocks != 1 || !r.Pending() {
		t.Fatalf("%d ranges left", r.nblocks)
	}
}
