package umode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"tapir/nic/cm"
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
	connParamLen = 272
	eventLen     = 336
	routeLen     = 208
	qpAttrLen    = 144
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
	b := make([]byte, connParamLen)
	native.PutUint32(b, p.QP.num)
	copy(b[8:], p.PrivateData)
	b[264], b[265] = byte(len(p.PrivateData)), flag(p.QP.cfg.SRQ != nil)
	for i, reads := range [...]struct {
		want  uint16
		limit int
	}{{p.IRD, limits.MaxIRD}, {p.ORD, limits.MaxORD}} {
		switch {
		case reads.want == 0:
			b[266+i] = byte(min(reads.limit, 255))
		case reads.want != cm.NoReads:
			if reads.want > 255 {
				return nil, fmt.Errorf("%d Reads, limit 255: %w", reads.want, cm.ErrInvalid)
			}
			b[266+i] = byte(reads.want)
		}
	}
	b[269], b[270], b[271] = 7, 7, 1 // retries, which iWARP has no use for; valid
	return b, nil
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
	events, err := eventfile.New(f.os, false)
	if err != nil {
		return nil, err
	}
	m := &manager{file: f, events: events, ids: map[uint64]*ID{}, listeners: map[uint64]*Listener{},
		changed: make(chan struct{}), done: make(chan struct{})}
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
	b := make([]byte, eventLen)
	for {
		err := m.file.command(cmCommand(cmGetEvent, fields(response), eventLen), b)
		if errors.Is(err, syscall.EAGAIN) {
			return nil
		}
		if err != nil {
			return explain(err)
		}
		m.take(b)
	}
}

// cmCommand sets the header of a command made by fields, whose lengths are in
// octets, without the header.
func cmCommand(number uint32, b []byte, answer int) []byte {
	native.PutUint32(b, number)
	native.PutUint16(b[4:], uint16(len(b)-commandHeader))
	native.PutUint16(b[6:], uint16(answer))
	return b
}

// execute sends a command and returns the n octets of its answer.
func (m *manager) execute(number uint32, b []byte, n int) ([]byte, error) {
	memory := make([]byte, n)
	if err := m.file.command(cmCommand(number, b, n), memory); err != nil {
		return nil, explain(err)
	}
	return memory, nil
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
func (m *manager) take(b []byte) {
	uid, event, status := native.Uint64(b), native.Uint32(b[12:]), int32(native.Uint32(b[16:]))
	param := b[20:]
	private := append([]byte(nil), param[8:][:param[264]]...)
	orphan := false // the request of a listener that was closed meanwhile
	m.change(func() {
		id, l := m.ids[uid], m.listeners[uid]
		switch {
		case l != nil && event == cmConnectRequest:
			m.uids++
			id = &ID{m: m, uid: m.uids, num: native.Uint32(b[8:]), state: cm.Requested, private: private,
				ird: param[266], ord: param[267]}
			m.ids[id.uid] = id
			l.requests = append(l.requests, id)
		case l != nil:
			l.gone = l.gone || event == cmDeviceRemoval
		case id != nil:
			id.event(event, status, private, param[266], param[267])
		default:
			orphan = event == cmConnectRequest
		}
	})
	if orphan {
		_ = m.destroy(native.Uint32(b[8:])) // which tells the peer
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
	b, err := m.execute(cmCreateID, fields(uid, response, portSpaceTCP, qpTypeRC, make([]byte, 5)), 4)
	if err != nil {
		m.change(func() { m.forget(uid) })
		return 0, err
	}
	return native.Uint32(b), nil
}

// forget is called under m.mu.
func (m *manager) forget(uid uint64) {
	delete(m.ids, uid)
	delete(m.listeners, uid)
}

func (m *manager) destroy(num uint32) error {
	_, err := m.execute(cmDestroyID, fields(response, num, uint32(0)), 4)
	return err
}

// sockaddrLen is that of struct sockaddr_in6, which also has room for an IPv4
// address.
const sockaddrLen = 28

// sockaddr encodes an address; that of no family stays zero.
func sockaddr(a netip.AddrPort) []byte {
	b := make([]byte, sockaddrLen)
	switch ip := a.Addr().Unmap(); {
	case ip.Is4():
		native.PutUint16(b, syscall.AF_INET)
		copy(b[4:], ip.AsSlice())
	case ip.Is6():
		native.PutUint16(b, syscall.AF_INET6)
		copy(b[8:], ip.AsSlice())
	}
	binary.BigEndian.PutUint16(b[2:], a.Port())
	return b
}

func addrPort(b []byte) netip.AddrPort {
	port := binary.BigEndian.Uint16(b[2:])
	switch native.Uint16(b) {
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), port)
	case syscall.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:])), port)
	}
	return netip.AddrPort{}
}

// addresses asks for both ends of an id.
func (m *manager) addresses(num uint32) (local, remote netip.AddrPort, err error) {
	b, err := m.execute(cmQueryRoute, fields(response, num, uint32(0)), routeLen)
	if err != nil {
		return local, remote, err
	}
	return addrPort(b[136:]), addrPort(b[164:]), nil
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
	if _, err = l.m.execute(cmBindIP, fields(response, sockaddr(l.local), l.num), 0); err == nil {
		_, err = l.m.execute(cmListen, fields(l.num, uint32(backlog)), 0)
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
