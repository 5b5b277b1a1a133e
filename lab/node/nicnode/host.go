package nicnode

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/ip"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// hostTAP is the operating system's side with all its queues: the NIC's link to
// it. It belongs to the loop's thread once that runs.
type hostTAP struct {
	tap   *node.TAP
	ports node.Ports
	// engines share the TAP: each has its queues in turn.
	engines int
}

// openHost opens the host TAP and, if the NIC is to be what the operating system
// has made of it, takes its settings.
func (n *Node) openHost(env *nic.Env) error {
	ports := &hostPorts{ns: n.Space.NS}
	var err error
	if ports.low, ports.high, err = n.Space.Links.EphemeralPorts(); err != nil {
		return fmt.Errorf("%s: %w", n.cfg.Name, err)
	}
	engines := n.cfg.Engines() // each has its own queues
	t, err := n.Space.OpenTAP(tap.Config{Name: n.cfg.HostTAP, Vnet: n.cfg.HostVnet()}, n.cfg.Queues*engines, &n.Undo)
	if err != nil {
		return fmt.Errorf("%s: host_tap: %w", n.cfg.Name, err)
	}
	n.host = &hostTAP{tap: t, engines: 1}
	if n.second != nil {
		n.host.engines = 2
		n.second.host = &hostTAP{tap: t, engines: 2}
	}
	if n.cfg.IPFromHost {
		if err := adopt(&n.cfg, t); err != nil {
			t.Close()
			return fmt.Errorf("%s: host_tap: %w", n.cfg.Name, err)
		}
	}
	n.onLoop(func() { n.attachHost(t) })
	env.Host, env.Reserver = n.host, ports
	if n.second != nil {
		env.Second = n.second.env()
	}
	return nil
}

// onLoop runs fn where queues may be attached: on the loop of a card, which runs.
func (n *Node) onLoop(fn func()) {
	if n.card == nil {
		fn()
		return
	}
	_ = n.DoWait(func(frame.Time) { fn() }) // fails if the card has ended, which is found next
}

// attachHost attaches the queues of the host TAP.
func (n *Node) attachHost(t *node.TAP) {
	for i, t := range t.Queues {
		if n.second != nil && fastlinq.EngineOf(i) == 1 {
			n.second.attach(t, i)
			continue
		}
		p := n.attach(frame.Host, t, n.cfg.MTU)
		p.SetIndex(i)
		n.host.ports = append(n.host.ports, p)
	}
}

// adopt takes the settings of a host TAP that was found into c; one that was
// made gets those of c, or a MAC derived as usual.
func adopt(c *Config, t *node.TAP) error {
	if t.Created() {
		return nil
	}
	d, err := t.Links.Netdev(t.Name())
	if err != nil {
		return err
	}
	if c.MAC.IsZero() {
		c.MAC = ether.Addr(d.MAC)
	}
	c.MTU = d.MTU
	addrs, err := t.Links.Settled(t.Name())
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
func (h *hostTAP) Room() int { return h.ports.Room() }

// Transmit writes f (taken) to the queue that it names.
func (h *hostTAP) Transmit(f *frame.Frame) { h.ports[int(f.Queue)/h.engines%len(h.ports)].Transmit(f) }

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
