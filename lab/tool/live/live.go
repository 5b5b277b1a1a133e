// Package live runs wire scripts (package script) in real time. NICs are Tapir's, with an
// application of libibverbs under tapir run. A World has a Linux guest: scripts
// of iWARP run against the siw driver, those of RoCE against rxe. It is a namespace with a bridge, the guest
// and one cable for each script that runs at a time; the script plays a
// station of its own on the bridge, frame by frame.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/host/peer"
	"tapir/lab/tool/script"
	"tapir/nic/tap"
	"tapir/wire/ether"
)

const (
	bridge    = "br0"
	most      = 9000 // octets of IP
	agentPort = 7100
	maxFrame  = 1 << 14
)

// The channel to the application in the guest has addresses of its own.
var (
	host    = netip.MustParsePrefix("10.0.255.254/16")
	control = netip.MustParsePrefix("10.0.255.1/16")
)

// lane is where one script at a time runs: addresses of both sides. Those of
// lane 0 are those of virtual time.
type lane struct {
	tap     *os.File
	frames  chan []byte
	station ether.Addr
	number  byte
}

func (l *lane) addr(v6 bool, last byte) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 13: l.number, 15: last})
	}
	return netip.AddrFrom4([4]byte{10, 0, l.number, last})
}

// World is a guest on a bridge with its lanes.
type World struct {
	Guest *peer.Guest

	space *link.Space
	lanes []*lane
	agent chan error // how the application in the guest has ended
	stop  context.CancelFunc
	runs  atomic.Int32
}

// setup is what scripts want the guest set to.
type setup struct {
	rxe bool
	siw string // parameters
	mtu int
}

// NewWorld boots a guest for that many scripts at a time; it lives for that
// long.
func NewWorld(ctx context.Context, image peer.Image, lanes int, life time.Duration) (w *World, err error) {
	w = &World{agent: make(chan error, 1), stop: func() {}}
	if err = w.build(ctx, image, lanes, life); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *World) build(ctx context.Context, image peer.Image, lanes int, life time.Duration) (err error) {
	if w.space, err = link.NewBridge(bridge, most); err != nil {
		return err
	}
	if err = w.space.Net.AddAddr(bridge, host); err != nil {
		return err
	}
	ips := []netip.Prefix{control}
	for i := range lanes {
		l, err := w.lay(byte(i))
		if err != nil {
			return err
		}
		w.lanes = append(w.lanes, l)
		ips = append(ips, netip.PrefixFrom(l.addr(false, 1), 16), netip.PrefixFrom(l.addr(true, 1), 64))
	}
	w.Guest, err = peer.Start(ctx, image, peer.Config{NS: w.space.NS, Bridge: bridge, IP: ips, Life: life})
	if err != nil {
		return err
	}
	return w.startAgent(ctx, life)
}

// lay opens the TAP of a lane and begins to read it.
func (w *World) lay(number byte) (*lane, error) {
	t, err := w.space.Net.OpenTAP(tap.Config{})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	name := t.Name()
	if err := w.space.AddPort(name, bridge, most); err != nil {
		return nil, err
	}
	fd, err := syscall.Dup(t.Fd())
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, err
	}
	l := &lane{tap: os.NewFile(uintptr(fd), name), frames: make(chan []byte, 4096),
		station: ether.Addr{2, 0, 0, 0, number, 2}, number: number}
	go l.read()
	return l, nil
}

func (l *lane) read() {
	defer close(l.frames)
	for b := make([]byte, maxFrame); ; {
		n, err := l.tap.Read(b)
		if err != nil {
			return
		}
		select {
		case l.frames <- append([]byte(nil), b[:n]...):
		default: // nobody listens, and has not for long
		}
	}
}

// startAgent starts the application in the guest and waits until it listens.
func (w *World) startAgent(ctx context.Context, life time.Duration) error {
	ready := make(chan struct{}, 1)
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stop = stop
	go func() {
		code, err := w.Guest.Run(inner, life, fmt.Sprintf("wireapp %d", agentPort), &watch{ready: ready})
		if err == nil {
			err = fmt.Errorf("wireapp ended with exit code %d", code)
		}
		w.agent <- err
	}()
	select {
	case <-ready:
		return nil
	case err := <-w.agent:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch waits for the first word of the application.
type watch struct{ ready chan struct{} }

func (w *watch) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "ready") {
		select {
		case w.ready <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

// Close ends the guest and removes everything.
func (w *World) Close() {
	w.stop()
	if w.Guest != nil {
		w.Guest.Stop()
	}
	for _, l := range w.lanes {
		l.tap.Close()
	}
	w.space.Close()
}

// prepare gives the guest the driver and the MTU that a script asks for.
func (w *World) prepare(ctx context.Context, want setup) error {
	load := func() error { return w.Guest.LoadSiw(ctx, strings.Fields(want.siw)...) }
	if want.rxe {
		load = func() error { return w.Guest.LoadRXE(ctx) }
	}
	if err := load(); err != nil {
		return w.explain(err)
	}
	return w.explain(w.Guest.SetMTU(ctx, want.mtu))
}

// run runs one script on a lane. The guest must be prepared for it.
func (w *World) run(l *lane, s *script.Script, trace io.Writer) (script.Outcome, error) {
	for len(l.frames) > 0 {
		<-l.frames // of the script before
	}
	n := uint16(w.runs.Add(1) % 300)
	c := script.Cable{
		Frames: l.frames, Station: l.station, Local: l.addr(s.IPv6(), 1), Remote: l.addr(s.IPv6(), 2), Port: 8000 + n,
		First: 10000 + 100*n,
		Send: func(b []byte) error {
			_, err := l.tap.Write(b)
			return err
		},
	}
	copy(c.MAC[:], w.Guest.MAC())
	var err error
	if c.Agent, err = w.dial(); err != nil {
		return script.Outcome{}, w.explain(err)
	}
	out, err := s.RunLive(c, trace)
	return out, w.explain(err)
}

const dialIn = 20 * time.Second

// dial connects to the application in the guest.
func (w *World) dial() (conn net.Conn, err error) {
	at := net.TCPAddrFromAddrPort(netip.AddrPortFrom(control.Addr(), agentPort))
	err = w.space.NS.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", at.String(), dialIn)
		return err
	})
	return conn, err
}

// ErrStopped is found in errors of a guest whose kernel has stopped.
var ErrStopped = errors.New("the guest's kernel has stopped")

// explain adds what the guest's kernel said when it stopped, if it did.
func (w *World) explain(err error) error {
	if err == nil {
		return nil
	}
	said, _ := w.Guest.Console()
	_, oops, stopped := strings.Cut(said, "BUG")
	if !stopped {
		return err
	}
	why, rest, _ := strings.Cut(oops, "\n")
	if _, at, ok := strings.Cut(rest, "RIP: "); ok {
		at, _, _ = strings.Cut(at, "\n")
		why += " at " + at
	}
	for _, line := range strings.Split(rest, "\n") {
		if i := strings.Index(line, " siw_"); i >= 0 && !strings.Contains(line, "?") {
			why += ", from " + strings.TrimRight(line[i+1:], " ;\r")
			break
		}
	}
	return fmt.Errorf("%w; %w: %s", err, ErrStopped, strings.TrimSpace(why))
}
