package sw

import (
	"slices"

	"tapir/nic/linkmode"
	"tapir/nic/pacing"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/pause"
)

// gap is what a frame takes of the line beside its octets: preamble, FCS and the
// gap to the next.
const gap = 24

// noPacing is the speed in Mb/s from which a port does not pace.
const noPacing = 100_000

// line is the line of a port: its speed, and PAUSE frames both ways.
type line struct {
	sched pacing.Tree
	flow  pacing.Flow
	down  bool // the two ends have no speed in common
	// rx, tx: PAUSE frames are obeyed and sent while no priority has PFC.
	rx, tx bool
}

// Ability is what each port offers to the other end of its cable.
func (s *Switch) Ability() linkmode.Ability { return s.cfg.Ability() }

// Negotiate tells what the other end of a port's cable offers.
func (s *Switch) Negotiate(port int, other linkmode.Ability, now frame.Time) {
	p := &s.ports[port]
	mbps, rx, tx := s.Ability().Agree(other)
	p.set(int(mbps), rx, tx)
	p.balance()
	p.down = mbps == 0
	p.sched.Pause(0, now)
	s.forwarder.setLink(port, !p.down, now)
	if p.lldp != nil {
		p.lldp.SetLink(false, now) // the link begins again
		p.lldp.SetLink(!p.down, now)
		p.lldp.Hurry(now)
		s.talk = now
	}
}

// unite sets up a port that has nobody to negotiate with.
func (s *Switch) unite(port int) {
	speed := s.Ability().Speeds.Mbps()
	p := &s.ports[port]
	p.set(int(speed), s.cfg.Pause, s.cfg.Pause)
	p.balance()
	p.flow.Speed = noPacing // for all that is known, a quantum of the other end is as short
}

// set tells the speed, and whether PAUSE frames are obeyed and sent.
func (l *line) set(mbps int, rx, tx bool) {
	rate := mbps
	if rate >= noPacing {
		rate = 0
	}
	l.sched.Port().SetRate(rate)
	l.rx, l.tx, l.flow.Speed = rx, tx, mbps
}

// balance has PFC take the place of PAUSE.
func (p *port) balance() {
	p.flow.Rx, p.flow.Tx = p.rx && p.dcb.PFC == 0, p.tx && p.dcb.PFC == 0
}

// takes tells whether a frame may leave by the line now, and then accounts for it: all are
// its octets on the line, before those of all but its last segment.
func (l *line) takes(all, before int64) bool {
	if !l.sched.Paces() {
		return true
	}
	if !l.sched.Port().Departs(before) {
		return false
	}
	l.sched.Port().SpendHere(all)
	return true
}

// control takes a frame of the MAC control sublayer, which concerns the port alone.
func (s *Switch) control(in int, f *frame.Frame, now frame.Time) {
	p := &s.ports[in]
	c, err := pause.Parse(f.Bytes())
	switch {
	case err != nil:
		s.drop(in, f, drop.Malformed)
	case c.PFC && c.Enabled&p.dcb.PFC == 0:
		s.drop(in, f, DropPFC)
	case c.PFC:
		p.obey(&c, p.dcb.PFC, now)
		f.Release()
	case !p.flow.Rx || c.Dst != pause.Group && c.Dst != s.cfg.MAC(in):
		s.drop(in, f, DropLinkLocal)
	default:
		p.flow.Received++
		p.sched.Pause(now.Add(p.flow.Pause(c.Quanta)), now)
		f.Release()
	}
}

// relieve has the senders wait whose frames fill an egress queue, and those go on
// that do not any more.
func (s *Switch) relieve(now frame.Time) (next frame.Time) {
	next = frame.Never
	if !s.pausing && !slices.ContainsFunc(s.busy, func(out int) bool { return s.part(out) >= pacing.XOFF }) {
		return next
	}
	s.pausing = false
	for in := range s.ports {
		p := &s.ports[in]
		if !p.flow.Tx {
			continue
		}
		quanta, send := p.flow.Waits(s.fill(in), now)
		if send && p.link.Room() > 0 {
			if f := s.env.Pool.Get(pause.Len); f != nil {
				(&pause.Frame{Src: s.cfg.MAC(in), Quanta: quanta}).Put(f.Extend(pause.Len))
				s.transmit(in, f)
				p.flow.Told(quanta, now)
			}
		}
		s.pausing = s.pausing || p.flow.Off()
		next = min(next, p.flow.Next())
	}
	return next
}

// part is how full the fullest egress queue of a port is, in parts of pacing.Full.
func (s *Switch) part(out int) (most int) {
	for tc := range s.ports[out].classes {
		most = max(most, s.ports[out].classes[tc].len())
	}
	return most * pacing.Full / s.cfg.Queue
}

// fill is how full the fullest egress queue is in which frames wait that came by a
// port, in parts of pacing.Full.
func (s *Switch) fill(in int) (most int) {
	for _, out := range s.busy {
		for tc := range s.ports[out].classes {
			q := &s.ports[out].classes[tc]
			part := q.len() * pacing.Full / s.cfg.Queue
			if part > most && slices.ContainsFunc(q.waiting[q.head:], func(w waiting) bool { return w.in == in }) {
				most = part
			}
		}
	}
	return most
}
