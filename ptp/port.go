package ptp

import (
	"time"

	"tapir/ptp/bmca"
	"tapir/ptp/msg"
	"tapir/ptp/pace"
	"tapir/ptp/pairing"
	"tapir/ptp/pdelay"
	"tapir/ptp/servo"
	"tapir/ptp/transport"
	"tapir/ptp/unicast"
	"tapir/wire/frame"
)

// timer names one of a port's timers.
type timer uint8

const (
	announceTimer   timer = iota // the next Announce
	syncTimer                    // the next Sync
	delayTimer                   // the next Delay_Req
	pdelayTimer                  // the next Pdelay_Req
	announceReceipt              // no Announce until then: the master is lost
	syncReceipt                  // the same for Sync
	qualification                // PRE_MASTER ends
	faultReset                   // FAULTY ends
	intervalTimer                // the message interval request of a settled slave
	numTimers
)

// port is one PTP port.
type port struct {
	*Instance
	index  int
	id     msg.PortIdentity
	cfg    PortConfig
	state  msg.PortState
	why    string // the last fault
	timers [numTimers]frame.Time
	stats  Stats

	foreign  bmca.Table
	best     *bmca.Foreign // Erbest, valid during a state decision
	decision bmca.Decision

	seq      [16]uint16 // the next sequenceId by message type
	sync     pairing.Syncs
	requests pairing.Requests
	link     pdelay.Initiator
	linkMean msg.TimeInterval
	linkOK   bool // linkMean is valid
	fields   CorrectionFields
	filter   servo.Filter
	capable  bool

	parentAddr transport.Addr
	logSync    int8 // the master's sync interval
	logDelay   int8 // the master's minimum Delay_Req interval
	rates      logIntervals
	peer       msg.PortIdentity // the neighbor
	bucket     pace.Bucket
	unicast    *unicast.Negotiation

	stamps  pairing.Stamps[pending]
	answers []answer // to be sent by flush; a ring
	head, n int
}

// logIntervals are the intervals in force, which an interval request changes.
type logIntervals struct{ announce, sync, pdelay int8 }

// intervals are the configured ones.
func (c *PortConfig) intervals() logIntervals {
	return logIntervals{c.LogAnnounceInterval, c.LogSyncInterval, c.LogMinPdelayReqInterval}
}

func newPort(i *Instance, n int, cfg PortConfig) *port {
	p := &port{
		Instance: i, index: n, cfg: cfg,
		id:      msg.PortIdentity{Clock: i.cfg.ClockIdentity, Port: uint16(n + 1)},
		state:   msg.StateInitializing,
		stamps:  pairing.NewStamps[pending](maxPending + cfg.Unicast.Limits.Clients),
		answers: make([]answer, i.cfg.Limits.Requests),
	}
	p.foreign = bmca.Table{Algorithm: i.cfg.Algorithm, Threshold: i.cfg.ForeignThreshold}
	p.filter, _ = i.cfg.Servo.NewFilter() // its configuration was checked by discipline.New
	p.bucket = pace.NewBucket(i.cfg.Limits.RequestRate)
	p.resetRates()
	p.beginUnicast()
	for t := range p.timers {
		p.timers[t] = frame.Never
	}
	return p
}

// resetRates returns to the configured intervals.
func (p *port) resetRates() {
	p.rates = p.cfg.intervals()
	p.logSync, p.logDelay = p.cfg.LogSyncInterval, p.cfg.LogMinDelayReqInterval
}

func (p *port) announceInterval() time.Duration { return pace.Period(p.rates.announce) }

func (p *port) drop(d Drop) { p.stats.Drops[d]++ }

// start takes the port out of INITIALIZING.
func (p *port) start(now frame.Time) {
	if p.cfg.Disabled {
		p.setState(msg.StateDisabled, "disabled", now)
		return
	}
	p.initialize(now)
}

func (p *port) initialize(now frame.Time) {
	p.setState(msg.StateInitializing, "start", now)
	if p.cfg.AutoDelay {
		p.cfg.DelayMechanism = msg.DelayE2E
	}
	p.resetRates()
	p.capable = p.cfg.AsCapable
	p.beginUnicast()
	switch p.cfg.Role {
	case MasterRole:
		p.setState(msg.StateMaster, "static role", now)
	case SlaveRole:
		p.setState(msg.StateUncalibrated, "static role", now)
	default:
		p.setState(msg.StateListening, "initialized", now)
	}
	p.decide = true
}

func (p *port) setTimer(t timer, at frame.Time) { p.timers[t] = at }

func (p *port) stop(ts ...timer) {
	for _, t := range ts {
		p.timers[t] = frame.Never
	}
}

// armAnnounceReceipt starts the announce receipt timeout: so many intervals
// and up to one more.
func (p *port) armAnnounceReceipt(now frame.Time) {
	iv := p.announceInterval()
	d := time.Duration(p.cfg.AnnounceReceiptTimeout)*iv + p.random.Below(iv)
	p.setTimer(announceReceipt, now.Add(d))
}

// setState changes the state and does what entering it asks for.
func (p *port) setState(s msg.PortState, why string, now frame.Time) {
	from := p.state
	if from == s {
		return
	}
	p.state = s
	if !p.following() {
		p.leaveSlave()
	}
	if s != msg.StateMaster {
		p.stop(announceTimer, syncTimer)
	}
	if s != msg.StatePreMaster {
		p.stop(qualification)
	}
	switch s {
	case msg.StateInitializing, msg.StateFaulty, msg.StateDisabled:
		p.shut()
	case msg.StateListening, msg.StatePassive:
		p.startPeerDelay(now)
		p.armAnnounceReceipt(now)
	case msg.StatePreMaster:
		p.stop(announceReceipt)
	case msg.StateMaster:
		p.startPeerDelay(now)
		p.stop(announceReceipt)
		if !p.cfg.NoMulticast {
			p.setTimer(syncTimer, now)
		}
		if p.cfg.Role == Dynamic && !p.cfg.NoMulticast {
			p.setTimer(announceTimer, now)
		}
	case msg.StateUncalibrated:
		p.startPeerDelay(now)
		p.enterSlave(from, now)
	case msg.StateSlave:
		p.setTimer(intervalTimer, now)
	}
	if s == msg.StateFaulty && p.cfg.FaultReset > 0 {
		p.setTimer(faultReset, now.Add(p.cfg.FaultReset))
	}
	p.offerUnicast()
	for _, o := range p.observers {
		o.PortState(p.index, from, s, why, now)
	}
}

// enterSlave starts what a slave does. A slave that only lost its lock, or
// found another master, goes on.
func (p *port) enterSlave(from msg.PortState, now frame.Time) {
	if from == msg.StateSlave {
		return
	}
	if p.cfg.Role == Dynamic {
		p.armAnnounceReceipt(now)
	}
	if p.cfg.DelayMechanism == msg.DelayE2E {
		p.armDelay(now)
	}
}

// leaveSlave ends what a slave does.
func (p *port) leaveSlave() {
	p.stop(delayTimer, syncReceipt, intervalTimer)
	p.sync, p.requests = pairing.Syncs{}, pairing.Requests{}
	if p.Instance.slavePort == p {
		p.Instance.slavePort = nil
	}
}

// shut ends everything.
func (p *port) shut() {
	for t := range p.timers {
		p.timers[t] = frame.Never
	}
	p.stamps.GiveUp()
	p.head, p.n = 0, 0
	p.foreign.Clear()
	p.link, p.linkOK = pdelay.Initiator{}, false
	p.filter.Reset()
	p.capable = false
	p.decide = true
}

// fault makes the port FAULTY.
func (p *port) fault(why string, now frame.Time) {
	p.why = why
	p.stats.Faults++
	p.setState(msg.StateFaulty, why, now)
}

// following tells that the port follows a master, closely or not yet.
func (p *port) following() bool { return p.state == msg.StateSlave || p.state == msg.StateUncalibrated }

// dynamic tells that BMCA decides the port's state.
func (p *port) dynamic() bool { return p.cfg.Role == Dynamic && p.state >= msg.StateListening }

// recommend applies a state decision (IEEE 1588 figures 30 and 31).
func (p *port) recommend(d bmca.Decision, now frame.Time) {
	why := "BMCA " + d.String()
	switch d {
	case bmca.M1, bmca.M2:
		p.recommendGrandmaster(why, now)
	case bmca.M3:
		if p.state != msg.StateMaster && p.state != msg.StatePreMaster {
			p.setState(msg.StatePreMaster, why, now)
			steps := time.Duration(p.current.StepsRemoved)
			p.setTimer(qualification, now.Add((steps+1)*p.announceInterval()))
		}
	case bmca.S1:
		if p.state != msg.StateSlave {
			p.setState(msg.StateUncalibrated, why, now)
		}
	case bmca.P1, bmca.P2:
		p.setState(msg.StatePassive, why, now)
	}
}

// recommendGrandmaster makes the port master of a clock that follows nobody,
// if it may be.
func (p *port) recommendGrandmaster(why string, now frame.Time) {
	if !p.mayMaster() {
		p.setState(msg.StateListening, why, now)
		return
	}
	p.setState(msg.StateMaster, why, now)
}

// mayMaster tells whether the port may become master now.
func (p *port) mayMaster() bool {
	return !p.Instance.cfg.SlaveOnly && (p.Instance.cfg.GrandmasterCapable || p.slavePort != nil)
}
