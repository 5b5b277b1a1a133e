package sw

import (
	"time"

	"tapir/nic/dcb"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/pause"
)

// buffer is where received frames of a priority with PFC wait for their egress ports.
type buffer struct {
	octets, most int
	headroom     int           // of octets: those not in the shared buffer
	off          bool          // the sender was told to wait
	refresh      frame.Time    // when it is told again
	since        frame.Time    // when it was last told
	total        time.Duration // that it had to wait, up to since
	frames       uint64        // PFC frames with the priority
	discards     uint64        // frames that found headroom full
}

// lossless tells whether a priority has PFC at a port.
func (p *port) lossless(prio uint8) bool { return p.dcb.PFC>>prio&1 != 0 }

// obey takes a PFC frame: it keeps priorities from being sent, each for its time.
func (p *port) obey(c *pause.Frame, pfc uint8, now frame.Time) {
	for prio := range p.holds {
		if c.Enabled&pfc>>prio&1 == 0 {
			continue
		}
		p.holds[prio].Set(p.flow.Pause(c.Timers[prio]), now)
	}
}

// lasted is how long the sender had to wait until now.
func (b *buffer) lasted(now frame.Time) time.Duration {
	if !b.off {
		return b.total
	}
	return b.total + now.Sub(b.since)
}

// held is until when PFC holds back the first frame of a class. What is held back longer
// than the watchdog allows is dropped, so that a port that nobody empties does not stop
// others.
func (s *Switch) held(p *port, q *class, now frame.Time) frame.Time {
	until := p.holds[q.first().prio].Until
	if until <= now {
		q.stalled = 0
		return until
	}
	if q.stalled == 0 {
		q.stalled = now
	}
	if s.cfg.Watchdog < 0 {
		return until
	}
	bark := q.stalled.Add(s.cfg.Watchdog)
	if bark > now {
		return min(until, bark)
	}
	q.storm = true
	q.storms++
	for n := q.len(); n > 0; n-- {
		if w := s.leave(p, q); p.holds[w.prio].Until > now {
			q.lose(p, w.f, DropWatchdog)
		} else {
			s.put(p, q, w, now)
		}
	}
	return now
}

// lose drops a frame of a class.
func (q *class) lose(p *port, f *frame.Frame, why frame.DropReason) {
	q.drops++
	p.counts.TxDrops.Count(why)
	f.Release()
}

// admit tells whether a frame that came in by a port may wait in an egress queue, and
// otherwise drops it.
func (s *Switch) admit(p *port, q *class, w *waiting, now frame.Time) bool {
	if q.storm {
		if p.holds[w.prio].Until > now {
			q.lose(p, w.f, DropWatchdog)
			return false
		}
		q.storm = false
	}
	if w.lossless = s.ports[w.in].lossless(w.prio); !w.lossless {
		switch w.pooled = s.shared.octets > 0; {
		case w.pooled && s.shared.fits(q.octets, w.f.Len()), !w.pooled && q.len() < s.cfg.Queue:
			return true
		case w.pooled:
			q.lose(p, w.f, DropBuffer)
		default:
			q.lose(p, w.f, drop.TxQueue)
		}
		return false
	}
	b := &s.ports[w.in].buffers[w.prio]
	if s.shared.octets == 0 && b.octets+w.f.Len() <= s.cfg.XOFF+s.cfg.Headroom {
		return true
	}
	if xoff, _ := s.shared.thresholds(&s.cfg); s.shared.octets > 0 {
		w.pooled = b.octets+w.f.Len() <= xoff && s.shared.fits(b.octets, w.f.Len())
		if w.pooled || b.headroom+w.f.Len() <= s.cfg.Headroom {
			return true
		}
	}
	b.discards++
	s.drop(w.in, w.f, DropHeadroom)
	return false
}

// keep accounts for a frame that waits, in the buffer of the port that it came by.
func (s *Switch) keep(w *waiting) {
	if w.pooled {
		s.shared.take(w.f.Len())
		s.signals = s.signals || s.cfg.Mapped // thresholds of others have fallen
	}
	if !w.lossless {
		return
	}
	b := &s.ports[w.in].buffers[w.prio]
	b.octets += w.f.Len()
	b.most = max(b.most, b.octets)
	if !w.pooled {
		b.headroom += w.f.Len()
	}
	xoff, _ := s.shared.thresholds(&s.cfg)
	s.signals = s.signals || b.octets >= xoff
}

// free is the contrary of keep.
func (s *Switch) free(w *waiting) {
	if w.pooled {
		s.shared.used -= w.f.Len()
	}
	if w.lossless {
		b := &s.ports[w.in].buffers[w.prio]
		b.octets -= w.f.Len()
		if !w.pooled {
			b.headroom -= w.f.Len()
		}
	}
}

// retry is when a PFC frame is tried again that could not leave.
const retry = 100 * time.Microsecond

// signal has the senders wait whose frames fill buffers, priority by priority, and those go
// on that do not any more. PFC frames go before all others, and nothing holds them back.
func (s *Switch) signal(now frame.Time) (next frame.Time) {
	next = frame.Never
	if !s.signals {
		return next
	}
	s.signals = false
	xoff, xon := s.shared.thresholds(&s.cfg)
	for in := range s.ports {
		p := &s.ports[in]
		c := pause.Frame{PFC: true, Src: s.cfg.MAC(in)}
		for prio := range p.buffers {
			b := &p.buffers[prio]
			switch {
			case b.off && b.octets <= xon:
				c.Enabled |= 1 << prio
			case b.off && b.refresh <= now, !b.off && b.octets >= xoff && p.lossless(uint8(prio)):
				c.Enabled |= 1 << prio
				c.Timers[prio] = pause.MostQuanta
			}
		}
		if c.Enabled != 0 && !s.told(p, &c, now) {
			s.signals, next = true, min(next, now.Add(retry))
			continue
		}
		for prio := range p.buffers {
			if b := &p.buffers[prio]; b.off {
				s.signals, next = true, min(next, b.refresh)
			}
		}
	}
	return next
}

// told sends a PFC frame if the link takes one.
func (s *Switch) told(p *port, c *pause.Frame, now frame.Time) bool {
	if p.down {
		return true
	}
	if p.link.Room() == 0 {
		return false
	}
	f := s.env.Pool.Get(pause.Len)
	if f == nil {
		return false
	}
	c.Put(f.Extend(pause.Len))
	p.counts.TxFrames++
	p.counts.TxOctets += pause.Len
	p.link.Transmit(f)
	for prio := range p.buffers {
		if c.Enabled>>prio&1 == 0 {
			continue
		}
		b := &p.buffers[prio]
		b.frames++
		b.total = b.lasted(now)
		b.off, b.since = c.Timers[prio] > 0, now
		b.refresh = now.Add(p.flow.Pause(c.Timers[prio]) / 2)
	}
	return true
}

// PriorityCounts counts one priority of a port, and PFC with it.
type PriorityCounts struct {
	Priority           int
	Lossless           bool // it has PFC
	RxFrames, RxOctets uint64
	TxFrames, TxOctets uint64
	RxPause, TxPause   uint64        // PFC frames
	RxPaused, TxPaused time.Duration // how long they kept the port from sending, and the other end
	RxTransitions      uint64        // PFC frames that began a pause
	Discards           uint64        // received frames that found headroom full
	Buffered, Most     int           // octets that wait in the switch, and the most there were
}

// PriorityCounts are the counters of the priorities of a port.
func (s *Switch) PriorityCounts(port int) (list [dcb.Classes]PriorityCounts) {
	p := &s.ports[port]
	for prio := range list {
		h, b := &p.holds[prio], &p.buffers[prio]
		c := &p.priorities[prio]
		list[prio] = PriorityCounts{Priority: prio, Lossless: p.lossless(uint8(prio)),
			RxFrames: c.rxFrames, RxOctets: c.rxOctets, TxFrames: c.txFrames,
			TxOctets: c.txOctets, RxPause: h.Frames, TxPause: b.frames, RxPaused: h.Lasted(s.now),
			TxPaused: b.lasted(s.now), RxTransitions: h.Transitions,
			Discards: b.discards, Buffered: b.octets, Most: b.most}
	}
	return list
}
