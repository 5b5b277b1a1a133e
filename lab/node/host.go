package node

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"tapir/nic/ip"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/nic"
	"tapir/nic/fastlinq/cmt"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// hostTAP is the operating system's side with all its queues: the NIC's link to
// it. It belongs to the loop's thread once that runs.
type hostTAP struct {
	taps  []*tap.TAP
	ports []*loop.Port
	// engines share the TAP: each has its queues in turn.
	engines int
}

// openHost opens the host TAP and, if the NIC is to be what the operating system
// has made of it, takes its settings.
func (n *Node) openHost(env *nic.Env) error {
	ports := &hostPorts{ns: n.kernel.ns}
	var err error
	if ports.low, ports.high, err = n.kernel.links.EphemeralPorts(); err != nil {
		return fmt.Errorf("%s: %w", n.cfg.Name, err)
	}
	taps, err := n.kernel.openQueues(&n.cfg)
	if err != nil {
		return fmt.Errorf("%s: host_tap: %w", n.cfg.Name, err)
	}
	n.host = &hostTAP{taps: taps, engines: 1}
	if n.second != nil {
		n.host.engines = 2
		n.second.host = &hostTAP{taps: taps, engines: 2}
	}
	if n.cfg.IPFromHost {
		if err := n.kernel.adopt(&n.cfg, taps[0]); err != nil {
			closeAll(taps)
			return fmt.Errorf("%s: host_tap: %w", n.cfg.Name, err)
		}
	}
	for i, t := range taps {
		if n.second != nil && cmt.Hwfn(i) == 1 {
			n.second.attach(t, i)
			continue
		}
		p := n.attach(frame.Host, t, n.cfg.MTU)
		p.SetIndex(i)
		n.host.ports = append(n.host.ports, p)
	}
	env.Host, env.Reserver = n.host, ports
	if n.second != nil {
		env.Second = n.second.env()
	}
	return nil
}

func closeAll(taps []*tap.TAP) {
	for _, t := range taps {
		t.Close()
	}
}

// openQueues opens the host TAP with as many queues as it is to have: of two
// engines each has its own.
func (k *kernelSide) openQueues(c *Config) ([]*tap.TAP, error) {
	queues := c.Queues * max(1, c.NIC.Engines)
	t, err := k.links.OpenTAP(tap.Config{Name: c.HostTAP, Vnet: c.HostVnet(), MultiQueue: queues > 1})
	if err != nil {
		return nil, err
	}
	taps := []*tap.TAP{t}
	for len(taps) < queues {
		q, err := k.links.AddQueue(t)
		if err != nil {
			closeAll(taps)
			return nil, err
		}
		taps = append(taps, q)
	}
	return taps, nil
}

// adopt takes the settings of a host TAP that was found into c; one that was
// made gets those of c, or a MAC derived as usual.
func (k *kernelSide) adopt(c *Config, t *tap.TAP) error {
	if t.Created() {
		return nil
	}
	d, err := k.links.Netdev(t.Name())
	if err != nil {
		return err
	}
	if c.MAC.IsZero() {
		c.MAC = ether.Addr(d.MAC)
	}
	c.MTU = d.MTU
	addrs, err := k.links.Settled(t.Name())
	for _, p := range addrs {
		switch {
		case !ip.Usable(p, c.MTU): // not a station's
		case p.Addr().Is4():
			c.IP = append(c.IP, p)
		default:
			c.IP6 = append(c.IP6, p)
		}
	}
	return err
}

// Room implements frame.Link: what the fullest queue still takes.
func (h *hostTAP) Room() int {
	room := h.ports[0].Room()
	for _, p := range h.ports[1:] {
		room = min(room, p.Room())
	}
	return room
}

// Transmit writes f (taken) to the queue that it names.
func (h *hostTAP) Transmit(f *frame.Frame) { h.ports[int(f.Queue)/h.engines%len(h.ports)].Transmit(f) }

// Gathers implements frame.Gatherer.
func (h *hostTAP) Gathers() bool { return h.ports[0].Gathers() }

// Drops counts what the queues lost.
func (h *hostTAP) Drops() (sum frame.Drops) {
	for _, p := range h.ports {
		lost := p.Drops()
		sum.Add(&lost)
	}
	return sum
}

// setCarrier shows the operating system the state of the wire.
func (h *hostTAP) setCarrier(up bool) {
	_ = h.taps[0].SetCarrier(up) // fails only on a TAP that is gone, which ends the loop
}

// hostPorts reserves ports in the host TAP's namespace: the nic.Reserver of a
// node.
type hostPorts struct {
	ns        *netns.NS
	low, high uint16
}

func (h *hostPorts) Reserve(local netip.AddrPort) (release func(), err error) {
	release, err = link.ReservePort(h.ns, local)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: a socket of the operating system has it", err)
	}
	return release, err
}

func (h *hostPorts) EphemeralRange() (low, high uint16) { return h.low, h.high }
