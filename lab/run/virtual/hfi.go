package virtual

import (
	"fmt"
	"slices"

	"tapir/lab/node/emnode"
	"tapir/lab/node/hfinode"
	"tapir/lab/run/result"
	"tapir/lab/run/virtual/station"
	"tapir/lab/topo"
	"tapir/opa/em"
	"tapir/opa/mad"
	"tapir/vnic"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// hfi is the engine of an HFI, with the operating system's side of its VNICs,
// or that of an Ethernet Manager.
type hfi struct {
	*hfinode.HFI
	node  *node
	mgr   *em.Manager // nil without
	host  *station.Host
	vnics map[*vnic.Netdev]*vnicIface
	news  bool // something has happened to vports
}

// buildHFI makes an HFI or manager.
func (n *node) buildHFI() (err error) {
	h := &hfi{node: n, host: station.New(n.lab.world.Pool), vnics: map[*vnic.Netdev]*vnicIface{}}
	cfg := n.HFI
	var agents []mad.Agent
	if n.Kind == topo.Manager {
		cfg = n.EM.Port
		if h.mgr, err = emnode.NewManager(n.EM, h.note); err != nil {
			return err
		}
		agents = append(agents, h.mgr)
	}
	cfg.Name = n.Name
	if h.HFI, err = hfinode.NewHFI(cfg, hfinode.Env{Pool: n.lab.world.Pool, Wire: n.ends[0], Clock: n.lab.world},
		agents...); err != nil {
		return err
	}
	h.VPorts().Observe(h)
	h.news = true
	n.hfi, n.host, n.engine = h, h.host, h
	return nil
}

func (h *hfi) ready() string {
	if h.mgr != nil {
		return h.node.EM.Ready("-")
	}
	return h.Ready()
}

// note logs what a manager does.
func (h *hfi) note(e em.Event) { h.node.lab.log.Printf("%s | %s", h.node.Name, e.Text) }

// VPortEvent implements vnic.Observer.
func (h *hfi) VPortEvent(*vnic.Netdev, vnic.Event) { h.news = true }

// Receive takes the frames of the fabric.
func (h *hfi) Receive(_ frame.Port, frames []*frame.Frame, now frame.Time) {
	h.ReceiveFabric(frames, now)
}

// Dispatch brings the vports and the interfaces of the host together. True asks
// for Poll once more.
func (h *hfi) Dispatch(frame.Time) bool {
	if !h.news {
		return false
	}
	h.news = false
	all := h.VPorts().Netdevs()
	for d, v := range h.vnics {
		if !slices.Contains(all, d) {
			h.host.Remove(v.Iface)
			delete(h.vnics, d)
		}
	}
	for _, d := range all {
		if v := h.vnics[d]; v != nil {
			v.MAC, v.MTU = d.MAC(), d.MTU()
		} else if d.Config().VESWID != 0 {
			h.add(d)
		}
	}
	return true
}

// Poll lets the HFI and the host behind it send.
func (h *hfi) Poll(now frame.Time) frame.Time {
	next := min(h.HFI.Poll(now), h.host.Poll(now))
	h.node.again = h.node.again || h.news
	return next
}

// vnicIface is a VNIC as an interface of the host.
type vnicIface struct {
	*station.Iface
	hfi *hfi
	dev *vnic.Netdev
}

// add gives the host the interface of a vport and sets it up.
func (h *hfi) add(d *vnic.Netdev) {
	c := h.Config().VNIC(d.Config().VESWID)
	mac := d.MAC()
	if mac.IsZero() {
		mac = h.node.macOf(int(d.Config().VESWID))
	}
	v := &vnicIface{hfi: h, dev: d}
	v.Iface = h.host.Add(station.Config{MAC: mac, Addrs: c.IP, MTU: d.MTU()}, v)
	h.vnics[d] = v
	d.SetPolicy(c.Policy)
	d.SetHost(hostSide{v})
	_ = d.SetMAC(mac) // of one station
	d.SetRxMode(nil, v.Groups())
	d.Open()
}

// Room and Transmit make the VNIC the link of the host's interface.
func (v *vnicIface) Room() int { return 1 }

// Transmit takes a frame of the host.
func (v *vnicIface) Transmit(f *frame.Frame) {
	v.hfi.FromHost(v.dev, []*frame.Frame{f}, v.hfi.node.lab.world.Now())
	v.hfi.node.again = true
}

// hostSide is the same wire in the other direction: the vport's link to the
// host.
type hostSide struct{ v *vnicIface }

func (s hostSide) Room() int { return 1 }

func (s hostSide) Transmit(f *frame.Frame) {
	s.v.Receive([]*frame.Frame{f}, s.v.hfi.node.lab.world.Now())
}

// macOf is the MAC address of an interface that nobody has given one.
func (n *node) macOf(number int) ether.Addr {
	i := slices.Index(n.lab.nodes, n)
	return ether.Addr{0x02, byte(number >> 8), byte(number), byte(i >> 16), byte((i + 1) >> 8), byte(i + 1)}
}

// counters are those of the HFI, and of the manager.
func (h *hfi) counters() []hfinode.Counter {
	if h.mgr != nil {
		return emnode.ManagerCounters(h.mgr)
	}
	return h.Counters()
}

// vportCounters are those of the vport in a vESW.
func (h *hfi) vportCounters(vesw uint16) (list []result.Counter, err error) {
	d := h.VPorts().VESW(vesw)
	if d == nil {
		return nil, fmt.Errorf("%s has no vport in vESW %d", h.node.Name, vesw)
	}
	for _, c := range new(d.Stats()).Counters() {
		list = append(list, result.Counter(c))
	}
	return list, nil
}
