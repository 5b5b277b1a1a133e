// Package swnode runs the fabric switch of lab/node/sw in real time, on TAPs.
package swnode

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"tapir/lab/conf/swconf"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/lab/node/sw"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/ptp/clock"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Node is a switch that runs on TAPs. All methods may be called from any
// goroutine.
type Node struct {
	node.Base

	cfg   swconf.Config
	sw    *sw.Switch
	phc   *clock.PHC
	ports node.Ports
	wires []tap.Queue // of the ports; nil: a TAP
	names []string    // of the ports: interfaces, or else wires
}

// Start opens the TAPs of cfg and runs the switch. An error is one line, and
// nothing is left behind. Close ends the node.
func Start(cfg swconf.Config, env node.Env) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg.WithDefaults()}
	if err := n.Base.Start(n.cfg.Name, env, n.build); err != nil {
		return nil, err
	}
	n.OnEnd = func(error) { n.sw.Close() }
	n.Run()
	for i, w := range n.wires {
		if w == nil {
			continue
		}
		if err := n.Watch(w, func(up bool, now frame.Time) { n.sw.SetLink(i, up, now) }); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// Close tells neighbors of the end, stops the node and removes what Start made. It returns why
// the node had stopped before, if it had.
func (n *Node) Close() error {
	_ = n.DoWait(n.sw.Leave) // an error: it has ended already
	return n.Base.Close()
}

// build makes everything up to the first frame.
func (n *Node) build() (err error) {
	for i := range n.cfg.Ports {
		if err := n.openPort(i); err != nil {
			return err
		}
	}
	now := n.Loop.Now()
	hw := n.cfg.Hardware
	hw.Start, hw.Initial = now, n.Loop.Clock().At(now)
	if n.phc, err = clock.New(hw); err != nil {
		return err
	}
	env := sw.Env{Pool: n.Loop.Pool(), Clock: n.phc}
	for _, p := range n.ports {
		env.Links = append(env.Links, p)
	}
	if n.sw, err = sw.New(n.cfg, env); err != nil {
		return err
	}
	n.Loop.SetEngine(n.sw)
	return nil
}

// openPort opens a port's TAP and makes it carry frames.
func (n *Node) openPort(i int) error {
	p := &n.cfg.Ports[i]
	var ns *netns.NS
	if all := n.Env().PortNS; i < len(all) {
		ns = all[i]
	}
	space, err := n.Enter(ns, p.Netns)
	if err != nil {
		return err
	}
	if p.Wire != "" {
		return n.openWire(space, p.Wire, frame.Port(i))
	}
	t, err := space.OpenTAP(tap.Config{Name: p.TAP, FD: p.TAPFD}, 1, &n.Undo)
	if err != nil {
		return err
	}
	p.TAP = t.Name()
	d, err := space.Links.Netdev(p.TAP)
	if err != nil {
		t.Close()
		return err
	}
	port := t.AddTo(n.Loop, frame.Port(i), d.MTU+ether.HeaderLen+tags)[0]
	n.ports, n.wires, n.names = append(n.ports, port), append(n.wires, nil), append(n.names, p.TAP)
	if err := t.BringUp(d.Up); err != nil {
		return err
	}
	return n.stamp(space, port, t.Queues[0])
}

// tags are what a frame may have besides its Ethernet header, in octets.
const tags = 2 * ether.TagLen

// longestPacket is more than any packet on a wire without an MTU.
const longestPacket = 16000

// openWire opens a wire that takes the place of a port's TAP.
func (n *Node) openWire(space node.Space, text string, at frame.Port) error {
	w, err := space.OpenWire(text, false, &n.Undo)
	if err != nil {
		return err
	}
	port := n.Loop.AddQueue(at, w, cmp.Or(w.MTU(), longestPacket)+ether.HeaderLen+tags)
	n.ports, n.wires, n.names = append(n.ports, port), append(n.wires, w), append(n.names, w.Name())
	return n.stamp(space, port, w)
}

// stamp has PTP messages observed that pass a port of a clock.
func (n *Node) stamp(space node.Space, port *loop.Port, q tap.Queue) error {
	if n.cfg.Mode == swconf.Plain {
		return nil
	}
	if observe := space.Observer(q); observe != nil {
		o, err := observe()
		if err != nil {
			return err
		}
		port.Observe(o)
	}
	port.Report()
	return nil
}

// Ready is the line for scripts that says that the switch runs.
func (n *Node) Ready() string {
	var names []string
	for _, p := range n.cfg.Ports {
		names = append(names, p.Name)
	}
	return fmt.Sprintf("ready %s mode=%v ports=%s delay=%v", n.cfg.Name, n.cfg.Mode, strings.Join(names, ","),
		n.cfg.Delay)
}

// Config is the configuration with its defaults filled in.
func (n *Node) Config() swconf.Config { return n.cfg }

// Switch is the switch itself. It belongs to the loop's thread.
func (n *Node) Switch() *sw.Switch { return n.sw }
