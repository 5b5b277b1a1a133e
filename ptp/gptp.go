package ptp

import (
	"math"

	"tapir/ptp/discipline"
	"tapir/ptp/msg"
	"tapir/ptp/pace"
	"tapir/ptp/pdelay"
	"tapir/wire/frame"
)

// maxMultiple is how many exchanges in a row with several answers make a port
// faulty.
const maxMultiple = 3

// gmInfo is what the Follow_Up information of IEEE 802.1AS says of the
// grandmaster.
type gmInfo struct {
	info     msg.FollowUpInfo // of the parent
	timeBase uint16           // our own gmTimeBaseIndicator
}

// followUpInfo finds the Follow_Up information TLV.
func followUpInfo(tlvs msg.TLVs) (f msg.FollowUpInfo, found bool) {
	for t, rest, ok := tlvs.Next(); ok && !found; t, rest, ok = rest.Next() {
		found = t.Type == msg.TLVOrganization && f.Parse(t.Value) == nil
	}
	return f, found
}

// followUpTLVs are the TLVs of our Follow_Ups: the rate ratio of the
// grandmaster to our clock, and what it said of its steps.
func (p *port) followUpTLVs() msg.TLVs {
	if !p.Instance.cfg.FollowUpInfo {
		return nil
	}
	f := msg.FollowUpInfo{TimeBaseIndicator: p.gm.timeBase}
	if s := p.slavePort; s != nil {
		f = p.gm.info
		off := float64(s.link.Last().RateRatio-1) * (1 << 41)
		if s.link.Last().RatioOK && math.Abs(off) < math.MaxInt32/2 {
			f.CumulativeRateOffset += int32(math.Floor(off + 0.5))
		}
	}
	p.tlvs = f.Append(p.tlvs[:0])
	return p.tlvs
}

// isCapable tells that the link may carry time: asCapable in IEEE 802.1AS,
// always elsewhere.
func (p *port) isCapable() bool { return p.capable || !p.Profile().is8021as() }

// assess decides whether the link is asCapable (IEEE 802.1AS section 11.2.2)
// and whether several neighbors share it.
func (p *port) assess(now frame.Time) {
	if p.link.Multiple() >= maxMultiple {
		p.fault("several neighbors answer Pdelay_Req", now)
		return
	}
	thresh := msg.IntervalOf(p.cfg.NeighborPropDelayThresh)
	p.capable = p.cfg.AsCapable || p.linkOK && p.link.Lost() <= int(p.cfg.AllowedLostResponses) &&
		p.link.Multiple() == 0 && p.link.Last().RatioOK && (thresh == 0 || p.linkMean <= thresh)
}

// linkResult goes on after a message or stamp of a peer delay exchange.
func (p *port) linkResult(r pdelay.Result) Drop {
	switch r {
	case pdelay.Done:
		last := p.link.Last()
		if last.Delay >= discipline.MaxDelay || last.Delay <= -discipline.MaxDelay {
			return DropRange
		}
		if last.Peer != p.peer {
			p.peer = last.Peer
			p.filter.Reset()
		}
		p.linkMean, p.linkOK = msg.TimeInterval(p.filter.Sample(int64(last.Delay))), true
		p.assess(p.now)
	case pdelay.Stale:
		return DropSequence
	case pdelay.Repeated:
		return DropDuplicate
	case pdelay.Ambiguous:
		return DropPeers
	case pdelay.Invalid:
		return DropRange
	}
	return DropNone
}

// adopt makes the sender of a Sync the parent of a static slave.
func (p *port) adopt(source msg.PortIdentity, meta *Meta) {
	p.newMaster(meta.Now)
	p.slavePort = p
	p.parent.Port = source
	p.parentAddr = meta.Src
	p.parent.Grandmaster.Identity = source.Clock
	p.current.StepsRemoved = 1
}

// receiveSignaling serves the TLVs of a Signaling message.
func (p *port) receiveSignaling(m *msg.Message, meta *Meta) Drop {
	if m.Port != p.id && (m.Port.Clock != msg.AllClocks && m.Port.Clock != p.id.Clock || m.Port.Port != 0xffff) {
		return DropOther
	}
	if !p.bucket.Take(meta.Now) {
		return DropRate
	}
	served := p.unicast.Signaling(meta.Src, m, meta.Now)
	for t, rest, ok := m.TLVs.Next(); ok; t, rest, ok = rest.Next() {
		var r msg.IntervalRequest
		if p.Profile().is8021as() && t.Type == msg.TLVOrganization && r.Parse(t.Value) == nil {
			p.applyIntervals(&r, meta.Now)
			served = true
		}
	}
	if !served {
		return DropTLV
	}
	return DropNone
}

// applyIntervals changes the intervals of what we send as the neighbor asks
// (IEEE 802.1AS section 10.6.4.3).
func (p *port) applyIntervals(r *msg.IntervalRequest, now frame.Time) {
	p.applyInterval(&p.rates.sync, p.cfg.LogSyncInterval, r.TimeSync, syncTimer, p.state == msg.StateMaster, now)
	p.applyInterval(&p.rates.announce, p.cfg.LogAnnounceInterval, r.Announce, announceTimer,
		p.state == msg.StateMaster && p.cfg.Role == Dynamic, now)
	p.applyInterval(&p.rates.pdelay, p.cfg.LogMinPdelayReqInterval, r.LinkDelay, pdelayTimer, true, now)
}

// applyInterval changes one interval. What cannot be served stays as it is.
func (p *port) applyInterval(log *int8, initial, want int8, t timer, running bool, now frame.Time) {
	switch {
	case want == msg.IntervalUnchanged:
		return
	case want == msg.IntervalStop:
		p.stop(t)
		return
	case want == msg.IntervalInitial:
		want = initial
	case want < MinLogInterval || want > MaxLogInterval:
		p.drop(DropRange)
		return
	}
	*log = want
	if running {
		p.setTimer(t, now.Add(pace.Period(want)))
	}
}

// requestIntervals asks the master for the intervals of a settled slave.
func (p *port) requestIntervals() {
	r := msg.IntervalRequest{LinkDelay: msg.IntervalUnchanged, TimeSync: p.cfg.OperLogSyncInterval,
		Announce: msg.IntervalUnchanged}
	if p.cfg.OperLogPdelayReqInterval != msg.IntervalUnchanged {
		p.rates.pdelay = p.cfg.OperLogPdelayReqInterval
	}
	if r.TimeSync == msg.IntervalUnchanged {
		return
	}
	p.tlvs = r.Append(p.tlvs[:0])
	m := msg.Message{Header: msg.Header{Type: msg.Signaling, Sequence: p.nextSeq(msg.Signaling),
		LogInterval: msg.IntervalUnspecified}, Port: msg.AllPorts, TLVs: p.tlvs}
	p.transmit(&m, Outgoing{})
}
