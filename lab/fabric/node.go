package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/tool/capture"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/opa/hfi"
	"tapir/opa/mad"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// carrierWait bounds how long Start waits for the fabric TAP to come to life:
// the kernel may sit on that news for a second.
const carrierWait = 1500 * time.Millisecond

// Node is one HFI that runs. All methods may be called from any goroutine.
type Node struct {
	Version string    // of the binary, for those who ask
	Log     io.Writer // what the bottom half has to say; nil: nobody listens

	cfg    Config
	agents []mad.Agent // beside those that every port has
	engine *engine
	loop   *loop.Loop
	wire   tap.Queue
	uplink *loop.Port
	ns     *netns.NS
	owned  bool // ns is ours to close
	links  *link.Net
	host   *hosts
	undo   []func()
	tee    capture.Tee
	rest   context.CancelFunc // ends the bottom half
	cancel context.CancelFunc // ends the loop
	done   chan struct{}
	err    error // of the loop; valid after done

	alive  chan struct{} // the carrier has been up once
	once   sync.Once
	ending sync.Once
	logMu  sync.Mutex
}

// Start opens the fabric TAP, makes the VNICs of cfg and runs the HFI. ctx
// bounds only the wait for the carrier. An error is one line, and nothing is
// left behind. Close ends the node.
func Start(ctx context.Context, cfg Config, options ...func(*Node)) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg.withDefaults(), rest: func() {}, done: make(chan struct{}), alive: make(chan struct{})}
	for _, o := range options {
		o(n)
	}
	if err := n.build(); err != nil {
		n.abandon()
		return nil, fmt.Errorf("%s: %w", n.cfg.Name, err)
	}
	if err := n.run(ctx); err != nil {
		n.Close()
		return nil, fmt.Errorf("%s: %w", n.cfg.Name, err)
	}
	return n, nil
}

// build makes everything up to the first frame.
func (n *Node) build() (err error) {
	if n.loop, err = loop.New(loop.Config{}); err != nil {
		return err
	}
	if err := n.openSpaces(); err != nil {
		return err
	}
	if err := n.openFabric(); err != nil {
		return err
	}
	h, err := NewHFI(n.cfg, hfi.Env{Pool: n.loop.Pool(), Wire: n.uplink}, n.agents...)
	if err != nil {
		return err
	}
	n.engine = &engine{HFI: h, node: n}
	h.vports.Observe(n.engine)
	n.loop.SetEngine(n.engine)
	return nil
}

// openSpaces enters the namespaces of fabric and hosts.
func (n *Node) openSpaces() (err error) {
	if n.ns = n.cfg.NS; n.ns == nil {
		if n.ns, err = netns.Current(); err != nil {
			return err
		}
		n.owned = true
	}
	if n.links, err = link.In(n.ns); err != nil {
		return err
	}
	hostNS := n.cfg.HostNS
	switch {
	case hostNS != nil:
	case n.cfg.Netns == "":
		hostNS = n.ns
	default:
		if hostNS, err = netns.Open(netns.Path(n.cfg.Netns)); err != nil {
			return fmt.Errorf("netns: %w; `ip netns add %s` makes one", err, n.cfg.Netns)
		}
		n.undo = append(n.undo, func() { hostNS.Close() })
	}
	n.host, err = newHosts(n, hostNS)
	return err
}

// bridgeAlias marks the bridges that HFIs have made.
const bridgeAlias = "Omni-Path fabric of tapir"

// joinBridge makes the fabric TAP a port of the bridge that stands for the
// fabric. One that an HFI made goes with the last of its ports.
func (n *Node) joinBridge() error {
	name := n.cfg.Bridge
	if !n.links.Exists(name) {
		if err := n.links.AddBridge(name); err != nil && !n.links.Exists(name) { // another HFI was faster
			return err
		}
		_ = n.ns.Sysctl("ipv6/conf/"+name+"/disable_ipv6", "1") // where /proc/sys can be written
		if err := n.links.SetAlias(name, bridgeAlias); err != nil {
			return err
		}
	}
	n.undo = append(n.undo, func() {
		if alias, err := n.links.Alias(name); err != nil || alias != bridgeAlias {
			return
		}
		if ports, err := n.links.Ports(name); err == nil && len(ports) == 0 {
			n.links.Delete(name)
		}
	})
	return n.links.Join(n.TAP(), name)
}

// openFabric opens the fabric TAP and makes it fit the packets.
func (n *Node) openFabric() error {
	t, err := n.links.OpenTAP(tap.Config{Name: n.cfg.TAP, FD: n.cfg.TAPFD})
	if err != nil {
		return err
	}
	n.wire = t
	mtu := n.cfg.Framing.MTU(n.cfg.MTU)
	n.uplink = n.loop.AddQueue(frame.Wire, t, mtu+ether.HeaderLen)
	d, err := n.links.Netdev(t.Name())
	if err != nil {
		if n.cfg.TAPFD != 0 {
			return nil // of another namespace, where it was made ready
		}
		return err
	}
	if d.MTU < mtu {
		if err := n.links.SetMTU(t.Name(), mtu); err != nil {
			return err
		}
		if !t.Created() {
			n.undo = append(n.undo, func() { n.links.SetMTU(t.Name(), d.MTU) })
		}
	}
	if n.cfg.Bridge != "" {
		if err := n.joinBridge(); err != nil {
			return err
		}
	}
	// The kernel itself has nothing to say on the fabric.
	if t.Created() {
		_ = n.ns.Sysctl("ipv6/conf/"+t.Name()+"/disable_ipv6", "1") // where /proc/sys can be written
	}
	if !d.Up {
		if !t.Created() {
			n.undo = append(n.undo, func() { n.links.Down(t.Name()) })
		}
		return n.links.Up(t.Name())
	}
	return nil
}

// run starts the loop, the watch of the carrier and the bottom half, and waits
// for the host TAPs of the VNICs.
func (n *Node) run(ctx context.Context) error {
	inner, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() {
		defer close(n.done)
		n.err = n.loop.Run(inner)
	}()
	if err := n.watch(); err != nil {
		close(n.host.done)
		return err
	}
	n.awaitCarrier(ctx)
	working, rest := context.WithCancel(inner)
	n.rest = rest
	go n.host.run(working)
	select {
	case <-n.host.first:
	case <-n.done:
		return n.err
	}
	if n.cfg.Managed {
		return nil
	}
	return n.host.problem()
}

// watch follows the carrier of the fabric TAP and the links of the hosts.
func (n *Node) watch() error {
	stop, err := n.host.links.Follow(func(link.Netdev) { n.host.poke() })
	if err != nil {
		return err
	}
	n.undo = append(n.undo, stop)
	if _, err := n.links.Get(n.wire.Name()); err != nil {
		n.carrier(true) // of another namespace
		return nil
	}
	if stop, err = n.links.Watch(n.wire.Name(), n.carrier); err == nil {
		n.undo = append(n.undo, stop)
	}
	return err
}

func (n *Node) carrier(up bool) {
	n.loop.Do(func(now frame.Time) {
		if !up {
			n.engine.port.LinkDown(now)
			return
		}
		n.engine.port.LinkUp(now)
		n.once.Do(func() { close(n.alive) })
	})
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

// warn tells what cannot be helped here.
func (n *Node) warn(format string, args ...any) {
	if n.Log == nil {
		return
	}
	n.logMu.Lock()
	defer n.logMu.Unlock()
	fmt.Fprintf(n.Log, "%s: %s\n", n.cfg.Name, fmt.Sprintf(format, args...))
}

// poke wakes the bottom half.
func (n *Node) poke() { n.host.poke() }

// DoWait runs fn on the loop's thread and returns after it, or with
// loop.ErrClosed if the node has ended.
func (n *Node) DoWait(fn func(now frame.Time)) error { return n.loop.DoWait(fn) }

// Config is the configuration with its defaults filled in.
func (n *Node) Config() Config { return n.cfg }

// Name is the HFI's name.
func (n *Node) Name() string { return n.cfg.Name }

// TAP is the name of the fabric TAP.
func (n *Node) TAP() string { return n.wire.Name() }

// Ready is the line for scripts that says that the HFI runs.
func (n *Node) Ready() string { return n.cfg.ready(n.TAP()) }

// Counts are the counters of the HFI port.
func (n *Node) Counts() (c hfi.Counts, err error) {
	err = n.DoWait(func(frame.Time) { c = n.engine.port.Counts() })
	return c, err
}

// drops are the frames lost between the TAPs and the HFI; it belongs to the
// loop's thread.
func (n *Node) drops() frame.Drops {
	sum := n.engine.drops
	add := func(more frame.Drops) { sum.Add(&more) }
	add(n.uplink.Drops())
	for _, h := range n.engine.hosts {
		if h != nil {
			for _, p := range h.ports {
				add(p.Drops())
			}
		}
	}
	return sum
}

// Done is closed when the HFI has stopped: after Close, or because its fabric
// TAP went away.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why the HFI stopped by itself; nil while it runs and after Close.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.err
	default:
		return nil
	}
}

// Close stops the HFI and removes what Start made. It returns why the HFI had
// stopped before, if it had.
func (n *Node) Close() error {
	n.ending.Do(func() {
		n.rest() // it asks the loop
		<-n.host.done
		n.cancel()
		<-n.done
		n.abandon()
	})
	return n.err
}

// abandon undoes what was done, latest first.
func (n *Node) abandon() {
	if n.loop != nil {
		n.loop.Close() // the queues too
	}
	for _, u := range slices.Backward(n.undo) {
		u()
	}
	if n.host != nil {
		n.host.close()
	}
	if n.links != nil {
		n.links.Close()
	}
	if n.owned {
		n.ns.Close()
	}
}

// StartAll starts several HFIs in one process, each on a loop of its own; all
// or none.
func StartAll(ctx context.Context, all []Config, options ...func(*Node)) ([]*Node, error) {
	var nodes []*Node
	for _, cfg := range all {
		n, err := Start(ctx, cfg, options...)
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
