package iwarp

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
)

// elements are places in a memory, out of order, of several lengths.
type elements [][2]int

var someElements = elements{{9000, 5001}, {100, 3}, {0, 0}, {20_000, 11_000}}

const someOctets = 5001 + 3 + 11_000

func (l elements) of(e *end) (list []verbs.SGE) {
	for _, p := range l {
		list = append(list, e.sge(p[0], p[1])...)
	}
	return list
}

// gather returns what lies in the elements of mem.
func (l elements) gather(mem []byte) (b []byte) {
	for _, p := range l {
		b = append(b, mem[p[0]:p[0]+p[1]]...)
	}
	return b
}

// scatter puts b there.
func (l elements) scatter(mem, b []byte) {
	for _, p := range l {
		copy(mem[p[0]:p[0]+p[1]], b)
		b = b[p[1]:]
	}
}

// Requests of several elements move what requests of one would, on a quiet
// wire and on one that loses and reorders, and touch nothing else.
func TestSeveralElements(t *testing.T) {
	for _, noisy := range []bool{false, true} {
		x := connect(t, toe.Config{}, Config{}, 1<<16)
		if r := rand.New(rand.NewPCG(3, 4)); noisy {
			for _, n := range []*node{x.a, x.b} {
				n.out.jitter = func() time.Duration { return time.Duration(r.IntN(4)) * 30 * time.Microsecond }
				n.out.drop = func(int, frameArg) bool { return r.IntN(40) == 0 }
			}
		}
		const at = 40_000
		for i := range 24 {
			op := []verbs.Opcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead}[i%3]
			x.c.wcs, x.s.wcs = nil, nil
			fill(x.c.mem, 2*i)
			fill(x.s.mem, 2*i+1)
			mine, peers := bytes.Clone(x.c.mem), bytes.Clone(x.s.mem)
			switch op {
			case verbs.OpSend:
				someElements.scatter(peers, someElements.gather(mine))
				x.s.recv(t, verbs.RecvWR{SGEs: someElements.of(x.s)})
			case verbs.OpWrite:
				copy(peers[at:], someElements.gather(mine))
			case verbs.OpRead:
				someElements.scatter(mine, peers[at:])
			}
			x.c.post(t, verbs.SendWR{Opcode: op, Flags: verbs.Signaled, SGEs: someElements.of(x.c), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr() + at})
			x.must(op.String(), func() bool { return len(x.c.poll()) == 1 && (op != verbs.OpSend || len(x.s.poll()) == 1) })
			if wc := x.c.wcs[0]; wc.Status != verbs.StatusSuccess || wc.ByteLen != someOctets {
				t.Errorf("%v: %s", op, wcString(x.c.wcs))
			}
			if op == verbs.OpWrite {
				x.must("its octets", func() bool { return bytes.Equal(x.s.mem, peers) })
			}
			if !bytes.Equal(x.c.mem, mine) || !bytes.Equal(x.s.mem, peers) {
				t.Errorf("%v: memory differs", op)
			}
		}
		if early := x.a.e.Totals().OOOPlaced; noisy != (early > 0) {
			t.Errorf("noisy %v: %d octets of responses placed early", noisy, early)
		}
	}
}

// The sink of a Read may lie in several regions, the tagged offset on the wire
// is that of the first, and may even wrap: it is the sink's own business.
func TestSinkInSeveralRegions(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 1<<16)
	fill(x.s.mem, 1)
	top, low := make([]byte, 100), make([]byte, 40_000)
	last, err := x.c.pd.RegMemory(verbs.Bytes(top), ^uint64(0)-100, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x.c.pd.RegMR(low, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpRead, Flags: verbs.Signaled, RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr(), SGEs: []verbs.SGE{
		{Addr: last.Addr(), Length: 100, LKey: last.LKey()}, {Addr: other.Addr(), Length: 40_000, LKey: other.LKey()}}})
	x.must("completion", func() bool { return len(x.c.poll()) == 1 })
	if x.c.wcs[0].Status != verbs.StatusSuccess || !bytes.Equal(top, x.s.mem[:100]) || !bytes.Equal(low, x.s.mem[100:40_100]) {
		t.Errorf("%s", wcString(x.c.wcs))
	}
}

// An element that may not be written ends the connection before anything of
// the Read is sent; one that vanishes under the response, when it is reached.
func TestBadElementOfSink(t *testing.T) {
	for _, vanish := range []bool{false, true} {
		x := connect(t, toe.Config{}, Config{}, 200<<10)
		access := verbs.LocalWrite
		if !vanish {
			access = verbs.RemoteRead
		}
		second, err := x.c.pd.RegMR(make([]byte, 100<<10), access)
		if err != nil {
			t.Fatal(err)
		}
		x.c.post(t, verbs.SendWR{ID: 1, Opcode: verbs.OpRead, RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr(),
			SGEs: append(x.c.sge(0, 100<<10), verbs.SGE{Addr: second.Addr(), Length: 100 << 10, LKey: second.LKey()})})
		x.c.post(t, verbs.SendWR{ID: 2, Opcode: verbs.OpRead, SGEs: x.c.sge(0, 8), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
		if vanish {
			x.must("some of it", func() bool { return x.a.e.Totals().RxFPDUs > 10 })
			if err := second.Dereg(); err != nil {
				t.Fatal(err)
			}
		}
		x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
		if wcs := x.c.poll(); len(wcs) != 2 || wcs[0].Status != verbs.StatusLocalProtection || wcs[1].Status != verbs.StatusFlushed {
			t.Errorf("vanishing %v: completions %s", vanish, wcString(wcs))
		}
		if sent := x.a.e.Totals().TxMessages[rdmap.ReadRequestOp]; vanish != (sent > 0) {
			t.Errorf("vanishing %v: %d Read Requests sent", vanish, sent)
		}
	}
}

// Too many elements are refused when they are posted, with the index of the
// request; what was in front of it goes out.
func TestTooManyElements(t *testing.T) {
	x := connect(t, toe.Config{}, Config{}, 4096)
	read := verbs.SendWR{Opcode: verbs.OpRead, Flags: verbs.Signaled, RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr(), SGEs: x.c.sge(0, 8)}
	five, withInv := read, read
	five.SGEs = bytesOf(x.c, 5)
	withInv.Opcode, withInv.SGEs = verbs.OpReadInv, bytesOf(x.c, 2)
	for i, bad := range []verbs.SendWR{five, withInv} {
		if n, err := x.c.qp.PostSend(read, read, bad, read); n != 2 || !errors.Is(err, verbs.ErrTooManySGE) {
			t.Errorf("%d: %d posted, %v", i, n, err)
		}
		x.must("the good ones", func() bool { return len(x.c.poll()) == 2*(i+1) })
	}
	if n, err := x.s.qp.PostRecv(verbs.RecvWR{}, verbs.RecvWR{SGEs: bytesOf(x.s, 5)}); n != 1 || !errors.Is(err, verbs.ErrTooManySGE) {
		t.Errorf("receive: %d posted, %v", n, err)
	}
}

// bytesOf are n elements of one octet.
func bytesOf(e *end, n int) (list []verbs.SGE) {
	for i := range n {
		list = append(list, e.sge(i, 1)...)
	}
	return list
}
