package toe

import (
	"testing"
	"time"

	"tapir/nic/toe/recovery"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// lossy connects two apps over a path of 10 ms and loses the segments of a
// whose sendings, counted from 1, are in lost.
func lossy(t *testing.T, total uint64, lost ...int) (w *world, a, b *app) {
	w = newWorld(t, 1, Config{}, Config{}, faults{delay: 5 * time.Millisecond}, false)
	a, b = newApp(total, 1), newApp(0, 2)
	w.connect(a, b)
	sent := 0
	w.block = func(from *node, th *tcp.Header, data []byte) bool {
		if from != w.a || len(data) == 0 {
			return false
		}
		sent++
		for _, n := range lost {
			if sent == n {
				return true
			}
		}
		return false
	}
	return w, a, b
}

// TestRackNeedsNoThreeDuplicates loses a segment that only one follows: a
// quarter of a round trip after the news, it goes out again.
func TestRackNeedsNoThreeDuplicates(t *testing.T) {
	w, a, _ := lossy(t, 2*1448, 1)
	w.run(time.Second, func() bool { return a.acked == a.total })
	i := a.conn.Info()
	if took := time.Duration(w.now); i.Timeouts != 0 || i.FastRecovers != 1 || w.a.e.Stats().TailProbes != 0 || took > 33*time.Millisecond {
		t.Fatalf("took %v: %+v", took, i)
	}
}

// TestRackFindsLostRetransmission loses a segment and its retransmission.
func TestRackFindsLostRetransmission(t *testing.T) {
	w, a, b := lossy(t, 60*1448, 3, 11)
	w.run(5*time.Second, func() bool { return a.acked == a.total })
	b.check(t, a)
	if i := a.conn.Info(); i.Timeouts != 0 || i.Retransmits != 2 {
		t.Fatalf("%+v", i)
	}
}

// TestRackLearnsReordering holds back a segment in every twenty for half a
// round trip: what the first ones cost teaches to wait.
func TestRackLearnsReordering(t *testing.T) {
	w, a, b := lossy(t, 2000*1448)
	n := 0
	w.late = func(from *node) (d time.Duration) {
		if from == w.a {
			if n++; n%20 == 0 {
				d = 4 * time.Millisecond
			}
		}
		return d
	}
	half := uint64(0)
	w.run(30*time.Second, func() bool { return a.acked >= a.total/2 })
	half = a.conn.Info().Retransmits
	w.run(30*time.Second, func() bool { return a.acked == a.total })
	b.check(t, a)
	if i := a.conn.Info(); i.Timeouts != 0 || i.Retransmits > 20 || i.Retransmits-half > 2 {
		t.Fatalf("%d retransmissions, %d in the first half: %+v", i.Retransmits, half, i)
	}
}

// TestReorderTimerEnds: no timer is left when everything is acknowledged.
func TestReorderTimerEnds(t *testing.T) {
	w, a, _ := lossy(t, 2*1448, 1)
	w.run(time.Second, func() bool { return a.acked == a.total })
	if a.conn.snd.ReorderAt != frame.Never {
		t.Fatal("the reordering timer runs")
	}
}

// TestRecoveryIsUndone delays a segment for so long that it is sent again:
// the report of the duplicate gives the window back.
func TestRecoveryIsUndone(t *testing.T) {
	w, a, b := lossy(t, 200*1448)
	n := 0
	w.late = func(from *node) (d time.Duration) {
		if n++; from == w.a && n == 60 {
			d = 8 * time.Millisecond
		}
		return d
	}
	before := uint64(0)
	w.run(5*time.Second, func() bool {
		if w.a.e.Stats().FastRecoveries == 1 {
			return true
		}
		if a.established {
			before = a.conn.cc.Cwnd
		}
		return false
	})
	w.run(5*time.Second, func() bool { return a.acked == a.total })
	b.check(t, a)
	i := a.conn.Info()
	if s := w.a.e.Stats(); s.Undone != 1 || i.FastRecovers != 1 || i.Cwnd < before {
		t.Fatalf("%d undone, window %d before: %+v", s.Undone, before, i)
	}
}

// TestForeignDuplicatesUndoNothing: the network repeats what was never
// retransmitted, while one segment is really lost.
func TestForeignDuplicatesUndoNothing(t *testing.T) {
	w, a, b := lossy(t, 100*1448, 12)
	w.watch(func(off uint64, n int) {
		if w.f.dup = 1000; off == 11*1448 {
			w.f.dup = 0
		}
	})
	w.run(5*time.Second, func() bool { return a.acked == a.total })
	b.check(t, a)
	if s := w.a.e.Stats(); s.FastRecoveries == 0 || s.Undone != 0 {
		t.Fatalf("%d recoveries, %d undone", s.FastRecoveries, s.Undone)
	}
}

// TestEachDuplicateIsReported sends several duplicates in one batch.
func TestEachDuplicateIsReported(t *testing.T) {
	p := newRawPeer(t, Config{})
	p.listen(quietApp(0))
	p.opts = tcp.Options{SACKPermitted: true}
	p.in(tcp.SYN, 0, 0, "")
	p.poll()
	p.opts = tcp.Options{}
	p.in(pa, 1, 1, "abcdef")
	p.poll()
	p.in(tcp.ACK, 1, 1, "ab")
	p.in(tcp.ACK, 5, 1, "ef")
	p.expect("ACK 1 ack 7 sack 1-3; ACK 1 ack 7 sack 5-7")
	p.expect("")
}

// TestLostAckInRecovery loses the acknowledgements of a whole round trip in
// the middle of a recovery: a probe makes up for them, not the timeout.
func TestLostAckInRecovery(t *testing.T) {
	w := newWorld(t, 1, Config{}, Config{}, faults{delay: 100 * time.Microsecond}, false)
	a, b := newApp(400_000, 1), newApp(0, 2)
	a.closeAtEnd = true
	w.connect(a, b)
	lost, mute, until := false, 0, frame.Never
	w.block = func(from *node, th *tcp.Header, data []byte) bool {
		switch {
		case from == w.a && len(data) > 0 && !lost && a.conn.snd.Una() > 100_000:
			lost = true
			return true
		case from == w.b && lost && a.conn.snd.Phase == recovery.Fast && w.now < until:
			until = min(until, w.now.Add(200*time.Microsecond))
			mute++
			return true
		}
		return false
	}
	if !w.run(time.Minute, func() bool { return a.closed && b.closed }) {
		t.Fatal("stuck")
	}
	if i := a.conn.Info(); mute == 0 || i.Timeouts != 0 || i.FastRecovers != 1 || w.a.e.Stats().TailProbes == 0 {
		t.Fatalf("%d acknowledgements lost: %+v", mute, i)
	}
	b.check(t, a)
}
