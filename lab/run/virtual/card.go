package virtual

import (
	lifecycle "tapir/lab/node"
	"tapir/lab/topo"
	"tapir/nic"
	"tapir/nic/hardware"
	"tapir/nic/npar"
)

// card is a device with several functions, whose ports are the links of its node.
type card struct {
	*npar.Card
	device    hardware.Device
	functions []*node
}

// buildCard makes the device. Its functions come after it.
func (n *node) buildCard() (err error) {
	cfg := n.lab.topo.FunctionsOf(n.Name)[0].NIC.Card
	n.card = &card{Card: npar.New(n.lab.world.Pool, len(n.ends), cfg.Functions)}
	for i, e := range n.ends {
		n.card.Connect(i, e)
	}
	n.card.device, err = cfg.Open()
	n.engine = n.card
	return err
}

// join makes the node a function of its card. A function that starts again was reset before.
func (n *node) join(cfg nic.Config) (err error) {
	c, i, port := n.lab.node(n.Card).card, n.NIC.Function, n.NIC.Port
	if n.card == nil {
		c.functions = append(c.functions, n)
	}
	s := c.Slot(i)
	n.card, n.ends = c, n.lab.node(n.Card).ends[port:port+1]
	n.dev, err = nic.New(cfg, nic.Env{Pool: n.lab.world.Pool, Wire: s, Clock: n.lab.world, Device: c.device,
		Function: i, Port: port, Line: s.Line(), Tagged: s.SetTag})
	n.engine = n.dev
	if err == nil {
		s.Enter(n.dev, npar.Parts{Station: &n.dev.IP.MAC, Wire: n.dev.Wire, Owns: n.dev.IP.Listens})
	}
	return err
}

// functions are those of a card; any other node has none.
func (n *node) functions() []*node {
	if n.Kind != topo.Card {
		return nil
	}
	return n.card.functions
}

// reset is the end of a function whose process is gone.
func (n *node) reset() {
	if n.Card != "" {
		n.card.Slot(n.NIC.Function).Leave()
		n.card.device.FLR(n.NIC.Function)
	}
}

// on are the NICs at a link.
func (e *end) on() (list []*node) {
	if e.node.dev != nil {
		return []*node{e.node}
	}
	if e.node.Kind == topo.Card {
		for _, f := range e.node.card.functions {
			if f.NIC.Port == int(e.port) {
				list = append(list, f)
			}
		}
	}
	return list
}

// carrier sets the link state of the NICs, the HFI or the switch's port at the link. Hosts
// ignore it.
func (e *end) carrier(up bool) {
	now := e.link.lab.world.Now()
	for _, n := range e.on() {
		if !n.dead {
			lifecycle.SetCarrier(n.dev, up, now)
		}
	}
	if e.node.hfi != nil {
		lifecycle.SetCarrier(e.node.hfi.Port(), up, now)
	}
	if e.node.sw != nil {
		e.node.sw.SetLink(int(e.port), up, now)
	}
	e.link.lab.world.Touch(e.node.place)
}

// mtuOfCard is what the functions of a card need.
func (n *node) mtuOfCard() (most int) {
	for _, f := range n.lab.topo.FunctionsOf(n.Name) {
		most = max(most, f.NIC.Device("").MTU)
	}
	return most
}
