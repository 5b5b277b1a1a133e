package toe

import (
	"net/netip"

	"tapir/nic/pacing"
	"tapir/nic/toe/admission"
	"tapir/nic/toe/packet"
	"tapir/nic/toe/pmtu"
	"tapir/nic/toe/ports"
	"tapir/nic/toe/reassembly"
	"tapir/nic/toe/recovery"
	"tapir/nic/toe/schedule"
	"tapir/nic/toe/timewait"
	"tapir/wire/frame"
	"tapir/wire/timer"
)

// Engine holds all TCP connections of one NIC. It is a pure state machine:
// segments and the time go in, packets and the next deadline come out. It has
// no clock, goroutine or lock; one thread calls it.
type Engine struct {
	cfg     Config
	maxSegs int // at present
	packets packet.Writer
	out     Output
	links   Stations // out, if it has stations
	sched   schedule.Scheduler
	paced   bool // the scheduler has held back what a connection would have sent
	notes   *frame.Notes

	conns     map[tuple]*Conn
	last      *Conn // the connection of the segment before: saves the map
	head      *Conn // all connections by creation
	tail      *Conn
	par       *Params // of the connections that begin from now on
	nextID    uint64
	listeners []*Listener // by port
	timers    timer.Heap[*Conn]
	ready     schedule.Ready[*Conn]
	waits     timewait.List // connections in TIME-WAIT
	answers   packet.Answers
	paths     pmtu.Cache
	ports     ports.Allocator
	passive   admission.Limiter // passive opens
	held      reassembly.Store  // out-of-order data
	rings     recovery.Rings
	isles     Isles // nil: nobody counts them
	stats     Stats
	segTOS    uint8 // of the segment in hand
	starved   bool  // the pool had no frame in this Poll
}

// tuple identifies a connection.
type tuple struct{ local, remote netip.AddrPort }

// New returns an engine that takes its frames from pool, sends through out
// and says in notes what it did with the frame in hand.
func New(cfg Config, pool frame.Pool, out Output, notes *frame.Notes) *Engine {
	e := &Engine{
		cfg: cfg.withDefaults(), out: out, notes: notes,
		conns: make(map[tuple]*Conn),
	}
	e.links, _ = out.(Stations)
	e.par = &e.cfg.Params
	e.sched.Node = new(pacing.Tree).Port().Child(false)
	e.maxSegs = e.cfg.MaxSegs
	e.ports = ports.Allocator{First: e.cfg.FirstPort, Last: e.cfg.LastPort, Take: e.cfg.Reserve}
	e.passive = admission.NewLimiter(admission.Limits{
		Conns: e.cfg.MaxConns, PerPort: e.cfg.MaxConnsPerPort, PerHost: e.cfg.MaxConnsPerHost,
		HalfPerPort: e.cfg.MaxHalfOpenPerPort, HalfPerHost: e.cfg.MaxHalfOpenPerHost,
	})
	e.packets = packet.Writer{Pool: pool, TTL: e.cfg.TTL, Partial: e.cfg.MaxSegs > 1}
	e.held = reassembly.Store{Pool: pool, PerQueue: 2 * e.cfg.RcvWnd, Total: e.cfg.MaxReassembly}
	return e
}

// Connect begins an active open from local to remote; port 0 of local picks
// an ephemeral port. The SYN leaves at the next Poll. h hears of the outcome
// through Established or Closed. Errors are *Error (AddrInUse, BadAddr).
func (e *Engine) Connect(local, remote netip.AddrPort, h Handler, now frame.Time) (*Conn, error) {
	local, remote = ports.Canonical(local), ports.Canonical(remote)
	if !ports.Usable(local.Addr()) || !ports.Usable(remote.Addr()) || remote.Port() == 0 ||
		local.Addr().Is4() != remote.Addr().Is4() {
		return nil, &Error{Kind: BadAddr, Local: local, Remote: remote}
	}
	local, port, err := e.takePort(local, remote, now)
	if err != nil {
		return nil, err
	}
	c := e.newConn(local, remote, StateSynSent, now)
	c.h, c.port = h, port
	e.replace(c)
	e.stats.ActiveOpens++
	c.openActive(now)
	return c, nil
}

// takePort reserves the port of local, or picks one if that is 0.
func (e *Engine) takePort(local, remote netip.AddrPort, now frame.Time) (netip.AddrPort, *ports.Reservation, error) {
	if local.Port() != 0 {
		if t := (tuple{local, remote}); e.conns[t] != nil || !e.follow(t, now) {
			return local, nil, &Error{Kind: AddrInUse, Local: local, Remote: remote}
		}
		r, err := e.ports.Reserve(local)
		if err != nil {
			return local, nil, &Error{Kind: AddrInUse, Local: local, Remote: remote, Err: err}
		}
		return local, r, nil
	}
	picked, r, ok, err := e.ports.Pick(local.Addr(), e.cfg.Secret.Hash(local, remote, "port"),
		func(local netip.AddrPort, waiting bool) bool {
			t := tuple{local, remote}
			return e.conns[t] == nil && e.listener(local) == nil && (waiting || e.waits.Find(local, remote) == nil) &&
				e.follow(t, now)
		})
	if !ok {
		return local, nil, &Error{Kind: AddrInUse, Local: local, Remote: remote, Err: err}
	}
	return picked, r, nil
}

// Owns reports whether segments between local and remote belong to this
// engine: a connection, TIME-WAIT included, or a listener on local.
func (e *Engine) Owns(local, remote netip.AddrPort) bool {
	if len(e.conns) == 0 && len(e.listeners) == 0 && e.waits.Len() == 0 {
		return false
	}
	local, remote = ports.Canonical(local), ports.Canonical(remote)
	t := tuple{local, remote}
	return e.conns[t] != nil || e.listener(local) != nil || e.waits.Find(t.local, t.remote) != nil
}

// SetScheduler changes what paces the engine.
func (e *Engine) SetScheduler(s schedule.Scheduler) {
	e.sched = s
	for c := range e.Conns {
		s.Move(c.rate, c.par.TOS)
	}
}

// Conns yields the connections, except those in TIME-WAIT, in the order of
// their creation.
func (e *Engine) Conns(yield func(*Conn) bool) {
	for c := e.head; c != nil; {
		next := c.next
		if !yield(c) {
			return
		}
		c = next
	}
}

// Stats returns the engine's counters.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.BytesHeld = e.held.Copied
	s.TimeWait = e.waits.Len()
	s.Open = len(e.conns) + s.TimeWait
	return s
}

// drop counts and notes a discarded segment.
func (e *Engine) drop(r frame.DropReason) {
	e.stats.Drops.Count(r)
	if e.notes != nil {
		e.notes.Drop(r)
	}
}

// find returns the connection for a segment, nil if there is none.
func (e *Engine) find(local, remote netip.AddrPort) *Conn {
	if c := e.last; c != nil && c.local == local && c.remote == remote {
		return c
	}
	c := e.conns[tuple{local, remote}]
	if c != nil {
		e.last = c
	}
	return c
}

// newConn makes a connection known to the engine.
func (e *Engine) newConn(local, remote netip.AddrPort, state State, now frame.Time) *Conn {
	e.nextID++
	c := &Conn{e: e, local: local, remote: remote, state: state}
	c.place.Deadline = timer.Entry[*Conn]{Owner: c, ID: e.nextID}
	c.init(now)
	e.conns[tuple{local, remote}] = c
	if c.prev = e.tail; c.prev != nil {
		c.prev.next = c
	} else {
		e.head = c
	}
	e.tail = c
	return c
}

// forget removes a connection and gives back what it holds.
func (e *Engine) forget(c *Conn) {
	c.state = StateClosed
	c.left()
	c.port.Drop()
	c.releaseBuffers()
	c.SetRate(0)
	e.timers.Remove(&c.place.Deadline)
	delete(e.conns, tuple{c.local, c.remote})
	if e.last == c {
		e.last = nil
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		e.head = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		e.tail = c.prev
	}
	c.gone = true
}
