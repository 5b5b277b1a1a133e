package umode

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"syscall"

	"tapir/nic/cm"
	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
)

// ID is one connection end point.
type ID struct {
	m   *manager
	uid uint64
	num uint32
	qp  *QP

	// All below is guarded by m.mu.
	state         cm.State
	step          uint32 // the last event of resolving
	err           error  // why set-up failed or the connection ended
	private       []byte // the peer's
	ird, ord      uint8
	local, remote netip.AddrPort
}

// NewID makes an ID for Connect.
func (c *Context) NewID() (*ID, error) {
	m, err := c.manager()
	if err != nil {
		return nil, fmt.Errorf("create id: %w", err)
	}
	id := &ID{m: m, step: noStep}
	if id.num, err = m.createID(func(uid uint64) { id.uid, m.ids[uid] = uid, id }); err != nil {
		return nil, fmt.Errorf("create id: %w", err)
	}
	return id, nil
}

const noStep = ^uint32(0)

// event is called under m.mu.
func (id *ID) event(ev *abi.CMEvent, private []byte) {
	switch ev.Event {
	case cmAddrResolved, cmRouteResolved:
		id.step = ev.Event
	case cmEstablished:
		if id.state == cm.Connecting && len(private) > 0 { // an accepted one keeps that of its request
			id.private = private
		}
		id.state, id.ird, id.ord = cm.Connected, ev.Conn().IRD, ev.Conn().ORD
	case cmDisconnected:
		id.state = cm.Closing
	case cmTimewaitExit:
		id.state = cm.Closed
	case cmAddrError, cmRouteError, cmConnectError, cmUnreachable, cmRejected, cmDeviceRemoval:
		id.private = private
		id.state, id.err = cm.Closed, reason(ev.Event, ev.Status, private)
	}
}

// reason is the error of nic/cm for an event's status. A peer that says no
// without a word is not told from one where nothing listens.
func reason(event uint32, status int32, private []byte) error {
	errno := syscall.Errno(max(status, -status))
	switch {
	case event == cmDeviceRemoval:
		return cm.ErrRemoved
	case errno == syscall.ETIMEDOUT:
		return cm.ErrTimedOut
	case event == cmRejected && len(private) > 0:
		return cm.ErrRejected
	case event == cmRejected:
		return fmt.Errorf("%w, or %w", cm.ErrRefused, cm.ErrRejected)
	case event == cmUnreachable, event == cmAddrError, event == cmRouteError:
		return fmt.Errorf("%w (%w)", cm.ErrUnreachable, errno)
	case errno == syscall.ECONNRESET:
		return cm.ErrReset
	}
	return fmt.Errorf("%w (%w)", cm.ErrClosing, errno)
}

// State returns the state.
func (id *ID) State() cm.State { return guarded(id, &id.state) }

// guarded reads a field of id that m.mu guards.
func guarded[T any](id *ID, field *T) T {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return *field
}

// QP returns the queue pair given to Connect or Accept, or nil.
func (id *ID) QP() *QP { return id.qp }

// Local returns this side's address, known from Connect or Request on.
func (id *ID) Local() netip.AddrPort { return guarded(id, &id.local) }

// Remote returns the peer's address.
func (id *ID) Remote() netip.AddrPort { return guarded(id, &id.remote) }

// locate asks for both addresses.
func (id *ID) locate() error {
	local, remote, err := id.m.addresses(id.num)
	if err == nil {
		id.m.change(func() { id.local, id.remote = local, remote })
	}
	return err
}

// PrivateData is what the peer sent: with its request, its acceptance or its
// rejection.
func (id *ID) PrivateData() []byte { return guarded(id, &id.private) }

// Reads is how many of the peer's Reads this side serves at a time (IRD), and
// how many it may have outstanding (ORD): offered with a request, in force
// when connected.
func (id *ID) Reads() (ird, ord uint8) {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	return id.ird, id.ord
}

// Connect asks the peer at remote for a connection and waits until it is up.
// ctx bounds the wait, and what has begun then ends with Destroy. Errors:
// those of nic/cm that an event carries (ErrRejected, ErrRefused, ...); a peer
// that says no without private data is both of these. After ErrRejected,
// PrivateData is the peer's answer.
func (id *ID) Connect(ctx context.Context, remote netip.AddrPort, p Params) error {
	err := id.connect(ctx, remote, &p)
	if err != nil {
		return fmt.Errorf("connect to %v: %w", remote, err)
	}
	return nil
}

func (id *ID) connect(ctx context.Context, remote netip.AddrPort, p *Params) error {
	param, err := p.encode()
	if err != nil {
		return err
	}
	if id.State() != cm.Idle {
		return cm.ErrState
	}
	id.m.change(func() { id.qp, id.state = p.QP, cm.Connecting })
	err = id.resolve(ctx, cmAddrResolved, cmResolveIP, fields(sockaddr(p.Local), sockaddr(remote), id.num,
		resolveTime))
	if err == nil {
		err = id.resolve(ctx, cmRouteResolved, cmResolveRoute, fields(id.num, resolveTime))
	}
	if err == nil {
		err = id.locate()
	}
	if err == nil { // who has asked for this has the NIC see to the queue pair's state
		_, err = cmExecute[abi.CMQPAttr](id.m, cmInitQPAttr, fields(response, id.num, uint32(verbs.Init)))
	}
	if err == nil {
		err = id.m.execute(cmConnect, fields(param, id.num, uint32(0), uint64(0)))
	}
	if err == nil {
		err = id.established(ctx)
	}
	return err
}

// resolve sends a command and waits for the event that ends it well.
func (id *ID) resolve(ctx context.Context, step, number uint32, b []byte) error {
	if err := id.m.execute(number, b); err != nil {
		return err
	}
	return id.await(ctx, func() bool { return id.step == step })
}

func (id *ID) established(ctx context.Context) error {
	return id.await(ctx, func() bool { return id.state == cm.Connected })
}

// await waits for an outcome, or for the id's end.
func (id *ID) await(ctx context.Context, good func() bool) (err error) {
	lost := id.m.wait(ctx, func() bool {
		err = nil
		switch {
		case good():
			return true
		case id.err != nil:
			err = id.err
		case id.state == cm.Closing || id.state == cm.Closed:
			err = cm.ErrClosing
		}
		return err != nil
	})
	if lost != nil {
		return lost
	}
	return err
}

// Accept answers a request with yes and waits until the connection is up.
func (id *ID) Accept(ctx context.Context, p Params) error {
	err := id.accept(ctx, &p)
	if err != nil {
		return fmt.Errorf("accept %v: %w", id.Remote(), err)
	}
	return nil
}

func (id *ID) accept(ctx context.Context, p *Params) error {
	param, err := p.encode()
	if err != nil {
		return err
	}
	if id.State() != cm.Requested {
		return cm.ErrState
	}
	id.m.change(func() { id.qp, id.state = p.QP, cm.Accepting })
	if err := id.m.execute(cmAccept, fields(id.uid, param, id.num, uint32(0), uint64(0))); err != nil {
		return err
	}
	return id.established(ctx)
}

// Reject answers a request with no; the ID is gone.
func (id *ID) Reject(private []byte) error {
	if len(private) > 255 {
		return fmt.Errorf("reject %v: %d octets of private data, limit 255: %w", id.Remote(), len(private),
			cm.ErrInvalid)
	}
	var data [256]byte
	copy(data[:], private)
	err := id.m.execute(cmReject, fields(id.num, uint8(len(private)), uint8(0), uint16(0), data[:]))
	if err = cmp.Or(err, id.Destroy()); err != nil {
		return fmt.Errorf("reject %v: %w", id.Remote(), err)
	}
	return nil
}

// Disconnect begins to end the connection, gracefully: queued sends first. On
// one that is ending already it has no effect.
func (id *ID) Disconnect() error {
	if s := id.State(); s == cm.Closing || s == cm.Closed {
		return nil
	}
	if err := id.m.execute(cmDisconnect, fields(id.num)); err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	return nil
}

// Wait waits until the connection has begun to end, whoever ends it.
func (id *ID) Wait(ctx context.Context) error {
	return id.m.wait(ctx, func() bool { return id.state == cm.Closing || id.state == cm.Closed })
}

// Destroy forgets the ID. A connection that is still open ends.
func (id *ID) Destroy() error {
	id.m.change(func() {
		id.m.forget(id.uid)
		id.state = cm.Closed
	})
	if err := id.m.destroy(id.num); err != nil {
		return fmt.Errorf("destroy id: %w", err)
	}
	return nil
}
