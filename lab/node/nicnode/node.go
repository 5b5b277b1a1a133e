// Package nicnode runs one NIC in real time: it opens the TAP, sets up the
// kernel's side of it, starts the event loop with the NIC in it, and in the end
// removes what it made and nothing else.
package nicnode

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/nic"
	"tapir/nic/al"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Bounds in time of a node's end.
const (
	closeWait   = 2 * time.Second        // for connections to close in order
	abortWait   = 100 * time.Millisecond // for the resets of those that did not
	closeCheck  = 2 * time.Millisecond   // how often Close looks whether they have
	linkHeaders = ether.MaxHeaderLen + 4 // what a frame has besides the IP packet
)

// Config describes one NIC.
type Config = nicconf.Config

// Node is one NIC that runs. Device belongs to the node's loop: use it only
// inside Do and DoWait. All methods may be called from any goroutine.
type Node struct {
	node.Base
	Device *nic.Device

	cfg    Config
	mtu    int // that was asked for; 0: none was
	layer  *node.Layer
	thread thread
	ca     *al.CA        // nil without RDMA
	left   chan struct{} // the access layer has let go of the device
	leaks  []verbs.Leak
	wire   tap.Queue
	host   *hostTAP // nil without a host TAP
	second *second  // nil without a second engine
	vfs    *vfs     // nil: it can have none
	card   *card    // of which the NIC is a function; nil: it has a device of its own
	ports  node.Ports
	hints  []string

	leaving sync.Once
	ending  sync.Once
}

// Start opens the TAP, sets up the kernel's side and runs the NIC. It waits a
// moment for the carrier; ctx bounds that wait only. An error is one line,
// and nothing is left behind. Close ends the node.
func Start(ctx context.Context, cfg Config, env node.Env) (*Node, error) {
	given := cfg.MTU
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if env.Wire != nil && cfg.Card != nil {
		return nil, fmt.Errorf("%s: a function of a card has no wire in memory", cfg.Name)
	}
	if env.Wire != nil && (cfg.Wire != "" || cfg.TAPFD != 0 || cfg.HostTAP != "" || len(cfg.TAPIP) > 0) {
		return nil, fmt.Errorf("%s: a wire in memory has no kernel side: leave out wire, tap_fd, host_tap and tap_ip",
			cfg.Name)
	}
	if err := loadFirmware(&cfg); err != nil {
		return nil, err
	}
	if cfg.Loopback() && env.Wire == nil {
		near, far, err := link.NewWire(nic.LoopbackIface, "nowhere", cfg.Vnet())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cfg.Name, err)
		}
		_ = far.Close() // what is sent to it is lost
		env.Wire = near
	}
	n := &Node{cfg: cfg, mtu: given, layer: env.Layer, left: make(chan struct{})}
	if n.layer == nil {
		n.layer = node.NewLayer()
	}
	n.thread.n, n.OnEnd = n, n.bury
	err := n.open(env)
	if err == nil {
		err = n.build()
	}
	if err != nil {
		n.card.release(n)
		n.End(nil)
		n.card.leave(n)
		return nil, err
	}
	if err := n.run(ctx); err != nil {
		_ = n.Close() // err says why
		return nil, err
	}
	return n, nil
}

// open makes the node's loop, or joins that of its card.
func (n *Node) open(env node.Env) (err error) {
	if n.cfg.Card == nil {
		return n.Open(n.cfg.Name, env)
	}
	if n.card, err = joinCard(&n.cfg, env); err != nil {
		return err
	}
	return n.Join(n.cfg.Name, env, &n.card.Base)
}

// build makes everything up to the first frame.
func (n *Node) build() (err error) {
	env := nic.Env{Pool: n.Loop.Pool(), Clock: n.Loop.Clock(), Now: n.Loop.Now}
	if n.card != nil {
		return n.buildFunction(&env)
	}
	if n.wire = n.Env().Wire; n.wire != nil {
		env.Wire = n.attach(frame.Wire, n.wire, n.cfg.MTU)
	} else if err := n.openTAPs(&env); err != nil {
		return err
	}
	n.newVFs(&env)
	if n.Device, err = nic.New(n.device(), env); err == nil {
		err = n.vfs.open()
	}
	if err != nil {
		return err
	}
	n.Loop.SetEngine(n.engine())
	return n.ready()
}

// device is the configuration of the NIC.
func (n *Node) device() nic.Config {
	cfg := n.cfg.Device(n.wire.Name())
	if n.cfg.Seed == nil {
		_, _ = rand.Read(cfg.Secret[:]) // never fails
	} else {
		n.hints = append(n.hints, n.cfg.Name+": for tests only: "+
			"keys, ports and sequence numbers follow from the seed, so others can guess them")
	}
	return cfg
}

// ready gives the host TAP what the NIC has, and registers the NIC.
func (n *Node) ready() error {
	if n.host != nil {
		if err := n.readyHost(n.host.tap, n.Device.Config().MAC); err != nil {
			return fmt.Errorf("%s: host_tap: %w", n.cfg.Name, err)
		}
	}
	return n.enter()
}

func (n *Node) attach(port frame.Port, q tap.Queue, mtu int) *loop.Port {
	p := n.Loop.AddQueue(n.card.port(port, n.cfg.Function), q, mtu+linkHeaders)
	n.ports = append(n.ports, p)
	return p
}

// openTAPs opens the wire TAP and, if there is one, the host TAP.
func (n *Node) openTAPs(env *nic.Env) (err error) {
	if n.cfg.HostTAP != "" {
		if n.cfg.Engines() > 1 {
			if n.second, err = n.newSecond(); err != nil {
				return err
			}
		}
		if err := n.openHost(env); err != nil { // first: the MTU may be its
			return err
		}
	}
	if n.cfg.Wire != "" {
		return n.openWire(env)
	}
	t, err := n.Space.OpenTAP(tap.Config{Name: n.cfg.TAP, FD: n.cfg.TAPFD, Vnet: n.cfg.Vnet()}, 1, &n.Undo)
	if err != nil {
		return fmt.Errorf("%s: %w", n.cfg.Name, err)
	}
	mtu, err := n.readyWire(t)
	if err != nil {
		t.Close()
		return err
	}
	n.wire = t.Queues[0]
	port := n.attach(frame.Wire, n.wire, max(mtu, n.cfg.MTU))
	env.Wire = port
	env.Laser = func(on bool) { setCarrier(n.wire, on) }
	if !n.Env().LoopStamps {
		env.Observe = func(on bool) error { return n.observe(port, on) }
	}
	return nil
}

// openWire opens what takes the place of the TAP. The MTU is at most what the way to the peer
// has room for.
func (n *Node) openWire(env *nic.Env) error {
	w, err := n.Space.OpenWire(n.cfg.Wire, n.cfg.Vnet(), &n.Undo)
	if err != nil {
		return fmt.Errorf("%s: %w", n.cfg.Name, err)
	}
	n.wire = w
	if most := w.MTU(); most > 0 {
		if n.mtu > most {
			return fmt.Errorf("%s: mtu %d: wire %s has room for %d: leave out mtu, or raise that of the way",
				n.cfg.Name, n.mtu, n.cfg.Wire, most)
		}
		n.cfg.MTU = min(n.cfg.MTU, most)
	}
	if s, ok := w.(interface{ Station() ether.Addr }); ok && n.cfg.MAC == (ether.Addr{}) {
		n.cfg.MAC = s.Station()
	}
	port := n.attach(frame.Wire, w, n.cfg.MTU)
	env.Wire, env.Laser = port, func(on bool) { setCarrier(w, on) }
	if n.Space.Observer(w) != nil && !n.Env().LoopStamps {
		env.Observe = func(on bool) error { return n.observe(port, on) }
	}
	return nil
}

// setCarrier shows the other end of a wire, if it can notice, whether this one is plugged in.
func setCarrier(wire tap.Queue, on bool) {
	if c, ok := wire.(tap.Carrier); ok {
		_ = c.SetCarrier(on) // fails on a kernel that cannot, or a TAP that is gone, which ends the loop
	}
}

// observe starts or ends the observation of the wire. It runs on the loop's thread.
func (n *Node) observe(p *loop.Port, on bool) error {
	if !on {
		p.Observe(nil)
		return nil
	}
	o, err := n.Space.Observer(n.wire)()
	if err != nil {
		return fmt.Errorf("%s: PTP: %w", n.cfg.Name, err)
	}
	p.Observe(o)
	return nil
}

// run starts the loop and follows the kernel's interfaces.
func (n *Node) run(ctx context.Context) error {
	if n.second != nil {
		n.second.run()
	}
	n.Run()
	if n.card != nil {
		n.card.enter(n)
	} else if err := n.Watch(n.wire, n.carrier); err != nil {
		return err
	}
	if n.host != nil {
		if err := n.follow(); err != nil {
			return err
		}
	}
	if err := n.vfs.start(); err != nil {
		return fmt.Errorf("%s: sriov: %w", n.cfg.Name, err)
	}
	n.AwaitCarrier(ctx)
	return nil
}

// carrier tells the NIC that its link is up or down.
func (n *Node) carrier(up bool, now frame.Time) {
	if n.host != nil {
		_ = n.host.tap.SetCarrier(up) // fails only on a TAP that is gone, which ends the loop
	}
	node.SetCarrier(n.Device, up, now)
}

// Realtime is what CLOCK_REALTIME showed at a time of the NIC's loop; inside
// Do and DoWait only, as FromRealtime.
func (n *Node) Realtime(at frame.Time) int64 { return n.Loop.Realtime(at) }

// FromRealtime is the time of the NIC's loop when CLOCK_REALTIME showed ns.
func (n *Node) FromRealtime(ns int64) frame.Time { return n.Loop.FromRealtime(ns) }

// Config is the configuration with its defaults filled in.
func (n *Node) Config() Config { return n.cfg }

// TAP is the name of the interface, or of the end of a wire in memory.
func (n *Node) TAP() string { return n.wire.Name() }

// Wire is what the wire counts, a list; none on a TAP. It belongs to the loop's thread.
func (n *Node) Wire() any { return node.WireRows(n.wire) }

// HostTAP is the name of the host TAP; empty: there is none.
func (n *Node) HostTAP() string {
	if n.host == nil {
		return ""
	}
	return n.host.tap.Name()
}

// WireKind is "tap", "wire" of one that takes its place, or "mem" on a wire in memory.
func (n *Node) WireKind() string {
	switch {
	case n.cfg.Wire != "":
		return "wire"
	case n.Env().Wire != nil && !n.cfg.Loopback():
		return "mem"
	}
	return "tap"
}

// Hints are what whoever starts a NIC ought to know: that its secrets are public,
// and the commands that an administrator may want to run so that the kernel's
// side can reach the NIC.
func (n *Node) Hints() []string { return n.hints }

// Ready is the line for scripts that says that the NIC runs.
func (n *Node) Ready() string {
	ips := cmp.Or(strings.Join(node.Texts(n.cfg.Addrs()), ","), "none")
	return fmt.Sprintf("ready %s mac=%v ip=%s %s=%s frames=%s",
		n.cfg.Name, n.Device.Config().MAC, ips, n.WireKind(), cmp.Or(n.cfg.Wire, n.TAP()), n.cfg.Frames)
}

// Drops counts the frames that were lost between the loop and the TAPs, wire
// and host together.
func (n *Node) Drops() frame.Drops {
	sum := n.second.drops()
	n.DoWait(func(frame.Time) { sum.Add(new(n.ports.Drops())) }) // after the end nothing is counted any more
	return sum
}

// Close takes the device from the clients of its access layer, closes the
// connections in order, each for at most two seconds, resets the rest, stops
// the NIC and removes what Start made. It returns why the NIC had stopped
// before, if it had.
func (n *Node) Close() error {
	n.ending.Do(func() {
		n.leave(nil)
		n.endVFs()
		n.shutdown()
		// The function closes whatever is wrong with it; a loop that has ended
		// closes nothing.
		_ = n.DoWait(func(now frame.Time) { _ = n.Device.Close(now) })
		n.stop()
		n.card.release(n)
		n.End(nil)
		n.card.leave(n)
	})
	return n.Err()
}

// shutdown closes the connections, in order or with a reset.
func (n *Node) shutdown() {
	idle := make(chan struct{})
	var look func(now frame.Time)
	look = func(now frame.Time) {
		if n.Device.Idle() {
			close(idle)
			return
		}
		n.Device.Schedule(now.Add(closeCheck), look)
	}
	if !n.Do(func(now frame.Time) { n.Device.Shutdown(now); look(now) }) {
		return
	}
	wait := func(bound time.Duration) (over bool) {
		select {
		case <-idle:
		case <-n.Done():
		case <-time.After(bound):
			return false
		}
		return true
	}
	if !wait(closeWait) {
		n.Do(n.Device.Abort)
		wait(abortWait)
	}
}
