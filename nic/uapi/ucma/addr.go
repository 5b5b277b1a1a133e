package ucma

import (
	"net/netip"
	"slices"
	"syscall"
	"time"

	"tapir/nic/uapi/abi"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
)

// serveBind is BIND_IP, and BIND once the address's length is checked.
func (i *id) serveBind(c *command) error {
	i.bind(parseSockaddr(c.body[8:]), c.finish)
	return abi.Later
}

// bindAddr is BIND. librdmacm tries it with an address of family AF_IB to see
// whether it may use these commands instead of those with IP in their name.
func (f *File) bindAddr(c *command) error {
	if parseSockaddr(c.body[8:]).known() && int(c.u16(4)) != familyLen(c.u16(8)) {
		return syscall.EINVAL
	}
	return withID(0, (*id).serveBind)(f, c)
}

// bind gives i its address, and the NIC that has it, then a port. Errors:
// EAFNOSUPPORT, EINVAL (bound already, no scope), EADDRNOTAVAIL (no NIC has
// the address), EADDRINUSE.
func (i *id) bind(addr sockaddr, then func(error)) {
	switch {
	case !addr.known():
		then(syscall.EAFNOSUPPORT)
		return
	case i.state != idle, addr.unscoped():
		then(syscall.EINVAL)
		return
	}
	i.state = bound
	if addr.any() {
		then(i.bindPort(addr, nil))
		return
	}
	home, list := i.file.home, slices.Clone(i.file.nics)
	owns := make([]bool, len(list))
	home.gather(list, func(at int, n *Device, _ frame.Time) {
		owns[at] = slices.ContainsFunc(n.Network.Addrs(), func(p netip.Prefix) bool { return p.Addr() == addr.addr })
	}, func() {
		var err error = syscall.EADDRNOTAVAIL
		// it may have gone meanwhile
		if at := slices.Index(owns, true); at >= 0 && slices.Contains(i.file.nics, list[at]) {
			err = nil
			if !i.gone {
				err = i.bindPort(addr, list[at])
			}
		} else {
			i.state = idle
		}
		then(err)
	})
}

// bindPort completes bind.
func (i *id) bindPort(addr sockaddr, n *Device) error {
	if !i.afOnlySet {
		i.afOnly = addr.family == syscall.AF_INET
	}
	b := &binding{addr: addr, on: []*Device{n}, reuse: i.reuse, afOnly: i.afOnly}
	if n == nil {
		b.on = slices.Clone(i.file.nics)
	}
	if err := i.file.home.s.bind(b); err != nil {
		i.state = idle
		return err
	}
	i.binding, i.dev, i.src, i.dst = b, n, b.addr, sockaddr{family: addr.family}
	return nil
}

// query is an address that is being resolved. Its fields belong to the NIC's
// thread.
type query struct {
	dev    *Device
	cancel func() // nil: over
}

// stop ends the query, on its NIC's thread.
func (q *query) stop() {
	if q.cancel != nil {
		q.cancel()
		q.cancel = nil
	}
}

func (i *id) cancelQuery() {
	if q := i.query; q != nil {
		i.query = nil
		q.dev.run(i.file.home, func(frame.Time) { q.stop() })
	}
}

// resolveIP is RESOLVE_IP.
func (i *id) resolveIP(c *command) error {
	return i.resolve(c, parseSockaddr(c.body), parseSockaddr(c.body[28:56]), c.u32(60))
}

// resolveAddr is RESOLVE_ADDR.
func (i *id) resolveAddr(c *command) error {
	if c.u16(8) != 0 && int(c.u16(8)) != familyLen(c.u16(16)) || int(c.u16(10)) != familyLen(c.u16(144)) {
		return syscall.EINVAL
	}
	return i.resolve(c, parseSockaddr(c.body[16:]), parseSockaddr(c.body[144:]), c.u32(4))
}

// maxEvents is how many events may wait when another address is asked for: the
// only thing that a program can do for ever without fetching any.
const maxEvents = 1 << 16

// resolve finds the NIC from which dst is reached, and its station there.
// ADDR_RESOLVED or ADDR_ERROR follows. src, if its family is set, is bound to
// before; else any. Errors: EINVAL, ENETUNREACH (no NIC knows a way), ENOMEM (too
// many events wait), those of bind.
func (i *id) resolve(c *command, src, dst sockaddr, ms uint32) error {
	switch {
	case !dst.known():
		return syscall.EINVAL
	case len(i.file.events) >= maxEvents:
		return syscall.ENOMEM
	case src.family == 0:
		src = unspecified(dst.family)
		src.scope = dst.scope
	}
	proceed := func(err error) {
		switch {
		case err != nil:
			c.finish(err)
		case i.gone || i.state != bound || i.src.family != dst.family:
			c.finish(syscall.EINVAL)
		default:
			i.dst, i.state = dst, resolving
			i.findWay(ms, c.finish)
		}
	}
	if i.state == bound {
		proceed(nil)
	} else {
		i.bind(src, proceed)
	}
	return abi.Later
}

// way is how a NIC reaches an address.
type way struct {
	to, from netip.Addr
	bits     int
	ok       bool
}

// way looks for one from n to dst; a loopback address stands for the NIC
// itself.
func (n *Device) way(dst sockaddr) (w way) {
	if w.to = dst.addr; w.to.IsMulticast() {
		return n.wayToGroup(w.to)
	}
	if dst.any() {
		for _, p := range n.Network.Addrs() {
			if a := p.Addr(); a.Is4() == dst.addr.Is4() && !a.IsLinkLocalUnicast() {
				return way{to: a, from: a, ok: true}
			}
		}
		return w
	}
	w.from, w.bits, w.ok = n.Network.Route(w.to)
	return w
}

// wayToGroup is that to a multicast group: from any address of the family, if the
// NIC has groups.
func (n *Device) wayToGroup(to netip.Addr) (w way) {
	if !n.fabric() {
		return w
	}
	for _, p := range n.Network.Addrs() {
		if a := p.Addr(); a.Is4() == to.Is4() && (!a.IsLinkLocalUnicast() || !w.ok) {
			w = way{to: to, from: a, ok: true}
		}
	}
	return w
}

// findWay chooses the NIC whose route fits best and has it look for the
// station.
func (i *id) findWay(ms uint32, then func(error)) {
	home, dst, list := i.file.home, i.dst, slices.Clone(i.file.nics)
	if i.dev != nil {
		list = []*Device{i.dev}
	}
	ways := make([]way, len(list))
	home.gather(list, func(at int, n *Device, _ frame.Time) { ways[at] = n.way(dst) }, func() {
		best := -1
		for at, w := range ways {
			if w.ok && (best < 0 || w.bits > ways[best].bits) {
				best = at
			}
		}
		switch {
		case i.gone || i.state != resolving:
			then(syscall.EINVAL)
		case best < 0:
			i.dst, i.state = sockaddr{family: dst.family}, bound
			then(syscall.ENETUNREACH)
		default:
			i.askStation(list[best], ways[best], ms)
			then(nil)
		}
	})
}

// askStation asks for the station of w on n, for at most ms milliseconds.
func (i *id) askStation(n *Device, w way, ms uint32) {
	home, q := i.file.home, &query{dev: n}
	i.query = q
	n.run(home, func(now frame.Time) {
		if w.to.IsMulticast() {
			mac := icmp.MulticastMAC(w.to)
			home.run(n, func(frame.Time) { i.resolved(q, w, mac, 0) })
			return
		}
		var unask, unschedule func()
		done := func(mac ether.Addr, err syscall.Errno) {
			q.stop()
			home.run(n, func(frame.Time) { i.resolved(q, w, mac, err) })
		}
		ok := false
		if unask, ok = n.Network.Resolve(w.to, func(mac ether.Addr, _ frame.Time) { done(mac, 0) }); !ok {
			done(ether.Addr{}, syscall.ENETUNREACH)
			return
		}
		unschedule = n.Schedule(now.Add(time.Duration(ms)*time.Millisecond), func(frame.Time) {
			done(ether.Addr{}, syscall.ETIMEDOUT)
		})
		q.cancel = func() { unask(); unschedule() }
	})
}

// resolved takes the answer to q.
func (i *id) resolved(q *query, w way, mac ether.Addr, err syscall.Errno) {
	if i.query != q || i.gone {
		return
	}
	i.query = nil
	if !slices.Contains(i.file.nics, q.dev) { // it has gone meanwhile
		err = syscall.ENODEV
	}
	if err != 0 {
		i.state = bound
		i.tell(AddrError, err, abi.ConnParam{})
		return
	}
	i.state, i.dev, i.station, i.to = addrResolved, q.dev, mac, w.to
	if i.src.addr.IsUnspecified() {
		i.src.addr = w.from
	}
	i.tell(AddrResolved, 0, abi.ConnParam{})
}

// resolveRoute is RESOLVE_ROUTE: an RNIC needs no more than the address.
func (i *id) resolveRoute(c *command) error {
	if c.u32(4) == 0 || i.state != addrResolved {
		return syscall.EINVAL
	}
	i.state = routeResolved
	i.tell(RouteResolved, 0, abi.ConnParam{})
	return nil
}
