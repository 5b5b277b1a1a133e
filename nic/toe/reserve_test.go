package toe

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// osPorts plays the operating system's side: which ports are held, in order.
type osPorts struct {
	held  []uint16
	taken uint16 // refused
}

func (o *osPorts) reserve(local netip.AddrPort) (func(), error) {
	port := local.Port()
	if port == o.taken || slices.Contains(o.held, port) {
		return nil, fmt.Errorf("port %d: in use", port)
	}
	o.held = append(o.held, port)
	return func() { o.held = slices.DeleteFunc(o.held, func(p uint16) bool { return p == port }) }, nil
}

func TestReservedPorts(t *testing.T) {
	o := &osPorts{taken: 5000}
	e := New(Config{FirstPort: 5000, LastPort: 5001, Reserve: o.reserve}, nil, nil, nil)
	addr := netip.MustParseAddr("10.0.0.1")
	remote := netip.MustParseAddrPort("10.0.0.2:7")

	if _, err := e.Listen(netip.AddrPortFrom(addr, 5000), 1, nil); !errors.Is(err, &Error{Kind: AddrInUse}) {
		t.Fatalf("listen on a port of the operating system: %v", err)
	}
	l, err := e.Listen(netip.AddrPortFrom(addr, 80), 1, nil)
	if err != nil || !slices.Equal(o.held, []uint16{80}) {
		t.Fatalf("listen: %v, held %v", err, o.held)
	}
	shared := l.port.Share()
	l.Close()
	l.Close()
	if !slices.Equal(o.held, []uint16{80}) {
		t.Fatalf("listener closed, its connection open: held %v", o.held)
	}
	shared.Drop()

	c, err := e.Connect(netip.AddrPortFrom(addr, 0), remote, nil, 0)
	if err != nil || c.Local().Port() != 5001 || !slices.Equal(o.held, []uint16{5001}) {
		t.Fatalf("connect: %v, held %v", err, o.held)
	}
	if _, err := e.Connect(netip.AddrPortFrom(addr, 0), remote, nil, 0); !errors.Is(err, &Error{Kind: AddrInUse}) {
		t.Fatalf("no port left: %v", err)
	}
	e.forget(c)
	if len(o.held) != 0 {
		t.Fatalf("held at the end: %v", o.held)
	}
}
