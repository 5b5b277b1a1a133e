package ptp

import (
	"tapir/ptp/msg"
	"tapir/ptp/pairing"
	"tapir/wire/frame"
)

// sendDelayReq begins an exchange.
func (p *port) sendDelayReq() {
	seq := p.nextSeq(msg.DelayReq)
	m := msg.Message{Header: msg.Header{Type: msg.DelayReq, Sequence: seq, LogInterval: msg.IntervalUnspecified}}
	m.Correction = -p.cfg.DelayAsymmetry
	out := Outgoing{}
	if p.cfg.HybridE2E || p.unicast.Asks() {
		out.Dst = p.parentAddr
	}
	if out.ID = p.await(pending{kind: msg.DelayReq, seq: seq}); out.ID == 0 {
		return
	}
	if !p.requests.Begin(seq) {
		p.stats.Unanswered++
	}
	p.transmit(&m, out)
}

// delaySent takes t3.
func (p *port) delaySent(seq uint16, t3 frame.Stamp) Drop {
	e, r := p.requests.Sent(seq, t3)
	if r != pairing.Done {
		return DropNone // of a master that is no longer followed, perhaps
	}
	return p.completeDelay(e)
}

// receiveDelayReq answers a slave.
func (p *port) receiveDelayReq(m *msg.Message, meta *Meta, rx frame.Stamp) Drop {
	switch {
	case p.cfg.DelayMechanism != msg.DelayE2E:
		return DropMechanism
	case p.state != msg.StateMaster:
		return DropState
	case !p.bucket.Take(meta.Now):
		return DropRate
	case !p.unicast.Answers(meta.Src, m, msg.DelayResp, meta.Now) && !p.cfg.HybridE2E:
		return DropUnicast
	}
	log := p.cfg.LogMinDelayReqInterval
	if m.Flags.Has(msg.FlagUnicast) {
		log = msg.IntervalUnspecified
	}
	p.answer(answer{
		kind: msg.DelayResp, seq: m.Sequence, dst: replyTo(m, meta), to: m.Source, stamp: rx, corr: m.Correction,
		log: log,
	})
	return DropNone
}

// receiveDelayResp takes t4. It may come before the stamp of the request.
func (p *port) receiveDelayResp(m *msg.Message) Drop {
	switch {
	case p.cfg.DelayMechanism != msg.DelayE2E:
		return DropMechanism
	case !p.following():
		return DropState
	case m.Port != p.id:
		return DropOther
	case m.Source != p.parent.Port:
		return DropParent
	}
	t4, ok := m.Timestamp.Stamp()
	if !ok {
		return DropRange
	}
	p.fields.DelayResp = m.Correction
	e, r := p.requests.Answered(m.Sequence, t4, m.Correction)
	switch r {
	case pairing.Unknown:
		return DropSequence
	case pairing.Duplicate:
		return DropDuplicate
	}
	if !m.Flags.Has(msg.FlagUnicast) && m.LogInterval >= MinLogInterval && m.LogInterval <= MaxLogInterval {
		p.logDelay = m.LogInterval
	}
	if r == pairing.Done {
		return p.completeDelay(e)
	}
	return DropNone
}

// completeDelay computes the mean path delay.
func (p *port) completeDelay(e pairing.Exchange) Drop {
	if !p.discipline.Delay(e.T3, e.T4, e.Correction) {
		return DropRange
	}
	return DropNone
}

// sendPdelayReq begins an exchange with the neighbor.
func (p *port) sendPdelayReq(now frame.Time) {
	seq := p.link.Begin()
	p.assess(now)
	if p.state == msg.StateFaulty {
		return
	}
	m := msg.Message{Header: msg.Header{Type: msg.PdelayReq, Sequence: seq, LogInterval: msg.IntervalUnspecified,
		Correction: -p.cfg.DelayAsymmetry}}
	if p.Profile().is8021as() {
		m.LogInterval = p.rates.pdelay
	}
	out := Outgoing{ID: p.await(pending{kind: msg.PdelayReq, seq: seq})}
	if out.ID != 0 {
		p.transmit(&m, out)
	}
}

// detectPeer changes an automatic delay mechanism to that of the neighbor.
func (p *port) detectPeer(now frame.Time) {
	if !p.cfg.AutoDelay || p.cfg.DelayMechanism == msg.DelayP2P {
		return
	}
	p.cfg.DelayMechanism = msg.DelayP2P
	p.stop(delayTimer)
	p.requests = pairing.Requests{}
	p.startPeerDelay(now)
	p.offerUnicast()
}

// receivePdelayReq answers the neighbor.
func (p *port) receivePdelayReq(m *msg.Message, meta *Meta, rx frame.Stamp) Drop {
	p.detectPeer(meta.Now)
	switch {
	case p.cfg.DelayMechanism != msg.DelayP2P:
		return DropMechanism
	case !p.bucket.Take(meta.Now):
		return DropRate
	case !p.unicast.Answers(meta.Src, m, msg.PdelayResp, meta.Now):
		return DropUnicast
	}
	p.answer(answer{kind: msg.PdelayResp, seq: m.Sequence, dst: replyTo(m, meta), to: m.Source, stamp: rx,
		rx: meta.Stamp, corr: m.Correction})
	return DropNone
}

// preparePdelayResp makes a Pdelay_Resp of one step, or the first of two
// (IEEE 1588 section 11.4.2).
func (p *port) preparePdelayResp(a *answer, m *msg.Message, out *Outgoing) {
	if p.Instance.cfg.P2POneStep {
		out.OneStep, out.Since = true, a.rx
		m.Timestamp = msg.Timestamp{}
		m.Correction = a.corr.Add(p.cfg.IngressLatency).Add(p.cfg.EgressLatency)
		return
	}
	m.Flags, m.Correction = msg.FlagTwoStep, 0
	out.ID = p.await(pending{kind: msg.PdelayResp, seq: a.seq, dst: a.dst, to: a.to, corr: a.corr})
}

func (p *port) receivePdelayResp(m *msg.Message, rx frame.Stamp) Drop {
	switch {
	case p.cfg.DelayMechanism != msg.DelayP2P:
		return DropMechanism
	case m.Port != p.id:
		return DropOther
	}
	p.fields.PdelayResp = m.Correction
	return p.linkResult(p.link.Response(m, rx, p.cfg.DelayAsymmetry))
}

func (p *port) receivePdelayFollowUp(m *msg.Message) Drop {
	switch {
	case p.cfg.DelayMechanism != msg.DelayP2P:
		return DropMechanism
	case m.Port != p.id:
		return DropOther
	}
	p.fields.PdelayRespFollowUp = m.Correction
	return p.linkResult(p.link.FollowUp(m))
}
