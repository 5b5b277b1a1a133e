package recovery

import "time"

// RTT is the estimator of RFC 6298 section 2.
type RTT struct {
	Smoothed, Var time.Duration
	Min           time.Duration // least sample
	RTO           time.Duration // retransmission timeout without backoff
}

// Add takes a sample; least and most bound what the timeout adds to the round
// trip and the timeout as a whole.
func (r *RTT) Add(d, least, most time.Duration) {
	d = max(d, time.Microsecond)
	if r.Smoothed == 0 {
		r.Smoothed, r.Var, r.Min = d, d/2, d
	} else {
		r.Var += ((r.Smoothed - d).Abs() - r.Var) / 4
		r.Smoothed += (d - r.Smoothed) / 8
		r.Min = min(r.Min, d)
	}
	// The floor stands for the peer's delayed acknowledgements, so it is
	// added to the round trip instead of hidden by a long one.
	r.RTO = min(r.Smoothed+max(4*r.Var, least), most)
}
