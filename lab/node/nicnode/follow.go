package nicnode

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"tapir/lab/host/link"
	"tapir/nic/fastlinq"
	"tapir/nic/ip"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// followEvery is how often the host TAP is looked at without news of it, for
// what was missed.
const followEvery = time.Second

// follower keeps wire and NIC as the operating system wants its host TAP to be.
type follower struct {
	n     *Node
	index int // of the host TAP
	up    bool
	base  hostState // what both sides last agreed on
	told  string    // the last complaint
}

// hostState is what a NIC takes from its host TAP.
type hostState struct {
	mac   ether.Addr
	mtu   int
	addrs []netip.Prefix
}

// follow begins to follow the host TAP.
func (n *Node) follow() error {
	links := n.Space.Links
	d, err := links.Netdev(n.host.tap.Name())
	if err != nil {
		return err
	}
	cfg := n.Device.Config()
	f := &follower{n: n, index: d.Index, up: true, base: hostState{cfg.MAC, cfg.MTU, cfg.Addrs}}
	stop, err := links.Follow(func(d link.Netdev) {
		if d.Index == f.index {
			n.host.tap.Queues[0].Rename(d.Name)
			n.Poke()
		}
	})
	if err != nil {
		return err
	}
	n.Undo.Add(stop)
	if stop, err = links.FollowAddrs(n.Poke); err != nil {
		return err
	}
	n.Undo.Add(stop)
	n.Follow(followEvery, func(bool) {
		n.vfs.round()
		if err := f.round(); err != nil && err.Error() != f.told {
			f.told = err.Error()
			n.Warn("%v", err)
		}
	})
	return nil
}

// round brings NIC and wire to what the host TAP is now. What the NIC cannot be
// is taken back there.
func (f *follower) round() error {
	links := f.n.Space.Links
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
	if n.card != nil {
		return // neighbors use the wire, too
	}
	n.Do(func(frame.Time) {
		setCarrier(n.wire, up)
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
	if back := f.n.Space.Links.SetMTU(d.Name, f.base.mtu); back != nil {
		return back
	}
	return fmt.Errorf("%s keeps its MTU of %d: %w", d.Name, f.base.mtu, err)
}

// setMTU changes the NIC and its wire.
func (n *Node) setMTU(mtu int) (err error) {
	if mtu < ip.MinMTU || mtu > fastlinq.MaxHostMTU {
		return fmt.Errorf("MTU %d: want %d to %d", mtu, ip.MinMTU, fastlinq.MaxHostMTU)
	}
	switch wire := n.wire.(type) {
	case *tap.TAP:
		err = n.setTAPMTU(wire, mtu)
	case tap.Wire:
		if most := wire.MTU(); most > 0 && mtu > most {
			err = fmt.Errorf("MTU %d: wire %s has room for %d", mtu, wire.Name(), most)
		}
	}
	if err != nil {
		return err
	}
	_ = n.DoWait(func(now frame.Time) { // fails if the node ends
		n.ports.SetMaxFrame(mtu + linkHeaders)
		n.second.setMaxFrame(mtu + linkHeaders)
		n.card.setMaxFrame(n, mtu+linkHeaders+ether.TagLen)
		err = n.Device.SetMTU(mtu, now)
	})
	return err
}

// setTAPMTU raises the MTU of a TAP that is too small, and lowers that of one that was made for
// the NIC alone.
func (n *Node) setTAPMTU(wire *tap.TAP, mtu int) error {
	links, name := n.Space.Links, wire.Name()
	has, err := links.MTU(name)
	if (err != nil || has >= mtu) && (!wire.Created() || n.card != nil) {
		return nil
	}
	if !wire.Created() {
		return fmt.Errorf("MTU %d is more than the %d of %s: run `ip link set dev %s mtu %d`", mtu, has, name, name,
			mtu)
	}
	return links.SetMTU(name, mtu)
}

func (f *follower) followMAC(d link.Netdev) (err error) {
	mac := ether.Addr(d.MAC)
	if mac == f.base.mac {
		return nil
	}
	if f.n.DoWait(func(now frame.Time) { err = f.n.Device.SetMAC(mac, now) }) != nil {
		return nil // the node ends
	}
	if err == nil {
		f.base.mac = mac
		return nil
	}
	if back := f.n.Space.Links.SetMAC(d.Name, net.HardwareAddr(f.base.mac[:])); back != nil {
		return back
	}
	return err
}

func (f *follower) followAddrs(d link.Netdev) error {
	addrs, err := f.n.Space.Links.Settled(d.Name)
	if err != nil {
		return nil // it is gone, which ends the loop
	}
	if slices.Equal(addrs, f.base.addrs) {
		return nil
	}
	f.base.addrs = addrs
	_ = f.n.DoWait(func(now frame.Time) { err = f.n.Device.SetAddrs(addrs, now) }) // fails if the node ends
	return err
}
