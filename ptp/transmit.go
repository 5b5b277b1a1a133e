package ptp

import (
	"tapir/ptp/bmca"
	"tapir/ptp/msg"
	"tapir/ptp/pairing"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// maxPending is how many event messages of a port may wait for their stamps,
// besides one for each unicast client.
const maxPending = 64

// pending is an event message that was sent and waits for its stamp.
type pending struct {
	kind msg.Type
	seq  uint16
	dst  transport.Addr
	to   msg.PortIdentity // requestingPortIdentity, of a Pdelay_Resp
	corr msg.TimeInterval // of the Pdelay_Resp_Follow_Up
	log  int8
}

// answer is a message that flush sends.
type answer struct {
	kind  msg.Type
	seq   uint16
	dst   transport.Addr
	to    msg.PortIdentity
	stamp frame.Stamp // the body's timestamp
	rx    frame.Stamp // when the request came, as it was stamped
	corr  msg.TimeInterval
	log   int8
}

// nextSeq numbers the messages of a type.
func (p *port) nextSeq(t msg.Type) uint16 {
	p.seq[t&15]++
	return p.seq[t&15]
}

// transmit completes the header of m and sends it. A message that wants its
// stamp has an entry in pending.
func (p *port) transmit(m *msg.Message, out Outgoing) {
	cfg := &p.Instance.cfg
	m.SdoID, m.MinorVersion, m.Domain = cfg.SdoID, cfg.MinorVersion, cfg.Domain
	m.Source, m.Control = p.id, m.Type.Control()
	if out.Dst != (transport.Addr{}) {
		m.Flags |= msg.FlagUnicast
	}
	p.buf = m.Append(p.buf[:0])
	out.Body, out.Event, out.Now = p.buf, m.Type.Event(), p.now
	p.stats.Tx[m.Type&15]++
	p.lower.Send(p.index, out)
}

// await notes a message that wants its stamp and returns its ID, 0 if there is
// no room.
func (p *port) await(e pending) uint64 {
	if p.stamps.Full() {
		p.drop(DropQueue)
		return 0
	}
	p.lastID++
	p.stamps.Await(p.lastID, p.now.Add(p.cfg.TxTimestampTimeout), e)
	return p.lastID
}

// txStamp takes the stamp of a message, or the news that there is none.
func (p *port) txStamp(id uint64, s frame.Stamp, err error, now frame.Time) {
	e, r := p.stamps.Take(id)
	switch {
	case r == pairing.Unmatched:
		p.drop(DropStampLate)
	case r == pairing.Unknown:
		p.drop(DropStampStray)
	case err != nil:
		p.stampLost(now)
	default:
		if d := p.stamped(&e, s+frame.Stamp(p.cfg.EgressLatency.Duration())); d != DropNone {
			p.drop(d)
		}
	}
}

// stamped goes on with the message that was sent at s.
func (p *port) stamped(e *pending, s frame.Stamp) Drop {
	switch e.kind {
	case msg.Sync:
		p.answer(answer{kind: msg.FollowUp, seq: e.seq, dst: e.dst, stamp: s, log: e.log})
	case msg.DelayReq:
		return p.delaySent(e.seq, s)
	case msg.PdelayReq:
		return p.linkResult(p.link.Sent(e.seq, s))
	case msg.PdelayResp:
		p.answer(answer{kind: msg.PdelayRespFollowUp, seq: e.seq, dst: e.dst, to: e.to, stamp: s, corr: e.corr})
	}
	return DropNone
}

// expireStamps gives up stamps that did not come in time.
func (p *port) expireStamps(now frame.Time) {
	if p.stamps.Deadline() <= now {
		p.stampLost(now)
	}
}

// stampLost makes the port faulty: without stamps it cannot do its work.
func (p *port) stampLost(now frame.Time) {
	p.drop(DropStampLost)
	p.fault("transmit timestamp lost", now)
}

// answer queues a message for flush.
func (p *port) answer(a answer) {
	if p.n == len(p.answers) {
		p.drop(DropQueue)
		return
	}
	p.answers[(p.head+p.n)%len(p.answers)] = a
	p.n++
}

// flush sends the answers that wait.
func (p *port) flush() {
	p.pollUnicast()
	for p.n > 0 {
		a := p.answers[p.head]
		p.head = (p.head + 1) % len(p.answers)
		p.n--
		p.sendAnswer(&a)
	}
}

func (p *port) sendAnswer(a *answer) {
	m := msg.Message{
		Header:    msg.Header{Type: a.kind, Sequence: a.seq, Correction: a.corr, LogInterval: a.log},
		Timestamp: msg.TimestampOf(a.stamp), Port: a.to,
	}
	out := Outgoing{Dst: a.dst}
	switch a.kind {
	case msg.FollowUp:
		m.TLVs = p.followUpTLVs()
	case msg.PdelayResp:
		m.LogInterval = msg.IntervalUnspecified
		p.preparePdelayResp(a, &m, &out)
		if !out.OneStep && out.ID == 0 {
			return
		}
	case msg.PdelayRespFollowUp:
		m.LogInterval = msg.IntervalUnspecified
	}
	p.transmit(&m, out)
}

// sendSync sends a Sync to dst, or to all.
func (p *port) sendSync(dst transport.Addr, seq uint16, log int8) {
	if !p.isCapable() {
		return
	}
	m := msg.Message{Header: msg.Header{Type: msg.Sync, Sequence: seq, LogInterval: log}}
	out := Outgoing{Dst: dst}
	if p.Instance.cfg.TwoStep {
		m.Flags |= msg.FlagTwoStep
		if out.ID = p.await(pending{kind: msg.Sync, seq: seq, dst: dst, log: log}); out.ID == 0 {
			return
		}
	} else {
		out.OneStep, m.Correction = true, p.cfg.EgressLatency
		m.Timestamp = msg.TimestampOf(p.clock.At(p.now))
		m.TLVs = p.followUpTLVs()
	}
	p.transmit(&m, out)
}

// sendAnnounce sends an Announce to dst, or to all.
func (p *port) sendAnnounce(dst transport.Addr, seq uint16, log int8) {
	if !p.isCapable() {
		return
	}
	g := p.parent.Grandmaster
	g.StepsRemoved, g.UTCOffset, g.TimeSource = p.current.StepsRemoved, p.properties.UTCOffset, p.properties.TimeSource
	m := msg.Message{
		Header:      msg.Header{Type: msg.Announce, Sequence: seq, LogInterval: log, Flags: p.properties.Flags()},
		Grandmaster: g, TLVs: p.announceTLVs(),
	}
	p.transmit(&m, Outgoing{Dst: dst})
}

// announceTLVs are the TLVs of our Announces: the path trace, longer by us,
// and what the parent's Announces have to propagate.
func (p *port) announceTLVs() msg.TLVs {
	p.tlvs = p.tlvs[:0]
	if p.Instance.cfg.PathTrace && len(p.path) < bmca.MaxPath {
		p.tlvs = msg.AppendPathTrace(p.tlvs, p.path, p.id.Clock)
	}
	if power := &p.Instance.cfg.Power; power.Year != 0 && p.slavePort == nil {
		p.tlvs = power.Append(p.tlvs)
	}
	p.tlvs = append(p.tlvs, p.propagated...)
	return p.tlvs
}
