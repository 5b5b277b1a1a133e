package iwarp

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"tapir/nic/toe"
	"tapir/nic/verbs"
)

// foreign is memory that the NIC reaches by calls alone, as that of another
// process. It notes them; what lies from broken on cannot be reached.
type foreign struct {
	verbs.Bytes
	reads, writes []int  // lengths
	broken        uint64 // 0: all is there
	wrote         func(off uint64, n int)
}

func (f *foreign) Slice(uint64, int) []byte { return nil }

var errUnmapped = errors.New("bad address")

func (f *foreign) ReadAt(p []byte, off uint64) error {
	f.reads = append(f.reads, len(p))
	if f.broken > 0 && off+uint64(len(p)) > f.broken {
		return errUnmapped
	}
	return f.Bytes.ReadAt(p, off)
}

func (f *foreign) WriteAt(p []byte, off uint64) error {
	f.writes = append(f.writes, len(p))
	if f.broken > 0 && off+uint64(len(p)) > f.broken {
		return errUnmapped
	}
	if f.wrote != nil {
		f.wrote(off, len(p))
	}
	return f.Bytes.WriteAt(p, off)
}

// register makes foreign memory the one that e's requests use.
func (e *end) register(t testing.TB, size int) *foreign {
	t.Helper()
	f := &foreign{Bytes: make([]byte, size)}
	mr, err := e.pd.RegMemory(f, 1<<40, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	e.mr, e.mem = mr, f.Bytes
	return f
}

func foreignPair(t testing.TB, tcp toe.Config, cfg Config) (x *pair, c, s *foreign) {
	const size = 1 << 20
	x = connect(t, tcp, cfg, size)
	c, s = x.c.register(t, size), x.s.register(t, size)
	fill(c.Bytes, 3)
	return x, c, s
}

const long = 64 << 10

// longWR is a request of long octets between the starts of both memories.
func longWR(x *pair, op verbs.Opcode) verbs.SendWR {
	return verbs.SendWR{Opcode: op, Flags: verbs.Signaled, SGEs: x.c.sge(0, long), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()}
}

// A long message is read in few calls, and placed in few where it comes in
// batches.
func TestForeignMemoryInFewCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		tcp  toe.Config
		cfg  Config
		op   verbs.Opcode
		most int // calls of each kind
	}{
		{"Write", toe.Config{MaxSegs: 44}, Config{}, verbs.OpWrite, 6},
		{"Write in single segments", toe.Config{}, Config{}, verbs.OpWrite, 20},
		{"Write with markers", toe.Config{MaxSegs: 44}, Config{Markers: true}, verbs.OpWrite, 12},
		{"Read", toe.Config{MaxSegs: 44}, Config{}, verbs.OpRead, 6},
		{"Send", toe.Config{MaxSegs: 44}, Config{}, verbs.OpSend, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, cm, sm := foreignPair(t, c.tcp, c.cfg)
			for range 20 { // the window grows
				wr := longWR(x, verbs.OpWrite)
				wr.Flags = 0
				x.c.post(t, wr)
			}
			x.run(nil)
			from, to := cm, sm
			if c.op == verbs.OpRead {
				from, to = sm, cm
			}
			fill(from.Bytes[:long], 9)
			x.s.recv(t, verbs.RecvWR{SGEs: x.s.sge(0, long)})
			cm.reads, cm.writes, sm.reads, sm.writes = nil, nil, nil, nil
			x.c.post(t, longWR(x, c.op))
			x.must("completion", func() bool { return len(x.c.poll()) == 1 })
			x.run(nil)
			if x.c.wcs[0].Status != verbs.StatusSuccess || !bytes.Equal(from.Bytes[:long], to.Bytes[:long]) {
				t.Errorf("%s octets equal: %v", wcString(x.c.wcs), bytes.Equal(from.Bytes[:long], to.Bytes[:long]))
			}
			if len(from.reads) > c.most || len(to.writes) > c.most || len(from.writes)+len(to.reads) > 0 {
				t.Errorf("%d reads %v, %d writes %v", len(from.reads), from.reads, len(to.writes), to.writes)
			}
		})
	}
}

// Under loss every octet is placed once, and those of a message's end behind
// all others.
func TestForeignMemoryUnderLoss(t *testing.T) {
	for _, segs := range []int{1, 44} {
		x, _, sm := foreignPair(t, toe.Config{MaxSegs: segs}, Config{})
		x.a.out.drop = func(n int, _ frameArg) bool { return n%17 == 5 }
		const n, count = 50_000, 8
		placed := make([]bool, len(sm.Bytes))
		sm.wrote = func(off uint64, k int) {
			for i := off; i < off+uint64(k); i++ {
				if placed[i] {
					t.Fatalf("octet %d is placed again", i)
				}
				placed[i] = true
			}
			for m := range count {
				if last := (m + 1) * n; placed[last-1] && slices.Contains(placed[m*n:last], false) {
					t.Fatalf("the end of message %d is placed before the rest", m)
				}
			}
		}
		for m := range count {
			x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: x.c.sge(m*n, n), RemoteAddr: x.s.mr.Addr() + uint64(m*n), RKey: x.s.mr.RKey()})
		}
		x.must("completions", func() bool { return len(x.c.poll()) == count })
		x.run(nil)
		if !bytes.Equal(x.c.mem[:n*count], x.s.mem[:n*count]) {
			t.Error("octets differ")
		}
		if x.b.e.Totals().OOOPlaced == 0 {
			t.Error("nothing came before its turn")
		}
	}
}

// A receive completes after its octets are there, and a Read or an atomic
// operation finds what came before it.
func TestForeignMemoryOrder(t *testing.T) {
	x, _, sm := foreignPair(t, toe.Config{MaxSegs: 44}, Config{})
	to, key := x.s.mr.Addr(), x.s.mr.RKey()
	x.s.recv(t, verbs.RecvWR{SGEs: append(x.s.sge(0, 3000), x.s.sge(5000, 7000)...)})
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpSend, SGEs: x.c.sge(0, 10_000)})
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.c.sge(100_000, 30_000), RemoteAddr: to + 100_000, RKey: key})
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpRead, SGEs: x.c.sge(200_000, 30_000), RemoteAddr: to + 100_000, RKey: key, Flags: verbs.Signaled})
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpFetchAdd, SGEs: x.c.sge(300_000, 8), RemoteAddr: to + 129_984, RKey: key, Flags: verbs.Signaled})
	x.must("receive", func() bool {
		if len(x.s.poll()) == 0 {
			return false
		}
		if !bytes.Equal(sm.Bytes[:3000], x.c.mem[:3000]) || !bytes.Equal(sm.Bytes[5000:12_000], x.c.mem[3000:10_000]) {
			t.Error("the receive completed before its octets were placed")
		}
		return true
	})
	x.must("Read and atomic", func() bool { return len(x.c.poll()) == 2 })
	if !bytes.Equal(x.c.mem[200_000:230_000], x.c.mem[100_000:130_000]) || !bytes.Equal(x.c.mem[300_000:300_008], x.c.mem[129_984:129_992]) {
		t.Errorf("%s: what was read differs from what was written", wcString(x.c.wcs))
	}
}

// Memory that goes away under a connection ends the connection, whenever the
// NIC finds out; nothing is said to have come that has not.
func TestForeignMemoryGone(t *testing.T) {
	for _, c := range []struct {
		name   string
		op     verbs.Opcode
		at     uint64
		client bool // it is the client's
		wcs    int
	}{
		{"source", verbs.OpWrite, 40_000, true, 1}, {"sink of a Write", verbs.OpWrite, 40_000, false, 1},
		{"end of a Write's sink", verbs.OpWrite, long - 1, false, 1}, {"sink of a Send", verbs.OpSend, 40_000, false, 1},
		{"source of a Read", verbs.OpRead, 40_000, false, 1}, {"sink of a Read", verbs.OpRead, 40_000, true, 1},
	} {
		for _, segs := range []int{1, 44} {
			x, cm, sm := foreignPair(t, toe.Config{MaxSegs: segs}, Config{})
			x.s.recv(t, verbs.RecvWR{SGEs: x.s.sge(0, long)})
			if c.client {
				cm.broken = c.at
			} else {
				sm.broken = c.at
			}
			x.c.post(t, longWR(x, c.op))
			x.run(nil)
			if x.c.qp.State() != verbs.Err || x.s.qp.State() != verbs.Err {
				t.Errorf("%s, %d: %v and %v", c.name, segs, x.c.qp.State(), x.s.qp.State())
			}
			sent := c.op != verbs.OpRead && !c.client // and so complete
			if wcs := x.c.poll(); len(wcs) != c.wcs || wcs[0].Status == verbs.StatusSuccess && !sent {
				t.Errorf("%s, %d: %s", c.name, segs, wcString(wcs))
			}
			if wcs := x.s.poll(); len(wcs) != 1 || wcs[0].Status == verbs.StatusSuccess {
				t.Errorf("%s, %d: receive %s", c.name, segs, wcString(wcs))
			}
			if err := errors.Join(x.a.dev.FlushWrites(), x.b.dev.FlushWrites()); err != nil {
				t.Errorf("%s, %d: nobody was told of %v", c.name, segs, err)
			}
		}
	}
}

func TestForeignMemoryAllocatesNothing(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend} {
		x, cm, sm := foreignPair(t, toe.Config{}, Config{})
		turn := streamer(t, x, op, long, 16)
		for range 400 {
			turn()
			cm.reads, cm.writes, sm.reads, sm.writes = cm.reads[:0], cm.writes[:0], sm.reads[:0], sm.writes[:0]
		}
		if n := testing.AllocsPerRun(200, func() {
			turn()
			cm.reads, cm.writes, sm.reads, sm.writes = cm.reads[:0], cm.writes[:0], sm.reads[:0], sm.writes[:0]
		}); n != 0 {
			t.Errorf("%v: %v allocations per turn", op, n)
		}
	}
}

// A window that is bound anew under the same STag while a Read is answered from
// it opens the other memory from then on: nothing comes from what was read ahead
// of the old one.
func TestReboundWindowOpensOtherMemory(t *testing.T) {
	x := connect(t, toe.Config{}, Config{Markers: true}, 1<<20)
	var regions [2]*verbs.MR
	for i := range regions {
		mem := &foreign{Bytes: bytes.Repeat([]byte{byte(i + 1)}, long)}
		mr, err := x.s.pd.RegMemory(mem, 1<<40, verbs.RemoteRead|verbs.MWBind)
		if err != nil {
			t.Fatal(err)
		}
		regions[i] = mr
	}
	first, again := regions[0], regions[1]
	w, err := x.s.pd.AllocMW(verbs.MWType2A)
	if err != nil {
		t.Fatal(err)
	}
	bind := func(mr *verbs.MR) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.Bind{MW: w, Key: 7, MR: mr, Addr: mr.Addr(), Length: long,
			Access: verbs.RemoteRead | verbs.ZeroBased}}
	}
	x.s.post(t, bind(first))
	x.must("bound", func() bool { return w.Bound() == first })
	stag := w.RKey()
	wr := longWR(x, verbs.OpRead)
	wr.RKey, wr.RemoteAddr = stag, 0
	x.c.post(t, wr)
	c := x.b.e.conns.All()[0]
	x.must("payload read ahead", func() bool { return c.retain.ahead.n > 1500 })
	sent := int(c.log.end)
	if err := x.s.qp.InvalidateRemote(stag); err != verbs.FaultNone {
		t.Fatal(err)
	}
	x.s.post(t, bind(again))
	x.s.qp.NextSend() // the binding's turn
	if w.Bound() != again || w.RKey() != stag {
		t.Fatal("not bound again")
	}
	x.must("completion", func() bool { return len(x.c.poll()) == 1 })
	if at := bytes.IndexByte(x.c.mem[:long], 2); x.c.wcs[0].Status != verbs.StatusSuccess || at < 0 || at > sent ||
		slices.Contains(x.c.mem[at:long], 1) {
		t.Errorf("%s: the other memory from %d on, %d octets of the stream were cut before", wcString(x.c.wcs), at, sent)
	}
}
