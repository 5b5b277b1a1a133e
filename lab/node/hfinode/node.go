// Package hfinode runs an Omni-Path HFI in real time, on a fabric TAP, with
// virtual NICs on host TAPs. HFI itself is pure and runs in virtual time, too.
package hfinode

import (
	"context"
	"fmt"

	"tapir/lab/conf/hficonf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nodectl"
	"tapir/lab/tool/capture"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/opa"
	"tapir/opa/hfi"
	"tapir/opa/mad"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Config describes one HFI, Counter is one of its counters.
type (
	Config  = hficonf.Config
	Counter = nodectl.Counter
)

// Node is one HFI that runs. All methods may be called from any goroutine.
type Node struct {
	node.Base

	cfg    Config
	engine *engine
	wire   tap.Queue
	uplink *loop.Port
	hosts  *hosts
	tee    capture.Tee
}

// Start opens the fabric TAP, makes the VNICs of cfg and runs the HFI; agents
// answer management packets beside those that every port has. ctx bounds only
// the wait for the carrier. An error is one line, and nothing is left behind.
// Close ends the node.
func Start(ctx context.Context, cfg Config, env node.Env, agents ...mad.Agent) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg.WithDefaults()}
	build := func() error { return n.build(agents) }
	if err := n.Base.Start(n.cfg.Name, env, build, func() error { return n.run(ctx) }); err != nil {
		return nil, err
	}
	return n, nil
}

// build makes everything up to the first frame.
func (n *Node) build(agents []mad.Agent) error {
	host, err := n.Enter(n.Env().HostNS, n.cfg.Netns)
	if err != nil {
		return err
	}
	n.hosts = newHosts(n, host)
	n.Undo.Add(n.hosts.revert)
	if err := n.openFabric(); err != nil {
		return err
	}
	n.engine = &engine{node: n}
	agents = append(agents, &n.engine.programs)
	h, err := NewHFI(n.cfg, Env{Pool: n.Loop.Pool(), Wire: n.uplink, Clock: n.Loop.Clock(), Observe: n.observe,
		Now: n.Loop.Now}, agents...)
	if err != nil {
		return err
	}
	n.engine.HFI, h.raise = h, n.engine.programs.raise
	h.vports.Observe(n.engine)
	n.Loop.SetEngine(n.engine)
	return nil
}

// observe starts or ends the observation of the fabric TAP for event messages of
// PTP, bare and in packets. It runs on the loop's thread.
func (n *Node) observe(on bool) error {
	if !on || n.Env().LoopStamps {
		n.uplink.Observe(nil)
		return nil
	}
	observe := n.Space.Observer(n.wire, tunnels()...)
	if observe == nil {
		return nil
	}
	o, err := observe()
	if err != nil {
		return fmt.Errorf("%s: PTP: %w", n.cfg.Name, err)
	}
	n.uplink.Observe(o)
	return nil
}

// tunnels are the framings in which packets hold PTP messages.
func tunnels() (all []tap.Tunnel) {
	for _, f := range []opa.Framing{opa.FramingNSH, opa.Framing88B5, opa.FramingGeneve} {
		typ, at := f.Carries()
		all = append(all, tap.Tunnel{EtherType: typ, At: at})
	}
	return all
}

// bridgeAlias marks the bridges that HFIs have made.
const bridgeAlias = "Omni-Path fabric of tapir"

// joinBridge makes the fabric TAP a port of the bridge that stands for the
// fabric. One that an HFI made goes with the last of its ports.
func (n *Node) joinBridge() error {
	name, links := n.cfg.Bridge, n.Space.Links
	if !links.Exists(name) {
		if err := links.AddBridge(name); err != nil && !links.Exists(name) { // another HFI was faster
			return err
		}
		n.Space.WithoutIPv6(name)
		if err := links.SetAlias(name, bridgeAlias); err != nil {
			return err
		}
	}
	n.Undo.Add(func() {
		alias, err := links.Alias(name)
		ports, gone := links.Ports(name)
		if err == nil && gone == nil && alias == bridgeAlias && len(ports) == 0 {
			links.Delete(name)
		}
	})
	return links.Join(n.TAP(), name)
}

// openFabric opens the fabric TAP and makes it fit the packets.
func (n *Node) openFabric() (err error) {
	if n.cfg.Wire != "" {
		return n.openWire()
	}
	t, err := n.Space.OpenTAP(tap.Config{Name: n.cfg.TAP, FD: n.cfg.TAPFD}, 1, &n.Undo)
	if err != nil {
		return err
	}
	n.wire = t.Queues[0]
	name, mtu := n.TAP(), n.cfg.Framing.MTU(n.cfg.MTU)
	n.uplink = t.AddTo(n.Loop, frame.Wire, mtu+ether.HeaderLen)[0]
	d, err := n.Space.Links.Netdev(name)
	if err != nil {
		if n.cfg.TAPFD != 0 {
			return nil // of another namespace, where it was made ready
		}
		return err
	}
	if d.MTU < mtu {
		if err := n.Space.Links.SetMTU(name, mtu); err != nil {
			return err
		}
		if !t.Created() {
			n.Undo.Add(func() { n.Space.Links.SetMTU(name, d.MTU) })
		}
	}
	if n.cfg.Bridge != "" {
		if err := n.joinBridge(); err != nil {
			return err
		}
	}
	if t.Created() {
		n.Space.WithoutIPv6(name) // the kernel itself has nothing to say on the fabric
	}
	return t.BringUp(d.Up)
}

// openWire opens what takes the place of the fabric TAP.
func (n *Node) openWire() error {
	w, err := n.Space.OpenWire(n.cfg.Wire, false, &n.Undo)
	if err != nil {
		return err
	}
	mtu := n.cfg.Framing.MTU(n.cfg.MTU)
	if most := w.MTU(); most > 0 && most < mtu {
		return fmt.Errorf("wire %s has room for packets of %d octets, and fabric_mtu %d needs %d: lower fabric_mtu",
			n.cfg.Wire, most, n.cfg.MTU, mtu)
	}
	n.wire = w
	n.uplink = n.Loop.AddQueue(frame.Wire, w, mtu+ether.HeaderLen)
	return nil
}

// run starts the loop, follows the link state of the fabric TAP and the
// kernel's interfaces, and makes the host TAPs of the VNICs.
func (n *Node) run(ctx context.Context) error {
	n.Run()
	stop, err := n.hosts.Links.Follow(func(link.Netdev) { n.Poke() })
	if err != nil {
		return err
	}
	n.Undo.Add(stop)
	if err := n.Watch(n.wire, n.carrier); err != nil {
		return err
	}
	n.AwaitCarrier(ctx)
	n.Follow(listsEvery, n.hosts.round)
	if err := n.Err(); err != nil || n.cfg.Managed {
		return err
	}
	return n.hosts.problem()
}

func (n *Node) carrier(up bool, now frame.Time) { node.SetCarrier(n.engine.port, up, now) }

// Config is the configuration with its defaults filled in.
func (n *Node) Config() Config { return n.cfg }

// TAP is the name of the fabric TAP.
func (n *Node) TAP() string { return n.wire.Name() }

// Ready is the line for scripts that says that the HFI runs.
func (n *Node) Ready() string { return n.cfg.Ready(n.TAP()) }

// HFI is the HFI itself. It belongs to the loop's thread.
func (n *Node) HFI() *HFI { return n.engine.HFI }

// Counts are the counters of the HFI port.
func (n *Node) Counts() (c hfi.Counts, err error) {
	err = n.DoWait(func(frame.Time) { c = n.engine.port.Counts() })
	return c, err
}

// drops are the frames lost between the TAPs and the HFI; it belongs to the
// loop's thread.
func (n *Node) drops() frame.Drops {
	sum := n.engine.drops
	sum.Add(&n.engine.common.Drops)
	sum.Add(new(n.uplink.Drops()))
	for _, h := range n.engine.hosts {
		if h != nil {
			sum.Add(new(h.ports.Drops()))
		}
	}
	return sum
}
