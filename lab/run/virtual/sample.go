package virtual

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tapir/lab/node/sw"
	"tapir/lab/run/result"
	"tapir/nic/dcb"
	"tapir/nic/roce"
	"tapir/nic/roce/dcqcn"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// Samples are taken each sampleFirst at the beginning. When there are sampleMost, every other
// is dropped, and they are taken half as often.
const (
	sampleFirst = 10 * time.Microsecond
	sampleMost  = 256
	sumsMost    = 64
)

// sampler notes, while a workload moves data, what its reports do not tell: how much waits in
// switches, how long PFC holds senders, and how much congestion senders believe in.
type sampler struct {
	lab         *lab
	probes      []probe
	began, next frame.Time
	every       time.Duration
	at          []float64 // seconds
}

// probe is one curve in the making.
type probe struct {
	chart  int // of charts
	name   string
	read   func() float64
	first  float64
	values []float64 // nil: all are the first, as of most probes of a large lab
}

// note takes the sample of number i.
func (p *probe) note(i int) {
	v := p.read()
	switch {
	case i == 0:
		p.first = v
	case p.values != nil:
		p.values = append(p.values, v)
	case v != p.first:
		p.values = append(slices.Repeat([]float64{p.first}, i), v)
	}
}

// charts are what is sampled. Of a sum of seconds its growth is drawn, in percent of the time.
var charts = []struct {
	what, unit string
	sum        bool
}{
	{result.Queues, "octets in the queue", false},
	{result.Drops, "frames since the lab began", false},
	{result.Pauses, "time paused (%)", true},
	{result.Limits, "rate of a queue pair (Gb/s)", false},
	{result.Windows, "congestion window (octets)", false},
	{result.Alphas, "alpha", false},
}

const (
	queueChart = iota
	dropChart
	pauseChart
	limitChart
	windowChart
	alphaChart
)

// sampler is nil if nobody will read what it notes.
func (l *lab) sampler() *sampler {
	if l.opt.Out == "" && !l.opt.Draw {
		return nil
	}
	s := &sampler{lab: l, every: sampleFirst}
	s.add(dropChart, "all switches", l.lost)
	for _, n := range l.nodes {
		switch {
		case n.sw != nil:
			s.watchSwitch(n)
		case n.dev != nil:
			s.watchNIC(n)
		}
	}
	return s
}

func (s *sampler) add(chart int, name string, read func() float64) {
	s.probes = append(s.probes, probe{chart: chart, name: name, read: read})
}

// lost is how many frames switches have lost for want of room, and to watchdogs.
func (l *lab) lost() (sum float64) {
	for _, n := range l.nodes {
		for port := range n.ends {
			if n.sw == nil {
				break
			}
			for _, c := range n.sw.ClassCounts(port) {
				sum += float64(c.QueueDrops)
			}
			for _, c := range n.sw.PriorityCounts(port) {
				sum += float64(c.Discards)
			}
		}
	}
	return sum
}

// watchSwitch notes the queues of a switch, and the pauses at its ports: of those between two
// switches each notes what it sends.
func (s *sampler) watchSwitch(n *node) {
	for port, e := range n.ends {
		far := e.link.ends[1-e.side].node
		classes, counts := n.sw.ClassCounts(port), s.counts(n.sw, port)
		for tc := range classes {
			name := fmt.Sprintf("%s to %s", n.Name, far.Name)
			if len(classes) > 1 {
				name += fmt.Sprintf(", class %d", tc)
			}
			s.add(queueChart, name, func() float64 { return float64(counts().classes[tc].QueuedOctets) })
		}
		for prio := range dcb.Classes {
			paused := func(by, who string, of func() time.Duration) {
				s.add(pauseChart, fmt.Sprintf("%s by %s, priority %d", who, by, prio),
					func() float64 { return of().Seconds() })
			}
			paused(n.Name, far.Name, func() time.Duration { return counts().priorities[prio].TxPaused })
			if far.sw == nil {
				paused(far.Name, n.Name, func() time.Duration { return counts().priorities[prio].RxPaused })
			}
		}
	}
}

// portCounts are the counters of a port in a sample.
type portCounts struct {
	classes    []sw.ClassCounts
	priorities [dcb.Classes]sw.PriorityCounts
}

// counts takes the counters of a port once in each sample.
func (s *sampler) counts(of *sw.Switch, port int) func() *portCounts {
	taken, p := -1, new(portCounts)
	return func() *portCounts {
		if taken != len(s.at) {
			taken, p.classes, p.priorities = len(s.at), of.ClassCounts(port), of.PriorityCounts(port)
		}
		return p
	}
}

// watchNIC notes the congestion control of a NIC: of several queue pairs that with the
// lowest rate, the largest window and the largest estimate.
func (s *sampler) watchNIC(n *node) {
	s.add(limitChart, n.Name, func() (least float64) {
		ofRoCE(n, func(l dcqcn.State) {
			if rate := float64(l.Rate) / 1e6 / 1e3; rate > 0 && (least == 0 || rate < least) {
				least = rate
			}
		})
		return least
	})
	s.add(alphaChart, n.Name, func() (most float64) {
		ofRoCE(n, func(l dcqcn.State) { most = max(most, float64(l.Alpha)/1e6) })
		return max(most, ofTCP(n, func(i toe.Info) float64 { return i.Alpha }))
	})
	s.add(windowChart, n.Name, func() float64 {
		return ofTCP(n, func(i toe.Info) float64 { return float64(i.Cwnd) })
	})
}

// ofRoCE looks at the rate limiters of a NIC's queue pairs.
func ofRoCE(n *node, look func(dcqcn.State)) {
	for _, q := range n.dev.Verbs.QPs() {
		if i, ok := roce.InfoOf(q); ok && i.Limiter != nil {
			look(*i.Limiter)
		}
	}
}

// ofTCP is the largest value of the TCP connections of a NIC.
func ofTCP(n *node, value func(toe.Info) float64) (most float64) {
	if e := n.dev.TCP(); e != nil {
		for c := range e.Conns {
			most = max(most, value(c.Info()))
		}
	}
	return most
}

// until is that of the lab, with samples while a side measures.
func (s *sampler) until(ctx context.Context, end frame.Time, w *workload) (bool, error) {
	l, done := w.lab, func() bool { return w.left == 0 || w.failed != nil }
	if s == nil {
		return l.until(ctx, end, done)
	}
	s.next = l.world.Now()
	for {
		if ended, err := l.until(ctx, min(end, s.next), done); ended || err != nil || l.world.Now() >= end {
			return ended, err
		}
		switch {
		case slices.ContainsFunc(w.sides, func(x *side) bool { return !x.node.dead && x.run.Measures() }):
			s.take(l.world.Now())
		case s.at == nil:
			s.next = s.next.Add(10 * sampleFirst)
		default: // the connections close
			s.next = end
		}
	}
}

// take takes a sample.
func (s *sampler) take(now frame.Time) {
	if s.at == nil {
		s.began = now
	}
	if len(s.at) == sampleMost {
		s.at = halve(s.at)
		for i := range s.probes {
			if p := &s.probes[i]; p.values != nil {
				p.values = halve(p.values)
			}
		}
		s.every *= 2
	}
	s.at = append(s.at, now.Sub(s.began).Seconds())
	for i := range s.probes {
		s.probes[i].note(len(s.at) - 1)
	}
	s.next = now.Add(s.every)
}

// halve drops every other value.
func halve(all []float64) []float64 {
	for i := range len(all) / 2 {
		all[i] = all[2*i]
	}
	return all[:len(all)/2]
}

// samples are the charts of all that ever changed.
func (s *sampler) samples() (all []result.Samples) {
	if s == nil || len(s.at) < 3 {
		return nil
	}
	for i, c := range charts {
		x := result.Samples{What: c.what, Unit: c.unit}
		for _, p := range s.probes {
			if p.chart != i || p.values == nil {
				continue
			}
			at, values := s.at, p.values
			if c.sum {
				at, values = s.growth(p.values)
			}
			if slices.Max(values) > slices.Min(values) {
				x.Curves = append(x.Curves, result.Curve{Name: p.name, X: at, Y: values})
			}
		}
		if len(x.Curves) > 0 {
			all = append(all, x)
		}
	}
	return all
}

// growth is how fast a sum of seconds grew, in percent: in steps over at most sumsMost spans.
func (s *sampler) growth(sum []float64) (at, values []float64) {
	span := len(sum)/sumsMost + 1
	for i := 0; i+span < len(sum); i += span {
		from, to := s.at[i], s.at[i+span]
		v := min(100, 100*(sum[i+span]-sum[i])/(to-from))
		at, values = append(at, from, to), append(values, v, v)
	}
	return at, values
}
