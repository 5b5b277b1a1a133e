package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"tapir/nic"
	"tapir/nic/al"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Bounds in time of a node's start and end.
const (
	carrierWait = 1500 * time.Millisecond // for the TAP to come to life: the kernel may sit on that news for 1 s
	closeWait   = 2 * time.Second         // for connections to close in order
	abortWait   = 100 * time.Millisecond  // for the resets of those that did not
	closeCheck  = 2 * time.Millisecond    // how often Close looks whether they have
	linkHeaders = ether.MaxHeaderLen + 4  // what a frame has besides the IP packet
)

// Node is one NIC that runs. Device belongs to the node's loop: use it only
// inside Do and DoWait. All methods may be called from any goroutine.
type Node struct {
	Device *nic.Device

	cfg    Config
	loop   *loop.Loop
	thread thread
	ca     *al.CA        // nil without RDMA
	left   chan struct{} // the access layer has let go of the device
	leaks  []verbs.Leak
	reason error // why the node ends, if not by Close
	wire   tap.Queue
	host   *hostTAP // nil without a host TAP
	second *second  // nil without a second engine
	ports  []*loop.Port
	kernel *kernelSide // nil on a wire in memory
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the loop; valid after done

	alive   chan struct{} // the carrier has been up once
	once    sync.Once
	leaving sync.Once
	ending  sync.Once
}

// Start opens the TAP, sets up the kernel's side and runs the NIC. It waits a
// moment for the carrier; ctx bounds that wait only. An error is one line,
// and nothing is left behind. Close ends the node.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := cfg.loadFirmware(); err != nil {
		return nil, err
	}
	l, err := loop.New(loop.Config{})
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, loop: l, left: make(chan struct{}), done: make(chan struct{}), alive: make(chan struct{})}
	n.thread.n = n
	if err := n.build(); err != nil {
		n.abandon()
		return nil, err
	}
	if err := n.run(ctx); err != nil {
		n.abandon()
		return nil, err
	}
	return n, nil
}

// build makes everything up to the first frame.
func (n *Node) build() (err error) {
	env := nic.Env{Pool: n.loop.Pool(), Clock: n.loop.Clock(), Now: n.loop.Now}
	if n.cfg.Wire != nil {
		n.wire = n.cfg.Wire
		env.Wire = n.attach(frame.Wire, n.wire, n.cfg.MTU)
	} else if err := n.openTAPs(&env); err != nil {
		return err
	}
	if n.Device, err = nic.New(n.cfg.Device(n.wire.Name()), env); err != nil {
		return err
	}
	if n.host != nil {
		if err := n.kernel.readyHost(&n.cfg, n.host.taps[0], n.Device.Config().MAC); err != nil {
			return fmt.Errorf("%s: host_tap: %w", n.cfg.Name, err)
		}
	}
	n.loop.SetEngine(n.Device)
	return n.enter()
}

// abandon undoes a start that failed.
func (n *Node) abandon() {
	if n.ca != nil {
		n.thread.takeOver()
		n.ca.Deregister(nil)
		n.thread.finish()
	}
	n.loop.Close() // the queues too
	n.second.end()
	if n.kernel != nil {
		n.kernel.close()
	}
}

// StartAll starts several NICs in one process, each on a loop of its own; all
// or none.
func StartAll(ctx context.Context, all []Config) ([]*Node, error) {
	if c := FindConflict(all); c != nil {
		return nil, errors.New(c.Reason)
	}
	var nodes []*Node
	for _, cfg := range all {
		n, err := Start(ctx, cfg)
		if err != nil {
			return nil, errors.Join(err, CloseAll(nodes))
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// CloseAll closes nodes side by side and returns when all have ended.
func CloseAll(nodes []*Node) error {
	errs := make([]error, len(nodes))
	var wait sync.WaitGroup
	for i, n := range nodes {
		wait.Go(func() { errs[i] = n.Close() })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (n *Node) attach(port frame.Port, q tap.Queue, mtu int) *loop.Port {
	p := n.loop.AddQueue(port, q, mtu+linkHeaders)
	n.ports = append(n.ports, p)
	return p
}

// openTAPs opens the wire TAP and, if there is one, the host TAP.
func (n *Node) openTAPs(env *nic.Env) (err error) {
	if n.kernel, err = openKernelSide(n.cfg.NS); err != nil {
		return err
	}
	if n.cfg.HostTAP != "" {
		if n.cfg.NIC.Engines > 1 {
			if n.second, err = n.newSecond(); err != nil {
				return err
			}
		}
		if err := n.openHost(env); err != nil { // first: the MTU may be its
			return err
		}
	}
	t, err := n.kernel.links.OpenTAP(tap.Config{Name: n.cfg.TAP, FD: n.cfg.TAPFD, Vnet: n.cfg.Vnet()})
	if err != nil {
		return fmt.Errorf("%s: %w", n.cfg.Name, err)
	}
	mtu, err := n.kernel.readyWire(&n.cfg, t)
	if err != nil {
		t.Close()
		return err
	}
	n.wire = t
	port := n.attach(frame.Wire, t, max(mtu, n.cfg.MTU))
	env.Wire = port
	env.Light = func(on bool) {
		_ = t.SetCarrier(on) // a kernel that cannot: the other end does not notice
	}
	if !n.cfg.LoopStamps {
		env.Observe = func(on bool) error { return n.observe(port, on) }
	}
	return nil
}

// run starts the loop and the watch of the carrier.
func (n *Node) run(ctx context.Context) error {
	inner, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	if n.kernel == nil {
		n.carrier(true)
	} else if err := n.watch(); err != nil {
		cancel()
		return err
	}
	if n.second != nil {
		n.second.run()
	}
	go func() {
		defer close(n.done)
		n.err = n.loop.Run(inner)
		n.bury(n.err)
		if n.err == nil {
			n.err = n.reason
		}
	}()
	n.awaitCarrier(ctx)
	return nil
}

// carrier tells the NIC that its link is up or down.
func (n *Node) carrier(up bool) {
	n.loop.Do(func(now frame.Time) {
		if n.host != nil {
			n.host.setCarrier(up)
		}
		if !up {
			n.Device.LinkDown(now)
			return
		}
		n.Device.LinkUp(now)
		n.once.Do(func() { close(n.alive) })
	})
}

// watch follows the carrier; a TAP in another namespace counts as alive.
func (n *Node) watch() error {
	if _, err := n.kernel.links.Get(n.wire.Name()); err != nil {
		n.carrier(true)
		return nil
	}
	stop, err := n.kernel.links.Watch(n.wire.Name(), n.carrier)
	if err != nil {
		return err
	}
	n.kernel.undo = append(n.kernel.undo, stop)
	if n.host == nil {
		return nil
	}
	return n.follow()
}

func (n *Node) awaitCarrier(ctx context.Context) {
	timer := time.NewTimer(carrierWait)
	defer timer.Stop()
	select {
	case <-n.alive:
	case <-n.done:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Do queues fn to run on the NIC's loop. False means that the node has ended
// and fn will not run.
func (n *Node) Do(fn func(now frame.Time)) bool { return n.loop.Do(fn) }

// DoWait runs fn on the NIC's loop and returns after it, or with
// loop.ErrClosed if the node has ended, or with loop.ErrInCallback if it is
// called from within a handler.
func (n *Node) DoWait(fn func(now frame.Time)) error { return n.loop.DoWait(fn) }

// Now is the time of the NIC's loop.
func (n *Node) Now() frame.Time { return n.loop.Now() }

// Realtime is what CLOCK_REALTIME showed at a time of the NIC's loop; inside
// Do and DoWait only, as FromRealtime.
func (n *Node) Realtime(at frame.Time) int64 { return n.loop.Realtime(at) }

// FromRealtime is the time of the NIC's loop when CLOCK_REALTIME showed ns.
func (n *Node) FromRealtime(ns int64) frame.Time { return n.loop.FromRealtime(ns) }

// Config is the configuration with its defaults filled in.
func (n *Node) Config() Config { return n.cfg }

// Name is the NIC's name.
func (n *Node) Name() string { return n.cfg.Name }

// TAP is the name of the interface, or of the end of a wire in memory.
func (n *Node) TAP() string { return n.wire.Name() }

// WireKind is "tap", or "mem" on a wire in memory.
func (n *Node) WireKind() string {
	if n.kernel == nil {
		return "mem"
	}
	return "tap"
}

// Hints are the commands that an administrator may want to run so that the
// kernel's side can reach the NIC.
func (n *Node) Hints() []string {
	if n.kernel == nil {
		return nil
	}
	return n.kernel.hints
}

// Ready is the line for scripts that says that the NIC runs.
func (n *Node) Ready() string {
	var ips []string
	for _, p := range n.cfg.Addrs() {
		ips = append(ips, p.String())
	}
	if ips == nil {
		ips = []string{"none"}
	}
	return fmt.Sprintf("ready %s mac=%v ip=%s %s=%s frames=%s",
		n.cfg.Name, n.Device.Config().MAC, strings.Join(ips, ","), n.WireKind(), n.TAP(), n.cfg.Frames)
}

// Drops counts the frames that were lost between the loop and the TAPs, wire
// and host together.
func (n *Node) Drops() (sum frame.Drops) {
	sum = n.second.drops()
	n.DoWait(func(frame.Time) { // after the end nothing is counted any more
		for _, p := range n.ports {
			lost := p.Drops()
			sum.Add(&lost)
		}
	})
	return sum
}

// Done is closed when the NIC has stopped: after Close, or because its TAP
// went away.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why the NIC stopped by itself; nil while it runs and after Close.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.err
	default:
		return nil
	}
}

// Close takes the device from the clients of its access layer, closes the
// connections in order, each for at most two seconds, resets the rest, stops
// the NIC and removes what Start made. It returns why the NIC had stopped
// before, if it had.
func (n *Node) Close() error {
	n.ending.Do(func() {
		n.leave(nil)
		n.shutdown()
		// The function closes whatever is wrong with it; a loop that has ended
		// closes nothing.
		_ = n.loop.DoWait(func(now frame.Time) { _ = n.Device.Close(now) })
		n.stop()
		n.end()
	})
	return n.err
}

// end stops the loop and undoes what was done to the kernel's side.
func (n *Node) end() {
	if n.kernel != nil {
		n.kernel.rest() // it complains of TAPs that go
	}
	n.cancel()
	<-n.done
	n.second.end()
	if n.kernel != nil {
		n.kernel.close()
	}
}

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
	if !n.loop.Do(func(now frame.Time) { n.Device.Shutdown(now); look(now) }) {
		return
	}
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-idle:
		return
	case <-n.done:
		return
	case <-timer.C:
	}
	n.loop.Do(n.Device.Abort)
	timer.Reset(abortWait)
	select {
	case <-idle:
	case <-n.done:
	case <-timer.C:
	}
}
