package congestion

// dctcp is the state of Data Center TCP (RFC 8257 section 3.3), in octets.
type dctcp struct {
	alpha         uint64 // DCTCP.Alpha, in parts of one
	acked, marked uint64 // DCTCP.BytesAcked and BytesMarked
	end           uint64 // DCTCP.WindowEnd
}

// one is an alpha of 1: all octets were marked.
const one = 1 << 32

// gain is g, 1/16, as a shift.
const gain = 4

// Observe counts the octets of an acknowledgement of everything below ack, with a mark of
// congestion or without. Once in a window of data, whose end is next from then on, it takes
// the share of marked octets into alpha.
func (w *Window) Observe(acked uint64, marked bool, ack, next uint64) {
	if w.dctcp == nil {
		w.dctcp = &dctcp{alpha: one}
	}
	d := w.dctcp
	d.acked += acked
	if marked {
		d.marked += acked
	}
	if ack <= d.end || d.acked == 0 {
		return
	}
	share := d.marked * one / d.acked // octets in flight are fewer than 2^32
	d.alpha = d.alpha - d.alpha>>gain + share>>gain
	d.acked, d.marked, d.end = 0, 0, next
}

// Alpha is DCTCP's estimate of the share of octets that are marked, from 0 to 1; 0 of the others.
func (w *Window) Alpha(a Algorithm) float64 {
	switch {
	case a != DCTCP:
		return 0
	case w.dctcp == nil:
		return 1
	}
	return float64(w.dctcp.alpha) / one
}

// cut is the window after a mark: cwnd * (1 - alpha/2).
func (d *dctcp) cut(cwnd uint64) uint64 { return cwnd - cwnd*(d.alpha>>17)>>16 }
