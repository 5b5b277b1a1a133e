package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"

	"tapir/lab/host/link"
	"tapir/nic/loop"
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
	taps  []*tap.TAP // its queues, one at least
	vlan  uint16
	id    frame.Port
	ports []*loop.Port      // one per queue
	sent  [maxQueues]uint64 // frames handed to the kernel, by queue

	base    netdevState // what kernel and vport last agreed on
	shown   operState   // what the kernel was last told
	lists   []net.HardwareAddr
	policy  vnic.Policy
	undo    []func()
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
}

func stateOf(d *vnic.Netdev) vportState {
	return vportState{dev: d, vesw: d.Config().VESWID, state: netdevState{d.MAC(), d.MTU()},
		oper: operState{d.Carrier(), d.Dormant(), d.Shared()}, maxMTU: d.MaxMTU()}
}

// newHost opens the host TAP of a vport and ties the two together.
func newHost(n *Node, v vportState) (*host, error) {
	c := n.cfg.VNIC(v.vesw)
	h := &host{n: n, dev: v.dev, name: c.TAP, base: v.state, policy: c.Policy}
	if err := h.open(c.TAP); err != nil {
		return nil, err
	}
	err := h.prepare(&c, v)
	if err == nil {
		err = h.attach()
	}
	if err != nil {
		h.revert()
		h.closeTAP()
		return nil, err
	}
	return h, nil
}

// open opens the TAP with all its queues.
func (h *host) open(name string) error {
	links, queues := h.n.host.links, h.n.cfg.Queues
	t, err := links.OpenTAP(tap.Config{Name: name, MultiQueue: queues > 1})
	if err != nil {
		return err
	}
	h.taps = []*tap.TAP{t}
	for len(h.taps) < queues {
		q, err := links.AddQueue(t)
		if err != nil {
			h.closeTAP()
			return err
		}
		h.taps = append(h.taps, q)
	}
	return nil
}

func (h *host) closeTAP() {
	for _, t := range h.taps {
		t.Close()
	}
}

func (h *host) created() bool { return h.taps[0].Created() }

// prepare gives the TAP what the vport has, before anybody can use it.
func (h *host) prepare(c *VNIC, v vportState) error {
	links := h.n.host.links
	d, err := links.Netdev(h.name)
	if err != nil {
		return err
	}
	h.index = d.Index
	if !h.created() {
		h.undo = append(h.undo, func() { links.SetMAC(h.name, d.MAC); links.SetMTU(h.name, d.MTU) })
	}
	if h.base.mac.IsZero() {
		h.base.mac = ether.Addr(d.MAC)
	}
	if err := errors.Join(h.setMAC(h.base.mac), h.setMTU(h.base.mtu)); err != nil {
		return err
	}
	for _, p := range c.IP {
		if err := h.address(p); err != nil {
			return err
		}
	}
	if c.Gateway != nil {
		if err := h.join(c.Gateway); err != nil {
			return err
		}
	}
	if err := h.show(v.oper, true); err != nil {
		return err
	}
	return h.bringUp(d.Up)
}

func (h *host) setMAC(a ether.Addr) error {
	return h.n.host.links.SetMAC(h.name, net.HardwareAddr(a[:]))
}

func (h *host) setMTU(mtu int) error { return h.n.host.links.SetMTU(h.name, mtu) }

// address gives the TAP an address and takes it back in the end.
func (h *host) address(p netip.Prefix) error {
	links := h.n.host.links
	if p.Addr().Is6() {
		if err := h.n.host.ns.Sysctl("ipv6/conf/"+h.name+"/disable_ipv6", "0"); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	err := links.AddAddr(h.name, p)
	if err == nil && !h.created() {
		h.undo = append(h.undo, func() { links.DelAddr(h.name, p) })
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// join makes the TAP a port of the gateway's bridge.
func (h *host) join(g *Gateway) error {
	links := h.n.host.links
	h.vlan = g.VLAN
	if err := links.Join(h.name, g.Bridge); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	h.bridged = true
	if !h.created() {
		h.undo = append(h.undo, func() { links.Leave(h.name) })
	}
	return nil
}

func (h *host) bringUp(isUp bool) error {
	links := h.n.host.links
	if isUp {
		return nil
	}
	if !h.created() {
		h.undo = append(h.undo, func() { links.Down(h.name) })
	}
	return links.Up(h.name)
}

// show passes the state on to the kernel.
func (h *host) show(o operState, anew bool) error {
	if o.dormant != h.shown.dormant || anew {
		if err := h.n.host.links.SetDormant(h.name, o.dormant); err != nil {
			return err
		}
	}
	if o.carrier != h.shown.carrier || anew {
		if err := h.taps[0].SetCarrier(o.carrier); err != nil {
			return err
		}
	}
	if h.bridged && (o.shared != h.shown.shared || anew) {
		// The flow says which gateway a frame takes, not where one came from.
		if err := h.n.host.links.SetLearning(h.name, !o.shared); err != nil {
			return err
		}
	}
	h.shown = o
	return nil
}

// attach hands the TAP to the loop.
func (h *host) attach() error {
	var failed error
	err := h.n.loop.DoWait(func(frame.Time) {
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
	h.n.poke()
}

// remove closes the queues. It belongs to the loop's thread.
func (h *host) remove() {
	for _, p := range h.ports {
		h.n.loop.RemoveQueue(p)
	}
	h.n.engine.drop(h)
}

// detach takes the TAP out of the loop, which closes it.
func (h *host) detach() {
	_ = h.n.loop.DoWait(func(frame.Time) { // after the loop's end it is closed already
		if !h.lost {
			h.remove()
		}
	})
	h.revert()
}

// revert undoes what was done to a TAP that was found.
func (h *host) revert() {
	for _, u := range slices.Backward(h.undo) {
		u()
	}
	h.undo = nil
}

// merge brings together what the kernel and the vport say: what one side
// changed since they last agreed, the other gets; the kernel's change comes
// first.
func (h *host) merge(d link.Netdev, v vportState) error {
	mac, mtu := h.base.mac, h.base.mtu
	err := h.n.loop.DoWait(func(frame.Time) {
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
		for _, p := range h.ports {
			p.SetMaxFrame(longestFrame(v.maxMTU))
		}
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
	h.n.loop.Do(func(frame.Time) { h.dev.SetRxMode(unicast, multicast) })
}

// Room and Transmit make the host the vport's link to the operating system.
func (h *host) Room() int {
	room := h.ports[0].Room()
	for _, p := range h.ports[1:] {
		room = min(room, p.Room())
	}
	return room
}

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
		h.dev.Transmit(frames, now)
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
	h.dev.Transmit(ours, now)
}
