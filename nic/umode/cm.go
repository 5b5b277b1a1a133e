package umode

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"tapir/nic/cm"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/relay"
	"tapir/nic/umode/eventfile"
	"tapir/nic/verbs"
)

// Commands of a rdma_cm file (linux/include/uapi/rdma/rdma_user_cm.h).
const (
	cmCreateID     = 0
	cmDestroyID    = 1
	cmBindIP       = 2
	cmResolveIP    = 3
	cmResolveRoute = 4
	cmQueryRoute   = 5
	cmConnect      = 6
	cmListen       = 7
	cmAccept       = 8
	cmReject       = 9
	cmDisconnect   = 10
	cmInitQPAttr   = 11
	cmGetEvent     = 12
)

// Events of the file (enum rdma_cm_event_type).
const (
	cmAddrResolved   = 0
	cmAddrError      = 1
	cmRouteResolved  = 2
	cmRouteError     = 3
	cmConnectRequest = 4
	cmConnectError   = 6
	cmUnreachable    = 7
	cmRejected       = 8
	cmEstablished    = 9
	cmDisconnected   = 10
	cmDeviceRemoval  = 11
	cmTimewaitExit   = 15
)

const (
	portSpaceTCP = uint16(0x0106)
	resolveTime  = uint32(2000) // ms
)

// Params describes this side of a connection, as cm.Params.
type Params struct {
	QP          *QP    // in state Init or Reset
	PrivateData []byte // sent to the peer; at most 255 octets
	// IRD and ORD are the Reads wanted inbound and outbound, at most 255, cut
	// to what the peer can do: 0 takes the NIC's limit, cm.NoReads stands for
	// none.
	IRD, ORD uint16
	// Local is the address to connect from; the zero value lets the NIC
	// choose. Connect only.
	Local netip.AddrPort
}

func (p *Params) encode() ([]byte, error) {
	switch {
	case len(p.PrivateData) > 255:
		return nil, fmt.Errorf("%d octets of private data, limit 255: %w", len(p.PrivateData), cm.ErrInvalid)
	case p.QP == nil:
		return nil, fmt.Errorf("no QP: %w", cm.ErrInvalid)
	}
	limits, err := p.QP.pd.ctx.Query()
	if err != nil {
		return nil, err
	}
	a := abi.ConnParam{QPNum: p.QP.num, SRQ: flag(p.QP.cfg.SRQ != nil), Valid: abi.NICMoves,
		Retries: 7, RNRRetry: 7} // which iWARP has no use for
	a.SetData(p.PrivateData)
	for _, reads := range [...]struct {
		want  uint16
		limit int
		to    *uint8
	}{{p.IRD, limits.MaxIRD, &a.IRD}, {p.ORD, limits.MaxORD, &a.ORD}} {
		switch {
		case reads.want == 0:
			*reads.to = uint8(min(reads.limit, 255))
		case reads.want == cm.NoReads:
		case reads.want > 255:
			return nil, fmt.Errorf("%d Reads, limit 255: %w", reads.want, cm.ErrInvalid)
		default:
			*reads.to = uint8(reads.want)
		}
	}
	return abi.Octets(&a), nil
}

// manager is the connection manager of a context: an rdma_cm file and the ids
// made through it.
type manager struct {
	file   *file
	events *eventfile.File
	stop   context.CancelFunc
	done   chan struct{} // receive has ended

	mu        sync.Mutex
	uids      uint64
	ids       map[uint64]*ID // by uid, which is this side's own number
	listeners map[uint64]*Listener
	lost      error         // no event will come any more
	changed   chan struct{} // closed when anything above, or an ID, has changed
}

// manager opens the connection manager when it is first needed.
func (c *Context) manager() (*manager, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cm != nil {
		return c.cm, nil
	}
	f, err := c.session.open(relay.UCMA)
	if err != nil {
		return nil, explain(err)
	}
	m := &manager{file: f, events: eventfile.New(f.os, false), ids: map[uint64]*ID{},
		listeners: map[uint64]*Listener{},
		changed:   make(chan struct{}), done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go m.receive(ctx)
	c.cm = m
	return m, nil
}

func (m *manager) close() {
	m.stop()
	<-m.done
	_ = m.file.close()
}

// receive fetches events until the manager is closed or the NIC has ended.
func (m *manager) receive(ctx context.Context) {
	defer close(m.done)
	err := error(nil)
	for err == nil {
		if err = m.events.Readable(ctx); err == nil {
			err = m.fetch()
		}
	}
	m.change(func() { m.lost = err })
}

// fetch takes all events that there are.
func (m *manager) fetch() error {
	for {
		switch ev, err := cmExecute[abi.CMEvent](m, cmGetEvent, fields(response)); {
		case errors.Is(err, syscall.EAGAIN):
			return nil
		case err != nil:
			return err
		default:
			m.take(&ev)
		}
	}
}

// execute sends a command that has no answer.
func (m *manager) execute(number uint32, b []byte) error {
	_, err := cmExecute[struct{}](m, number, b)
	return err
}

// cmExecute sends a command made by fields and returns its answer. The lengths in
// the header are in octets, without the header.
func cmExecute[T any](m *manager, number uint32, b []byte) (answer T, err error) {
	memory := abi.Octets(&answer)
	native.PutUint32(b, number)
	native.PutUint16(b[4:], uint16(len(b)-commandHeader))
	native.PutUint16(b[6:], uint16(len(memory)))
	return answer, explain(m.file.command(b, memory))
}

// change does fn under the lock and wakes all who wait.
func (m *manager) change(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn()
	close(m.changed)
	m.changed = make(chan struct{})
}

// wait blocks until done, called under the lock, is true.
func (m *manager) wait(ctx context.Context, done func() bool) error {
	for {
		m.mu.Lock()
		ok, lost, changed := done(), m.lost, m.changed
		m.mu.Unlock()
		switch {
		case ok:
			return nil
		case lost != nil:
			return fmt.Errorf("%w (%w)", cm.ErrRemoved, lost)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take sorts an event to its id.
func (m *manager) take(ev *abi.CMEvent) {
	param := ev.Conn()
	private := slices.Clone(param.Data())
	orphan := false // the request of a listener that was closed meanwhile
	m.change(func() {
		id, l := m.ids[ev.UID], m.listeners[ev.UID]
		switch {
		case l != nil && ev.Event == cmConnectRequest:
			m.uids++
			id = &ID{m: m, uid: m.uids, num: ev.ID, state: cm.Requested, private: private, ird: param.IRD,
				ord: param.ORD}
			m.ids[id.uid] = id
			l.requests = append(l.requests, id)
		case l != nil:
			l.gone = l.gone || ev.Event == cmDeviceRemoval
		case id != nil:
			id.event(ev, private)
		default:
			orphan = ev.Event == cmConnectRequest
		}
	})
	if orphan {
		_ = m.destroy(ev.ID) // which tells the peer
	}
}

// createID makes an id of the file; add puts it on record under its uid
// before.
func (m *manager) createID(add func(uid uint64)) (num uint32, err error) {
	var uid uint64
	m.change(func() {
		m.uids++
		uid = m.uids
		add(uid)
	})
	num, err = cmExecute[uint32](m, cmCreateID, fields(uid, response, portSpaceTCP, qpTypeRC, make([]byte, 5)))
	if err != nil {
		m.change(func() { m.forget(uid) })
	}
	return num, err
}

// forget is called under m.mu.
func (m *manager) forget(uid uint64) {
	delete(m.ids, uid)
	delete(m.listeners, uid)
}

func (m *manager) destroy(num uint32) error {
	_, err := cmExecute[uint32](m, cmDestroyID, fields(response, num, uint32(0)))
	return err
}

func sockaddr(a netip.AddrPort) []byte { return abi.Octets(new(abi.NewSockaddr(a))) }

// addresses asks for both ends of an id.
func (m *manager) addresses(num uint32) (local, remote netip.AddrPort, err error) {
	r, err := cmExecute[abi.CMRoute](m, cmQueryRoute, fields(response, num, uint32(0)))
	return r.Src.AddrPort(), r.Dst.AddrPort(), err
}

// Listener waits for requests at one address.
type Listener struct {
	m        *manager
	uid      uint64
	num      uint32
	local    netip.AddrPort
	requests []*ID
	gone     bool
}

// Listen opens a listener at local, whose address may be unspecified. backlog
// is the number of connections that may wait to be accepted; 0 stands for
// cm.DefaultBacklog.
func (c *Context) Listen(local netip.AddrPort, backlog int) (*Listener, error) {
	m, err := c.manager()
	if err != nil {
		return nil, fmt.Errorf("listen %v: %w", local, err)
	}
	if backlog <= 0 {
		backlog = cm.DefaultBacklog
	}
	l := &Listener{m: m, local: local}
	if err := l.open(backlog); err != nil {
		return nil, fmt.Errorf("listen %v: %w", local, err)
	}
	return l, nil
}

func (l *Listener) open(backlog int) error {
	var err error
	if l.num, err = l.m.createID(func(uid uint64) { l.uid, l.m.listeners[uid] = uid, l }); err != nil {
		return err
	}
	if err = l.m.execute(cmBindIP, fields(response, sockaddr(l.local), l.num)); err == nil {
		err = l.m.execute(cmListen, fields(l.num, uint32(backlog)))
	}
	if err == nil {
		l.local, _, err = l.m.addresses(l.num)
	}
	if err != nil {
		_ = l.Close()
	}
	return err
}

// Local returns the listener's address.
func (l *Listener) Local() netip.AddrPort { return l.local }

// Request waits for a peer that wants to connect: answer it with Accept or
// Reject. ctx bounds the wait.
func (l *Listener) Request(ctx context.Context) (id *ID, err error) {
	err = l.m.wait(ctx, func() bool {
		if len(l.requests) > 0 {
			id, l.requests = l.requests[0], l.requests[1:]
		}
		return id != nil || l.gone
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("listener %v: %w", l.local, err)
	case id == nil:
		return nil, fmt.Errorf("listener %v: %w", l.local, verbs.ErrRemoved)
	}
	if err := id.locate(); err != nil {
		return nil, fmt.Errorf("listener %v: %w", l.local, errors.Join(err, id.Destroy()))
	}
	return id, nil
}

// Close stops listening, and rejects the requests that nobody has fetched.
func (l *Listener) Close() error {
	var left []*ID
	l.m.change(func() {
		left, l.requests, l.gone = l.requests, nil, true
		l.m.forget(l.uid)
	})
	for _, id := range left {
		_ = id.Destroy()
	}
	return l.m.destroy(l.num)
}
