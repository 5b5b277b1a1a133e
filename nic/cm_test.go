package nic

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// accepter is a server whose listeners accept everything.
type accepter struct {
	n    *node
	ends []*rdmaEnd
}

func (a *accepter) handle(t *testing.T) cm.Handler {
	return func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			e := newEnd(t, a.n, 64)
			a.ends = append(a.ends, e)
			if err := ev.ID.Accept(cm.Params{QP: e.qp, PrivateData: []byte(ev.Listener.Local().String())}, now); err != nil {
				t.Error(err)
			}
		}
	}
}

// open connects from a, from a port if it is not 0, and returns which listener
// answered.
func open(w *world, a *node, from uint16, to netip.AddrPort) (string, error) {
	e := newEnd(w.t, a, 64)
	p := cm.Params{QP: e.qp}
	if from != 0 {
		p.Local = netip.AddrPortFrom(a.dev.IP.Source(to.Addr()), from)
	}
	if err := a.dev.CM.NewID(e.handle, nil).Connect(to, p, w.now); err != nil {
		return "", err
	}
	w.until(10*time.Second, func() bool { return len(e.events) > 0 })
	return string(e.events[0].PrivateData), e.events[0].Err
}

// Listeners are found by address and port: the exact address before a
// wildcard, an IPv6 wildcard for both families.
func TestListenerMatch(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	var v4, v6 netip.Addr
	for _, p := range b.dev.IP.Addrs() {
		if p.Addr().Is4() {
			v4 = p.Addr()
		} else if !p.Addr().IsLinkLocalUnicast() {
			v6 = p.Addr()
		}
	}
	srv := &accepter{n: b}
	listen := func(addr netip.Addr, port uint16) *cm.Listener {
		l, err := b.dev.CM.Listen(netip.AddrPortFrom(addr, port), 8, srv.handle(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	listen(netip.IPv6Unspecified(), 1000)
	listen(netip.IPv4Unspecified(), 1001)
	exact := listen(v4, 1000)
	for _, c := range []struct {
		addr netip.Addr
		port uint16
		want string
	}{
		{v6, 1000, "[::]:1000"}, {v4, 1000, netip.AddrPortFrom(v4, 1000).String()}, {v4, 1001, "0.0.0.0:1001"},
		{v6, 1001, ""}, {v4, 1002, ""},
	} {
		got, err := open(w, a, 0, netip.AddrPortFrom(c.addr, c.port))
		if got != c.want || (err != nil) != (c.want == "") || c.want == "" && !errors.Is(err, cm.ErrRefused) {
			t.Errorf("%v port %d: %q, %v", c.addr, c.port, got, err)
		}
	}
	exact.Close()
	if got, err := open(w, a, 0, netip.AddrPortFrom(v4, 1000)); got != "[::]:1000" || err != nil {
		t.Errorf("both families: %q, %v", got, err)
	}
	if _, err := b.dev.CM.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), 1000), 1, srv.handle(t), nil); err == nil {
		t.Error("one address and port twice")
	}
}

// A local port serves a listener and any number of connections to different
// peers or ports at a time.
func TestPortSharing(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	srv, own := &accepter{n: b}, &accepter{n: a}
	v4 := b.dev.IP.Addrs()[0].Addr()
	for _, port := range []uint16{1, 2} {
		if _, err := b.dev.CM.Listen(netip.AddrPortFrom(v4, port), 8, srv.handle(t), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.dev.CM.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), 700), 8, own.handle(t), nil); err != nil {
		t.Fatal(err)
	}
	for _, port := range []uint16{1, 2} {
		if got, err := open(w, a, 700, netip.AddrPortFrom(v4, port)); got == "" || err != nil {
			t.Errorf("port 700 to port %d: %v", port, err)
		}
	}
	if _, err := open(w, a, 700, netip.AddrPortFrom(v4, 1)); err == nil {
		t.Error("the same connection twice")
	}
	if got, err := open(w, b, 0, netip.AddrPortFrom(a.dev.IP.Addrs()[0].Addr(), 700)); got == "" || err != nil {
		t.Errorf("to the listener on port 700: %v", err)
	}
}

// A NIC that is removed tells everybody, ends what there is and takes nothing
// more; its objects can then be destroyed.
func TestRemoval(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	c, s := dial(w, a, b, b.dev.IP.Addrs()[0].Addr(), 4096)
	listener := b.dev.CM.Listeners()[0]
	b.dev.CM.Remove(w.now)
	w.until(5*time.Second, func() bool { return c.saw(cm.ClosedEvent) && s.saw(cm.ClosedEvent) })
	removed := 0
	for _, ev := range s.events {
		if ev.Type == cm.DeviceRemoved {
			removed++
		}
	}
	if removed != 2 || c.saw(cm.DeviceRemoved) || c.qp.State() != verbs.Err || s.qp.State() != verbs.Err {
		t.Errorf("%d events of removal, QPs %v %v", removed, c.qp.State(), s.qp.State())
	}
	if err := listener.Pause(); !errors.Is(err, cm.ErrState) {
		t.Errorf("the listener is open: %v", err)
	}
	for _, err := range []error{s.qp.Destroy(), s.id.Destroy(), s.mr.Dereg(), s.cq.Destroy()} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := open(w, a, 0, netip.AddrPortFrom(b.dev.IP.Addrs()[0].Addr(), rdmaPort)); !errors.Is(err, cm.ErrRefused) {
		t.Errorf("connect to a NIC without listeners: %v", err)
	}
}
