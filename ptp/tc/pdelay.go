package tc

import (
	"slices"

	"tapir/ptp/msg"
	"tapir/ptp/pace"
	"tapir/ptp/pdelay"
	"tapir/ptp/servo"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

const (
	// linkID marks the IDs of own Pdelay messages: port, whether it is a
	// response, and a serial number below it.
	linkID     = 1 << 63
	responseID = 1 << 62
	portShift  = 40
	serialMask = 1<<portShift - 1

	maxAnswers   = 16 // Pdelay_Reqs of one port whose answers are under way
	lostPdelays  = 3  // exchanges in a row that may fail
	delaySamples = servo.DefaultFilterLength
)

// PdelayCounts counts the own Pdelay exchanges of all ports.
type PdelayCounts struct {
	Requests, Responses uint64 // sent
	Measured            uint64
	Lost                uint64 // exchanges that did not end
	Strange             uint64 // over another transport, responses without a request, or several to one
	Overrun             uint64 // requests that found too many others
}

// link measures the delay of one port's link and answers those that do the
// same (IEEE 1588-2019 section 11.4).
type link struct {
	clock     *Clock
	port      int
	initiator pdelay.Initiator
	filter    servo.Filter
	delay     msg.TimeInterval
	valid     bool
	next      frame.Time
	answers   []answer
	serial    uint64
}

// answer is a response under way.
type answer struct {
	serial     uint64
	req        msg.Message    // header of the request
	to         transport.Addr // zero: the group
	hop        ether.Addr
	t2         frame.Stamp
	sent, done bool // Pdelay_Resp is; its stamp is known
	over       bool
	t3         frame.Stamp
}

func (c *Clock) openLinks() error {
	if !c.cfg.PeerDelay {
		return nil
	}
	c.links = make([]link, len(c.cfg.Ports))
	for i := range c.links {
		f, err := servo.NewFilter(servo.MovingMedian, delaySamples)
		if err != nil {
			return err
		}
		c.links[i] = link{clock: c, port: i, filter: f}
	}
	return nil
}

// LinkDelay is the mean delay of a port's link, false while it is not known.
func (c *Clock) LinkDelay(port int) (msg.TimeInterval, bool) {
	if c.links == nil {
		return 0, false
	}
	return c.links[port].delay, c.links[port].valid
}

// identity is the port's own.
func (l *link) identity() msg.PortIdentity {
	return msg.PortIdentity{Clock: l.clock.cfg.Identity, Port: uint16(l.port + 1)}
}

// receive takes in a Pdelay message.
func (l *link) receive(m *msg.Message, p *transport.Packet, at frame.Stamp) {
	if m.Source.Clock == l.clock.cfg.Identity {
		return // our own, come back
	}
	if p.Kind != l.clock.cfg.Ports[l.port].Carriage.Kind {
		l.clock.counts.Pdelay.Strange++
		return
	}
	switch m.Type {
	case msg.PdelayReq:
		l.request(m, p, at)
	case msg.PdelayResp:
		if m.Port == l.identity() {
			l.result(l.initiator.Response(m, at, l.asymmetry()))
		}
	case msg.PdelayRespFollowUp:
		if m.Port == l.identity() {
			l.result(l.initiator.FollowUp(m))
		}
	}
}

func (l *link) asymmetry() msg.TimeInterval { return l.clock.cfg.Ports[l.port].DelayAsymmetry }

// result takes in what a message or stamp did to the exchange under way.
func (l *link) result(r pdelay.Result) {
	switch r {
	case pdelay.Done:
		l.clock.counts.Pdelay.Measured++
		l.delay, l.valid = msg.TimeInterval(l.filter.Sample(int64(l.initiator.Last().Delay))), true
	case pdelay.Stale, pdelay.Ambiguous, pdelay.Invalid:
		l.clock.counts.Pdelay.Strange++
	}
}

func (l *link) request(m *msg.Message, p *transport.Packet, at frame.Stamp) {
	if len(l.answers) == maxAnswers && !l.forgetAnswered() {
		l.clock.counts.Pdelay.Overrun++
		return
	}
	l.serial++
	a := answer{serial: l.serial & serialMask, req: *m, t2: at}
	a.req.TLVs = nil // borrowed
	if m.Flags.Has(msg.FlagUnicast) {
		a.to, a.hop = p.Src, p.Header.Src
	}
	l.answers = append(l.answers, a)
}

// forgetAnswered makes room of the oldest answer, if its stamp never came.
func (l *link) forgetAnswered() bool {
	if a := &l.answers[0]; !a.sent || a.done {
		return false
	}
	l.answers = slices.Delete(l.answers, 0, 1)
	return true
}

// stamp takes in when an own event message left. True asks for poll.
func (l *link) stamp(id uint64, at frame.Stamp, ok bool) bool {
	if id&responseID == 0 {
		if ok {
			l.result(l.initiator.Sent(uint16(id), at))
		}
		return false
	}
	for i := range l.answers {
		if a := &l.answers[i]; a.serial == id&serialMask && a.sent {
			a.t3, a.done, a.over = at, ok, !ok
			return ok
		}
	}
	return false
}

// poll sends what is due and returns when the next request is.
func (l *link) poll(now frame.Time) frame.Time {
	for i := range l.answers {
		a := &l.answers[i]
		if !a.sent {
			a.sent = true
			l.sendResponse(a, now) // which may bring the stamp at once
			a.over = l.clock.cfg.OneStep
		}
		if a.done {
			a.over = true
			l.sendFollowUp(a)
		}
	}
	l.answers = slices.DeleteFunc(l.answers, func(a answer) bool { return a.over })
	if now >= l.next {
		l.startExchange()
		l.next = now.Add(pace.Period(l.clock.cfg.LogPdelayInterval))
	}
	return l.next
}

func (l *link) startExchange() {
	seq := l.initiator.Begin()
	if lost := l.initiator.Lost(); lost > 0 {
		l.clock.counts.Pdelay.Lost++
		if lost > lostPdelays {
			l.valid = false
			l.filter.Reset()
		}
	}
	c := &l.clock.cfg
	m := l.message(msg.PdelayReq, seq)
	m.Domain, m.SdoID, m.LogInterval, m.Correction = c.Domain, c.SdoID, c.LogPdelayInterval, -l.asymmetry()
	l.clock.counts.Pdelay.Requests++
	l.send(&m, transport.Addr{}, ether.Addr{}, linkID|uint64(l.port)<<portShift|uint64(seq))
}

func (l *link) message(t msg.Type, seq uint16) msg.Message {
	return msg.Message{Header: msg.Header{Type: t, MinorVersion: 1, Source: l.identity(), Sequence: seq,
		Control: t.Control(), LogInterval: msg.IntervalUnspecified}}
}

// reply is a message that answers a.
func (l *link) reply(t msg.Type, a *answer) msg.Message {
	m := l.message(t, a.req.Sequence)
	m.Domain, m.SdoID, m.MinorVersion, m.Port = a.req.Domain, a.req.SdoID, a.req.MinorVersion, a.req.Source
	m.Flags = a.req.Flags & msg.FlagUnicast
	return m
}

func (l *link) sendResponse(a *answer, now frame.Time) {
	m := l.reply(msg.PdelayResp, a)
	l.clock.counts.Pdelay.Responses++
	if l.clock.cfg.OneStep {
		m.Correction = a.req.Correction.Add(msg.TimeInterval(l.clock.env.Clock.At(now)-a.t2) << 16)
		l.send(&m, a.to, a.hop, 0)
		return
	}
	m.Flags |= msg.FlagTwoStep
	m.Timestamp = msg.TimestampOf(a.t2)
	l.send(&m, a.to, a.hop, linkID|responseID|uint64(l.port)<<portShift|a.serial)
}

func (l *link) sendFollowUp(a *answer) {
	m := l.reply(msg.PdelayRespFollowUp, a)
	m.Timestamp, m.Correction = msg.TimestampOf(a.t3), a.req.Correction
	l.send(&m, a.to, a.hop, 0)
}

// send sends a message to dst behind hop, or to the group of Pdelay messages.
func (l *link) send(m *msg.Message, dst transport.Addr, hop ether.Addr, id uint64) {
	c := l.clock
	c.body = m.Append(c.body[:0])
	c.frame = c.cfg.Ports[l.port].Carriage.Append(c.frame[:0], c.body, dst, hop)
	f := c.env.Pool.Get(len(c.frame))
	if f == nil {
		return
	}
	f.Append(c.frame)
	f.ID = id
	c.env.Lower.Send(l.port, f)
}
