package tc

import (
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// hold is a general message that waits for a residence.
type hold struct {
	port  int
	f     *frame.Frame
	key   key
	until frame.Time
}

// Receive looks at a frame (borrowed) that came in through port. at is when it
// did; without a stamp, event messages are discarded.
func (c *Clock) Receive(port int, b []byte, at frame.Stamp, stamped bool, now frame.Time) (Tag, Verdict) {
	p, ok := transport.Find(b)
	if !ok {
		return Tag{}, Forward
	}
	var m msg.Message
	if m.Parse(p.Body) != nil {
		c.counts.Malformed++
		return Tag{}, Forward
	}
	if m.Type.Event() && !stamped && !(c.cfg.PeerDelay && m.Type == msg.DelayReq) {
		c.counts.Unstamped++
		return Tag{}, Discard
	}
	if c.cfg.PeerDelay {
		switch m.Type {
		case msg.DelayReq, msg.DelayResp:
			return Tag{}, Discard
		case msg.PdelayReq, msg.PdelayResp, msg.PdelayRespFollowUp:
			c.links[port].receive(&m, &p, at)
			return Tag{}, Consumed
		}
	}
	if m.Type.Event() {
		return c.event(port, &m, at, now)
	}
	if m.Type == msg.FollowUp {
		c.follow.followUp(c, &m)
	}
	if c.cfg.OneStep {
		return Tag{}, Forward
	}
	return c.general(port, &m), Forward
}

// keyOf is the key of the event message whose source, or requesting, port is
// id.
func keyOf(event msg.Type, m *msg.Message, id msg.PortIdentity) key {
	return key{event: event, domain: m.Domain, sdoID: m.SdoID, port: id, seq: m.Sequence}
}

// event tags an event message.
func (c *Clock) event(port int, m *msg.Message, at frame.Stamp, now frame.Time) (Tag, Verdict) {
	t := Tag{event: true, ingress: port, at: at, key: keyOf(m.Type, m, m.Source)}
	switch m.Type {
	case msg.Sync:
		c.follow.sync(c, m, at, now)
		t.extra = c.cfg.Ports[port].DelayAsymmetry
		if c.cfg.PeerDelay {
			l := &c.links[port]
			if !l.valid {
				c.counts.NoDelay++
				return Tag{}, Discard
			}
			t.extra = t.extra.Add(c.unit().apply(l.delay))
		}
	case msg.PdelayResp:
		t.extra = c.cfg.Ports[port].DelayAsymmetry
		if c.cfg.OneStep {
			break
		}
		// The request's residence goes the same way as the response's.
		k := keyOf(msg.PdelayReq, m, m.Port)
		k.egress = uint16(port)
		r := c.table.find(k, now)
		if r == nil || r.outcome != known {
			c.counts.Unmatched++
			return Tag{}, Discard
		}
		t.extra = t.extra.Add(r.value)
	}
	return t, Forward
}

// general tags a general message that takes a residence.
func (c *Clock) general(port int, m *msg.Message) Tag {
	t := Tag{ingress: port}
	switch m.Type {
	case msg.FollowUp:
		t.key = keyOf(msg.Sync, m, m.Source)
	case msg.PdelayRespFollowUp:
		t.key = keyOf(msg.PdelayResp, m, m.Source)
	case msg.DelayResp:
		t.key = keyOf(msg.DelayReq, m, m.Port)
	default:
		return Tag{}
	}
	return t
}

// Depart takes a tagged frame that leaves through port.
func (c *Clock) Depart(port int, f *frame.Frame, t Tag, now frame.Time) {
	if !t.event {
		c.departGeneral(port, f, t, now)
		return
	}
	if t.key.event == msg.DelayReq || t.key.event == msg.PdelayReq {
		t.extra = t.extra.Add(-c.cfg.Ports[port].DelayAsymmetry)
	}
	if c.cfg.OneStep {
		c.correct(f, c.residence(t.at, c.env.Clock.At(now)).Add(t.extra))
		c.env.Lower.Send(port, f)
		return
	}
	k := t.key
	k.egress = uint16(port)
	if c.table.find(k, now) != nil {
		// A duplicate: receivers take the first, and so must its residence be.
		c.counts.Duplicates++
		c.env.Lower.Send(port, f)
		return
	}
	r := c.table.add(k, t.at, t.extra, now)
	r.egress = port
	c.makeFollowUp(r, f)
	f.ID = r.id
	c.env.Lower.Send(port, f)
}

// unit converts intervals of the own clock.
func (c *Clock) unit() *rate { return &c.follow.rate }

// residence is a stay in units of the clock that is followed.
func (c *Clock) residence(in, out frame.Stamp) msg.TimeInterval {
	return c.unit().apply(msg.TimeInterval(out-in) << 16)
}

// correct adds to a frame's correctionField.
func (c *Clock) correct(f *frame.Frame, by msg.TimeInterval) {
	if p, ok := transport.Find(f.Bytes()); ok {
		p.AddCorrection(by)
		c.counts.Corrected++
	}
}

// TxStamp takes in when the frame with that ID left; without ok nobody knows.
// True asks for Poll: messages may have waited for it.
func (c *Clock) TxStamp(id uint64, at frame.Stamp, ok bool) (again bool) {
	if id&linkID != 0 {
		return c.links[id&^(linkID|responseID)>>portShift].stamp(id, at, ok)
	}
	r := c.table.byID(id)
	if r == nil {
		return false
	}
	if !ok {
		c.counts.LostStamps++
		r.outcome = lost
		if r.made != nil {
			r.made.Release()
			r.made = nil
		}
		return len(c.held) > 0
	}
	r.outcome, r.value = known, c.residence(r.ingress, at).Add(r.extra)
	if r.made != nil {
		c.made = append(c.made, r.id)
	}
	return len(c.made)+len(c.held) > 0
}

// departGeneral puts the residence into a general message, or keeps it until
// the residence is known.
func (c *Clock) departGeneral(port int, f *frame.Frame, t Tag, now frame.Time) {
	t.key.egress = uint16(port)
	if t.key.event == msg.DelayReq {
		t.key.egress = uint16(t.ingress) // where the request had left
	}
	switch r := c.table.find(t.key, now); {
	case r != nil && r.outcome == known:
		c.correct(f, r.value)
		c.env.Lower.Send(port, f)
	case r != nil && r.outcome == lost, r == nil && t.key.event == msg.DelayReq:
		c.unmatched(f) // the request must have passed before
	case len(c.held) == c.cfg.Held:
		c.counts.HoldFull++
		c.unmatched(f)
	default:
		c.counts.HeldFrames++
		c.held = append(c.held, hold{port, f, t.key, now.Add(c.cfg.HoldTime)})
	}
}

func (c *Clock) unmatched(f *frame.Frame) {
	c.counts.Unmatched++
	f.Release()
}

// makeFollowUp gives a one-step message that passes a two-step clock a general
// message of its own: it becomes two-step (section 10.2.2.2).
func (c *Clock) makeFollowUp(r *record, f *frame.Frame) {
	p, ok := transport.Find(f.Bytes())
	var m msg.Message
	if !ok || m.Parse(p.Body) != nil || m.Flags.Has(msg.FlagTwoStep) {
		return
	}
	up := m
	switch m.Type {
	case msg.Sync:
		up.Type = msg.FollowUp
	case msg.PdelayResp:
		up.Type, up.Timestamp = msg.PdelayRespFollowUp, msg.Timestamp{}
	default:
		return
	}
	up.Control, up.TLVs, up.Correction = up.Type.Control(), nil, 0
	g := c.env.Pool.Get(f.Len())
	if g == nil {
		return
	}
	p.AddFlags(msg.FlagTwoStep)
	p.Reply(g, &up)
	r.made = g
}

// Poll sends what has waited for its residence, and the own messages, and
// returns the next deadline.
func (c *Clock) Poll(now frame.Time) frame.Time {
	for _, id := range c.made {
		r := c.table.slot(id)
		if r.id != id || r.made == nil {
			continue
		}
		f := r.made
		r.made = nil
		c.counts.Made++
		c.correct(f, r.value)
		c.env.Lower.Send(r.egress, f)
	}
	c.made = c.made[:0]
	next := c.release(now)
	for i := range c.links {
		next = min(next, c.links[i].poll(now))
	}
	return next
}

// release sends the held messages whose residence is known and discards those
// that have waited too long.
func (c *Clock) release(now frame.Time) frame.Time {
	next, kept := frame.Never, c.held[:0]
	for _, h := range c.held {
		r := c.table.find(h.key, now)
		switch {
		case r != nil && r.outcome == known:
			c.correct(h.f, r.value)
			c.env.Lower.Send(h.port, h.f)
		case r != nil && r.outcome == lost, now >= h.until:
			c.unmatched(h.f)
		default:
			kept = append(kept, h)
			next = min(next, h.until)
		}
	}
	clear(c.held[len(kept):])
	c.held = kept
	return next
}

// Counts are the counters.
func (c *Clock) Counts() Counts {
	n := c.counts
	n.Evicted = c.table.evicted
	return n
}

// Close releases what waits.
func (c *Clock) Close() {
	for _, h := range c.held {
		h.f.Release()
	}
	c.held = nil
	for i := range c.table.ring {
		if r := &c.table.ring[i]; r.made != nil {
			r.made.Release()
			r.made = nil
		}
	}
}
