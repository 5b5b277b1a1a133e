package port

import (
	"tapir/nic/pacing"
	"tapir/wire/frame"
)

// SetSpeed tells the speed of the link in Mb/s, to which the port paces what it
// sends: each true frame takes the time of its octets, preamble, FCS and gap. At
// Speed and above, and at 0, it does not pace.
func (p *Port) SetSpeed(mbps int) {
	if mbps >= Speed {
		mbps = 0
	}
	p.Sched.Port().SetRate(mbps)
}

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
