package port

import (
	"tapir/nic/nicdrop"
	"tapir/nic/pacing"
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
		p.classes.flow.Speed = l.Speed
		for prio := range p.classes.holds {
			h := &p.classes.holds[prio]
			h.Until = min(h.Until, now)
		}
		p.classes.hold(now)
	}
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
			c.holds[prio].Set(c.flow.Pause(f.Timers[prio]), now)
		}
	}
	c.hold(now)
}

// Relieve takes in how full the receive queues are, in parts of pacing.Full, and
// sends a PAUSE frame of the station src if that is due, or a PFC frame about all its
// priorities, which share the queues. It goes first, and no pause holds it back.
func (p *Port) Relieve(fill int, src ether.Addr, pool frame.Pool, now frame.Time) (next frame.Time) {
	flow := &p.Flow
	if p.PFC() {
		flow = &p.classes.flow
	}
	if fill < pacing.XOFF && !flow.Off() && !p.Shared() {
		return frame.Never
	}
	return p.relieve(flow, fill, src, pool, now)
}

func (p *Port) relieve(flow *pacing.Flow, fill int, src ether.Addr, pool frame.Pool, now frame.Time) (next frame.Time) {
	quanta, send := flow.Waits(p.fullest(fill), now)
	if !send || p.Closed || p.link.Room() <= 0 {
		return flow.Next()
	}
	f := pool.Get(pause.Len)
	if f == nil {
		return flow.Next()
	}
	c := pause.Frame{Src: src, Quanta: quanta}
	if flow != &p.Flow {
		c = pause.Frame{Src: src, PFC: true, Enabled: p.classes.PFC}
		for prio := range c.Timers {
			c.Timers[prio] = quanta * uint16(c.Enabled>>prio&1)
		}
	}
	c.Put(f.Extend(pause.Len))
	p.Transmit(Out{Frame: f}, now)
	flow.Told(quanta, now)
	return flow.Next()
}
