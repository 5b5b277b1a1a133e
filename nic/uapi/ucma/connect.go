package ucma

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/uapi/abi"
	"tapir/wire/frame"
)

// connect is CONNECT. ESTABLISHED, REJECTED, UNREACHABLE or CONNECT_ERROR
// follows. If librdmacm does not have the queue pair, or has to set attributes
// of it, CONNECT_RESPONSE comes instead of ESTABLISHED, and ACCEPT then
// completes the connection without an event. Errors:
// EINVAL (no route resolved, no such queue pair, or in the wrong state),
// EADDRINUSE, ENODEV.
func (i *id) connect(c *command) error {
	p := abi.Get[abi.ConnParam](c.body)
	if p.Valid == 0 || i.state != routeResolved {
		return syscall.EINVAL
	}
	n := &conn{dev: i.dev, home: i.file.home, owner: i, manual: !i.qpAttr || i.ack.set}
	if i.dev.fabric() {
		n.manual = !i.datagrams() && p.Valid != abi.NICMoves // the program moves its queue pair in between
	}
	i.conn, i.state = n, connected
	pid, local, remote := c.caller.Process(), netip.AddrPortFrom(i.src.addr, i.src.port),
		netip.AddrPortFrom(i.to, i.dst.port)
	if i.src.any() {
		local = netip.AddrPortFrom(netip.Addr{}, i.src.port)
	}
	automatic, opt := i.binding != nil && i.binding.automatic, i.options()
	var from netip.AddrPort
	return c.on(i.dev, func(now frame.Time) error {
		n.id = n.dev.CM.NewID(n.handle, process(pid))
		err := n.connect(p, pid, opt, local, remote, automatic, now)
		from = n.id.Local()
		return err
	}, i.alive(func(err error) error {
		if err != nil {
			i.conn.leave()
			i.conn, i.state = nil, routeResolved
			return errnos.Of(err)
		}
		i.src.port = from.Port()
		return nil
	}))
}

// connect asks the peer. A port that the program did not choose may turn out
// to be in TIME-WAIT with this peer; then the NIC chooses.
func (n *conn) connect(p abi.ConnParam, pid int, o options, local, remote netip.AddrPort, automatic bool,
	now frame.Time) error {
	q, err := n.params(&p, pid, o)
	if err != nil {
		return err
	}
	q.Local = local
	q.PeerToPeer, q.ManualEstablish = true, n.manual // programs do not know who has to send first
	err = n.id.Connect(remote, q, now)
	if automatic && errors.Is(err, &toe.Error{Kind: toe.AddrInUse}) {
		q.Local = netip.AddrPortFrom(local.Addr(), 0)
		err = n.id.Connect(remote, q, now)
	}
	return err
}

// accept is ACCEPT. Of a request: ESTABLISHED or CONNECT_ERROR follows. On the
// side that has connected, and was told CONNECT_RESPONSE: it completes the
// connection. Errors: EINVAL, ECONNRESET (the peer has gone).
func (i *id) accept(c *command) error {
	n, p, uid := i.conn, abi.Get[abi.ConnParam](c.body[8:]), c.u64(0)
	switch {
	case n == nil || i.state != connected || (p.Valid != 0) != i.passive:
		return syscall.EINVAL
	case p.Valid == 0:
		return c.on(i.dev, func(now frame.Time) error { return n.id.Establish(now) }, i.alive(errnos.Of))
	}
	pid, opt := c.caller.Process(), i.options()
	return c.on(i.dev, func(now frame.Time) error {
		if s := n.id.State(); s == cm.Closed || s == cm.Closing {
			return syscall.ECONNRESET
		}
		q, err := n.params(&p, pid, opt)
		if err == nil {
			q.MaySendFirst = true // programs do not know who has to send first
			err = n.id.Accept(q, now)
		}
		if err != nil && n.id.State() == cm.Requested {
			_ = n.id.Reject(nil, now)
		}
		return err
	}, i.alive(func(err error) error {
		if err == nil {
			i.uid = uid
		}
		return errnos.Of(err)
	}))
}

// Reasons that REJECT may give.
const (
	rejectConsumer = 28
	rejectVendor   = 35
)

// reject is REJECT, of a request that was not accepted. Error: EINVAL.
func (i *id) reject(c *command) error {
	if why := c.body[5]; i.conn == nil || !i.passive || why != 0 && why != rejectConsumer && why != rejectVendor {
		return syscall.EINVAL
	}
	n, private := i.conn, slices.Clone(c.body[8:8+int(c.body[4])])
	return c.on(i.dev, func(now frame.Time) error { return n.id.Reject(private, now) }, i.alive(errnos.Of))
}

// disconnect is DISCONNECT: DISCONNECTED follows once both sides have closed.
// Of a connection that is not up, or ends already, nothing does.
func (i *id) disconnect(c *command) error {
	n := i.conn
	if n == nil {
		return syscall.EINVAL
	}
	n.asked = true
	return c.on(i.dev, func(now frame.Time) error {
		if s := n.id.State(); s == cm.Connected || s == cm.Connecting || s == cm.Accepting {
			n.closing = true
			return n.id.Disconnect(false, now)
		}
		return nil
	}, i.alive(errnos.Of))
}
