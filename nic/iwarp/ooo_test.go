package iwarp

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tapir/mpa"
	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
	"tapir/wire/frame"
)

// TestEarlyPlacementSavesCopies: at 1 % loss the reassembly queue holds a
// fraction of what it holds without placement, and the data is right.
func TestEarlyPlacementSavesCopies(t *testing.T) {
	const n, rounds = 1 << 20, 24
	for _, c := range []struct {
		name string
		cfg  Config
		op   verbs.Opcode
	}{
		{"Write", Config{}, verbs.OpWrite}, {"Write, markers", Config{Markers: true}, verbs.OpWrite},
		{"Send", Config{}, verbs.OpSend}, {"Read", Config{}, verbs.OpRead},
	} {
		t.Run(c.name, func(t *testing.T) {
			var held, placed [2]uint64
			var took [2]time.Duration
			for i, inOrder := range []bool{true, false} {
				cfg := c.cfg
				cfg.InOrder = inOrder
				x := connect(t, toe.Config{}, cfg, n)
				source, sink := x.a, x.b
				if c.op == verbs.OpRead {
					source, sink = x.b, x.a
				}
				r := rand.New(rand.NewPCG(1, 0))
				source.out.drop = func(int, *frame.Frame) bool { return r.IntN(100) == 0 }
				start := x.now
				for round := range rounds {
					fill(x.c.mem, round)
					if c.op == verbs.OpRead {
						fill(x.s.mem, round+100)
					}
					x.s.recv(t, verbs.RecvWR{SGEs: x.s.sge(0, n)})
					x.c.wcs = nil
					x.c.post(t, verbs.SendWR{Opcode: c.op, Flags: verbs.Signaled, SGEs: x.c.sge(0, n), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
					x.must("completion", func() bool { return len(x.c.poll()) == 1 })
					if x.c.wcs[0].Status != verbs.StatusSuccess || !bytes.Equal(x.c.mem, x.s.mem) {
						t.Fatalf("round %d: %s", round, wcString(x.c.wcs))
					}
					x.run(func() bool { return c.op != verbs.OpSend || len(x.s.poll()) == round+1 })
				}
				took[i] = x.now.Sub(start)
				held[i], placed[i] = sink.tcp.Stats().BytesHeld, sink.e.Totals().OOOPlaced
				if tot := sink.e.Totals(); !inOrder {
					t.Logf("placed early %d, held back %d, refused %v", tot.OOOPlaced, tot.OOOHeld, tot.OOORefused)
				}
			}
			t.Logf("octets copied aside: %d without, %d with placement; %v and %v", held[0], held[1], took[0], took[1])
			if placed[0] != 0 || held[0] < 100_000 || held[1]*3 > held[0] || placed[1] < held[0]/2 || took[1] > took[0]*11/10 {
				t.Errorf("held %v, placed %v, took %v", held, placed, took)
			}
		})
	}
}

// A Write behind a Read Response for several elements is not placed before the
// response is complete: where they meet, its offsets do not say.
func TestWriteWaitsForScatteredRead(t *testing.T) {
	const first, n, at = 1000, 20_000, 100_000
	for lost := range 12 {
		x := connect(t, toe.Config{}, Config{}, 128<<10)
		for i := range x.s.mem {
			x.s.mem[i] = byte(1 + i/n) // 1 is read, 4 is written
		}
		frames := 0
		x.b.out.drop = func(_ int, f *frame.Frame) bool {
			if len(f.Bytes()) > 100 {
				frames++
			}
			return frames == lost+1 && len(f.Bytes()) > 100
		}
		x.c.post(t, verbs.SendWR{Opcode: verbs.OpRead, Flags: verbs.Signaled, RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey(),
			SGEs: append(x.c.sge(0, first), x.c.sge(at, n-first)...)})
		x.must("a response", func() bool { return frames > 0 })
		x.s.post(t, verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: x.s.sge(3*n, n), RemoteAddr: x.c.mr.Addr() + at, RKey: x.c.mr.RKey()})
		x.must("completions", func() bool { return len(x.c.poll()) == 1 && len(x.s.poll()) == 1 })
		x.run(nil)
		if got := bytes.Count(x.c.mem[at:at+n], []byte{4}); got != n {
			t.Errorf("frame %d lost: %d octets of the Write are left of %d", lost, got, n)
		}
	}
}

func TestNoAllocationPerEarlyFPDU(t *testing.T) {
	for _, markers := range []bool{false, true} {
		x := connect(t, toe.Config{}, Config{Markers: markers}, 1<<20)
		turn := streamer(t, x, verbs.OpWrite, 256<<10, 8)
		n := 0
		x.a.out.drop = func(_ int, f *frame.Frame) bool {
			n++
			return n%61 == 0
		}
		for range 4000 {
			turn()
		}
		before := x.b.e.Totals()
		allocs := testing.AllocsPerRun(4000, func() { turn() })
		after := x.b.e.Totals()
		if after.OOOPlaced-before.OOOPlaced < 50_000 {
			t.Fatalf("markers %v: only %d octets placed early, refused %v", markers, after.OOOPlaced-before.OOOPlaced, after.OOORefused)
		}
		if allocs != 0 {
			t.Errorf("markers %v: %v allocations per turn", markers, allocs)
		}
	}
}

// TestEarlyPlacementKeepsTheOrder writes, sends and reads over bad cables to
// places that often overlap: each side ends as if all had come in order.
func TestEarlyPlacementKeepsTheOrder(t *testing.T) {
	placed := uint64(0)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		cfg := Config{Markers: seed%3 == 1}
		x := connect(t, toe.Config{MaxSegs: []int{1, 8}[seed%2]}, cfg, 256<<10)
		for _, n := range []*node{x.a, x.b} {
			n.out.drop = func(int, *frame.Frame) bool { return r.IntN(40) == 0 }
			n.out.jitter = func() time.Duration { return time.Duration(r.IntN(4)) * 30 * time.Microsecond }
		}
		model := make([]byte, len(x.s.mem))
		fill(x.c.mem, int(seed))
		const sendAt = 192 << 10
		for i := range uint64(40) {
			n, off := r.IntN(20000), r.IntN(120000)
			src := r.IntN(100000)
			wr := verbs.SendWR{ID: i, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: x.c.sge(src, n), RemoteAddr: x.s.mr.Addr() + uint64(off), RKey: x.s.mr.RKey()}
			if i%5 == 4 { // into a place of its own: a receive of another message may be there
				off = sendAt + int(i/5)*6000
				wr.Opcode, n = verbs.OpSend, min(n, 6000)
				wr.SGEs = x.c.sge(src, n)
				x.s.recv(t, verbs.RecvWR{ID: i, SGEs: x.s.sge(off, 6000)})
			}
			x.c.post(t, wr)
			copy(model[off:off+n], x.c.mem[src:src+n])
		}
		x.must("completions", func() bool { return len(x.c.poll()) == 40 && len(x.s.poll()) == 8 })
		for i, wc := range x.c.wcs {
			if wc.Status != verbs.StatusSuccess || wc.ID != uint64(i) {
				t.Fatalf("seed %d: %s", seed, wcString(x.c.wcs))
			}
		}
		if !bytes.Equal(model, x.s.mem) {
			t.Fatalf("seed %d: memory differs from that of an ordered run", seed)
		}
		placed += x.b.e.Totals().OOOPlaced
		x.run(nil)
		if c := endpointOf(x.s.qp).conn; c.ooo != nil {
			t.Fatalf("seed %d: arrivals are left", seed)
		}
	}
	if placed < 500_000 {
		t.Errorf("only %d octets were placed early", placed)
	}
}

// TestFlagNeverBeforeData looks at the server's memory after every packet,
// while Writes end with a flag or are followed by one.
func TestFlagNeverBeforeData(t *testing.T) {
	for seed := range uint64(20) {
		x := connect(t, toe.Config{}, Config{}, 128<<10)
		r := rand.New(rand.NewPCG(seed, 3))
		x.a.out.drop = func(int, *frame.Frame) bool { return r.IntN(25) == 0 }
		x.a.out.jitter = func() time.Duration { return time.Duration(r.IntN(3)) * 40 * time.Microsecond }
		for round := byte(1); round <= 8; round++ {
			n := 40000 + r.IntN(20000) // the flag is the last octet, and another at 100,000
			for i := range n {
				x.c.mem[i] = round
			}
			x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.c.sge(0, n), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
			x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 8), RemoteAddr: x.s.mr.Addr() + 100000, RKey: x.s.mr.RKey()})
			x.must("flag", func() bool {
				last, next := x.s.mem[n-1] == round, x.s.mem[100000] == round
				if (last || next) && bytes.Count(x.s.mem[:n], []byte{round}) != n {
					t.Fatalf("seed %d round %d: flags %v %v before the data", seed, round, last, next)
				}
				return next
			})
		}
		if x.b.e.Totals().OOOPlaced == 0 && seed == 0 {
			t.Error("nothing was placed early")
		}
	}
}

// lateMiddle plays a Write to a server of which the second segment, of 1000
// octets like the first, comes late. rest makes the segments from the second on;
// before, if not nil, comes in front of all.
func lateMiddle(t *testing.T, cfg Config, rest func(s *end) [][]byte, before func(p *scripted)) (*world, *end) {
	w, p, s := rawClient(t, cfg, func(*end) {})
	p.write(request(mpa.DefaultConfig()))
	w.must("reply", func() bool { return len(p.in) > 0 })
	if before != nil {
		before(p)
		w.must("what comes before", func() bool { return w.b.e.Totals().RxFPDUs > 0 })
	}
	first := part(s, 0, 1, false)
	p.ends = append(p.ends, len(p.out)+len(first))
	p.write(first)
	w.must("first part", func() bool { return s.mem[999] == 1 })
	drop := true
	w.a.out.drop = func(_ int, f *frame.Frame) bool {
		was := drop && len(f.Bytes()) > 100
		drop = drop && !was
		return was
	}
	at := len(p.out)
	var all []byte
	for _, b := range rest(s) {
		all = append(all, b...)
		p.ends = append(p.ends, at+len(all))
	}
	p.write(all)
	return w, s
}

// part is a segment of 1000 octets v for server memory from to on.
func part(s *end, to uint64, v byte, last bool) []byte {
	return segment(rdmap.TaggedHeader(rdmap.Write, last, s.mr.RKey(), s.mr.Addr()+to), bytes.Repeat([]byte{v}, 1000))
}

// until lets d pass.
func (w *world) until(d time.Duration) {
	limit := w.now.Add(d)
	w.run(func() bool { return w.now >= limit })
}

func TestThirdPartIsPlacedBeforeTheSecond(t *testing.T) {
	w, s := lateMiddle(t, Config{}, func(s *end) [][]byte {
		return [][]byte{part(s, 1000, 2, false), part(s, 2000, 3, true)}
	}, nil)
	w.until(2 * wireDelay)
	if s.mem[1500] != 0 || s.mem[2000] != 3 || s.mem[2935] != 3 || s.mem[2936] != 0 {
		t.Fatalf("memory %v", s.mem[1990:2010])
	}
	tot := w.b.e.Totals()
	if tot.OOOPlaced != 936 || tot.OOOHeld != 64 || tot.RxMessages[0] != 0 {
		t.Fatalf("%+v", tot)
	}
	if i := w.b.e.QPs()[0]; i.OOOPlaced != 936 {
		t.Errorf("QP shows %d", i.OOOPlaced)
	}
	w.must("second part", func() bool { return s.mem[1500] == 2 && s.mem[2999] == 3 })
	if tot := w.b.e.Totals(); tot.RxMessages[0] != 1 || tot.RxBytes != 3000 || len(w.b.async) != 0 {
		t.Fatalf("%+v %v", tot, w.b.async)
	}
}

// What may not be placed early moves no octet then, and is judged in its turn.
func TestNotPlacedEarly(t *testing.T) {
	third := func(b []byte, s *end) [][]byte { return [][]byte{part(s, 1000, 2, false), b} }
	good := func(s *end) [][]byte { return third(part(s, 2000, 3, true), s) }
	unaligned := func(p *scripted) { // a segment that begins inside an FPDU
		b := segment(rdmap.TaggedHeader(rdmap.Write, true, 0, 0), nil)
		p.ends = append(p.ends, len(p.out)+7)
		p.write(b)
	}
	for _, c := range []struct {
		name   string
		cfg    Config
		rest   func(*end) [][]byte
		before func(*scripted)
		reason string
		want   *rdmap.Error // in its turn; nil: all is well
	}{
		{"turned off", Config{InOrder: true}, good, nil, "off", nil},
		{"unaligned before", Config{}, good, unaligned, "unknown_start", nil},
		{"bad CRC", Config{}, func(s *end) [][]byte {
			b := part(s, 2000, 3, true)
			b[200] ^= 1
			return third(b, s)
		}, nil, "bad_crc", &rdmap.Error{Layer: rdmap.LayerLLP, Code: 2}},
		{"not where the gap leads", Config{}, func(s *end) [][]byte { return third(part(s, 3000, 3, true), s) },
			nil, "unknown_start", &rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: 1}},
		{"half an FPDU", Config{}, func(s *end) [][]byte { return third(part(s, 2000, 3, true)[:900], s) }, nil, "partial", nil},
		{"STag gone", Config{}, func(s *end) [][]byte {
			s.mr.Invalidate()
			return good(s)
		}, nil, "not_placeable", &rdmap.Error{Layer: rdmap.LayerDDP, Type: 1, Code: 0}},
		{"imitation inside an FPDU", Config{}, func(s *end) [][]byte { return imitate(s, 3000, 0) }, nil, "unknown_start", nil},
		{"imitation at the right place", Config{}, func(s *end) [][]byte { return imitate(s, 2000, 4) }, nil, "unknown_start", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s := lateMiddle(t, c.cfg, c.rest, c.before)
			w.until(2 * wireDelay)
			if !bytes.Equal(s.mem[1000:], make([]byte, len(s.mem)-1000)) {
				t.Fatal("octets moved early")
			}
			tot := w.b.e.Totals()
			if i := slices.Index(RefusalNames[:], c.reason); tot.OOORefused[i] == 0 || tot.OOOPlaced+tot.OOOHeld != 0 {
				t.Errorf("refused as %v: %v", RefusalNames, tot.OOORefused)
			}
			w.until(3 * time.Second)
			if c.want != nil && (len(w.b.async) != 1 || !errors.Is(w.b.async[0].Err, c.want)) || c.want == nil && len(w.b.async) != 0 {
				t.Errorf("events %v", w.b.async)
			}
			if c.name != "STag gone" && s.mem[1500] != 2 {
				t.Errorf("the second part is not there")
			}
		})
	}
}

// imitate cuts one long FPDU in two segments, of which the second begins with
// a whole FPDU for server memory to inside the payload of the first. shift
// makes the first segment longer than an FPDU of 1000 octets.
func imitate(s *end, to uint64, shift int) [][]byte {
	size := len(part(s, 0, 0, false)) + shift
	inner := part(s, to, 9, true)
	h := rdmap.TaggedHeader(rdmap.Write, true, s.mr.RKey(), s.mr.Addr()+1000)
	payload := append(bytes.Repeat([]byte{2}, size-2-h.Len()), inner...)
	b := segment(h, payload)
	return [][]byte{b[:size], b[size : size+len(inner)], b[size+len(inner):]}
}

// An imitation that foresees everything is found out when the gap closes: it
// can touch nothing but what its message may write, and the stream ends.
func TestWrongGuessEndsTheStream(t *testing.T) {
	w, s := lateMiddle(t, Config{}, func(s *end) [][]byte { return imitate(s, 2000, 0) }, nil)
	s.recv(t, verbs.RecvWR{ID: 1})
	w.must("end", func() bool { return s.got(cm.ClosedEvent) })
	want := &rdmap.Error{Layer: rdmap.LayerLLP, Code: uint8(mpa.Marker)}
	if len(w.b.async) != 1 || !errors.Is(w.b.async[0].Err, want) || w.b.e.Totals().RxMessages[0] != 0 {
		t.Errorf("events %v, %+v", w.b.async, w.b.e.Totals())
	}
	if wcs := s.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusFlushed {
		t.Errorf("completions %s", wcString(wcs))
	}
	if !bytes.Equal(s.mem[3000:], make([]byte, len(s.mem)-3000)) {
		t.Error("octets beyond the message were touched")
	}
}

// A CRC error in a gap ends the stream before anything behind it counts.
func TestCRCErrorInAGap(t *testing.T) {
	w, s := lateMiddle(t, Config{}, func(s *end) [][]byte {
		bad := part(s, 1000, 2, false)
		bad[100] ^= 1
		return [][]byte{bad, part(s, 2000, 3, true), send(1, "done")}
	}, nil)
	s.recv(t, verbs.RecvWR{ID: 1, SGEs: s.sge(3500, 100)})
	w.must("end", func() bool { return s.got(cm.ClosedEvent) })
	tot := w.b.e.Totals()
	if tot.OOOPlaced != 936 || tot.RxMessages[0] != 0 || tot.RxMessages[3] != 0 || tot.CRCErrors != 1 {
		t.Errorf("%+v", tot)
	}
	if wcs := s.poll(); len(wcs) != 1 || wcs[0].Status != verbs.StatusFlushed || s.mem[1500] != 0 {
		t.Errorf("completions %s", wcString(wcs))
	}
}
