package toe

import "tapir/wire/frame"

type caState uint8

const (
	caOpen     caState = iota
	caRecovery         // fast recovery
	caLoss             // after a retransmission timeout
)

// congestion is the congestion window, in octets.
type congestion struct {
	cwnd, ssthresh uint64
	credit         uint64 // towards the next increase
	recover        uint64 // recovery ends when this is acknowledged
	state          caState
	blocked        bool // the last sending stopped for lack of cwnd
	cubic          cubic
}

// reduce sets ssthresh after a loss or mark of congestion with flight octets
// in flight (RFC 5681 equation 4, RFC 9438 section 4.6).
func (c *Conn) reduce(flight uint64) {
	cc := &c.cc
	share := flight / 2
	if c.par.Congestion == Cubic {
		share = flight * 7 / 10
		cc.cubic.reduced(cc.cwnd)
	}
	cc.ssthresh = max(share, 2*uint64(c.mss))
	cc.credit = 0
	c.ecn.reduced(c.nxt)
}

// grow is slow start and congestion avoidance, counting octets (RFC 3465)
// because acknowledgements of super-segments stand for many. A window that
// was not used does not grow (RFC 7661).
func (c *Conn) grow(acked, flight uint64, now frame.Time) {
	cc := &c.cc
	switch {
	case cc.cwnd < cc.ssthresh:
		if cc.blocked || 2*flight >= cc.cwnd {
			cc.cwnd = min(cc.cwnd+acked, cc.ssthresh)
		}
	case !cc.blocked && flight+uint64(c.mss) < cc.cwnd:
		cc.cubic.unused(now)
	case c.par.Congestion == Cubic:
		cc.growCubic(acked, uint64(c.mss), now, c.rtt.srtt)
	default:
		if cc.credit += acked; cc.credit >= cc.cwnd {
			cc.credit -= cc.cwnd
			cc.cwnd += uint64(c.mss)
		}
	}
	cc.cwnd = min(cc.cwnd, uint64(c.e.cfg.SndWnd))
}

// initialWindow is RFC 6928, or one segment after a lost SYN (RFC 5681
// section 3.1).
func (c *Conn) initialWindow(synLost bool) uint64 {
	if synLost {
		return uint64(c.mss)
	}
	return initWnd * uint64(c.mss)
}

// restart shrinks the window after an idle time (RFC 5681 section 4.1).
func (c *Conn) restart() {
	if w := c.initialWindow(false); c.cc.cwnd > w {
		c.cc.cwnd = w
		c.cc.cubic.epoch = 0
	}
}
