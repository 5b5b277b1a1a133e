package pdelay

import (
	"math"

	"tapir/wire/frame"
)

const (
	// window is how many exchanges a rate ratio spans.
	window = 8
	// sudden is a change from one exchange to the next that is no drift: a
	// clock was stepped or steered, and the window begins anew.
	sudden = 200e-6
	// absurd is a difference from 1 that no clock has.
	absurd = 0.5
)

// ratio is neighborRateRatio: how fast the neighbor's clock runs against ours,
// from the stamps of two exchanges (IEEE 802.1AS-2020 section 11.2.19.3.3).
type ratio struct {
	t3, t4 [window]frame.Stamp // a ring
	n      int                 // exchanges since the window began
	value  float64
	ok     bool
}

func (r *ratio) sample(t3, t4 frame.Stamp) {
	if r.n > 0 {
		r.update(t3, t4)
	}
	r.t3[r.n%window], r.t4[r.n%window] = t3, t4
	r.n++
}

// update computes the ratio over the window and begins it anew if the last
// exchange does not fit.
func (r *ratio) update(t3, t4 frame.Stamp) {
	last := (r.n - 1) % window
	first := 0
	if r.n >= window {
		first = r.n % window
	}
	recent, ok := between(t3-r.t3[last], t4-r.t4[last])
	if !ok {
		*r = ratio{}
		return
	}
	if r.ok && math.Abs(recent-r.value) > sudden {
		r.t3[0], r.t4[0], r.n = r.t3[last], r.t4[last], 1
		r.value = recent
		return
	}
	r.value, r.ok = between(t3-r.t3[first], t4-r.t4[first])
}

func between(theirs, ours frame.Stamp) (float64, bool) {
	if theirs <= 0 || ours <= 0 {
		return 1, false
	}
	v := float64(theirs) / float64(ours)
	return v, math.Abs(v-1) < absurd
}
