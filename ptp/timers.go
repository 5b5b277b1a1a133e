package ptp

import (
	"tapir/ptp/msg"
	"tapir/ptp/pace"
	"tapir/ptp/pairing"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// runTimers does what is due at now. No timer runs twice: one that fell behind
// continues from now.
func (p *port) runTimers(now frame.Time) {
	for t := range numTimers {
		if p.timers[t] > now {
			continue
		}
		due := p.timers[t]
		p.timers[t] = frame.Never
		switch t {
		case announceTimer:
			p.stats.MasterAnnounceTimeout++
			p.setTimer(t, pace.Next(due, p.announceInterval(), now))
			p.sendAnnounce(transport.Addr{}, p.nextSeq(msg.Announce), p.rates.announce)
		case syncTimer:
			p.stats.MasterSyncTimeout++
			p.setTimer(t, pace.Next(due, pace.Period(p.rates.sync), now))
			p.sendSync(transport.Addr{}, p.nextSeq(msg.Sync), p.rates.sync)
		case delayTimer:
			p.stats.DelayTimeout++
			p.armDelay(now)
			p.sendDelayReq()
		case pdelayTimer:
			p.stats.DelayTimeout++
			p.setTimer(t, pace.Next(due, pace.Period(p.rates.pdelay), now))
			p.sendPdelayReq(now)
		case announceReceipt:
			p.stats.AnnounceTimeout++
			p.masterLost("announce receipt timeout", now)
		case syncReceipt:
			p.stats.SyncTimeout++
			p.masterLost("sync receipt timeout", now)
		case qualification:
			p.stats.QualificationTimeout++
			if p.state == msg.StatePreMaster {
				p.setState(msg.StateMaster, "qualified", now)
			}
		case faultReset:
			p.initialize(now)
		case intervalTimer:
			p.requestIntervals()
		}
	}
	p.expireStamps(now)
}

// deadline is the earliest time at which the port has something to do.
func (p *port) deadline() frame.Time {
	at := frame.Never
	for _, t := range p.timers {
		at = min(at, t)
	}
	at = min(at, p.stamps.Deadline(), p.unicast.Next())
	return at
}

// masterLost is ANNOUNCE_RECEIPT_TIMEOUT_EXPIRES (IEEE 1588 section 9.2.6.12):
// the port forgets its master and becomes one itself, unless it knows another.
func (p *port) masterLost(why string, now frame.Time) {
	p.decide = true
	if p.cfg.Role == SlaveRole {
		p.loseStaticMaster(why, now)
		return
	}
	following := p.following()
	switch {
	case following:
		p.foreign.Forget(p.parent.Port)
	case p.state == msg.StatePassive:
		p.foreign.Clear()
	}
	switch {
	case p.foreign.Best(p.announceInterval(), now) != nil:
		p.armAnnounceReceipt(now)
		return // the state decision picks it
	case following:
		p.lostParent(now)
	}
	if !p.mayMaster() {
		p.setState(msg.StateListening, why, now)
		p.armAnnounceReceipt(now)
		return
	}
	p.setState(msg.StateMaster, why, now)
}

// loseStaticMaster lets a port with the static role of a slave wait for
// another source of Syncs.
func (p *port) loseStaticMaster(why string, now frame.Time) {
	p.sync, p.requests = pairing.Syncs{}, pairing.Requests{}
	p.parent.Port = msg.PortIdentity{}
	p.setState(msg.StateUncalibrated, why, now)
}

// armDelay starts the timer of the next Delay_Req: at random, so that slaves
// do not fall into step (IEEE 1588 section 9.5.11.2).
func (p *port) armDelay(now frame.Time) {
	p.setTimer(delayTimer, now.Add(1+p.random.Below(2*pace.Period(p.logDelay))))
}

// startPeerDelay lets the measurement of the link begin.
func (p *port) startPeerDelay(now frame.Time) {
	if p.cfg.DelayMechanism == msg.DelayP2P && p.timers[pdelayTimer] == frame.Never {
		p.setTimer(pdelayTimer, now)
	}
}
