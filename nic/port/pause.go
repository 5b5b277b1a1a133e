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
	p.Flow.Rx, p.Flow.Tx, p.Flow.Speed = l.RxPause, l.TxPause, l.Speed
}

// Control takes a frame of the MAC control sublayer that came in for the station
// own: PAUSE keeps the port from sending, if the two ends have agreed on that.
func (p *Port) Control(f *frame.Frame, own ether.Addr, now frame.Time) {
	c, err := pause.Parse(f.Bytes())
	switch {
	case err != nil || c.PFC:
		p.Refuse(f, nicdrop.MACControl, now)
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

// Relieve takes in how full the receive queues are, in parts of pacing.Full, and
// sends a PAUSE frame of the station src if that is due. It goes first, and no
// pause holds it back.
func (p *Port) Relieve(fill int, src ether.Addr, pool frame.Pool, now frame.Time) (next frame.Time) {
	if fill < pacing.XOFF && !p.Flow.Off() && !p.Shared() {
		return frame.Never
	}
	return p.relieve(fill, src, pool, now)
}

func (p *Port) relieve(fill int, src ether.Addr, pool frame.Pool, now frame.Time) (next frame.Time) {
	quanta, send := p.Flow.Waits(p.fullest(fill), now)
	if !send || p.Closed || p.link.Room() <= 0 {
		return p.Flow.Next()
	}
	f := pool.Get(pause.Len)
	if f == nil {
		return p.Flow.Next()
	}
	(&pause.Frame{Src: src, Quanta: quanta}).Put(f.Extend(pause.Len))
	p.Transmit(Out{Frame: f}, now)
	p.Flow.Told(quanta, now)
	return p.Flow.Next()
}
