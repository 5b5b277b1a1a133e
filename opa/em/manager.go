// Package em is the Ethernet Manager of an Omni-Path fabric, with the fabric
// manager that it needs: it brings up ports, gives them LIDs and P_Keys, and
// keeps the virtual NICs on them in the state that a configuration declares.
// It is a state machine without a clock; MADs go in and out.
//
// Whatever it decides is declared, or a function of what is declared and what
// it reads from the fabric, or was read from there. So it has no state worth
// saving: a standby that takes over reads what there is, finds it as its own
// configuration has it, and changes nothing.
//
// What a manager does, in the order of the files:
//
//  1. election.go  one of the managers on the fabric becomes master
//  2. sweep.go     ports are found, and missed when they are gone
//  3. subnet.go    LIDs, P_Keys, port states
//  4. adopt.go     what virtual ports there are, with their MAC lists
//  5. desire.go    what there should be
//  6. step.go      for each port the one next MAD that brings it there
//  7. traffic.go   counters, when there is nothing else to do
//
// Each port is asked one thing at a time, and what to ask follows from the
// difference between what there is and what there should be, so that lost
// MADs, lost traps and agents that restart need no care of their own.
package em

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/wire/frame"
)

// Timing is when a manager does what it does.
type Timing struct {
	Heartbeat time.Duration // between questions to other managers
	Takeover  time.Duration // without an answer a manager counts as gone
	Sweep     time.Duration // between searches for ports
	Down      time.Duration // without a sign of life a port counts as down
	Poll      time.Duration // between readings of what may change by itself
	Timeout   time.Duration // of the first attempt of a MAD; later ones wait longer
	Retries   int           // attempts after the first one
	Settle    time.Duration // at most, until everything there is has been read
}

// DefaultTiming is what most fabrics want.
func DefaultTiming() Timing {
	return Timing{
		Heartbeat: 200 * time.Millisecond, Takeover: time.Second, Sweep: 500 * time.Millisecond, Down: 2 * time.Second,
		Poll: 2 * time.Second, Timeout: 100 * time.Millisecond, Retries: 4, Settle: 10 * time.Second,
	}
}

// withDefaults fills in what is zero.
func (t Timing) withDefaults() Timing {
	d := DefaultTiming()
	return Timing{
		Heartbeat: cmp.Or(t.Heartbeat, d.Heartbeat), Takeover: cmp.Or(t.Takeover, d.Takeover),
		Sweep: cmp.Or(t.Sweep, d.Sweep),
		Down:  cmp.Or(t.Down, d.Down), Poll: cmp.Or(t.Poll, d.Poll), Timeout: cmp.Or(t.Timeout, d.Timeout),
		Retries: cmp.Or(t.Retries, d.Retries), Settle: cmp.Or(t.Settle, d.Settle),
	}
}

// Options are what a manager is told besides the configuration.
type Options struct {
	GUID     uint64 // of the port that it runs on
	Priority uint8  // 0 to 15; among managers the highest becomes master, then the lowest GUID
	// Observe makes a manager that only reads and neither takes part in the
	// election: what it would change is its Plan.
	Observe bool
	// Transactions tells the MADs of two managers on one port apart.
	Transactions uint32
	Timing       Timing // a zero field stands for that of DefaultTiming
	// OnEvent, if not nil, is told of each entry of the audit log.
	OnEvent func(Event)
}

// Manager is an Ethernet Manager.
type Manager struct {
	opt Options
	t   Timing
	cfg Config
	now frame.Time

	role   mad.SMState // 0 before the first Poll
	since  frame.Time  // of the role
	peers  []peer      // other managers, by GUID
	beat   frame.Time  // next heartbeat
	sweepA frame.Time  // next sweep
	tids   uint32
	sweeps [2]uint64 // transactions of the last sweeps

	ports    []*port // by GUID
	switches []*port // likewise: of each its agent
	vesws    []*vesw // by id
	settled  bool
	stale    bool // ports, names or the configuration have changed
	relid    bool // LIDs are to be assigned anew

	requests map[uint64]*request // by transaction; never ranged over
	wake     frame.Time
	count    Counters
	log      auditLog
}

// Counters are a manager's.
type Counters struct {
	Sent, Received   uint64 // MADs
	Retries          uint64
	Timeouts         uint64 // requests given up
	Refused          uint64 // answers with a status other than 0
	Unexpected       uint64 // answers that nobody waits for, such as late ones
	Malformed        uint64
	Traps            uint64
	UnknownTraps     uint64 // from ports or of virtual ports not known
	Sets             uint64 // changes asked for
	Takeovers        uint64 // times that this manager became master
	PortsDown        uint64 // times that a port went down
	Restarts         uint64 // agents that were found to have restarted
	DuplicateMACs    uint64 // addresses that two ports claimed
	RefusedMACs      uint64 // addresses that no port may claim
	DuplicateLIDs    uint64
	TableOverflows   uint64 // MAC tables with more entries than fit
	Reconfigurations uint64
}

// New returns a manager for the configuration (kept), which must be valid.
func New(cfg Config, opt Options) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if opt.Priority > 15 {
		return nil, fmt.Errorf("em: priority %d: expected at most 15", opt.Priority)
	}
	return &Manager{opt: opt, t: opt.Timing.withDefaults(), cfg: cfg, requests: map[uint64]*request{}, stale: true}, nil
}

// Reconfigure puts another configuration (kept) in force. Ports whose virtual
// ports are to stay as they are get no MAD for it.
func (m *Manager) Reconfigure(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	for _, line := range diff(&m.cfg, &cfg) {
		m.note("configuration: %s", line)
	}
	m.cfg = cfg
	m.stale, m.relid = true, true
	m.count.Reconfigurations++
	m.wake = 0
	return nil
}

// Role is what the manager is at present.
func (m *Manager) Role() mad.SMState { return m.role }

// Counters returns the counters so far.
func (m *Manager) Counters() Counters { return m.count }

// master reports whether the manager looks after the fabric; one that only
// observes does all but write.
func (m *Manager) master() bool { return m.role == mad.SMMaster }

// Receive takes answers, traps and the questions of other managers.
func (m *Manager) Receive(b []byte, from mad.Address, now frame.Time, send mad.Send) {
	m.now = now
	h, err := mad.Parse(b)
	if errors.Is(err, mad.ErrVersion) {
		return // InfiniBand's, for other agents
	}
	if err != nil {
		m.count.Malformed++
		return
	}
	switch {
	case h.Class == mad.ClassVEMA && (h.Method == mad.MethodGetResp || h.Method == mad.MethodTrap):
		h, data, err := mad.ParseVEMA(b)
		if err != nil {
			m.count.Malformed++
			return
		}
		m.count.Received++
		if h.Method == mad.MethodTrap {
			m.trap(&h, mad.ParseNotice(data), from, send)
			return
		}
		m.answer(&h, data, from)
	case h.Class == mad.ClassSubnLID || h.Class == mad.ClassSubnDirected:
		s, data, err := mad.ParseSMP(b)
		if err != nil {
			m.count.Malformed++
			return
		}
		m.subnet(&s, data, from, send)
	}
}

// subnet takes what is a manager's own of subnet management.
func (m *Manager) subnet(s *mad.SMP, data []byte, from mad.Address, send mad.Send) {
	switch {
	case s.Method == mad.MethodGet && s.Attr == mad.AttrSMInfo:
		m.tellSMInfo(s, from, send)
	case s.Method != mad.MethodGetResp:
	case uint32(s.TID>>32) != m.tidSpace():
	case s.Attr == mad.AttrSMInfo:
		m.count.Received++
		m.hear(mad.ParseSMInfo(data))
	case s.Attr == mad.AttrNodeInfo:
		m.count.Received++
		m.found(s.TID, mad.ParseNodeInfo(data), from)
	default:
		m.count.Received++
		m.answer(&s.Header, data, from)
	}
}

// Poll sends what is due.
func (m *Manager) Poll(now frame.Time, send mad.Send) frame.Time {
	if m.now = now; now < m.wake {
		return m.wake
	}
	m.wake = frame.Never
	m.elect(send)
	if m.master() {
		m.sweep(send)
		m.expire()
		m.expireSwitches()
		m.refresh()
		for _, p := range m.ports {
			m.drive(p, send)
		}
		for _, p := range m.switches {
			m.drive(p, send)
		}
		m.settle()
	}
	return m.wake
}

// by makes sure that Poll does its work at time t.
func (m *Manager) by(t frame.Time) { m.wake = min(m.wake, t) }

// restart forgets the fabric.
func (m *Manager) restart(role mad.SMState) {
	m.role, m.since = role, m.now
	m.ports, m.switches, m.vesws, m.settled, m.stale, m.relid = nil, nil, nil, false, true, true
	clear(m.requests)
	m.sweepA, m.wake = m.now, 0
}

// settle ends the time in which the fabric is only read: when all ports have
// told what they have, and none is missing from a vESW at work, or it has
// lasted long enough.
func (m *Manager) settle() {
	if m.settled || !m.assigning() {
		return
	}
	limit := m.since.Add(m.t.Settle)
	if m.now < limit && (slices.ContainsFunc(m.ports, func(p *port) bool {
		return !m.adopted(p)
	}) || slices.ContainsFunc(m.vesws, (*vesw).incomplete)) {
		m.by(limit)
		return
	}
	m.settled = true
	m.wake = 0
	m.note("the fabric is known: %d ports", len(m.ports))
}

// assigning reports whether enough time has passed for all ports to be found,
// so that LIDs can be given out.
func (m *Manager) assigning() bool { return m.now >= m.since.Add(m.t.Sweep+m.t.Sweep/2) }

// LID is the LID of the manager's own port, 0 before it has one.
func (m *Manager) LID() opa.LID {
	if p := m.port(m.opt.GUID); p != nil && p.active() {
		return p.lid
	}
	return 0
}
