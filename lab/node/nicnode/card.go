package nicnode

import (
	"fmt"
	"sync"

	"tapir/lab/conf/nicconf"
	"tapir/lab/node"
	"tapir/nic"
	"tapir/nic/hardware"
	"tapir/nic/loop"
	"tapir/nic/npar"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// card is a device with several functions, each of which is a node: the loop that all
// run on, the ports and the chip. A NIC with a device of its own has none: nil.
type card struct {
	node.Base
	cfg    *nicconf.Card
	cards  *node.Cards
	npar   *npar.Card
	device hardware.Device
	ports  []cardPort // nil where no function is
	most   int        // octets of a frame

	mu    sync.Mutex
	users int
	// turns: after the end of the loop one node at a time has the device.
	turns sync.Mutex
}

// cardPort is a port with its TAP or wire. It belongs to the loop's thread.
type cardPort struct {
	queue    tap.Queue // nil: the port is not open
	port     *loop.Port
	up       bool
	nodes    []*Node
	watchers int // of PTP event messages
}

// joinCard returns the card of a function, which runs from its first function's start
// to its last one's end.
func joinCard(cfg *nicconf.Config, env node.Env) (*card, error) {
	cards := env.Cards
	if cards == nil {
		cards = node.NewCards()
	}
	found, err := cards.Get(cfg.Card, func() (any, error) {
		c := &card{cfg: cfg.Card, cards: cards, ports: make([]cardPort, len(cfg.Card.Ports))}
		return c, c.start(cfg, env)
	})
	if err != nil {
		return nil, err
	}
	c := found.(*card)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	return c, nil
}

// start opens the ports and runs the loop.
func (c *card) start(cfg *nicconf.Config, env node.Env) (err error) {
	defer func() {
		if err != nil {
			c.End(nil)
			err = fmt.Errorf("%s: %w", c.cfg.Name, err)
		}
	}()
	if err := c.Open(c.cfg.Name, env); err != nil {
		return err
	}
	c.npar = npar.New(c.Loop.Pool(), len(c.ports), c.cfg.Functions)
	if c.device, err = c.cfg.Open(); err != nil {
		return err
	}
	for _, i := range c.cfg.Functions {
		if c.ports[i].queue == nil {
			if err := c.openPort(i, cfg.Vnet()); err != nil {
				return err
			}
		}
	}
	c.Loop.SetEngine(c.npar)
	c.Run()
	for i := range c.ports {
		p := &c.ports[i]
		if p.queue == nil {
			continue
		}
		if err := c.Watch(p.queue, func(up bool, now frame.Time) { p.carrier(up, now) }); err != nil {
			return err
		}
	}
	return nil
}

// openPort opens the TAP or the wire of a port.
func (c *card) openPort(i int, vnet bool) (err error) {
	p, mtu := &c.ports[i], c.cfg.MTU+c.cfg.TagLen()
	if text := c.cfg.Ports[i].Wire; text != "" {
		p.queue, err = c.openWire(text, vnet, mtu)
	} else {
		p.queue, err = c.openTAP(&c.cfg.Ports[i], vnet, mtu)
	}
	if err != nil {
		return err
	}
	c.most = mtu + linkHeaders
	p.port = c.Loop.AddQueue(frame.Port(i), p.queue, c.most)
	p.port.Report()
	c.npar.Connect(i, p.port)
	return nil
}

// openWire opens what takes the place of a port's TAP.
func (c *card) openWire(text string, vnet bool, mtu int) (tap.Queue, error) {
	w, err := c.Space.OpenWire(text, vnet, &c.Undo)
	if err != nil {
		return nil, err
	}
	if most := w.MTU(); most > 0 && most < mtu {
		return nil, fmt.Errorf("wire %s has room for packets of %d octets, and the card needs %d: lower mtu, or raise "+
			"that of the way", text, most, mtu)
	}
	return w, nil
}

// openTAP opens the TAP of a port.
func (c *card) openTAP(of *nicconf.Port, vnet bool, mtu int) (tap.Queue, error) {
	t, err := c.Space.OpenTAP(tap.Config{Name: of.TAP, Vnet: vnet}, 1, &c.Undo)
	if err != nil {
		return nil, err
	}
	info, err := c.Space.Links.Get(t.Name())
	switch {
	case err != nil:
	case t.Created():
		err = c.Space.Links.SetMTU(t.Name(), mtu)
	case info.MTU < c.cfg.MTU:
		err = fmt.Errorf("MTU %d is more than the %d of %s: run `ip link set dev %s mtu %d`", c.cfg.MTU, info.MTU,
			t.Name(), t.Name(), mtu)
	}
	if err == nil {
		err = t.AddAddresses(of.TAPIP)
	}
	if err == nil {
		err = t.BringUp(info.Up)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t.Queues[0], nil
}

// carrier tells the functions of the port.
func (p *cardPort) carrier(up bool, now frame.Time) {
	p.up = up
	for _, n := range p.nodes {
		n.carrier(up, now)
		if up {
			n.Alive()
		}
	}
}

// port is where the engine of the card gets the frames of a function's port.
func (c *card) port(p frame.Port, fn int) frame.Port {
	if c == nil {
		return p
	}
	return npar.HostPort + frame.Port(fn)
}

// buildFunction makes everything of a function up to the first frame.
func (n *Node) buildFunction(env *nic.Env) (err error) {
	c, p := n.card, &n.card.ports[n.cfg.Port]
	n.wire = p.queue
	if n.cfg.HostTAP == "" {
		err = n.checkClash()
		if of := c.cfg.Ports[n.cfg.Port]; of.Wire == "" && len(of.TAPIP) == 0 {
			n.hintAddresses(p.queue.Name(), nil)
		}
	} else {
		if n.cfg.Engines() > 1 {
			if n.second, err = n.newSecond(); err != nil {
				return err
			}
		}
		err = n.openHost(env)
	}
	if err != nil {
		return err
	}
	slot := c.npar.Slot(n.cfg.Function)
	env.Wire, env.Line, env.Tagged = slot, slot.Line(), slot.SetTag
	env.Device, env.Function, env.Port = c.device, n.cfg.Function, n.cfg.Port
	env.Laser = func(on bool) { setCarrier(p.queue, on) }
	if n.Space.Observer(p.queue) != nil {
		env.Observe = n.observePort
	}
	cfg := n.device()
	n.newVFs(env)
	if lost := n.DoWait(func(frame.Time) {
		if n.Device, err = nic.New(cfg, *env); err == nil {
			err = n.vfs.open()
		}
		if err == nil {
			slot.Enter(n.engine(), npar.Parts{Station: &n.Device.IP.MAC, Wire: n.Device.Wire, Owns: n.owns})
		}
	}); lost != nil {
		return lost
	}
	if err != nil {
		return err
	}
	return n.ready()
}

// observePort starts or ends the observation of the port's TAP, which its functions
// share. It runs on the loop's thread.
func (n *Node) observePort(on bool) error {
	p := &n.card.ports[n.cfg.Port]
	if p.watchers += map[bool]int{true: 1, false: -1}[on]; on && p.watchers > 1 || !on && p.watchers > 0 {
		return nil
	}
	return n.observe(p.port, on)
}

// enter has the card tell a function of its link.
func (c *card) enter(n *Node) {
	_ = n.DoWait(func(now frame.Time) { // fails if the card ends
		p := &c.ports[n.cfg.Port]
		if p.nodes = append(p.nodes, n); p.up {
			n.carrier(true, now)
			n.Alive()
		}
	})
}

// release takes a function out of the card; its host TAP is closed.
func (c *card) release(n *Node) {
	if c == nil || n.Loop == nil {
		return
	}
	_ = n.DoWait(func(frame.Time) { // fails if the card has ended, and all with it
		c.npar.Slot(n.cfg.Function).Leave()
		c.device.FLR(n.cfg.Function) // of one that was not closed
		for _, q := range n.ports {
			n.Loop.RemoveQueue(q)
		}
		p := &c.ports[n.cfg.Port]
		for i, o := range p.nodes {
			if o == n {
				p.nodes = append(p.nodes[:i:i], p.nodes[i+1:]...)
				break
			}
		}
	})
}

// leave ends the card with its last function.
func (c *card) leave(*Node) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 {
		c.cards.Forget(c.cfg)
		c.End(nil)
	}
}

// setMaxFrame makes room on a function's port for frames of that length.
func (c *card) setMaxFrame(n *Node, octets int) {
	if c != nil && octets > c.most {
		c.most = octets
		c.ports[n.cfg.Port].port.SetMaxFrame(octets)
	}
}

// alone keeps the device to the caller until what it returns is called.
func (c *card) alone() func() {
	if c == nil {
		return func() {}
	}
	c.turns.Lock()
	return c.turns.Unlock
}
