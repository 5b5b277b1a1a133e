package port

import (
	"time"

	"tapir/nic/nicdrop"
	"tapir/nic/pacing"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/pause"
)

// Link is what a port knows of its link.
type Link struct {
	Speed int // in Mb/s; at 0 and from Speed on the port does not pace
	// RxPause and TxPause: PAUSE frames are obeyed, and sent.
	RxPause, TxPause bool
}

// SetLink tells of the link, to whose speed the port paces what it sends: each true
// frame takes the time of its octets, preamble, FCS and gap. A pause ends.
func (p *Port) SetLink(l Link, now frame.Time) {
	rate := l.Speed
	if rate >= Speed {
		rate = 0
	}
	p.Sched.Port().SetRate(rate)
	if p.Shared() {
		p.received.Port().SetRate(rate)
	}
	p.Sched.Pause(0, now)
	p.agreed = l
	p.Flow.Rx, p.Flow.Tx, p.Flow.Speed = l.RxPause && !p.PFC(), l.TxPause && !p.PFC(), l.Speed
	if p.classes != nil {
		for prio := range p.classes.flows {
			p.classes.flows[prio].Speed = l.Speed
		}
		for prio := range p.classes.holds {
			h := &p.classes.holds[prio]
			h.Until = min(h.Until, now)
		}
		p.classes.hold(now)
	}
}

// SetPauseLimit says for how long the port may tell the other end to wait without a break, by
// PAUSE or PFC frames; 0: for ever.
func (p *Port) SetPauseLimit(d time.Duration) {
	p.Flow.Limit = d
	if p.classes != nil {
		for prio := range p.classes.flows {
			p.classes.flows[prio].Limit = d
		}
	}
}

// pauseStorms are the counters of that limit, with mlx5's names.
func (p *Port) pauseStorms() []Counter {
	warnings, storms := p.Flow.Warnings, p.Flow.Storms
	if p.classes != nil {
		for prio := range p.classes.flows {
			f := &p.classes.flows[prio]
			warnings, storms = warnings+f.Warnings, storms+f.Storms
		}
	}
	return []Counter{view.Count("tx_pause_storm_warning_events", warnings),
		view.Count("tx_pause_storm_error_events", storms)}
}

// Control takes a frame of the MAC control sublayer that came in for the station
// own: PAUSE keeps the port from sending, if the two ends have agreed on that.
func (p *Port) Control(f *frame.Frame, own ether.Addr, now frame.Time) {
	c, err := pause.Parse(f.Bytes())
	switch {
	case err != nil:
		p.Refuse(f, nicdrop.MACControl, now)
	case c.PFC && (!p.PFC() || c.Enabled&p.classes.PFC == 0):
		p.Refuse(f, nicdrop.PauseOff, now)
	case c.PFC:
		p.classes.pfc[frame.Inbound]++
		p.classes.obey(&c, now)
		p.Trace(frame.Inbound, f, nil, frame.DropNone, now)
		f.Release()
	case c.Dst != pause.Group && c.Dst != own:
		p.Refuse(f, nicdrop.Pause, now)
	case !p.Flow.Rx:
		p.Refuse(f, nicdrop.PauseOff, now)
	default:
		p.Flow.Received++
		p.Sched.Pause(now.Add(p.Flow.Pause(c.Quanta)), now)
		p.Trace(frame.Inbound, f, nil, frame.DropNone, now)
		f.Release()
	}
}

// obey takes a PFC frame.
func (c *classes) obey(f *pause.Frame, now frame.Time) {
	for prio := range c.holds {
		if f.Enabled&c.PFC>>prio&1 != 0 {
			c.holds[prio].Set(c.flows[prio].Pause(f.Timers[prio]), now)
		}
	}
	c.hold(now)
}

// Relieve takes in how full the receive queues are, in parts of pacing.Full, and the receive
// buffers of the priorities, nil: empty. It sends a PAUSE frame of the station src if that is
// due, or a PFC frame. It goes first, and no pause holds it back.
func (p *Port) Relieve(fill int, buffers *pacing.Buffers, src ether.Addr, pool frame.Pool,
	now frame.Time) (next frame.Time) {
	if p.PFC() {
		if buffers == nil {
			return frame.Never
		}
		return p.relieveClasses(buffers, src, pool, now)
	}
	flow := &p.Flow
	if flow.Quiet(fill) && !p.Shared() {
		return frame.Never
	}
	quanta, send := flow.Waits(p.fullest(fill), now)
	if send && p.sendPause(&pause.Frame{Src: src, Quanta: quanta}, pool, now) {
		flow.Told(quanta, now)
	}
	return flow.Next()
}

func (p *Port) relieveClasses(buffers *pacing.Buffers, src ether.Addr, pool frame.Pool,
	now frame.Time) (next frame.Time) {
	c := p.classes
	c.discards = buffers.Discards
	told := pause.Frame{Src: src, PFC: true}
	for prio := range c.flows {
		f, fill := &c.flows[prio], buffers.Fill[c.Buffers.Of(uint8(prio))]
		if f.Quiet(fill) {
			continue
		}
		if quanta, send := f.Waits(fill, now); send {
			told.Enabled |= 1 << prio
			told.Timers[prio] = quanta
		}
	}
	sent := told.Enabled != 0 && p.sendPause(&told, pool, now)
	if next = frame.Never; sent {
		c.pfc[frame.Outbound]++
	}
	for prio := range c.flows {
		f := &c.flows[prio]
		if sent && told.Enabled>>prio&1 != 0 {
			f.Told(told.Timers[prio], now)
		}
		next = min(next, f.Next())
	}
	return next
}

// sendPause sends a frame of the MAC control sublayer; false: it has to wait.
func (p *Port) sendPause(c *pause.Frame, pool frame.Pool, now frame.Time) bool {
	if p.Closed || p.link.Room() <= 0 {
		return false
	}
	f := pool.Get(pause.Len)
	if f == nil {
		return false
	}
	c.Put(f.Extend(pause.Len))
	p.Transmit(Out{Frame: f}, now)
	return true
}
