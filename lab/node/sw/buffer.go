package sw

import "tapir/lab/conf/swconf"

// sharedBuffer is the pool that all ports share, with dynamic thresholds (Choudhury and
// Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998): a queue
// may hold at most alpha times what is free. Of n queues that are full each then has alpha/(1+n*alpha)
// of the pool, and the rest is left to others.
type sharedBuffer struct {
	octets int // of the pool; 0: there is none
	alpha  float64

	used, most int
}

// threshold is how many octets one queue may hold now.
func (p *sharedBuffer) threshold() int { return int(p.alpha * float64(p.octets-p.used)) }

// fits tells whether a frame of some octets may join a queue that holds others.
func (p *sharedBuffer) fits(held, octets int) bool {
	return held+octets <= p.threshold() && octets <= p.octets-p.used
}

func (p *sharedBuffer) take(octets int) {
	p.used += octets
	p.most = max(p.most, p.used)
}

// thresholds are the octets of a PFC priority of a port from which on the sender has to wait,
// and down to which.
func (p *sharedBuffer) thresholds(c *swconf.Config) (xoff, xon int) {
	xoff, xon = c.XOFF, c.XON
	if p.octets == 0 {
		return xoff, xon
	}
	least := min(xoff, p.threshold())
	return least, int(int64(xon) * int64(least) / int64(xoff))
}

// SharedBuffer is how many octets wait in the pool, and the most that did; false: there is
// none.
func (s *Switch) SharedBuffer() (octets, most int, ok bool) {
	return s.shared.used, s.shared.most, s.shared.octets > 0
}
