package unicast

import (
	"fmt"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/pace"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// Bounds and defaults of a requester.
const (
	// MaxMasters is the length of the longest unicast master table.
	MaxMasters = 128
	// MinDuration is the shortest duration in s that is asked for.
	MinDuration = 10

	defaultDuration = 300
	cancelTries     = 3
	maxBackOff      = 4 // a master that denies is asked 2^4 times more slowly at last
)

// RequesterConfig describes a requester. Intervals are log2 of seconds.
type RequesterConfig struct {
	Masters  []transport.Addr // the unicast master table
	Duration uint32           // asked for, in s; default 300
	LogQuery int8             // logQueryInterval: between requests that are not answered
	// Log are the intervals asked for, in the order of the services' bits:
	// Announce, Sync, Delay_Resp, Pdelay_Resp.
	Log [numServices]int8
}

// Validate tells the first thing that is wrong with c.
func (c *RequesterConfig) Validate() error {
	switch {
	case len(c.Masters) > MaxMasters:
		return fmt.Errorf("unicast master table: %d masters, at most %d", len(c.Masters), MaxMasters)
	case c.Duration != 0 && c.Duration < MinDuration:
		return fmt.Errorf("unicast duration: %d s, at least %d", c.Duration, MinDuration)
	case c.LogQuery < -3 || c.LogQuery > 6:
		return fmt.Errorf("unicast query interval: 2^%d s is not in 2^-3..2^6 s", c.LogQuery)
	}
	for i, a := range c.Masters {
		for _, b := range c.Masters[:i] {
			if a == b {
				return fmt.Errorf("unicast master table: %v is in it twice", a)
			}
		}
	}
	return nil
}

// phase is how far the negotiation of one service with one master is.
type phase uint8

const (
	idle      phase = iota // not wanted
	asking                 // wanted and not granted
	held                   // granted
	cancelled              // no longer wanted, the master does not know yet
)

// lease is one service of one master.
type lease struct {
	phase   phase
	ack     bool       // a cancellation of the master's is to be acknowledged
	log     int8       // granted
	tries   uint8      // requests or cancellations sent in vain
	next    frame.Time // of the next request or cancellation
	expires frame.Time
}

type master struct {
	addr     transport.Addr
	identity msg.PortIdentity // msg.AllPorts until it has answered
	leases   [numServices]lease
}

// RequesterStats counts what a requester saw.
type RequesterStats struct {
	Requests, Grants, Denials, Renewals, Expired, Cancelled, Unexpected, Malformed uint64
}

// Requester asks the masters of a table for service. Announce is wanted of all
// from the beginning; the rest is said with Want.
type Requester struct {
	cfg     RequesterConfig
	lower   Lower
	masters []master
	buf     []byte
	stats   RequesterStats
}

// NewRequester returns a requester that asks at its first Poll.
func NewRequester(cfg RequesterConfig, lower Lower) (*Requester, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Duration == 0 {
		cfg.Duration = defaultDuration
	}
	r := &Requester{cfg: cfg, lower: lower}
	for _, a := range cfg.Masters {
		m := master{addr: a, identity: msg.AllPorts}
		m.leases[0].phase = asking
		r.masters = append(r.masters, m)
	}
	return r, nil
}

// Len is the number of masters in the table.
func (r *Requester) Len() int { return len(r.masters) }

// Find is the place of a master in the table, -1 if it is not there.
func (r *Requester) Find(a transport.Addr) int {
	for i := range r.masters {
		if r.masters[i].addr == a {
			return i
		}
	}
	return -1
}

// Want says which services are wanted of the i-th master from now on. What is
// held and not wanted any more is cancelled. Messages leave at the next Poll.
func (r *Requester) Want(i int, services Services) {
	m := &r.masters[i]
	for s := range m.leases {
		l := &m.leases[s]
		wanted := services&(1<<s) != 0
		switch {
		case wanted && (l.phase == idle || l.phase == cancelled):
			*l = lease{phase: asking, ack: l.ack}
		case !wanted && l.phase == held:
			*l = lease{phase: cancelled, ack: l.ack}
		case !wanted && l.phase == asking:
			*l = lease{ack: l.ack}
		}
	}
}

// Cancel gives up everything; the next Poll tells the masters.
func (r *Requester) Cancel() {
	for i := range r.masters {
		r.Want(i, 0)
	}
}

// Granted is what the i-th master has granted and not taken back.
func (r *Requester) Granted(i int) (s Services) {
	for k := range r.masters[i].leases {
		if r.masters[i].leases[k].phase == held {
			s |= 1 << k
		}
	}
	return s
}

// Interval is the granted interval of one service of the i-th master, as log2
// of seconds.
func (r *Requester) Interval(i int, s Services) (log int8, ok bool) {
	for k := range numServices {
		if l := &r.masters[i].leases[k]; s == 1<<k && l.phase == held {
			return l.log, true
		}
	}
	return 0, false
}

// Accepts reports whether a unicast message of type t from a was granted.
func (r *Requester) Accepts(a transport.Addr, t msg.Type) bool {
	i := r.Find(a)
	return i >= 0 && r.Granted(i)&ServiceOf(t) != 0
}

// Signaling takes in the TLVs (borrowed) of a Signaling message that came from
// src and is meant for this port.
func (r *Requester) Signaling(src transport.Addr, from msg.PortIdentity, tlvs msg.TLVs, now frame.Time) {
	i := r.Find(src)
	if i < 0 {
		r.stats.Unexpected++
		return
	}
	m := &r.masters[i]
	for tlv := range tlvs.All() {
		switch tlv.Type {
		case msg.TLVGrantUnicast:
			r.grant(m, from, tlv.Value, now)
		case msg.TLVCancelUnicast:
			r.cancelled(m, from, tlv.Value, now)
		case msg.TLVAckCancelUnicast:
			r.acknowledged(m, tlv.Value)
		}
	}
}

func (r *Requester) grant(m *master, from msg.PortIdentity, value []byte, now frame.Time) {
	var g msg.GrantUnicast
	if g.Parse(value) != nil {
		r.stats.Malformed++
		return
	}
	s, ok := serviceIndex(g.Type)
	if !ok {
		r.stats.Unexpected++
		return
	}
	l := &m.leases[s]
	if l.phase != asking && l.phase != held {
		r.stats.Unexpected++
		return
	}
	m.identity = from
	if g.Duration == 0 {
		r.denied(m, s, now)
		return
	}
	if l.phase == held {
		r.stats.Renewals++
	} else {
		r.stats.Grants++
	}
	// A master may not bind us for longer than we asked.
	d := seconds(min(g.Duration, r.cfg.Duration))
	*l = lease{phase: held, ack: l.ack, log: g.LogInterval, expires: now.Add(d), next: now.Add(d / 4 * 3)}
}

// denied slows the requests down. What is held stays so until it expires.
func (r *Requester) denied(m *master, s int, now frame.Time) {
	r.stats.Denials++
	l := &m.leases[s]
	l.tries = min(l.tries+1, maxBackOff)
	l.next = now.Add(r.retry(l))
}

// cancelled takes what the master does not grant any more.
func (r *Requester) cancelled(m *master, from msg.PortIdentity, value []byte, now frame.Time) {
	var c msg.CancelUnicast
	if c.Parse(value) != nil {
		r.stats.Malformed++
		return
	}
	s, ok := serviceIndex(c.Type)
	if !ok {
		r.stats.Unexpected++
		return
	}
	m.identity = from
	l := &m.leases[s]
	l.ack = true
	if l.phase == held {
		r.lose(m, s, now)
		r.stats.Cancelled++
	}
}

// lose ends a grant and asks for it again, not at once.
func (r *Requester) lose(m *master, s int, now frame.Time) {
	m.leases[s] = lease{phase: asking, ack: m.leases[s].ack, next: now.Add(pace.Period(r.cfg.LogQuery))}
}

func (r *Requester) acknowledged(m *master, value []byte) {
	var c msg.CancelUnicast
	if c.Parse(value) != nil {
		r.stats.Malformed++
		return
	}
	if s, ok := serviceIndex(c.Type); ok && m.leases[s].phase == cancelled {
		m.leases[s] = lease{ack: m.leases[s].ack}
		return
	}
	r.stats.Unexpected++
}

// Poll sends what is due, one message per master, and returns the next
// deadline.
func (r *Requester) Poll(now frame.Time) frame.Time {
	next := frame.Never
	for i := range r.masters {
		m := &r.masters[i]
		r.buf = r.buf[:0]
		for s := range m.leases {
			next = min(next, r.pollLease(m, s, now))
		}
		if len(r.buf) > 0 {
			r.lower.Signal(m.addr, m.identity, r.buf)
		}
	}
	return next
}

// pollLease appends the TLVs that are due for one service.
func (r *Requester) pollLease(m *master, s int, now frame.Time) (next frame.Time) {
	l := &m.leases[s]
	if l.ack {
		l.ack = false
		r.buf = (&msg.CancelUnicast{Type: types[s]}).Append(r.buf, msg.TLVAckCancelUnicast)
	}
	if l.phase == held && now >= l.expires {
		r.stats.Expired++
		m.identity = msg.AllPorts // it may be another one by now
		r.lose(m, s, now)
		l.next = now
	}
	switch l.phase {
	case idle:
		return frame.Never
	case cancelled:
		return r.pollCancel(l, s, now)
	}
	if now >= l.next {
		r.stats.Requests++
		r.buf = (&msg.RequestUnicast{Type: types[s], LogInterval: r.cfg.Log[s], Duration: r.cfg.Duration}).Append(r.buf)
		l.next = now.Add(r.retry(l))
	}
	if l.phase == held {
		return min(l.next, l.expires)
	}
	return l.next
}

// retry is when a request that is not answered is repeated.
func (r *Requester) retry(l *lease) time.Duration { return pace.Period(r.cfg.LogQuery) << l.tries }

func (r *Requester) pollCancel(l *lease, s int, now frame.Time) frame.Time {
	if now >= l.next {
		if l.tries == cancelTries {
			*l = lease{}
			return frame.Never
		}
		l.tries++
		l.next = now.Add(pace.Period(r.cfg.LogQuery))
		r.buf = (&msg.CancelUnicast{Type: types[s]}).Append(r.buf, msg.TLVCancelUnicast)
	}
	return l.next
}

// Stats are the counters.
func (r *Requester) Stats() RequesterStats { return r.stats }

// MasterStatus is a line of the unicast master table.
type MasterStatus struct {
	Addr     transport.Addr
	Identity msg.PortIdentity // msg.AllPorts: it has not answered yet
	Wanted   Services
	Granted  Services
}

// Masters lists the table.
func (r *Requester) Masters() []MasterStatus {
	list := make([]MasterStatus, len(r.masters))
	for i := range r.masters {
		m := &r.masters[i]
		list[i] = MasterStatus{Addr: m.addr, Identity: m.identity, Granted: r.Granted(i)}
		for s := range m.leases {
			if p := m.leases[s].phase; p == asking || p == held {
				list[i].Wanted |= 1 << s
			}
		}
	}
	return list
}
