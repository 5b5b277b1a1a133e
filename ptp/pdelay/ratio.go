package pdelay

import "tapir/wire/frame"

// window is how many exchanges a rate ratio spans.
const window = 8

// ratio is neighborRateRatio: how fast the neighbor's clock runs against ours,
// from the stamps of two exchanges (IEEE 802.1AS-2020 section 11.2.19.3.3).
type ratio struct {
	t3, t4 [window]frame.Stamp
	n      int // exchanges so far
	value  float64
	ok     bool
}

// maxOff is how much a ratio may differ from 1: more is not drift but a step
// of one of the clocks.
const maxOff = 1e-3

func (r *ratio) sample(t3, t4 frame.Stamp) {
	slot := r.n % window
	if r.n > 0 {
		old := slot
		if r.n < window {
			old = 0
		}
		theirs, ours := t3-r.t3[old], t4-r.t4[old]
		v := float64(theirs) / float64(ours)
		if theirs <= 0 || ours <= 0 || v > 1+maxOff || v < 1-maxOff {
			*r = ratio{}
			slot = 0
		} else {
			r.value, r.ok = v, true
		}
	}
	r.t3[slot], r.t4[slot] = t3, t4
	r.n++
}
