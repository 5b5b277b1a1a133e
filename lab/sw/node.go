package sw

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/ptp/clock"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Node is a switch that runs on TAPs. All methods may be called from any
// goroutine.
type Node struct {
	Version string // of the binary, for those who ask

	cfg    Config
	sw     *Switch
	phc    *clock.PHC
	loop   *loop.Loop
	ports  []*loop.Port
	ns     *netns.NS
	owned  bool // ns is ours to close
	undo   []func()
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the loop; valid after done
	ending sync.Once
}

// Start opens the TAPs of cfg and runs the switch. An error is one line, and
// nothing is left behind. Close ends the node.
func Start(cfg Config, options ...func(*Node)) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg.withDefaults(), done: make(chan struct{})}
	for _, o := range options {
		o(n)
	}
	if err := n.build(); err != nil {
		n.abandon()
		return nil, fmt.Errorf("%s: %w", n.cfg.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() {
		defer close(n.done)
		n.err = n.loop.Run(ctx)
	}()
	return n, nil
}

// build makes everything up to the first frame.
func (n *Node) build() (err error) {
	if n.loop, err = loop.New(loop.Config{}); err != nil {
		return err
	}
	if n.ns = n.cfg.NS; n.ns == nil {
		if n.ns, err = netns.Current(); err != nil {
			return err
		}
		n.owned = true
	}
	for i := range n.cfg.Ports {
		if err := n.openPort(i); err != nil {
			return err
		}
	}
	now := n.loop.Now()
	hw := n.cfg.Hardware
	hw.Start, hw.Initial = now, n.loop.Clock().At(now)
	if n.phc, err = clock.New(hw); err != nil {
		return err
	}
	env := Env{Pool: n.loop.Pool(), Clock: n.phc}
	for _, p := range n.ports {
		env.Links = append(env.Links, p)
	}
	if n.sw, err = New(n.cfg, env); err != nil {
		return err
	}
	n.loop.SetEngine(n.sw)
	return nil
}

// space is the namespace of a port's TAP.
func (n *Node) space(p *PortConfig) (*netns.NS, error) {
	switch {
	case p.NS != nil:
		return p.NS, nil
	case p.Netns == "":
		return n.ns, nil
	}
	ns, err := netns.Open(netns.Path(p.Netns))
	if err != nil {
		return nil, fmt.Errorf("netns: %w; `ip netns add %s` makes one", err, p.Netns)
	}
	n.undo = append(n.undo, func() { ns.Close() })
	return ns, nil
}

// openPort opens a port's TAP and makes it carry frames.
func (n *Node) openPort(i int) error {
	p := &n.cfg.Ports[i]
	ns, err := n.space(p)
	if err != nil {
		return err
	}
	links, err := link.In(ns)
	if err != nil {
		return err
	}
	n.undo = append(n.undo, links.Close)
	t, err := links.OpenTAP(tap.Config{Name: p.TAP, FD: p.TAPFD})
	if err != nil {
		return err
	}
	p.TAP = t.Name()
	d, err := links.Netdev(p.TAP)
	if err != nil {
		t.Close()
		return err
	}
	const tags = 2 * ether.TagLen
	port := n.loop.AddQueue(frame.Port(i), t, d.MTU+ether.HeaderLen+tags)
	n.ports = append(n.ports, port)
	if !d.Up {
		if !t.Created() {
			n.undo = append(n.undo, func() { _ = links.Down(p.TAP) }) // gone already, perhaps
		}
		if err := links.Up(p.TAP); err != nil {
			return err
		}
	}
	if n.cfg.Mode == Plain {
		return nil
	}
	var o *tap.Observer
	if err := ns.Do(func() error { o, err = tap.Observe(p.TAP); return err }); err != nil {
		return err
	}
	port.Observe(o)
	port.Report()
	return nil
}

// Ready is the line for scripts that says that the switch runs.
func (n *Node) Ready() string {
	var names []string
	for _, p := range n.cfg.Ports {
		names = append(names, p.Name)
	}
	return fmt.Sprintf("ready %s mode=%v ports=%s delay=%v", n.cfg.Name, n.cfg.Mode, strings.Join(names, ","), n.cfg.Delay)
}

// Config is the configuration with its defaults filled in.
func (n *Node) Config() Config { return n.cfg }

// DoWait runs fn on the switch's thread and returns after it, or with
// loop.ErrClosed if the switch has ended.
func (n *Node) DoWait(fn func(s *Switch, now frame.Time)) error {
	return n.loop.DoWait(func(now frame.Time) { fn(n.sw, now) })
}

// Done is closed when the switch has stopped: after Close, or because one of
// its TAPs went away.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is why the switch stopped by itself; nil while it runs and after Close.
func (n *Node) Err() error {
	select {
	case <-n.done:
		return n.err
	default:
		return nil
	}
}

// Close stops the switch and removes what Start made. It returns why the
// switch had stopped before, if it had.
func (n *Node) Close() error {
	n.ending.Do(func() {
		n.cancel()
		<-n.done
		n.sw.Close()
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
	if n.owned {
		n.ns.Close()
	}
}
