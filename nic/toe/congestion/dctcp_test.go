package congestion

import (
	"math"
	"testing"
)

// TestDCTCPAlpha follows equations 5 and 6 of RFC 8257 section 3.3 for windows of which known
// shares are marked: alpha starts at 1, and g is 1/16.
func TestDCTCPAlpha(t *testing.T) {
	w := Window{}
	w.Open(1000, false)
	if w.Alpha(DCTCP) != 1 {
		t.Fatalf("alpha starts at %v", w.Alpha(DCTCP))
	}
	alpha, ack := 1.0, uint64(0)
	window := func(octets, marked uint64) {
		t.Helper()
		end := ack + octets // of the window: what was sent until its first acknowledgement
		for n := range octets / 1000 {
			ack += 1000
			w.Observe(1000, n < marked/1000, ack, end)
		}
		w.Observe(0, true, ack, end) // acknowledges nothing: nothing is counted
	}
	// The first acknowledgement ends the window that begins with SND.UNA.
	ack = 1000
	w.Observe(1000, false, ack, 11_000)
	alpha = alpha * 15 / 16
	if got := w.Alpha(DCTCP); math.Abs(got-alpha) > 1e-8 {
		t.Fatalf("alpha %v instead of %v", got, alpha)
	}
	for _, marked := range []uint64{0, 10_000, 5_000, 1_000, 0, 0, 3_000, 10_000, 0} {
		w.dctcp.end, w.dctcp.acked, w.dctcp.marked = ack+9_000, 0, 0
		window(10_000, marked)
		alpha = alpha*15/16 + float64(marked)/10_000/16
		if got := w.Alpha(DCTCP); math.Abs(got-alpha) > 1e-8 {
			t.Errorf("%d of 10000 octets marked: alpha %.9f instead of %.9f", marked, got, alpha)
		}
		w.Cwnd = 100_000
		w.React(DCTCP, 40_000, 1000)
		if want := 100_000 * (1 - alpha/2); math.Abs(float64(w.Ssthresh)-want) > 2 {
			t.Errorf("alpha %.4f: 100000 octets become %d, and not %.0f", alpha, w.Ssthresh, want)
		}
	}
}

// TestDCTCPReaction: a mark at alpha 1 halves the window and at alpha 0 leaves it, a loss halves
// what is in flight whatever alpha is (RFC 8257 section 3.5), and two segments are the least.
func TestDCTCPReaction(t *testing.T) {
	for _, c := range []struct {
		alpha      float64
		cwnd       uint64
		mark, loss uint64
	}{
		{1, 100_000, 50_000, 20_000},
		{0.5, 100_000, 75_000, 20_000},
		{0.25, 100_000, 87_500, 20_000},
		{0, 100_000, 100_000, 20_000},
		{1, 3000, 2000, 20_000},
		{1, 1 << 30, 1 << 29, 20_000},
		{0.0625, 64_000, 62_000, 20_000},
	} {
		w := Window{Cwnd: c.cwnd, dctcp: &dctcp{alpha: uint64(c.alpha * one)}}
		if w.React(DCTCP, 40_000, 1000); w.Ssthresh != c.mark {
			t.Errorf("alpha %v: a mark makes %d octets %d, and not %d", c.alpha, c.cwnd, w.Ssthresh, c.mark)
		}
		if w.Reduce(DCTCP, 40_000, 1000); w.Ssthresh != c.loss {
			t.Errorf("alpha %v: a loss with 40000 octets in flight leaves %d", c.alpha, w.Ssthresh)
		}
	}
}

// TestDCTCPBounds: alpha stays between 0 and 1 whatever acknowledgements say.
func TestDCTCPBounds(t *testing.T) {
	w := Window{}
	w.Open(1000, false)
	for i := range uint64(1000) {
		if w.Observe(1<<31, i%3 > 0 || i > 500, i<<31, i<<31); w.Alpha(DCTCP) < 0 || w.Alpha(DCTCP) > 1 {
			t.Fatalf("alpha %v", w.Alpha(DCTCP))
		}
	}
	if w.Alpha(DCTCP) < 0.999 {
		t.Errorf("500 marked windows: alpha %v", w.Alpha(DCTCP))
	}
	for i := range uint64(500) {
		w.Observe(1000, false, (1000+i)<<31, (1000+i)<<31)
	}
	if w.Alpha(DCTCP) > 1e-8 {
		t.Errorf("500 windows without marks: alpha %v", w.Alpha(DCTCP))
	}
}
