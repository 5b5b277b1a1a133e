package recovery

import (
	"testing"
	"time"

	"tapir/wire/frame"
	"tapir/wire/tcp"
)

const ms = time.Millisecond

// TestReorderingWindow is the table of RFC 8985 section 6.2 step 4.
func TestReorderingWindow(t *testing.T) {
	for _, r := range []struct {
		name      string
		reordered bool
		sacked    int
		phase     Phase
		mult      int
		want      time.Duration
	}{
		{"two reported", false, 2, Open, 0, 2 * ms},
		{"three reported", false, 3, Open, 0, 0},
		{"in recovery", false, 1, Fast, 0, 0},
		{"reordering seen", true, 9, Fast, 0, 2 * ms},
		{"widened", true, 9, Fast, 2, 6 * ms},
		{"at most a round trip", true, 9, Fast, 50, 10 * ms},
	} {
		b := &Scoreboard{Phase: r.phase, RTT: RTT{Min: 8 * ms, Smoothed: 10 * ms}, Sums: Sums{SackedSegs: r.sacked}}
		b.rack.reordered, b.rack.mult = r.reordered, r.mult
		if got := b.reorderWindow(); got != r.want {
			t.Errorf("%s: %v, want %v", r.name, got, r.want)
		}
	}
	b := &Scoreboard{nxt: 100}
	for range 3 {
		b.duplicate(10, 50) // one round trip counts once
	}
	b.una, b.nxt = 100, 200
	b.duplicate(10, 150)
	if b.rack.mult != 2 || b.rack.persist != rackPersist {
		t.Fatalf("%+v", b.rack)
	}
	for range rackPersist {
		b.rack.recovered()
	}
	if b.rack.mult != 0 {
		t.Fatalf("%+v", b.rack)
	}
	if b.probe.end = 300; b.rack.round != 200 {
		t.Fatalf("%+v", b.rack)
	}
	if b.duplicate(10, 300); !b.probe.spurious || b.rack.mult != 0 {
		t.Fatal("a needless probe widened the window")
	}
}

// board has n segments of 100 octets in flight that left a millisecond apart,
// from 1 ms on.
func board(n int) *Scoreboard {
	b := &Scoreboard{Rings: &Rings{}, SACK: true, ReorderAt: frame.Never}
	b.RTT.Add(10*ms, ms, time.Second)
	for i := range n {
		b.Sent(100, 1, 100, false, at(1+i))
	}
	return b
}

func at(ms int) frame.Time { return frame.Time(ms) * frame.Time(time.Millisecond) }

// ack is an acknowledgement that reports the ranges left, right, left...
func (b *Scoreboard) ack(ack uint64, now frame.Time, ranges ...uint64) News {
	var h tcp.Header
	for i := 0; i < len(ranges); i += 2 {
		h.Opts.SACK[i/2] = tcp.SACKBlock{Left: b.Seq(ranges[i]), Right: b.Seq(ranges[i+1])}
		h.Opts.NSACK++
	}
	return b.Acknowledge(&h, ack, true, now)
}

// TestLossIsFoundByTime: what is overtaken waits for the reordering window,
// then it is lost, sent again once, and lost again when that is overtaken.
func TestLossIsFoundByTime(t *testing.T) {
	b := board(4)
	b.ack(0, at(12), 100, 200)
	if b.FindLoss(0, at(12)) || b.ReorderAt <= at(12) || b.Pipe(100) != 300 {
		t.Fatalf("too early: look again at %v, pipe %d", b.ReorderAt, b.Pipe(100))
	}
	if due := b.ReorderAt; !b.Overdue(due) || b.Lost != 100 || b.NextLost() != 0 || b.Pipe(100) != 200 {
		t.Fatalf("%+v at %v", b.Sums, due)
	}
	b.Enter()
	if !b.MayResend(0, 100, 0) {
		t.Fatal("the first retransmission waits for a window")
	}
	b.Retransmitted(0, 1, at(16))
	if b.Lost != 0 || b.ResentSegs != 1 || b.MayResend(0, 100, 300) {
		t.Fatalf("%+v", b.Sums)
	}
	b.Sent(100, 1, 100, false, at(17))
	b.ack(0, at(28), 100, 500)
	if !b.FindLoss(0, at(28)) || b.Lost != 100 || b.ResentSegs != 0 {
		t.Fatalf("the lost retransmission is not found: %+v", b.Sums)
	}
	b.Retransmitted(0, 1, at(28))
	if n := b.ack(500, at(38)); n.Acked != 500 || n.Sent != frame.Never || n.Resent != at(28) || !b.Repaired() || b.Segs() != 0 {
		t.Fatalf("%+v, %d segments", n, b.Segs())
	}
	if b.Leave(); b.Phase != Open || b.Sums != (Sums{}) {
		t.Fatalf("phase %d, %+v", b.Phase, b.Sums)
	}
}

// TestNeedlessRecovery: every retransmission turns out to be a duplicate, so
// that the recovery is undone and the path is known to reorder.
func TestNeedlessRecovery(t *testing.T) {
	b := board(5)
	b.ack(0, at(13), 100, 400)
	if !b.FindLoss(0, at(13)) {
		t.Fatal("three have overtaken the first")
	}
	b.Enter()
	b.Retransmitted(0, 1, at(13))
	b.ack(500, at(16))
	if n := b.ack(500, at(23), 0, 100); !n.Undone || b.Phase != Open || !b.rack.reordered {
		t.Fatalf("%+v, phase %d", n, b.Phase)
	}
}

// TestLostRun: one super-frame holds equal segments, a shorter one at its end
// and no FIN.
func TestLostRun(t *testing.T) {
	b := board(3)
	b.Sent(60, 1, 60, true, at(4))
	b.Sent(100, 2, 100, false, at(5))
	b.SentFin(at(6))
	b.TimedOut()
	for _, r := range []struct {
		i, most, limit int
		cwnd           uint64
		count, octets  int
	}{
		{0, 10, 1000, 1000, 4, 360},
		{0, 2, 1000, 1000, 2, 200},
		{0, 10, 299, 1000, 2, 200},
		{0, 10, 1000, 350, 3, 300},
		{4, 10, 1000, 1000, 2, 200},
		{6, 10, 1000, 1000, 1, 0},
	} {
		if count, octets := b.LostRun(r.i, r.most, r.limit, 100, r.cwnd); count != r.count || octets != r.octets {
			t.Errorf("from %d, %d, %d, window %d: %d segments of %d octets", r.i, r.most, r.limit, r.cwnd, count, octets)
		}
	}
}

// TestDuplicatesAreCountedWithoutSACK is fast retransmit and a partial
// acknowledgement (RFC 6582 section 3.2).
func TestDuplicatesAreCountedWithoutSACK(t *testing.T) {
	b := board(6)
	b.SACK = false
	for i := range 3 {
		if b.FindLoss(0, at(12)) {
			t.Fatalf("lost after %d duplicates", i)
		}
		if n := b.ack(0, at(12)); !n.Duplicate {
			t.Fatalf("%+v", n)
		}
	}
	if b.Pipe(100) != 300 || !b.FindLoss(0, at(12)) {
		t.Fatalf("pipe %d, %+v", b.Pipe(100), b.Sums)
	}
	b.Enter()
	b.Retransmitted(0, 1, at(12))
	n := b.ack(200, at(22))
	if !b.FindLoss(n.Acked, at(22)) || b.Seg(b.NextLost()).Off != 200 || !b.MayResend(0, 100, 0) {
		t.Fatal("a partial acknowledgement tells of the next loss")
	}
}

// TestMemoryIsHeldInFlightOnly: the next board with something in flight takes
// the memory of one that has nothing any more.
func TestMemoryIsHeldInFlightOnly(t *testing.T) {
	b := board(100)
	held := &b.segs.buf[0]
	if b.ack(100*100, at(200)); b.segs.buf != nil {
		t.Fatalf("%d segments kept", len(b.segs.buf))
	}
	other := &Scoreboard{Rings: b.Rings}
	for range 100 {
		other.Sent(100, 1, 100, false, at(201))
	}
	if &other.segs.buf[0] != held {
		t.Fatal("the memory is not used again")
	}
}
