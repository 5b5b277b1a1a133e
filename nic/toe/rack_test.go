package toe

import (
	"testing"
	"time"

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
	if i := a.conn.Info(); i.Timeouts != 0 || i.Retransmits > 20 || i.Retransmits-half > 2 || !a.conn.rack.reordered {
		t.Fatalf("%d retransmissions, %d in the first half: %+v", i.Retransmits, half, i)
	}
}

// TestReorderingWindow is the table of RFC 8985 section 6.2 step 4.
func TestReorderingWindow(t *testing.T) {
	const ms = time.Millisecond
	for _, r := range []struct {
		name      string
		reordered bool
		sacked    int
		state     caState
		mult      int
		want      time.Duration
	}{
		{"two reported", false, 2, caOpen, 0, 2 * ms},
		{"three reported", false, 3, caOpen, 0, 0},
		{"in recovery", false, 1, caRecovery, 0, 0},
		{"reordering seen", true, 9, caRecovery, 0, 2 * ms},
		{"widened", true, 9, caRecovery, 2, 6 * ms},
		{"at most a round trip", true, 9, caRecovery, 50, 10 * ms},
	} {
		c := &Conn{}
		c.rtt.min, c.rtt.srtt = 8*ms, 10*ms
		c.rack.reordered, c.rack.mult, c.loss.sackedSegs, c.loss.state = r.reordered, r.mult, r.sacked, r.state
		if got := c.reorderWindow(); got != r.want {
			t.Errorf("%s: %v, want %v", r.name, got, r.want)
		}
	}
	c := &Conn{nxt: 100}
	for range 3 {
		c.duplicate(10, 50) // one round trip counts once
	}
	c.una, c.nxt = 100, 200
	c.duplicate(10, 150)
	if c.rack.mult != 2 || c.rack.persist != rackPersist {
		t.Fatalf("%+v", c.rack)
	}
	for range rackPersist {
		c.rack.recovered()
	}
	if c.rack.mult != 0 {
		t.Fatalf("%+v", c.rack)
	}
	if c.probe.end = 300; c.rack.round != 200 {
		t.Fatalf("%+v", c.rack)
	}
	if c.duplicate(10, 300); !c.probe.spurious || c.rack.mult != 0 {
		t.Fatal("a needless probe widened the window")
	}
}

// TestReorderTimerEnds: no timer is left when everything is acknowledged.
func TestReorderTimerEnds(t *testing.T) {
	w, a, _ := lossy(t, 2*1448, 1)
	w.run(time.Second, func() bool { return a.acked == a.total })
	if a.conn.reoAt != frame.Never {
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
	w.run(5*time.Second, func() bool { return w.a.e.Stats().FastRecoveries == 1 })
	before := a.conn.undo.cwnd
	w.run(5*time.Second, func() bool { return a.acked == a.total })
	b.check(t, a)
	i := a.conn.Info()
	if s := w.a.e.Stats(); s.Undone != 1 || i.FastRecovers != 1 || i.Cwnd < before || !a.conn.rack.reordered {
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
		case from == w.a && len(data) > 0 && !lost && a.conn.una > 100_000:
			lost = true
			return true
		case from == w.b && lost && a.conn.loss.state == caRecovery && w.now < until:
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
