package congestion

import (
	"math/bits"
	"time"

	"tapir/wire/frame"
)

// cubic is the state of RFC 9438, in octets and milliseconds. C is 0.4
// segments per cubed second and beta is 0.7.
type cubic struct {
	wmax      uint64     // W_max: the window before the last reduction
	prior     uint64     // cwnd_prior: the same without fast convergence
	est       uint64     // W_est: what Reno would have by now
	estCredit uint64     // towards the next octet of est, times 17 and the window
	epoch     frame.Time // begin of congestion avoidance; 0: not begun
	last      frame.Time // the last acknowledgement in it
	k         int32      // time from epoch until the window is wmax again
	timeout   bool       // the last reduction was a timeout
}

// reduced notes a reduction from window cwnd (sections 4.6 and 4.7).
func (q *cubic) reduced(cwnd uint64) {
	q.prior = cwnd
	if cwnd < q.wmax {
		cwnd = cwnd * 17 / 20 // fast convergence: leave room to a newcomer
	}
	q.wmax, q.epoch, q.timeout = cwnd, 0, false
}

// unused stops the clock while the sender does not fill the window (section
// 5.8).
func (q *cubic) unused(now frame.Time) {
	if q.epoch != 0 {
		q.epoch += now - q.last
		q.last = now
	}
}

// begin starts congestion avoidance with window cwnd (sections 4.2 and 4.8).
func (q *cubic) begin(cwnd, mss uint64, now frame.Time) {
	q.epoch, q.last = now, now
	q.est, q.estCredit = cwnd, 0
	if q.timeout || q.wmax <= cwnd {
		q.wmax, q.k, q.timeout = cwnd, 0, false
		return
	}
	gap := min(q.wmax-cwnd, 1<<31)
	q.k = int32(cubeRoot(gap * 2_500_000_000 / mss))
}

// window is W_cubic at t milliseconds of the epoch (equation 1).
func (q *cubic) window(t int64, mss uint64) uint64 {
	d := min(max(t-int64(q.k), -maxCubicMS), maxCubicMS)
	a := uint64(max(d, -d))
	hi, lo := bits.Mul64(a*a*a, 4*mss)
	w, _ := bits.Div64(hi, lo, 10_000_000_000)
	if d < 0 {
		return q.wmax - min(w, q.wmax)
	}
	return q.wmax + w
}

// maxCubicMS bounds the distance from the plateau so that nothing overflows.
const maxCubicMS = 1_000_000

// growCubic is congestion avoidance of RFC 9438 after acked octets.
func (w *Window) growCubic(acked, mss uint64, now frame.Time, rtt time.Duration) {
	q := &w.cubic
	if q.epoch == 0 {
		q.begin(w.Cwnd, mss, now)
	}
	q.last = now
	share := uint64(9) // alpha = 9/17, and 1 above the window before (section 4.3)
	if q.est >= q.prior {
		share = 17
	}
	q.estCredit += share * acked * mss
	q.est += q.estCredit / (17 * w.Cwnd)
	q.estCredit %= 17 * w.Cwnd
	t := now.Sub(q.epoch)
	if q.window(t.Milliseconds(), mss) < q.est {
		w.Cwnd = max(w.Cwnd, q.est)
		return
	}
	target := min(q.window((t+rtt).Milliseconds(), mss), w.Cwnd+w.Cwnd/2)
	if target > w.Cwnd {
		w.credit += (target - w.Cwnd) * acked
		n := w.credit / w.Cwnd
		w.credit -= n * w.Cwnd
		w.Cwnd += n
	}
}

// cubeRoot is the largest r with r*r*r <= x.
func cubeRoot(x uint64) (r uint64) {
	for s := 63; s >= 0; s -= 3 {
		r *= 2
		if b := 3*r*(r+1) + 1; x>>s >= b {
			x -= b << s
			r++
		}
	}
	return r
}
