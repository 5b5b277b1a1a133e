package nicnode

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/node"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/npar"
	"tapir/nic/port"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// vfs are the virtual functions of a NIC, each with a host TAP. The bridge belongs to the
// loop's thread.
type vfs struct {
	n      *Node
	bridge *fastlinq.VFBridge

	mu    sync.Mutex // of a change of their number
	hosts []*vfHost
	turn  int // the host TAP without news that is looked at next
}

// vfHost is the host TAP of a VF, in a namespace of its own.
type vfHost struct {
	node.Space
	id    int
	index int         // of the interface; 0: it is closed
	heard int         // the index that the kernel tells news of
	name  string      // that it has now
	news  atomic.Bool // VF or interface have changed
	lost  atomic.Bool // it is gone, with a namespace that it was moved to
	away  bool        // it was moved to another namespace
	tap   *node.TAP
	ports node.Ports
	undo  link.Undo

	mac               ether.Addr // that VF and interface last agreed on
	mtu               int
	promisc, allMulti bool
}

// newVFs puts a bridge between the NIC and its wire, if it is to have VFs.
func (n *Node) newVFs(env *nic.Env) {
	if n.cfg.SRIOV == nil {
		return
	}
	n.vfs = &vfs{n: n, bridge: fastlinq.NewVFBridge(env.Pool, env.Wire)}
	env.Wire = n.vfs.bridge
}

// engine is what the loop drives.
func (n *Node) engine() port.Engine {
	if n.vfs == nil {
		return n.Device
	}
	return n.vfs.bridge
}

// open lets the NIC have VFs.
func (v *vfs) open() error {
	if v == nil {
		return nil
	}
	d, c := v.n.Device, v.n.cfg.SRIOV
	return fastlinq.Of(d.Hardware).OpenVFs(v.bridge, fastlinq.VFEngine{Engine: d, Wire: d.Wire},
		fastlinq.SRIOV{Total: c.Total, Queues: c.Queues, VEPA: c.VEPA(), HWChannel: c.HWChannel(),
			UniqueMAC: c.UniqueMAC, Tunnels: c.VFTunnels, Storm: *c.Storm})
}

// start makes the VFs that there are from the start, as the configuration wants each.
func (v *vfs) start() error {
	if v == nil {
		return nil
	}
	if v.n.host == nil {
		v.n.Follow(followEvery, func(bool) { v.round() })
	}
	return v.n.SetNumVFs(v.n.cfg.SRIOV.NumVFs)
}

// SetNumVFs sets the number of VFs, whose host TAPs come and go with them.
func (n *Node) SetNumVFs(count int) (err error) {
	v := n.vfs
	if v == nil {
		return fmt.Errorf("%s can have no virtual functions: give it sriov, such as sriov: {numvfs: 4}", n.cfg.Name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if count == 0 {
		v.clear()
	}
	if lost := n.DoWait(func(frame.Time) { err = v.bridge.IOV().SetNumVFs(count) }); lost != nil {
		return lost
	}
	for id := len(v.hosts); id < count && err == nil; id++ {
		if err = v.add(id, false); err != nil {
			err = fmt.Errorf("VF %d: %w", id, err)
			v.clear()
			_ = n.DoWait(func(frame.Time) { _ = v.bridge.IOV().SetNumVFs(0) })
		}
	}
	return err
}

// VFNetdevs are the host TAPs of the VFs, empty of one that is in another namespace.
func (n *Node) VFNetdevs() (list []string) {
	n.vfs.mu.Lock()
	defer n.vfs.mu.Unlock()
	for _, h := range n.vfs.hosts {
		name := h.name
		if h.away || n.cfg.SRIOV.VF(n.cfg.Name, h.id).NetNS != "" {
			name = ""
		}
		list = append(list, name)
	}
	return list
}

// clear closes all host TAPs.
func (v *vfs) clear() {
	if v == nil {
		return
	}
	for _, h := range v.hosts {
		v.end(h)
	}
	v.hosts = nil
}

// end closes the host TAP of a VF.
func (v *vfs) end(h *vfHost) {
	_ = v.n.DoWait(func(frame.Time) { // fails if the loop has ended, which closes its queues
		v.bridge.VFs()[h.id].Close()
		for _, p := range h.ports {
			v.n.Loop.RemoveQueue(p)
		}
	})
	h.undo.Run()
	h.ports, h.index = nil, 0
}

// add opens the host TAP of a VF, and gives it to the VF, with the policies of the
// configuration unless they were given before.
func (v *vfs) add(id int, again bool) (err error) {
	n, want := v.n, v.n.cfg.SRIOV.VF(v.n.cfg.Name, id)
	set, err := fastlinq.ParseVFSet(want.Policies)
	if err != nil && len(want.Policies) > 0 {
		return err
	}
	h := &vfHost{id: id, mtu: n.cfg.MTU}
	defer func() {
		if err != nil {
			h.undo.Run()
		}
	}()
	if h.Space, err = n.spaceOf(want.NetNS, &h.undo); err != nil {
		return err
	}
	if h.tap, err = h.OpenTAP(tap.Config{Name: want.HostTAP, Vnet: n.cfg.HostVnet()}, n.cfg.SRIOV.Queues,
		&h.undo); err != nil {
		return err
	}
	if lost := n.DoWait(func(frame.Time) { err = v.attach(h, set, len(want.Policies) > 0 && !again) }); lost != nil {
		h.tap.Close()
		return lost
	}
	v.hosts = append(v.hosts, h)
	if err != nil {
		return err
	}
	return v.ready(h, want)
}

// spaceOf is the namespace that path names, or that of the node.
func (n *Node) spaceOf(path string, undo *link.Undo) (s node.Space, err error) {
	if path == "" {
		return n.Space, nil
	}
	if s.NS, err = netns.Open(netns.Path(path)); err != nil {
		return s, fmt.Errorf("netns: %w; `ip netns add %s` makes one", err, path)
	}
	undo.Add(func() { s.NS.Close() })
	if s.Links, err = link.In(s.NS); err == nil {
		undo.Add(s.Links.Close)
	}
	return s, err
}

// attach gives a VF its host TAP and its policies, on the loop's thread.
func (v *vfs) attach(h *vfHost, set fastlinq.VFSet, given bool) error {
	n, vf := v.n, v.bridge.VFs()[h.id]
	port := fastlinq.VFHostPort + frame.Port(h.id)
	if n.card != nil {
		port = npar.VFPort(n.cfg.Function) + frame.Port(h.id)
	}
	for i, q := range h.tap.Queues {
		p := n.Loop.AddQueue(port, q, n.cfg.MTU+linkHeaders)
		p.SetIndex(i)
		p.OnLoss(func(error) {
			vf.Close()
			h.lost.Store(true)
			n.Poke()
		})
		h.ports = append(h.ports, p)
	}
	if given {
		if err := set.Apply(v.bridge.IOV(), h.id); err != nil {
			return err
		}
	}
	err := vf.Open(fastlinq.VFNetdev{Name: h.tap.Name(), Host: vfLink{h.ports}, Vnet: n.cfg.HostVnet(),
		Queues: n.cfg.SRIOV.Queues, MTU: n.cfg.MTU,
		Carrier: func(up bool) { _ = h.tap.SetCarrier(up) }, // fails only on a TAP that is gone
		Address: func(ether.Addr) {
			h.news.Store(true)
			n.Poke()
		}})
	h.mac = vf.MAC()
	return err
}

// ready makes the interface of a VF what the VF is.
func (v *vfs) ready(h *vfHost, want nicconf.VF) error {
	name := h.tap.Name()
	d, err := h.Links.Netdev(name)
	if err != nil {
		return err
	}
	h.index, h.name = d.Index, name
	if err := node.InOrder(
		func() error { return h.Links.SetMAC(name, net.HardwareAddr(h.mac[:])) },
		func() error { return h.Links.SetMTU(name, h.mtu) },
		func() error { return h.tap.AddAddresses(want.IP) },
		func() error { return h.tap.BringUp(d.Up) },
	); err != nil {
		return err
	}
	index := h.index
	h.heard = index
	h.news.Store(true)
	stop, err := h.Links.Follow(func(d link.Netdev) {
		if d.Index == index {
			h.news.Store(true)
			v.n.Poke()
		}
	})
	if err == nil {
		h.undo.Add(stop)
	}
	return err
}

// round brings VFs and their interfaces together: what the PF sets wins, then what the
// interface has; what a VF cannot be is taken back there. It looks at those with news, at
// those that the kernel tells no news of, and at one other, for what was missed.
func (v *vfs) round() {
	if v == nil || !v.mu.TryLock() {
		return
	}
	defer v.mu.Unlock()
	v.turn = (v.turn + 1) % max(1, len(v.hosts))
	for i, h := range v.hosts {
		if h.lost.Swap(false) {
			if err := v.renew(i); err != nil {
				v.n.Warn("VF %d: its host TAP is gone: %v", h.id, err)
			}
			continue
		}
		if h.index == 0 || !h.news.Swap(false) && !h.away && h.index == h.heard && i != v.turn {
			continue
		}
		err := h.look(func(s node.Space, d link.Netdev) error {
			h.name = d.Name
			return v.follow(h, s.Links, d)
		})
		if err != nil {
			h.news.Store(true)
			v.n.Warn("VF %d: %v", h.id, err)
		}
	}
}

// follow brings one VF and its interface together.
func (v *vfs) follow(h *vfHost, links *link.Net, d link.Netdev) (err error) {
	mac, mtu := ether.Addr(d.MAC), d.MTU
	var is ether.Addr
	_ = v.n.DoWait(func(frame.Time) { // fails if the node ends
		vf := v.bridge.VFs()[h.id]
		if is = vf.MAC(); is == h.mac && mac != h.mac {
			err = vf.SetMAC(mac)
			is = vf.MAC()
		}
		if mtu != h.mtu {
			bad := vf.SetMTU(mtu)
			if err == nil {
				err = bad
			}
			if bad == nil {
				h.mtu = mtu
				h.ports.SetMaxFrame(mtu + linkHeaders)
			}
		}
		if d.Promisc != h.promisc || d.AllMulti != h.allMulti {
			h.promisc, h.allMulti = d.Promisc, d.AllMulti
			_ = vf.SetMode(d.Promisc, d.AllMulti) // what it does not get, ip link shows at the PF
		}
	})
	if h.mac = is; !is.IsZero() && is != mac {
		if back := links.SetMAC(d.Name, net.HardwareAddr(is[:])); back != nil {
			return back
		}
	}
	if mtu != h.mtu {
		if back := links.SetMTU(d.Name, h.mtu); back != nil {
			return back
		}
	}
	return err
}

// vfLink is the link to a VF's host TAP.
type vfLink struct{ ports node.Ports }

// Room implements frame.Link.
func (l vfLink) Room() int { return l.ports.Room() }

// Transmit writes f (taken) to the queue that it names.
func (l vfLink) Transmit(f *frame.Frame) { l.ports[int(f.Queue)%len(l.ports)].Transmit(f) }

// owns tells whether a station is a VF's or one of FCoE.
func (n *Node) owns(a ether.Addr) bool {
	return n.Device.IP.Listens(a) || n.vfs != nil && n.vfs.bridge.Owns(a)
}

// endVFs ends the VFs with their NIC.
func (n *Node) endVFs() {
	if n.vfs != nil {
		_ = n.SetNumVFs(0) // nothing keeps them
	}
}
