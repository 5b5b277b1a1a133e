package ucma

import (
	"errors"
	"net/netip"
	"syscall"

	"tapir/nic/cm"
	"tapir/nic/toe"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/errno"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// conn is a connection of an id. Its methods that take a time run on the NIC's
// thread.
type conn struct {
	dev, home *Device
	id        *cm.ID // the NIC's thread's
	owner     *id    // the home's; nil: none any more
	asked     bool   // this side has asked for the end; the home's
	manual    bool   // CONNECT_RESPONSE stands for the end of CONNECT
	ended     bool   // DISCONNECTED was reported; the home's
	closing   bool   // Disconnect was called, on the NIC's thread
}

// handle takes what the NIC's connection manager reports.
func (n *conn) handle(ev cm.Event, _ frame.Time) {
	if ev.Type == cm.ClosedEvent && n.dev.fabric() && !n.id.Datagrams() {
		n.home.run(n.dev, func(frame.Time) { n.timewait() })
	}
	if ev.Type == cm.ClosedEvent {
		n.dev.Verbs.Defer(func(frame.Time) { _ = n.id.Destroy() }) // closed and outside of callbacks
		return
	}
	local, remote := n.id.Local(), n.id.Remote()
	n.home.run(n.dev, func(frame.Time) { n.report(&ev, local, remote) })
}

// report makes an event for the program.
func (n *conn) report(ev *cm.Event, local, remote netip.AddrPort) {
	i := n.owner
	if i == nil {
		return
	}
	switch ev.Type {
	case cm.ActiveComplete, cm.PassiveComplete, cm.ConnectResponse:
		i.src, i.dst = fromAddrPort(local).scoped(i.src), fromAddrPort(remote).scoped(i.dst)
	case cm.DeviceRemoved:
		i.remove()
		return
	}
	typ, status, ok := n.translate(ev)
	code := -int32(status)
	if ev.Code != 0 {
		code = int32(ev.Code) // a reason of InfiniBand's, as its kernels report it
	}
	switch {
	case !ok:
	case i.datagrams():
		i.report(typ, code, func(out *abi.CMEvent) { out.SetUD(n.datagram(ev)) })
	default:
		i.report(typ, code, func(out *abi.CMEvent) { out.SetConn(eventParam(ev)) })
	}
}

// datagram tells a program where a datagram service is.
func (n *conn) datagram(ev *cm.Event) abi.UDParam {
	p := abi.UDParam{QPNum: ev.Peer.QPN, QKey: ev.Peer.QKey}
	if ev.Peer.QPN != 0 {
		p.AH = abi.AHOf(&ev.Peer.Path)
	}
	p.SetData(ev.PrivateData)
	return p
}

// timewait tells the program that the queue pair of a connection that was up may be
// used again.
func (n *conn) timewait() {
	if n.owner != nil && n.ended {
		n.owner.tell(TimewaitExit, 0, abi.ConnParam{})
	}
}

// translate finds the event of the program's interface, if it has one.
func (n *conn) translate(ev *cm.Event) (typ EventType, status syscall.Errno, ok bool) {
	switch ev.Type {
	case cm.ConnectResponse:
		return ConnectResponse, 0, true
	case cm.ActiveComplete:
		return Established, 0, !n.manual
	case cm.PassiveComplete:
		return Established, 0, !n.id.Datagrams()
	case cm.Rejected, cm.Refused:
		return Rejected, syscall.ECONNREFUSED, true
	case cm.TimedOut:
		return Unreachable, syscall.ETIMEDOUT, true
	case cm.Unreachable:
		return Unreachable, syscall.EHOSTUNREACH, true
	case cm.Failed:
		if errors.Is(ev.Err, cm.ErrReset) || errors.Is(ev.Err, cm.ErrClosing) {
			return ConnectError, syscall.ECONNRESET, true
		}
		return ConnectError, syscall.EPROTO, true
	case cm.Disconnected:
		n.ended = true
		if ev.Err != nil && !n.asked && !n.dev.fabric() {
			status = syscall.ECONNRESET
		}
		return Disconnected, status, true
	}
	return 0, 0, false
}

// eventParam tells a program of the depths that are left to it: the Reads that
// it may be asked, and may ask, for.
func eventParam(ev *cm.Event) abi.ConnParam {
	p := abi.ConnParam{IRD: uint8(min(ev.IRD, 255)), ORD: uint8(min(ev.ORD, 255)), QPNum: ev.Peer.QPN,
		FlowControl: flag(ev.Peer.FlowControl), SRQ: flag(ev.Peer.SRQ), Retries: ev.Peer.Retry,
		RNRRetry: ev.Peer.RNRRetry}
	p.SetData(ev.PrivateData)
	return p
}

// leave is the home's last word: whatever comes of the connection concerns
// nobody.
func (n *conn) leave() {
	n.owner = nil
	n.dev.run(n.home, n.abandon)
}

// abandon ends the connection that nobody has any more.
func (n *conn) abandon(now frame.Time) {
	switch n.id.State() {
	case cm.Idle:
		_ = n.id.Destroy() // never connected: nothing can be in its way
	case cm.Requested:
		_ = n.id.Reject(nil, now)
	case cm.Connecting, cm.Accepting:
		_ = n.id.Disconnect(true, now)
	case cm.Connected:
		if !n.closing { // else what is queued is still sent
			_ = n.id.Disconnect(true, now)
		}
	}
}

func flag(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}

// options are what an id knows of a connection beside the command.
type options struct {
	space, tos, ack uint16
	key             uint32
}

func (i *id) options() options {
	return options{i.space, uint16(i.tos), uint16(i.ack.value), i.queueKey()}
}

// params are what the NIC has to know, from what the program said.
func (n *conn) params(p *abi.ConnParam, pid int, o options) (cm.Params, error) {
	q := cm.Params{QP: n.dev.QP(pid, p.QPNum&0xffffff), PrivateData: p.Data(), IRD: reads(p.IRD), ORD: reads(p.ORD),
		Space: cm.PortSpace(o.space), TOS: uint8(o.tos)}
	fabric := n.dev.fabric()
	if q.QP == nil && !(fabric && q.Space.Datagrams()) {
		return q, syscall.EINVAL
	}
	if fabric {
		q.OwnerMoves, q.AckTimeout = p.Valid != abi.NICMoves, uint8(o.ack)
		q.Retry, q.RNRRetry, q.SRQ, q.QKey = &p.Retries, &p.RNRRetry, p.SRQ != 0, o.key
	}
	return q, nil
}

// reads is a number of RDMA Reads as the NIC counts it.
func reads(n uint8) uint16 {
	if n == 0 {
		return cm.NoReads
	}
	return uint16(n)
}

// errnos are those of errors of the NIC.
var errnos = errno.Table{
	{cm.ErrRemoved, syscall.ENODEV}, {cm.ErrNoDevice, syscall.ENODEV}, {verbs.ErrRemoved, syscall.ENODEV},
	{&toe.Error{Kind: toe.AddrInUse}, syscall.EADDRINUSE}, {cm.ErrUnreachable, syscall.ENETUNREACH},
	{cm.ErrNoResources, syscall.ENOMEM}, {cm.ErrAddrInUse, syscall.EADDRINUSE}, {nil, syscall.EINVAL},
}
