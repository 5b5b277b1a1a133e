package hfinode

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"

	"tapir/lab/conf/hficonf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/nic/tap"
	"tapir/vnic"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// host is the operating system's side of one vport: a TAP. The bottom half
// owns it; ports, lost and the link belong to the loop's thread.
type host struct {
	n     *Node
	dev   *vnic.Netdev
	name  string
	index int
	tap   *node.TAP
	vlan  uint16
	id    frame.Port
	ports node.Ports                // one per queue
	sent  [hficonf.MaxQueues]uint64 // frames handed to the kernel, by queue

	base    netdevState // what kernel and vport last agreed on
	shown   operState   // what the kernel was last told
	lists   []net.HardwareAddr
	policy  vnic.Policy
	undo    node.Undo
	bridged bool // as a gateway
	lost    bool // the TAP was removed under us
}

// netdevState is what both the kernel and the Ethernet Manager may change.
type netdevState struct {
	mac ether.Addr
	mtu int
}

// operState is what only the fabric decides: carrier, dormancy, and whether
// several gateways share the bridge's traffic.
type operState struct{ carrier, dormant, shared bool }

// vportState is a vport as its thread sees it.
type vportState struct {
	dev    *vnic.Netdev
	vesw   uint16
	state  netdevState
	oper   operState
	maxMTU int
	lost   bool // its host TAP
}

func stateOf(d *vnic.Netdev) vportState {
	return vportState{dev: d, vesw: d.Config().VESWID, state: netdevState{d.MAC(), d.MTU()},
		oper: operState{d.Carrier(), d.Dormant(), d.Shared()}, maxMTU: d.MaxMTU()}
}

// newHost opens the host TAP of a vport and ties the two together.
func newHost(n *Node, v vportState) (*host, error) {
	c := n.cfg.VNIC(v.vesw)
	h := &host{n: n, dev: v.dev, name: c.TAP, base: v.state, policy: c.Policy}
	var err error
	if h.tap, err = n.hosts.OpenTAP(tap.Config{Name: c.TAP}, n.cfg.Queues, &h.undo); err != nil {
		return nil, err
	}
	if err = h.prepare(&c, v); err == nil {
		err = h.attach()
	}
	if err != nil {
		h.undo.Run()
		h.tap.Close()
		return nil, err
	}
	return h, nil
}

// prepare gives the TAP what the vport has, before anybody can use it.
func (h *host) prepare(c *hficonf.VNIC, v vportState) error {
	links := h.n.hosts.Links
	d, err := links.Netdev(h.name)
	if err != nil {
		return err
	}
	h.index = d.Index
	if !h.tap.Created() {
		h.undo.Add(func() { links.SetMAC(h.name, d.MAC); links.SetMTU(h.name, d.MTU) })
	}
	if h.base.mac.IsZero() {
		h.base.mac = ether.Addr(d.MAC)
	}
	return node.InOrder(
		func() error { return errors.Join(h.setMAC(h.base.mac), h.setMTU(h.base.mtu)) },
		func() error { return h.tap.AddAddresses(c.IP) },
		func() error { return h.join(c.Gateway) },
		func() error { return h.show(v.oper, true) },
		func() error { return h.tap.BringUp(d.Up) })
}

func (h *host) setMAC(a ether.Addr) error {
	return h.n.hosts.Links.SetMAC(h.name, net.HardwareAddr(a[:]))
}

func (h *host) setMTU(mtu int) error { return h.n.hosts.Links.SetMTU(h.name, mtu) }

// join makes the TAP of a gateway a port of its bridge.
func (h *host) join(g *hficonf.Gateway) error {
	if g == nil {
		return nil
	}
	links := h.n.hosts.Links
	h.vlan = g.VLAN
	if err := links.Join(h.name, g.Bridge); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	h.bridged = true
	if !h.tap.Created() {
		h.undo.Add(func() { links.Leave(h.name) })
	}
	return nil
}

// show passes the state on to the kernel.
func (h *host) show(o operState, anew bool) error {
	if o.dormant != h.shown.dormant || anew {
		if err := h.n.hosts.Links.SetDormant(h.name, o.dormant); err != nil {
			return err
		}
	}
	if o.carrier != h.shown.carrier || anew {
		if err := h.tap.SetCarrier(o.carrier); err != nil {
			return err
		}
	}
	if h.bridged && (o.shared != h.shown.shared || anew) {
		// The flow says which gateway a frame takes, not where one came from.
		if err := h.n.hosts.Links.SetLearning(h.name, !o.shared); err != nil {
			return err
		}
	}
	h.shown = o
	return nil
}

// attach hands the TAP to the loop.
func (h *host) attach() error {
	var failed error
	err := h.n.DoWait(func(frame.Time) {
		if failed = h.n.engine.add(h); failed != nil {
			return
		}
		for _, p := range h.ports {
			p.OnLoss(func(error) { h.lose() })
		}
		h.dev.SetPolicy(h.policy)
		h.dev.SetHost(h)
		failed = h.dev.SetMAC(h.base.mac)
	})
	return errors.Join(err, failed)
}

// lose gives up a TAP that is gone, all queues of it. It belongs to the loop's
// thread.
func (h *host) lose() {
	h.lost = true
	h.remove()
	h.n.Poke()
}

// remove closes the queues. It belongs to the loop's thread.
func (h *host) remove() {
	for _, p := range h.ports {
		h.n.Loop.RemoveQueue(p)
	}
	h.n.engine.drop(h)
}

// detach takes the TAP out of the loop, which closes it.
func (h *host) detach() {
	_ = h.n.DoWait(func(frame.Time) { // after the loop's end it is closed already
		if !h.lost {
			h.remove()
		}
	})
	h.undo.Run()
}

// merge brings together what the kernel and the vport say: what one side
// changed since they last agreed, the other gets; the kernel's change comes
// first.
func (h *host) merge(d link.Netdev, v vportState) error {
	mac, mtu := h.base.mac, h.base.mtu
	err := h.n.DoWait(func(frame.Time) {
		if a := ether.Addr(d.MAC); a != mac {
			_ = h.dev.SetMAC(a) // a refused one is taken back below
		}
		if d.MTU != mtu {
			_ = h.dev.SetMTU(d.MTU) // likewise
		}
		if d.Up {
			h.dev.Open()
		} else {
			h.dev.Close()
		}
		v = stateOf(h.dev)
		h.base = v.state
		h.ports.SetMaxFrame(longestFrame(v.maxMTU))
	})
	if err != nil {
		return err
	}
	if ether.Addr(d.MAC) != v.state.mac {
		err = h.setMAC(v.state.mac)
	}
	if d.MTU != v.state.mtu {
		err = errors.Join(err, h.setMTU(v.state.mtu))
	}
	return errors.Join(err, h.show(v.oper, false))
}

// setLists tells the vport which addresses the kernel wants it to receive.
func (h *host) setLists(all []net.HardwareAddr) {
	if slices.EqualFunc(all, h.lists, func(a, b net.HardwareAddr) bool { return bytes.Equal(a, b) }) {
		return
	}
	h.lists = all
	var unicast, multicast []ether.Addr
	for _, a := range all {
		if e := ether.Addr(a); e.IsMulticast() {
			multicast = append(multicast, e)
		} else {
			unicast = append(unicast, e)
		}
	}
	h.n.Do(func(frame.Time) { h.dev.SetRxMode(unicast, multicast) })
}

// Room and Transmit make the host the vport's link to the operating system.
func (h *host) Room() int { return h.ports.Room() }

// Transmit takes f and writes it to the TAP's queue for its receive context,
// tagged if the gateway's bridge has the vESW in a VLAN.
func (h *host) Transmit(f *frame.Frame) {
	if h.vlan != 0 && !pushTag(f, h.vlan) {
		h.n.engine.drops.Count(drop.NoBuffer)
		f.Release()
		return
	}
	q := int(f.Queue) % len(h.ports)
	h.sent[q]++
	h.ports[q].Transmit(f)
}

// receive hands frames of the operating system to the vport.
func (h *host) receive(frames []*frame.Frame, now frame.Time) {
	if h.vlan == 0 {
		h.n.engine.FromHost(h.dev, frames, now)
		return
	}
	ours := frames[:0]
	for _, f := range frames {
		if popTag(f, h.vlan) {
			ours = append(ours, f)
			continue
		}
		h.n.engine.drops.Count(drop.WrongVLAN)
		f.Release()
	}
	h.n.engine.FromHost(h.dev, ours, now)
}
