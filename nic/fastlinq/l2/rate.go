package l2

import (
	"cmp"
	"time"

	"tapir/nic/fastlinq/status"
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

// bucket is for how long a limiter that is not used collects what may be sent at
// once.
const bucket = time.Millisecond

// limiter is a rate limiter of the queue manager. The zero value does not limit.
type limiter struct {
	rate int
	at   frame.Time // when the next frame may leave
	rest int64      // of the last division
}

func (l *limiter) set(rate int, now frame.Time) {
	if rate == MaxRate {
		rate = 0
	}
	if rate != l.rate {
		*l = limiter{rate: rate, at: now}
	}
}

func (l *limiter) ready(now frame.Time) bool { return l.rate == 0 || l.at <= now }

// spend accounts for octets that leave.
func (l *limiter) spend(octets int64, now frame.Time) {
	if l.rate == 0 {
		return
	}
	work := octets*8000 + l.rest // nanoseconds at 1 Mb/s
	l.at = max(l.at, now.Add(-bucket)).Add(time.Duration(work / int64(l.rate)))
	l.rest = work % int64(l.rate)
}

// wfq is the place of a vport among those that share the function's rate.
type wfq struct {
	rate   int    // configured; 0: not
	weight int64  // parts of the rate
	finish uint64 // virtual time at which the last frame ends
}

// Pace tells the limiters the time. Frames that they hold may leave from NextTx
// on.
func (fn *Function) Pace(now frame.Time) { fn.now = now }

// NextTx is when a frame may leave that the last Transmit has held back for a
// limiter; frame.Never: there is none.
func (fn *Function) NextTx() frame.Time { return fn.held }

func checkRate(what string, rate int) error {
	if rate < 0 || rate > MaxRate {
		return status.Inval.Errorf("%s %d Mb/s: want 0 to %d", what, rate, MaxRate)
	}
	return nil
}

// SetPFRates limits what all vports send together, and says what of the port is
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
	fn.limit.set(high, fn.now)
	if low == fn.least {
		return nil
	}
	for _, v := range fn.started {
		if v.wfq.rate > 0 && fn.least > 0 {
			v.wfq.rate = v.wfq.rate * low / fn.least
		}
	}
	fn.least = low
	fn.weigh()
	return nil
}

// PFRates are those of SetPFRates; a rate of 0 is no limit.
func (fn *Function) PFRates() (low, high int) { return fn.least, fn.limit.rate }

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
	v.limit.set(rate, fn.now)
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
			sum += o.wfq.rate
		}
		if o != v && o.wfq.rate == 0 {
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
	v.wfq.rate = rate
	fn.weigh()
	return nil
}

// weigh gives each vport its part: what is configured, the others the same parts
// of the rest.
func (fn *Function) weigh() {
	left, others := fn.least, 0
	fn.fair = false
	for _, v := range fn.started {
		if v.wfq.rate > 0 {
			left -= v.wfq.rate
			fn.fair = true
		} else {
			others++
		}
	}
	for _, v := range fn.started {
		v.wfq.weight = int64(max(1, v.wfq.rate))
		if v.wfq.rate == 0 {
			v.wfq.weight = int64(max(1, fn.least/wfqUnit, left/others))
		}
	}
}

// next is the transmit queue that sends next: of each in turn, or, with WFQ, of
// the vport that is most behind; nil if none has anything that may leave.
func (fn *Function) next() (best *TxQueue) {
	at, tag := 0, uint64(0)
	for i := range fn.txq {
		n := fn.turn + i
		if n >= len(fn.txq) {
			n -= len(fn.txq)
		}
		q := fn.txq[n]
		if q.rung == 0 || !q.vport.active[tx] || !fn.allowed(q.vport) {
			continue
		}
		if !fn.fair {
			fn.turn = n
			return q
		}
		if t := max(q.vport.wfq.finish, fn.virtual); best == nil || t < tag {
			best, at, tag = q, n, t
		}
	}
	if best != nil {
		fn.turn, fn.virtual = at, tag
	}
	return best
}

// allowed tells whether the limiters let a vport send now.
func (fn *Function) allowed(v *vport) bool {
	if fn.limit.ready(fn.now) && v.limit.ready(fn.now) {
		return true
	}
	until := max(v.limit.at, fn.limit.at)
	if v.limit.rate == 0 {
		until = fn.limit.at
	} else if fn.limit.rate == 0 {
		until = v.limit.at
	}
	fn.held = min(fn.held, until)
	return false
}

// spend accounts for a frame that a vport sends.
func (fn *Function) spend(v *vport, f *frame.Frame) {
	if fn.limit.rate == 0 && v.limit.rate == 0 && !fn.fair {
		return
	}
	n := octets(f)
	fn.limit.spend(n, fn.now)
	v.limit.spend(n, fn.now)
	if fn.fair {
		v.wfq.finish = fn.virtual + uint64(n*MaxRate/v.wfq.weight)
	}
}

// octets are those of a frame, or of the segments that it becomes.
func octets(f *frame.Frame) int64 {
	n, head := f.Len(), int(f.HdrLen)
	if f.GSO != frame.GSONone && f.GSOSize > 0 && head < n {
		n += ((n-head+int(f.GSOSize)-1)/int(f.GSOSize) - 1) * head
	}
	return int64(n)
}
