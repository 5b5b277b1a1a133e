package node

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"tapir/nic/ip"
	"time"

	"tapir/lab/host/link"
	"tapir/nic"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// followEvery is how often the host TAP is looked at without news of it, for
// what was missed.
const followEvery = time.Second

// follower keeps wire and NIC as the operating system wants its host TAP to be.
// All of it happens on one goroutine, from the state of the TAP at that moment,
// so that the order of news does not matter.
type follower struct {
	n     *Node
	index int // of the host TAP
	kick  chan struct{}
	stops []func()

	up   bool
	base hostState // what both sides last agreed on
	told string    // the last complaint
}

// hostState is what a NIC takes from its host TAP.
type hostState struct {
	mac   ether.Addr
	mtu   int
	addrs []netip.Prefix
}

// follow begins to follow the host TAP. The kernel's side ends it.
func (n *Node) follow() error {
	links, name := n.kernel.links, n.host.taps[0].Name()
	d, err := links.Netdev(name)
	if err != nil {
		return err
	}
	cfg := n.Device.Config()
	f := &follower{n: n, index: d.Index, kick: make(chan struct{}, 1), up: true,
		base: hostState{cfg.MAC, cfg.MTU, cfg.Addrs}}
	stop, err := links.Follow(func(d link.Netdev) {
		if d.Index == f.index {
			f.poke()
		}
	})
	if err == nil {
		f.stops = append(f.stops, stop)
		stop, err = links.FollowAddrs(f.poke)
	}
	if err != nil {
		f.stop()
		return err
	}
	f.stops = append(f.stops, stop)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		f.run(over)
	}()
	n.kernel.rest = sync.OnceFunc(func() { close(over); <-ended; f.stop() })
	n.kernel.undo = append(n.kernel.undo, n.kernel.rest)
	return nil
}

func (f *follower) stop() {
	for _, stop := range f.stops {
		stop()
	}
}

// poke asks for another round.
func (f *follower) poke() {
	select {
	case f.kick <- struct{}{}:
	default: // one is due already
	}
}

func (f *follower) run(over chan struct{}) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		if err := f.round(); err != nil && err.Error() != f.told {
			f.told = err.Error()
			f.n.warn(err)
		}
		select {
		case <-over:
			return
		case <-f.kick:
		case <-tick.C:
		}
	}
}

// round brings NIC and wire to what the host TAP is now. What the NIC cannot be
// is taken back there.
func (f *follower) round() error {
	links := f.n.kernel.links
	d, err := links.NetdevAt(f.index)
	if err != nil {
		return nil // it is gone, which ends the loop
	}
	if d.Up != f.up {
		f.up = d.Up
		f.n.plug(d.Up)
	}
	if !f.n.cfg.IPFromHost {
		return nil
	}
	steps := []func(link.Netdev) error{f.followMTU, f.followMAC, f.followAddrs}
	if d.MTU < f.base.mtu {
		slices.Reverse(steps) // IPv6 addresses go before the MTU gets too small for them
	}
	for _, step := range steps {
		if err := step(d); err != nil {
			return err
		}
	}
	return nil
}

// plug shows the other end of the wire whether the host has its interface up.
func (n *Node) plug(up bool) {
	n.loop.Do(func(frame.Time) {
		if t, ok := n.wire.(*tap.TAP); ok {
			_ = t.SetCarrier(up) // fails only on a TAP that is gone, which ends the loop
		}
	})
}

func (f *follower) followMTU(d link.Netdev) error {
	if d.MTU == f.base.mtu {
		return nil
	}
	err := f.n.setMTU(d.MTU)
	if err == nil {
		f.base.mtu = d.MTU
		return nil
	}
	if back := f.n.kernel.links.SetMTU(d.Name, f.base.mtu); back != nil {
		return back
	}
	return fmt.Errorf("%s keeps its MTU of %d: %w", d.Name, f.base.mtu, err)
}

// setMTU changes the NIC and its wire.
func (n *Node) setMTU(mtu int) (err error) {
	wire, links := n.wire.(*tap.TAP), n.kernel.links
	if mtu < ip.MinMTU || mtu > nic.MaxHostMTU {
		return fmt.Errorf("MTU %d: want %d to %d", mtu, ip.MinMTU, nic.MaxHostMTU)
	}
	if has, err := links.MTU(wire.Name()); err == nil && has < mtu || wire.Created() {
		if !wire.Created() {
			return fmt.Errorf("MTU %d is more than the %d of %s: run `ip link set dev %s mtu %d`", mtu, has, wire.Name(), wire.Name(), mtu)
		}
		if err := links.SetMTU(wire.Name(), mtu); err != nil {
			return err
		}
	}
	if lerr := n.loop.DoWait(func(now frame.Time) {
		for _, p := range n.ports {
			p.SetMaxFrame(mtu + linkHeaders)
		}
		n.second.setMaxFrame(mtu + linkHeaders)
		err = n.Device.SetMTU(mtu, now)
	}); lerr != nil {
		return nil // the node ends
	}
	return err
}

func (f *follower) followMAC(d link.Netdev) (err error) {
	mac := ether.Addr(d.MAC)
	if mac == f.base.mac {
		return nil
	}
	if f.n.loop.DoWait(func(now frame.Time) { err = f.n.Device.SetMAC(mac, now) }) != nil {
		return nil // the node ends
	}
	if err == nil {
		f.base.mac = mac
		return nil
	}
	if back := f.n.kernel.links.SetMAC(d.Name, net.HardwareAddr(f.base.mac[:])); back != nil {
		return back
	}
	return err
}

func (f *follower) followAddrs(d link.Netdev) error {
	addrs, err := f.n.kernel.links.Settled(d.Name)
	if err != nil {
		return nil // it is gone, which ends the loop
	}
	if slices.Equal(addrs, f.base.addrs) {
		return nil
	}
	f.base.addrs = addrs
	if f.n.loop.DoWait(func(now frame.Time) { err = f.n.Device.SetAddrs(addrs, now) }) != nil {
		return nil // the node ends
	}
	return err
}

// warn tells what cannot be helped here.
func (n *Node) warn(err error) {
	if n.cfg.Log != nil {
		fmt.Fprintf(n.cfg.Log, "%s: %v\n", n.cfg.Name, err)
	}
}
