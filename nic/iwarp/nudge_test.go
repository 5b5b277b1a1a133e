package iwarp

import (
	"testing"
	"time"

	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/rdmap"
)

const patience = 5 * time.Millisecond

func nudged(x *pair) uint64 { return x.a.e.Totals().Nudges }

// An initiator whose peer stays silent sends zero-length Writes, fewer and
// fewer, and nobody but the counters notices.
func TestSilentPeersAreNudged(t *testing.T) {
	x := connect(t, toe.Config{}, Config{Nudge: patience}, 4096)
	x.run(nil)
	if n := nudged(x); n != 0 {
		t.Fatalf("%d nudges before the first FPDU", n)
	}
	x.s.recv(t, verbs.RecvWR{})
	x.c.post(t, verbs.SendWR{})
	x.must("send", func() bool { return len(x.s.poll()) == 1 })
	start := x.now
	x.must("nudge", func() bool { return nudged(x) == 1 })
	if d := x.now.Sub(start); d < patience-time.Millisecond || d > patience+time.Millisecond {
		t.Errorf("first nudge after %v", d)
	}
	x.run(nil)
	total := x.b.e.Totals()
	if n := nudged(x); n != nudges || total.RxMessages[rdmap.Write] != nudges || total.RxBytes != 0 || total.Terminates != 0 {
		t.Errorf("%d nudges sent; the peer counts %+v", n, total)
	}
	if d := x.now.Sub(start); d > time.Second {
		t.Errorf("nudging went on for %v", d)
	}
	if len(x.s.poll()) != 1 || len(x.a.async)+len(x.b.async) != 0 {
		t.Error("a nudge was noticed")
	}
	transferAll(t, x, 3000)
}

// A peer that answers, or to which more is sent, is not nudged.
func TestOthersAreNotNudged(t *testing.T) {
	x := connect(t, toe.Config{}, Config{Nudge: patience}, 4096)
	transferAll(t, x, 3000)
	x.run(nil)
	if n := nudged(x); n != 0 {
		t.Errorf("%d nudges to a peer that answers", n)
	}
	x = connect(t, toe.Config{}, Config{Nudge: patience}, 4096)
	for range 2 * nudges {
		x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite, SGEs: x.c.sge(0, 100), RemoteAddr: x.s.mr.Addr(), RKey: x.s.mr.RKey()})
		x.must("acknowledgement", func() bool { return x.a.e.conns.All()[0].log.len() == 0 })
		x.now = x.now.Add(patience - time.Millisecond)
	}
	if n := nudged(x); n != 0 {
		t.Errorf("%d nudges to a peer that is being written to", n)
	}
	x = connect(t, toe.Config{}, Config{Nudge: Never}, 4096)
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite})
	x.run(nil)
	if n := nudged(x); n != 0 {
		t.Errorf("%d nudges though they are off", n)
	}
}

// The end of a connection ends the nudging, and a slow start does not.
func TestNudgingAndClosing(t *testing.T) {
	x := connect(t, toe.Config{}, Config{Nudge: patience, FirstDelay: 10 * patience}, 4096)
	x.c.post(t, verbs.SendWR{Opcode: verbs.OpWrite})
	if err := x.c.id.Disconnect(false, x.now); err != nil {
		t.Fatal(err)
	}
	x.run(nil)
	if n := nudged(x); n != 0 || x.a.e.conns.Len()+x.b.e.conns.Len() != 0 {
		t.Errorf("%d nudges, %d connections left", n, x.a.e.conns.Len()+x.b.e.conns.Len())
	}
}
