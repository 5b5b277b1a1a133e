package port

import (
	"tapir/nic/pacing"
	"tapir/wire/frame"
)

// paces tells whether the port holds frames back.
func (p *Port) paces() bool { return p.Sched.Paces() }

// departs tells whether the first frame that waits may leave now.
func (p *Port) departs(f *frame.Frame) bool {
	if !p.paces() {
		return true
	}
	_, before := pacing.Octets(f, gap)
	return p.Sched.Port().Departs(before)
}

// spend accounts for a frame that leaves.
func (p *Port) spend(f *frame.Frame) {
	if p.paces() {
		all, _ := pacing.Octets(f, gap)
		p.Sched.Port().SpendHere(all)
	}
}
