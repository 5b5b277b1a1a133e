package ptp

import (
	"fmt"

	"tapir/ptp/bmca"
	"tapir/ptp/discipline"
	"tapir/ptp/msg"
	"tapir/ptp/pace"
	"tapir/wire/frame"
)

// Instance is a PTP instance: one clock and its ports.
type Instance struct {
	cfg       Config
	clock     Clock
	lower     Lower
	observers []Observer
	ports     []*port

	started bool
	now     frame.Time // the latest that was seen
	random  pace.Random
	lastID  uint64      // of an Outgoing
	rx      msg.Message // the message being received
	buf     []byte      // the message being sent
	tlvs    []byte      // its TLVs

	dataSets
	decide     bool // a state decision event has occurred
	discipline *discipline.Discipline
	lastOffset int64 // ns, as in TIME_STATUS_NP

	manager Manager
	outbox  []mail
}

// New returns an instance that steers clk and sends through lower. It starts
// with the first Poll.
func New(cfg Config, clk Clock, lower Lower) (*Instance, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("ptp: %w", err)
	}
	i := &Instance{cfg: cfg, clock: clk, lower: lower, random: pace.Random(cfg.Seed)}
	i.own, i.quality = cfg.Time, cfg.Quality
	i.cfg.Ports = nil
	var err error
	if i.discipline, err = discipline.New(cfg.Servo, clk.MaxAdj()); err != nil {
		return nil, fmt.Errorf("ptp: servo: %w", err)
	}
	for n, pc := range cfg.Ports {
		i.ports = append(i.ports, newPort(i, n, pc))
	}
	i.becomeGrandmaster()
	return i, nil
}

// Profile returns the profile.
func (i *Instance) Profile() Profile { return i.cfg.Profile }

// Observe adds an observer.
func (i *Instance) Observe(o Observer) { i.observers = append(i.observers, o) }

// Receive takes in a message that a port received; body is borrowed.
func (i *Instance) Receive(n int, body []byte, meta Meta) {
	i.now = meta.Now
	p := i.ports[n]
	m := &i.rx
	if err := m.Parse(body); err != nil {
		p.drop(parseDrop(err))
		return
	}
	p.stats.Rx[m.Type&15]++
	if d := p.receive(m, &meta); d != DropNone {
		p.drop(d)
	}
}

// TxStamp reports when the event message that was sent with an ID passed the
// time-stamp point, or that this will not be known: err is not nil.
func (i *Instance) TxStamp(n int, id uint64, s frame.Stamp, err error, now frame.Time) {
	i.now = now
	i.ports[n].txStamp(id, s, err, now)
}

// Poll does what is due and sends; it returns when it wants to be called next.
func (i *Instance) Poll(now frame.Time) frame.Time {
	first := !i.started
	i.now, i.started = now, true
	for _, p := range i.ports {
		if first {
			p.start(now)
		}
		p.runTimers(now)
	}
	i.runLeap(now)
	i.runHoldover(now)
	if i.decide {
		i.stateDecision(now)
	}
	if i.manager != nil {
		i.manager.Poll(now)
	}
	i.flushMail()
	next := i.nextClockEvent(now)
	for _, p := range i.ports {
		p.flush()
		next = min(next, p.deadline())
	}
	if i.decide { // a fault while sending
		return now
	}
	return next
}

// stateDecision runs the state decision algorithm and applies it to the data
// sets and to every port (IEEE 1588 section 9.2.6.9).
func (i *Instance) stateDecision(now frame.Time) {
	i.decide = false
	own := i.defaultDataset()
	var best *bmca.Foreign
	for _, p := range i.ports {
		p.best = nil
		if !p.dynamic() || p.cfg.MasterOnly {
			continue
		}
		p.best = p.foreign.Best(p.announceInterval(), now)
		if p.best != nil && (best == nil || i.cfg.Algorithm.Compare(&p.best.Dataset, &best.Dataset) > 0) {
			best = p.best
		}
	}
	var slave *port
	for _, p := range i.ports {
		if p.dynamic() {
			p.decision = i.cfg.Algorithm.Decide(&own, dataset(best), dataset(p.best), p.state == msg.StateListening)
		}
		if p.dynamic() && p.decision == bmca.S1 {
			slave = p
		}
	}
	i.updateDataSets(slave, best, now)
	for _, p := range i.ports {
		if p.dynamic() {
			p.recommend(p.decision, now)
		}
	}
}

// updateDataSets lets the clock follow best, heard on port slave, or nobody.
func (i *Instance) updateDataSets(slave *port, best *bmca.Foreign, now frame.Time) {
	switch {
	case slave != nil:
		if i.parent.Port != best.Sender || i.slavePort != slave {
			slave.newMaster(now)
		}
		i.follow(slave, best)
		i.endHoldover()
	case i.slavePort == nil || i.slavePort.cfg.Role == Dynamic:
		if i.slavePort != nil {
			i.slavePort.lostParent(now)
		}
		i.becomeGrandmaster()
	}
}

// dataset is the data set of f, nil for none.
func dataset(f *bmca.Foreign) *bmca.Dataset {
	if f == nil {
		return nil
	}
	return &f.Dataset
}
