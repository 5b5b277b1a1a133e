package iwarp

import (
	"errors"
	"slices"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/verbs"
)

// work posts a mixture of requests, more Reads and atomics than ORD among
// them, and returns how many.
func (x *pair) work(from, to *end) int {
	x.t.Helper()
	rkey, at := to.mr.RKey(), to.mr.Addr()
	n := 0
	for range 6 {
		for _, wr := range []verbs.SendWR{
			{Opcode: verbs.OpWrite, SGEs: from.sge(0, 20_000), RKey: rkey, RemoteAddr: at + 64},
			{Opcode: verbs.OpRead, SGEs: from.sge(30_000, 9000), RKey: rkey, RemoteAddr: at + 30_000},
			{Opcode: verbs.OpFetchAdd, SGEs: from.sge(40_000, 8), RKey: rkey, RemoteAddr: at,
				Atomic: verbs.Operands{CompareAdd: 1}},
			{Opcode: verbs.OpSend, SGEs: from.sge(0, 10), Flags: verbs.Fence},
		} {
			wr.ID, wr.Flags = uint64(n), wr.Flags|verbs.Signaled
			from.post(x.t, wr)
			n++
		}
		to.recv(x.t, verbs.RecvWR{SGEs: to.sge(60_000, 10)})
	}
	return n
}

// atomicPair is connect with regions open to atomic operations.
func atomicPair(t *testing.T, cfg Config) *pair {
	x := connect(t, toe.Config{}, cfg, 1<<16)
	for _, e := range []*end{x.c, x.s} {
		access := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
		if err := e.mr.Rereg(verbs.Rereg{Access: &access}); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// sends are the completions of requests to the send queue.
func (e *end) sends() (list []verbs.WC) {
	return slices.DeleteFunc(slices.Clone(e.poll()), func(wc verbs.WC) bool { return wc.Opcode == verbs.WCRecv })
}

func drained(n *node) (times int) {
	for _, ev := range n.async {
		if ev.Type == verbs.EventSQDrained {
			times++
		}
	}
	return times
}

// SQD finishes everything in the send queue first, Reads and atomics that are
// under way or still wait for a slot included, then says so and closes. New
// requests are refused meanwhile.
func TestDrainFinishesReadsAndAtomics(t *testing.T) {
	for _, depth := range []uint16{1, 4} {
		x := atomicPair(t, Config{IRD: depth, ORD: depth})
		n := x.work(x.c, x.s)
		if err := x.c.qp.Modify(verbs.SQD); err != nil {
			t.Fatal(err)
		}
		if _, err := x.c.qp.PostSend(verbs.SendWR{}); !errors.Is(err, verbs.ErrState) || x.c.qp.State().IWARP() != "CLOSING" {
			t.Errorf("posting in %v: %v", x.c.qp.State(), err)
		}
		x.must("end", func() bool {
			if drained(x.a) == 0 && x.c.got(cm.Disconnected) {
				t.Fatal("the connection ends before the queue is drained")
			}
			return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent)
		})
		x.good(x.c, n)
		if drained(x.a) != 1 || x.c.id.Reason() != goodClose || x.c.qp.State() != verbs.Err {
			t.Errorf("drained %d times, %v, %v", drained(x.a), x.c.id.Reason(), x.c.qp.State())
		}
	}
}

// good checks that n requests of e have completed in order, without fault.
func (x *pair) good(e *end, n int) {
	x.t.Helper()
	wcs := e.sends()
	for i, wc := range wcs {
		if wc.Status != verbs.StatusSuccess || wc.ID != uint64(i) {
			x.t.Fatalf("request %d: %s", i, wcString(wcs))
		}
	}
	if len(wcs) != n {
		x.t.Errorf("%d requests of %d completed", len(wcs), n)
	}
}

// Both sides may drain at the same time: each still answers the other's
// Reads, and sends what is queued when the other has finished.
func TestBothSidesDrain(t *testing.T) {
	x := atomicPair(t, Config{IRD: 2, ORD: 2})
	n, m := x.work(x.c, x.s), x.work(x.s, x.c)
	start := x.now
	for _, e := range []*end{x.c, x.s} {
		if err := e.qp.Modify(verbs.SQD); err != nil {
			t.Fatal(err)
		}
	}
	x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
	x.good(x.c, n)
	x.good(x.s, m)
	if d := x.now.Sub(start).Seconds(); d > 1 {
		t.Errorf("took %v s", d)
	}
}

// A close that begins after a long silence has all its time: the peer gets the
// Terminate of an abortive one, and a graceful one is not cut short.
func TestCloseAfterSilence(t *testing.T) {
	for _, end := range []func(x *pair) error{
		func(x *pair) error { return x.c.qp.Modify(verbs.Err) },
		func(x *pair) error { return x.c.id.Disconnect(true, x.now) },
		func(x *pair) error { return x.c.qp.Modify(verbs.SQD) },
		func(x *pair) error { return x.c.id.Disconnect(false, x.now) },
	} {
		x := connect(t, toe.Config{}, Config{}, 4096)
		x.run(nil)
		x.now = x.now.Add(time.Hour)
		x.c.post(t, verbs.SendWR{Opcode: verbs.OpRead, Flags: verbs.Signaled, SGEs: x.c.sge(0, 4096), RKey: x.s.mr.RKey(),
			RemoteAddr: x.s.mr.Addr()})
		if err := end(x); err != nil {
			t.Fatal(err)
		}
		x.must("end", func() bool { return x.c.got(cm.ClosedEvent) && x.s.got(cm.ClosedEvent) })
		why := x.s.id.Reason()
		if wcs := x.c.poll(); why == terminateReceived && wcs[0].Status == verbs.StatusFlushed ||
			why == goodClose && wcs[0].Status == verbs.StatusSuccess {
			continue
		}
		t.Errorf("the peer sees %v, completions %s", why, wcString(x.c.wcs))
	}
}

// SQD has a time limit, too, however it was asked for.
func TestDrainOfADeadPeer(t *testing.T) {
	for _, end := range []func(x *pair) error{
		func(x *pair) error { return x.c.qp.Modify(verbs.SQD) },
		func(x *pair) error { return x.c.id.Disconnect(false, x.now) },
	} {
		x := connect(t, toe.Config{}, Config{CloseTimeout: 2 * time.Second}, 4096)
		x.c.post(t, verbs.SendWR{Opcode: verbs.OpRead, SGEs: x.c.sge(0, 64), RKey: x.s.mr.RKey(), RemoteAddr: x.s.mr.Addr()})
		x.b.out.drop = func(int, frameArg) bool { return true }
		start := x.now
		if err := end(x); err != nil {
			t.Fatal(err)
		}
		x.must("end", func() bool { return x.c.got(cm.ClosedEvent) })
		if d := x.now.Sub(start); d > 5*time.Second || x.c.id.Reason() != llpTimeout {
			t.Errorf("after %v: %v", d, x.c.id.Reason())
		}
	}
}
