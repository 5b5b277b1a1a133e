package ptp

import (
	"time"

	"tapir/ptp/bmca"
	"tapir/ptp/discipline"
	"tapir/ptp/msg"
	"tapir/ptp/pace"
	"tapir/ptp/pairing"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// receive takes a message through the checks that all types share, then to
// what serves its type. It returns why the message was dropped.
func (p *port) receive(m *msg.Message, meta *Meta) Drop {
	cfg := &p.Instance.cfg
	if m.Type == msg.Management {
		return p.receiveManagement(m, meta)
	}
	switch {
	case p.state <= msg.StateDisabled:
		return DropPort
	case m.SdoID != cfg.SdoID:
		return DropSdoID
	case m.Domain != cfg.Domain:
		return DropDomain
	case m.Source.Clock == p.id.Clock:
		return DropOwn
	case m.Source.Port == 0 || m.Source.Port == 0xffff:
		return DropMalformed
	case m.Type.Event() && !meta.Stamped:
		return DropUnstamped
	case m.Correction == msg.MaxInterval || m.Correction == msg.MinInterval:
		return DropRange
	}
	rx := meta.Stamp - frame.Stamp(p.cfg.IngressLatency.Duration())
	switch m.Type {
	case msg.Announce:
		return p.receiveAnnounce(m, meta)
	case msg.Sync:
		return p.receiveSync(m, meta, rx)
	case msg.FollowUp:
		return p.receiveFollowUp(m, meta)
	case msg.DelayReq:
		return p.receiveDelayReq(m, meta, rx)
	case msg.DelayResp:
		return p.receiveDelayResp(m)
	case msg.PdelayReq:
		return p.receivePdelayReq(m, meta, rx)
	case msg.PdelayResp:
		return p.receivePdelayResp(m, rx)
	case msg.PdelayRespFollowUp:
		return p.receivePdelayFollowUp(m)
	case msg.Signaling:
		return p.receiveSignaling(m, meta)
	}
	return DropState
}

// receiveManagement gives a management message to the manager. Ports that are
// disabled or faulty are managed too.
func (p *port) receiveManagement(m *msg.Message, meta *Meta) Drop {
	switch {
	case p.manager == nil:
		return DropState
	case m.SdoID != p.Instance.cfg.SdoID:
		return DropSdoID
	case m.Domain != p.Instance.cfg.Domain:
		return DropDomain
	case !p.bucket.Take(meta.Now):
		return DropRate
	}
	p.manager.Management(p.index, m, *meta)
	return DropNone
}

// receiveAnnounce takes an Announce to the table of foreign masters.
func (p *port) receiveAnnounce(m *msg.Message, meta *Meta) Drop {
	switch {
	case p.cfg.Role != Dynamic, p.cfg.MasterOnly:
		return DropState
	case m.Flags.Has(msg.FlagAlternateMaster):
		return DropAlternate
	case m.Grandmaster.StepsRemoved >= p.Instance.cfg.MaxStepsRemoved:
		return DropSteps
	case m.Grandmaster.Quality.Class > p.Instance.cfg.MaxClockClass:
		return DropClass
	case m.Grandmaster.Identity == p.id.Clock:
		return DropOwn
	case !p.isCapable():
		return DropCapable
	case p.unicast.Refuses(meta.Src, m):
		return DropUnicast
	case p.Instance.cfg.PathTrace && inPath(m.TLVs, p.id.Clock):
		return DropLoop
	}
	now := meta.Now
	switch p.foreign.Hear(m, meta.Src, p.id, p.cfg.LocalPriority, p.announceInterval(), now) {
	case bmca.Rejected:
		return DropForeign
	case bmca.Changed:
		p.decide = true
	}
	switch {
	case p.following() && m.Source == p.parent.Port:
		p.armAnnounceReceipt(now)
		p.follow(p, p.foreign.Find(m.Source))
	case p.state == msg.StatePassive:
		p.armAnnounceReceipt(now)
	}
	return DropNone
}

// replyTo is where an answer to m is sent: to its sender if it came by unicast,
// else to all.
func replyTo(m *msg.Message, meta *Meta) transport.Addr {
	if m.Flags.Has(msg.FlagUnicast) {
		return meta.Src
	}
	return transport.Addr{}
}

func inPath(tlvs msg.TLVs, c msg.ClockIdentity) bool {
	v, _ := tlvs.Find(msg.TLVPathTrace)
	return msg.PathTrace(v[:len(v)&^7]).Contains(c)
}

// receiveSync takes a Sync of the parent.
func (p *port) receiveSync(m *msg.Message, meta *Meta, rx frame.Stamp) Drop {
	if d := p.fromParent(m, meta); d != DropNone {
		return d
	}
	if p.sync.Seen(m.Sequence) {
		return DropDuplicate
	}
	p.syncSeen(m.LogInterval, meta.Now)
	p.fields.Sync = m.Correction
	if !p.discipline.Sane(rx, meta.seen()) {
		p.synchronizationFault("clock frequency is not sane", meta.Now)
	}
	if !m.Flags.Has(msg.FlagTwoStep) {
		f, d := followUp(m)
		if d != DropNone {
			return d
		}
		f.Correction = 0 // it is the Sync's
		p.sync.OneStep(m.Sequence)
		return p.completeSync(m.Sequence, pairing.Pair{Ingress: rx, Correction: m.Correction, FollowUp: f}, meta.Now)
	}
	pair, r, displaced := p.sync.Sync(m.Sequence, rx, m.Correction)
	if displaced {
		p.drop(DropUnmatched)
		p.stats.SyncMismatch++
	}
	if r == pairing.Done {
		return p.completeSync(m.Sequence, pair, meta.Now)
	}
	return DropNone
}

// receiveFollowUp takes a Follow_Up of the parent. It may overtake its Sync.
func (p *port) receiveFollowUp(m *msg.Message, meta *Meta) Drop {
	if d := p.fromParent(m, meta); d != DropNone {
		return d
	}
	f, d := followUp(m)
	switch {
	case d != DropNone:
		return d
	case p.Instance.cfg.FollowUpInfo && !f.HasInfo:
		return DropMalformed
	}
	p.fields.FollowUp = m.Correction
	pair, r, displaced := p.sync.FollowUp(m.Sequence, f)
	if displaced {
		p.drop(DropUnmatched)
		p.stats.FollowUpMismatch++
	}
	switch r {
	case pairing.Done:
		return p.completeSync(m.Sequence, pair, meta.Now)
	case pairing.Duplicate:
		return DropDuplicate
	case pairing.Unmatched:
		return DropUnmatched
	}
	return DropNone
}

// followUp is what a Follow_Up says, or a Sync of one step.
func followUp(m *msg.Message) (f pairing.FollowUp, d Drop) {
	origin, ok := m.Timestamp.Stamp()
	if !ok {
		return f, DropRange
	}
	f = pairing.FollowUp{Origin: origin, Correction: m.Correction}
	f.Info, f.HasInfo = followUpInfo(m.TLVs)
	return f, DropNone
}

// fromParent tells whether a Sync or Follow_Up is of use. A static slave takes
// the first sender it hears as its parent.
func (p *port) fromParent(m *msg.Message, meta *Meta) Drop {
	switch {
	case !p.following():
		return DropState
	case !p.isCapable():
		return DropCapable
	case m.Flags.Has(msg.FlagAlternateMaster):
		return DropAlternate
	case p.unicast.Refuses(meta.Src, m):
		return DropUnicast
	}
	if p.cfg.Role == SlaveRole && p.parent.Port != m.Source &&
		(p.parent.Port.Clock == p.id.Clock || p.parent.Port == msg.PortIdentity{}) {
		p.adopt(m.Source, meta)
	}
	if m.Source != p.parent.Port {
		return DropParent
	}
	return DropNone
}

// syncSeen follows the master's Sync interval and its timeout.
func (p *port) syncSeen(log int8, now frame.Time) {
	if log != p.logSync && log >= MinLogInterval && log <= MaxLogInterval {
		p.logSync = log
		p.discipline.SetInterval(pace.Period(log))
	}
	if n := p.cfg.SyncReceiptTimeout; n > 0 {
		p.setTimer(syncReceipt, now.Add(time.Duration(n)*pace.Period(p.logSync)))
	}
}

// completeSync computes with a Sync whose origin time is known.
func (p *port) completeSync(seq uint16, s pairing.Pair, now frame.Time) Drop {
	corr := s.Correction.Add(s.FollowUp.Correction).Add(p.cfg.DelayAsymmetry)
	if corr == msg.MaxInterval || corr == msg.MinInterval {
		return DropRange
	}
	if s.HasInfo {
		p.gm.info = s.Info
	}
	return p.measure(seq, discipline.Sync{Origin: s.Origin, Ingress: s.Ingress, Correction: corr}, now)
}
