package ll2

import (
	"errors"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Core is what connections need of the driver core.
type Core struct {
	// Limit is the function's share of connections; there are no more than MaxConns.
	Limit int
	// Allows tells whether the personality has connections of a type.
	Allows func(t Type) bool
	// AcquireCID takes a connection id of protocol CORE, ReleaseCID gives it back.
	AcquireCID func() (cid int, err error)
	ReleaseCID func(cid int) error
	// RegisterCB gives a queue its protocol index of the slowpath's status block.
	RegisterCB   func(fn func(now frame.Time)) (pi int, err error)
	UnregisterCB func(pi int) error
	// Post sends a ramrod and returns when it is answered.
	Post func(cid int, r *Ramrod) error
	// Doorbell tells the firmware of transmit descriptors.
	Doorbell func()
	// Filter gives the connection frames of an EtherType, or no longer.
	Filter func(queue int, etherType uint16, on bool)
}

// Manager has the connections of a function.
type Manager struct {
	core  Core
	conns [MaxConns]*Conn
	stale []int // connection ids of ramrods that are not answered
}

// NewManager returns one without connections.
func NewManager(core Core) *Manager {
	core.Limit = min(core.Limit, MaxConns)
	return &Manager{core: core}
}

// Acquire allocates a connection (ecore_ll2_acquire_connection). BUSY: the function
// has all its connections; INVAL: it cannot have such a one.
func (m *Manager) Acquire(p Params, cb Callbacks) (*Conn, error) {
	if err := p.validate(&cb); err != nil {
		return nil, err
	}
	if !m.core.Allows(p.Type) {
		return nil, status.Inval.Errorf("LL2 connection of type %v: not in the function's personality", p.Type)
	}
	if p.MaxBDs == 0 {
		p.MaxBDs = MaxBDs
	}
	if p.Type == OOO && p.OOOBuffers == 0 {
		p.OOOBuffers = 2 * p.RxDescs
	}
	for i := range m.core.Limit {
		if m.conns[i] != nil {
			continue
		}
		rings := newRings(&p)
		c := &Conn{m: m, handle: i, p: p, cb: cb, rings: rings, rx: make([]any, len(rings.rxBufs)),
			tx: newRing[packet](p.TxDescs)}
		m.conns[i] = c
		return c, nil
	}
	return nil, status.Busy.Errorf("LL2 connection of type %v: all %d are in use", p.Type, m.core.Limit)
}

// Conns are the connections that are acquired, in the order of their handles.
func (m *Manager) Conns() (list []*Conn) {
	for _, c := range m.conns {
		if c != nil {
			list = append(list, c)
		}
	}
	return list
}

// Limit is how many connections the function can have.
func (m *Manager) Limit() int { return m.core.Limit }

// Close ends all connections before the function is unloaded, whether the firmware
// answers or not.
func (m *Manager) Close() (err error) {
	for _, c := range m.Conns() {
		if c.established {
			if bad := c.Terminate(); bad != nil {
				err = errors.Join(err, bad, c.end())
			}
		}
		err = errors.Join(err, c.Release())
	}
	for _, cid := range m.stale {
		err = errors.Join(err, m.core.ReleaseCID(cid))
	}
	m.stale = nil
	return err
}

// giveCID gives a connection id back after a ramrod; while that is not answered it may
// still be executed.
func (m *Manager) giveCID(cid int, after error) error {
	if errors.Is(after, status.Busy) {
		m.stale = append(m.stale, cid)
		return after
	}
	return errors.Join(after, m.core.ReleaseCID(cid))
}
