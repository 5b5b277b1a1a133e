package ucma

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"tapir/nic/cm"
	"tapir/nic/uapi/abi"
	"tapir/wire/frame"
)

// maxBacklog is the most, and the default, of what LISTEN grants.
const maxBacklog = 1024

// listener is an id's share in one NIC.
type listener struct {
	dev  *Device
	open []*cm.Listener // the NIC's thread's
}

// listen is LISTEN. An id without an address listens on every one of IPv4.
// Errors: those of bind.
func (i *id) listen(c *command) error {
	switch i.state {
	case idle:
		i.bind(unspecified(syscall.AF_INET), func(err error) {
			if err == nil {
				err = i.listenBound(c)
			}
			if !errors.Is(err, abi.Later) {
				c.finish(err)
			}
		})
		return abi.Later
	case bound:
		return i.listenBound(c)
	}
	return syscall.EINVAL
}

func (i *id) listenBound(c *command) error {
	if err := i.file.home.s.claim(i.binding); err != nil {
		return err
	}
	i.reuse = false
	if i.backlog = int(int32(c.u32(4))); i.backlog <= 0 || i.backlog > maxBacklog {
		i.backlog = maxBacklog
	}
	i.state = listening
	on := slices.Clone(i.file.nics)
	if i.dev != nil {
		on = []*Device{i.dev}
	}
	i.listenOn(on, func(err error) {
		if err != nil && !i.gone {
			i.closeListeners()
			i.state = bound
		}
		c.finish(err)
	})
	return abi.Later
}

// listenOn opens listeners on the NICs.
func (i *id) listenOn(list []*Device, then func(error)) {
	of, home := process(i.file.owner), i.file.home
	addr, sixOnly := i.src.addrPort(), i.afOnly && i.src.family == syscall.AF_INET6
	if i.src.any() && !i.src.addr.IsUnspecified() { // the NIC has no loopback network
		addr = netip.AddrPortFrom(unspecified(i.src.family).addr, i.src.port)
	}
	opened, errs := make([]*listener, len(list)), make([]error, len(list))
	for at, n := range list {
		opened[at] = &listener{dev: n}
	}
	i.listeners = append(i.listeners, opened...)
	home.gather(list, func(at int, n *Device, _ frame.Time) {
		errs[at] = opened[at].listen(addr, sixOnly, of, i, home)
	}, func() {
		for _, err := range errs {
			if err != nil {
				then(errnos.Of(err))
				return
			}
		}
		then(nil)
	})
}

// listen opens what is needed at addr on l's NIC. The NIC lets more connections
// wait than the program's backlog, which counts what it has not fetched.
func (l *listener) listen(addr netip.AddrPort, sixOnly bool, of process, i *id, home *Device) error {
	at := []netip.Addr{addr.Addr()}
	if sixOnly && addr.Addr().IsUnspecified() { // the wildcard of IPv6 is for both families
		at = nil
		for _, p := range l.dev.Network.Addrs() {
			if p.Addr().Is6() {
				at = append(at, p.Addr())
			}
		}
	}
	for _, a := range at {
		open, err := l.dev.CM.ListenIn(cm.PortSpace(i.space), netip.AddrPortFrom(a, addr.Port()), maxBacklog,
			l.handler(i, home), of)
		if err != nil {
			l.close()
			return err
		}
		l.open = append(l.open, open)
	}
	return nil
}

func (l *listener) close() {
	for _, open := range l.open {
		open.Close()
	}
	l.open = nil
}

func (i *id) closeListeners() {
	for _, l := range i.listeners {
		l.dev.run(i.file.home, func(frame.Time) { l.close() })
	}
	i.listeners = nil
}

// handler takes the requests to i, on the NIC's thread.
func (l *listener) handler(i *id, home *Device) cm.Handler {
	return func(ev cm.Event, _ frame.Time) {
		if ev.Type != cm.ConnectRequest {
			return
		}
		n := &conn{dev: l.dev, home: home, id: ev.ID}
		ev.ID.SetHandler(n.handle)
		local, remote := ev.ID.Local(), ev.ID.Remote()
		home.run(l.dev, func(frame.Time) { i.request(n, ev, local, remote) })
	}
}

// request makes an id for a peer's request, which is refused when nobody
// listens any more, or too many wait.
func (i *id) request(n *conn, ev cm.Event, local, remote netip.AddrPort) {
	home := n.home
	r := &id{
		file: i.file, space: i.space, state: connected, dev: n.dev, to: remote.Addr(), conn: n, passive: true,
		pending: true, tos: i.tos,
		src: fromAddrPort(local), dst: fromAddrPort(remote),
	}
	if i.gone || i.state != listening || i.backlog == 0 || !home.add(r) {
		n.leave()
		return
	}
	n.owner = r
	i.backlog--
	out := &event{id: i, req: r, resp: abi.CMEvent{UID: i.uid, ID: r.num, Event: uint32(ConnectRequest)}}
	if i.datagrams() {
		out.resp.SetUD(n.datagram(&ev))
	} else {
		out.resp.SetConn(eventParam(&ev))
	}
	i.file.queue(out)
}
