package interop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic"
	"tapir/nic/tap"
	"tapir/nic/toe"
	"tapir/wire/frame"
)

// TAP is the name of the NIC's TAP in a World.
const TAP = "tap0"

// The addresses of a World.
var (
	nic4  = netip.MustParsePrefix("10.77.0.1/24")
	nic6  = netip.MustParsePrefix("fd77::1/64")
	Peer4 = netip.MustParsePrefix("10.77.0.2/24")
	Peer6 = netip.MustParsePrefix("fd77::2/64")
)

// Peer is a stranger's TCP.
type Peer interface {
	// Listen opens a port of the peer.
	Listen(at netip.AddrPort) (net.Listener, error)
	// Dial connects to the NIC.
	Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Close ends the peer.
	Close()
}

// Attach brings a peer up in the namespace of a World, whose TAP is up and
// has the MTU of the cell.
type Attach func(w *World) (Peer, error)

// World is a namespace with a NIC on a TAP, behind a bad cable.
type World struct {
	*link.Space
	Cell  Cell
	NIC   *nicnode.Node
	Cable *link.Impaired
	Peer  Peer
}

// NewWorld makes the world of a cell; seed decides its faults, cfg is for the
// NIC's TCP.
func NewWorld(ctx context.Context, cell Cell, seed uint64, cfg toe.Config, attach Attach) (*World, error) {
	w := &World{Cell: cell}
	if err := w.build(ctx, seed, cfg, attach); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *World) build(ctx context.Context, seed uint64, cfg toe.Config, attach Attach) (err error) {
	if w.Space, err = link.NewSpace(quiet); err != nil {
		return err
	}
	t, err := w.Net.OpenTAP(tap.Config{Name: TAP, Vnet: w.Cell.GSO})
	if err != nil {
		return err
	}
	i := w.Cell.impairment()
	if w.Cable, err = link.Impair(t, i, i, seed); err != nil {
		return err
	}
	if err = errors.Join(w.Net.SetMTU(TAP, w.Cell.MTU), w.Net.Up(TAP)); err == nil {
		w.Peer, err = attach(w)
	}
	if err != nil {
		w.Cable.Close()
		return err
	}
	w.Undo.Add(w.Peer.Close)
	return w.startNIC(ctx, seed, cfg)
}

// quiet keeps the kernel's chatter off the TAP, and its TCP from waiting longer
// and longer where a fifth of all is lost.
func quiet(ns *netns.NS) error {
	for _, s := range [][2]string{
		{"ipv6/conf/default/accept_dad", "0"},
		{"ipv6/conf/default/router_solicitations", "0"},
		{"ipv4/tcp_rto_max_ms", "2000"}, // since Linux 6.15
	} {
		if err := ns.Sysctl(s[0], s[1]); err != nil {
			return fmt.Errorf("set net.%s: %w", s[0], err)
		}
	}
	return nil
}

func (w *World) startNIC(ctx context.Context, seed uint64, tcp toe.Config) (err error) {
	cfg := nicconf.Config{Name: "nic0", IP: []netip.Prefix{nic4}, MTU: w.Cell.MTU, Seed: &seed,
		NIC: nic.Config{TCP: tcp}, Frames: "wire"}
	if w.Cell.IPv6 {
		cfg.IP, cfg.IP6 = nil, []netip.Prefix{nic6}
	}
	if w.Cell.GSO {
		cfg.Frames = "gso"
	}
	if w.NIC, err = nicnode.Start(ctx, cfg, node.Env{Wire: w.Cable}); err != nil {
		return err
	}
	w.Undo.Add(func() { w.NIC.Close() })
	return nil
}

// NICAddr and PeerAddr are the two sides' addresses of the cell's family.
func (w *World) NICAddr() netip.Addr {
	if w.Cell.IPv6 {
		return nic6.Addr()
	}
	return nic4.Addr()
}

// PeerAddr is the peer's address.
func (w *World) PeerAddr() netip.Addr {
	if w.Cell.IPv6 {
		return Peer6.Addr()
	}
	return Peer4.Addr()
}

// Do runs fn on the NIC's thread.
func (w *World) Do(fn func(e *toe.Engine, now frame.Time)) error {
	return w.NIC.DoWait(func(now frame.Time) { fn(w.NIC.Device.TCP(), now) })
}

// linux is the kernel's own TCP, reached through sockets in the namespace.
type linux struct{ ns *netns.NS }

// Linux attaches the kernel's TCP.
func Linux(w *World) (Peer, error) {
	for _, p := range []netip.Prefix{Peer4, Peer6} {
		if p.Addr().Is6() && w.Cell.MTU < 1280 {
			continue // the kernel has no IPv6 there
		}
		if err := w.Net.AddAddr(TAP, p); err != nil {
			return nil, err
		}
	}
	return linux{w.NS}, nil
}

func (l linux) Listen(at netip.AddrPort) (ln net.Listener, err error) {
	err = l.ns.Do(func() error {
		cfg := net.ListenConfig{Control: cubic}
		ln, err = cfg.Listen(context.Background(), "tcp", at.String())
		return err
	})
	return ln, err
}

func (l linux) Dial(ctx context.Context, to netip.AddrPort) (c net.Conn, err error) {
	err = l.ns.Do(func() error {
		d := net.Dialer{Control: cubic}
		c, err = d.DialContext(ctx, "tcp", to.String())
		return err
	})
	return c, err
}

func (linux) Close() {}

// cubic chooses the kernel's usual congestion control, whatever this machine
// prefers: others measure the rate and sleep through short tests.
func cubic(_, _ string, raw syscall.RawConn) (err error) {
	controlled := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CONGESTION, "cubic")
	})
	return errors.Join(err, controlled)
}
