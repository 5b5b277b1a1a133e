package l2

import (
	"cmp"

	"tapir/nic/fastlinq/status"
	"tapir/nic/pacing"
	"tapir/wire/frame"
)

// Rates are in Mb/s and count octets of frames, headers of all segments of a
// super-frame included. MaxRate, and 0, are no limit.
const MaxRate = 100_000

// Limits of the weighted fair queueing (WFQ) of vports.
const (
	maxWFQVports = 100
	wfqUnit      = 100 // parts of the bandwidth; a vport has at least one
)

func checkRate(what string, rate int) error {
	if rate < 0 || rate > MaxRate {
		return status.Inval.Errorf("%s %d Mb/s: want 0 to %d", what, rate, MaxRate)
	}
	return nil
}

// SetPFRates limits what the function sends, and says what of the port is
// theirs for certain, which WFQ divides (configure_pf_max_bandwidth, _min). Rates
// of vports that were configured change in proportion. INVAL, and no change:
// rates that cannot be.
func (fn *Function) SetPFRates(low, high int) error {
	if err := cmp.Or(checkRate("minimal rate", low), checkRate("rate", high)); err != nil {
		return err
	}
	if high != 0 && low > high {
		return status.Inval.Errorf("minimal rate %d Mb/s above the rate %d Mb/s", low, high)
	}
	fn.pf.SetRate(limit(high))
	if low == fn.least {
		return nil
	}
	for _, v := range fn.started {
		if v.minRate > 0 && fn.least > 0 {
			v.minRate = v.minRate * low / fn.least
		}
	}
	fn.least = low
	fn.weigh()
	return nil
}

// PFRates are those of SetPFRates; a rate of 0 is no limit.
func (fn *Function) PFRates() (low, high int) { return fn.least, fn.pf.Rate() }

// SetVportRate limits what a vport sends; 0 ends that. INVAL, and no change: a
// rate that cannot be; the firmware asserts on vports that are not started.
func (fn *Function) SetVportRate(id, rate int) error {
	if err := checkRate("rate", rate); err != nil {
		return err
	}
	v, err := fn.vport(id)
	if err != nil {
		return err
	}
	v.pacing.SetRate(limit(rate))
	return nil
}

// SetQueueRate limits what a transmit queue sends; 0 ends that. INVAL, and no change: a
// rate that cannot be, or a queue that is not started.
func (fn *Function) SetQueueRate(q *TxQueue, rate int) error {
	if q == nil || q.fn != fn {
		return status.Inval.Errorf("no transmit queue of this function")
	}
	if err := checkRate("rate", rate); err != nil {
		return err
	}
	q.pacing.SetRate(limit(rate))
	return nil
}

// SetVportWFQ gives a vport a minimal rate when vports compete for the
// function's (configure_vport_wfq); 0 ends that. The vports without one share
// what is left. NOTIMPL: the function has two engines. INVAL, and no change: less
// than a hundredth of the function's minimal rate, more than is left if every
// other vport is to keep a hundredth, or more than a hundred vports.
func (fn *Function) SetVportWFQ(id, rate int) error {
	if fn.cfg.Engines > 1 {
		return status.NotImpl.Errorf("WFQ of vports with %d engines", fn.cfg.Engines)
	}
	v, err := fn.vport(id)
	if err != nil {
		return err
	}
	sum, others := rate, 0
	for _, o := range fn.started {
		if o != v {
			sum += o.minRate
		}
		if o != v && o.minRate == 0 {
			others++
		}
	}
	switch {
	case rate < 0 || rate > 0 && rate*wfqUnit < fn.least:
		return status.Inval.Errorf("vport %d: minimal rate %d Mb/s: want a hundredth of the function's %d at least", id,
			rate, fn.least)
	case rate > 0 && sum*wfqUnit+others*fn.least > fn.least*wfqUnit:
		return status.Inval.Errorf(
			"vport %d: minimal rate %d Mb/s: %d Mb/s in all, of %d, and each of %d vports keeps a hundredth",
			id, rate, sum, fn.least, others)
	case len(fn.started) > maxWFQVports:
		return status.Inval.Errorf("WFQ of %d vports: want at most %d", len(fn.started), maxWFQVports)
	}
	v.minRate = rate
	fn.weigh()
	return nil
}

// weigh gives each vport its part: what is configured, the others the same parts
// of the rest.
func (fn *Function) weigh() {
	left, others := fn.least, 0
	fn.pacing.Fair = false
	for _, v := range fn.started {
		if v.minRate > 0 {
			left -= v.minRate
			fn.pacing.Fair = true
		} else {
			others++
		}
	}
	for _, v := range fn.started {
		weight := v.minRate
		if weight == 0 {
			weight = max(fn.least/wfqUnit, left/others)
		}
		v.pacing.SetWeight(int64(weight))
	}
}

// next is the transmit queue that sends next: of each in turn, or, with WFQ, of
// the vport that is most behind; nil if none has anything that may leave.
func (fn *Function) next() (best *TxQueue) {
	if fn.rung == 0 {
		return nil
	}
	at, tag := 0, uint64(0)
	for i := range fn.txq {
		n := fn.turn + i
		if n >= len(fn.txq) {
			n -= len(fn.txq)
		}
		q := fn.txq[n]
		if q.rung == 0 || !q.vport.active[tx] || !q.pacing.Ready() {
			continue
		}
		if !fn.pacing.Fair {
			fn.turn = n
			return q
		}
		if t := q.vport.pacing.Tag(); best == nil || t < tag {
			best, at, tag = q, n, t
		}
	}
	if best != nil {
		fn.turn = at
		best.vport.pacing.Chosen()
	}
	return best
}

// spend accounts for a frame that a queue sends.
func (fn *Function) spend(q *TxQueue, f *frame.Frame) {
	if q.vport.pacing.Counts() {
		all, _ := pacing.Octets(f, 0)
		q.pacing.Spend(all)
	}
}

// limit is a rate as a limiter has it.
func limit(rate int) int {
	if rate == MaxRate {
		return 0
	}
	return rate
}
