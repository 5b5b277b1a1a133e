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
	"tapir/nic/verbs"
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
	ports       []func() *portCounts // of all switches
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
	s.add(dropChart, "all switches", s.lost)
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
func (s *sampler) lost() (sum float64) {
	for _, counts := range s.ports {
		p := counts()
		for i := range p.classes {
			sum += float64(p.classes[i].QueueDrops)
		}
		for i := range p.priorities {
			sum += float64(p.priorities[i].Discards)
		}
	}
	return sum
}

// watchSwitch notes the queues of a switch, and the pauses at its ports: of those between two
// switches each notes what it sends.
func (s *sampler) watchSwitch(n *node) {
	for port, e := range n.ends {
		far := e.link.ends[1-e.side].node
		classes, counts := n.sw.ClassCounts(port), s.counts(n, port)
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

// counts are the counters of a port in the sample.
func (s *sampler) counts(n *node, port int) func() *portCounts {
	p := new(portCounts)
	refresh := s.refresh(n, func() { p.classes, p.priorities = n.sw.ClassCounts(port), n.sw.PriorityCounts(port) })
	counts := func() *portCounts {
		refresh()
		return p
	}
	s.ports = append(s.ports, counts)
	return counts
}

// refresh has read called once in each sample, if the node has had a turn since the last one.
func (s *sampler) refresh(n *node, read func()) func() {
	taken, turns := -1, uint64(0)
	return func() {
		if taken == len(s.at) {
			return
		}
		if now := n.place.Turns(); taken < 0 || now != turns {
			turns = now
			read()
		}
		taken = len(s.at)
	}
}

// watchNIC notes the congestion control of a NIC: of several connections that with the
// lowest rate, the largest window and the largest estimate.
func (s *sampler) watchNIC(n *node) {
	var rate, alpha, window float64
	refresh := s.refresh(n, func() {
		rate, alpha, window = 0, 0, 0
		if n.dev.Verbs.Identity().Personality == verbs.RoCE {
			for _, q := range n.dev.Verbs.QPs() {
				if i, ok := roce.InfoOf(q); ok && i.Limiter != nil {
					if r := float64(i.Limiter.Rate) / 1e6 / 1e3; r > 0 && (rate == 0 || r < rate) {
						rate = r
					}
					alpha = max(alpha, float64(i.Limiter.Alpha)/1e6)
				}
			}
		}
		if e := n.dev.TCP(); e != nil {
			for c := range e.Conns {
				i := c.Info()
				alpha, window = max(alpha, i.Alpha), max(window, float64(i.Cwnd))
			}
		}
	})
	of := func(chart int, value *float64) {
		s.add(chart, n.Name, func() float64 {
			refresh()
			return *value
		})
	}
	of(limitChart, &rate)
	of(alphaChart, &alpha)
	of(windowChart, &window)
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
