package fastlinq

import (
	"cmp"
	"errors"
	"fmt"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/iov"
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/fastlinq/status"
	"tapir/nic/fastlinq/vf"
	"tapir/nic/msglog"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// MaxVFs is how many virtual functions a PF has at most.
const MaxVFs = 120

// VF is a virtual function, VFNetdev its interface in an operating system, VFHostPort the
// first port of the host TAPs of VFs.
type (
	VF       = vf.VF
	VFRow    = vf.Row
	VFNetdev = vf.Netdev
	// VFBridge joins a PF with its VFs and the port: it is the link of the PF's NIC, and
	// drives it and them.
	VFBridge = vf.Bridge
	// VFEngine is the NIC of the PF.
	VFEngine = vf.PF
	// IOV is the PF's side of SR-IOV, IOVInfo its capability, VFInfo what it knows of a VF.
	IOV     = iov.PF
	IOVInfo = iov.Info
	VFInfo  = iov.VFInfo
)

// VFHostPort is the port by which the host TAP of VF 0 sends; those of others follow.
const VFHostPort = vf.HostPort

// NewVFBridge returns a bridge on the link of a port.
func NewVFBridge(pool frame.Pool, link frame.Link) *VFBridge { return vf.New(pool, link) }

// SRIOV is the capability of a PF to have VFs.
type SRIOV struct {
	Total  int  // VFs
	Queues int  // pairs of each VF if there are so many
	VEPA   bool // frames between VFs take the way by the switch at the port
	// Storm limits frames to groups and to all: of each VF, of the PF and of the port.
	Storm     frame.Rate
	HWChannel bool // messages of VFs come by the event queue, not by a call
	UniqueMAC bool // a VF's driver may not use the address of another function
	Tunnels   bool // a VF's driver may change the tunnels that the device knows
	Changed   func(vf int)
}

// sriov are the VFs of a function.
type sriov struct {
	d      *Device
	bridge *vf.Bridge // nil: there can be none
	total  int
	// messages are those of VFs that came by the event queue.
	messages uint64
}

// OpenVFs lets the PF, which is on the bridge, have VFs. An error: more than its share of
// the engine.
func (v *sriov) OpenVFs(b *VFBridge, e VFEngine, c SRIOV) error {
	d := v.d
	a := &d.adapter.cfg
	switch most := min(MaxVFs, a.share(d.fn, ecore.VPort)-1, a.share(d.fn, ecore.RSSEng)-1); {
	case c.Total < 0 || c.Total > most:
		return fmt.Errorf("sriov: totalvfs %d: the function's share of its engine is %d", c.Total, most)
	case c.Total*c.Queues > a.share(d.fn, ecore.L2Queue)-d.queuePairs():
		return fmt.Errorf("sriov: %d VFs with %d queues: the function's share of its engine is %d beside its own %d",
			c.Total, c.Queues, a.share(d.fn, ecore.L2Queue)-d.queuePairs(), d.queuePairs())
	}
	info := iov.Info{Total: c.Total, Offset: vfOffset, Stride: 1, DeviceID: vfDevice}
	d.adapter.neighbours(d, func(o *Device) {
		if o.path == d.path && o.pf < d.pf {
			info.First += o.sriov.total
		}
	})
	v.total, v.bridge = c.Total, b
	e.Wants, e.Link = v.wants, v.link
	b.Enter(e)
	f := fw.Wanted
	of := vf.Config{
		L2: l2.Config{Pool: d.pool, Engines: 1, PF: d.sched.Child(true), Superframes: d.cfg.Superframes,
			Share: l2.Share{Vports: 1 + c.Total, Queues: 1 + c.Total*c.Queues, MACs: 2 * c.Total, VLANs: 4 * c.Total,
				RSSEngines: 1 + c.Total}},
		Info: info, Queues: c.Queues, MTU: d.cfg.MTU, VEPA: c.VEPA, Storm: c.Storm, Changed: c.Changed,
		Device: iov.Device{ChipNum: chipNum, DevType: 1, CMT: d.cfg.Engines > 1, PortMAC: d.cfg.MAC,
			FWMajor: uint16(f >> 24), FWMinor: uint16(f >> 16 & 0xff), FWRevision: uint16(f >> 8 & 0xff),
			FWEngineer: uint16(f & 0xff)},
		Least:   func() int { return int(d.management.mcp.LinkState().LineSpeed) },
		MAC:     v.mac,
		Tunnels: func() l2.TunnelParams { return d.cfg.Netdev().Tunnel },
		Log: func(format string, args ...any) {
			d.log.Say(msglog.Notice, msglog.IOV, "[%s] "+format, append([]any{d.cfg.Name}, args...)...)
		},
	}
	if c.HWChannel {
		of.Trigger, of.Work = v.trigger, func() { d.contexts.work(d.now()) }
	}
	if c.Tunnels {
		of.SetTunnels = v.setTunnels
	}
	if c.UniqueMAC {
		of.Taken = v.taken
	}
	return b.Open(of)
}

// start and stop are the PF's driver as VFs see it.
func (v *sriov) start() error {
	v.bridge.Up(v.d.now())
	return v.d.core.dev.Lead().RegisterAsync(cxt.Common, v.heard)
}

func (v *sriov) stop() {
	v.d.core.dev.Lead().UnregisterAsync(cxt.Common)
	v.bridge.Down()
}

// trigger is the hardware's channel: the firmware tells the PF that a VF has written a
// message. NODEV: there is no driver.
func (v *sriov) trigger(vf int) error {
	d := v.d
	if !d.core.open {
		return status.NoDev.Errorf("VF %d: the PF's driver does not run", vf)
	}
	id := v.bridge.IOV().AbsoluteID(vf)
	d.nic.Schedule(d.now(), d.Manage)
	return d.core.chip.Engines[0].Async(d.pf, spq.Event{Protocol: cxt.Common, Opcode: ecore.EventVFPFChannel,
		VF: uint8(id), Echo: uint16(id)})
}

// heard takes an event of protocol COMMON out of the event queue.
func (v *sriov) heard(e spq.Event, _ frame.Time) error {
	if e.Opcode != ecore.EventVFPFChannel || v.bridge == nil {
		return status.NoEnt.Errorf("event %d of COMMON", e.Opcode)
	}
	v.messages++
	v.bridge.Message()
	return nil
}

// counters are those of VFs, none without SR-IOV.
func (v *sriov) counters() []view.Counter {
	if v.bridge == nil {
		return nil
	}
	return v.bridge.Counters()
}

// rows are the events of VFs that there were.
func (v *sriov) rows() []view.DeviceRow {
	if v.messages == 0 {
		return nil
	}
	return []view.DeviceRow{countRow("async_event", "COMMON VF_PF_CHANNEL", v.messages)}
}

// taken tells whether the PF, or another PF of the device or a VF of that, has an address.
func (v *sriov) taken(a ether.Addr) (is bool) {
	v.d.adapter.neighbours(v.d, func(o *Device) { is = is || o.cfg.MAC == a || o.bridge != nil && o.bridge.Owns(a) })
	return is || v.station(a)
}

// setTunnels changes the tunnels that the device knows, as a VF asks for. INVAL: there are
// no such settings of a NIC.
func (v *sriov) setTunnels(p l2.TunnelParams) error {
	d, to := v.d, *v.d.cfg.Config
	e := &to.Ethernet
	if !p.Enable[l2.VXLAN] {
		p.VXLANPort, p.Class[l2.VXLAN] = 0, l2.ClassMACVLAN
	}
	if !p.Enable[l2.L2Geneve] {
		p.GenevePort, p.Class[l2.L2Geneve] = 0, l2.ClassMACVLAN
	}
	e.VXLANPort, e.GenevePort = p.VXLANPort, p.GenevePort
	e.InnerClass = p.Class[l2.VXLAN] == l2.ClassInnerMACVLAN || p.Class[l2.L2Geneve] == l2.ClassInnerMACVLAN
	cfg := settings.NIC{Shape: d.cfg.Shape, Config: &to}
	got := cfg.Netdev().Tunnel
	for t, on := range got.Enable {
		if on != p.Enable[t] || on && got.Class[t] != p.Class[t] {
			return status.Inval.Errorf("%v tunnels: the device has VXLAN and Geneve, with one class", l2.TunnelType(t))
		}
	}
	if err := cmp.Or(got.Check(), d.checkNetdev(&cfg)); err != nil {
		return err
	}
	d.cfg.Config.Ethernet = to.Ethernet
	return errors.Join(d.setNetdev(&d.cfg), v.bridge.TunnelsChanged())
}

// What a VF is on the bus, and the chip.
const (
	vfOffset = 16
	vfDevice = 0x8090
	chipNum  = 0x8070
)

// Bridge is the bridge of the PF's VFs, nil without SR-IOV.
func (v *sriov) Bridge() *VFBridge { return v.bridge }

// wants tells whether a frame is for the PF's station, or one of its host function.
func (v *sriov) wants(f *frame.Frame) bool {
	b := f.Bytes()
	return len(b) >= ether.HeaderLen && v.station(ether.Addr(b[:6]))
}

// station tells whether an address is the PF's.
func (v *sriov) station(a ether.Addr) bool {
	return a == v.d.cfg.MAC || v.d.function != nil && v.d.function.Function().HasStation(a)
}

// mac is the address of a VF's driver unless the PF sets one: locally administered.
func (v *sriov) mac(vf int) ether.Addr {
	a := v.d.cfg.MAC
	a[0] = a[0]&^1 | 2
	a[1] ^= 0x5f
	a[2] += byte(vf + 1)
	return a
}

// link is the link of the port as VFs are told of it.
func (v *sriov) link() iov.Link {
	m := v.d.management.mcp
	s, p := m.LinkState(), m.LinkParams()
	return iov.Link{Up: s.LinkUp && v.d.nic.Active(), Speed: int(s.LineSpeed),
		PartnerSpeeds: uint32(s.PartnerAdvSpeed), Capability: uint32(m.Caps().SpeedCaps),
		Params: tlv.LinkParams{Autoneg: tlv.Bit(p.Autoneg), AutonegPause: tlv.Bit(p.PauseAutoneg),
			ForcedRx: tlv.Bit(p.ForcedRx), ForcedTx: tlv.Bit(p.ForcedTx), AdvSpeeds: uint32(p.AdvertisedSpeeds),
			ForcedSpeed: p.ForcedSpeed, Loopback: uint32(p.Loopback)},
		State: tlv.LinkState{FullDuplex: tlv.Bit(s.FullDuplex), Autoneg: tlv.Bit(s.AN),
			AutonegDone: tlv.Bit(s.ANComplete), ParallelDetection: tlv.Bit(s.ParallelDetection),
			PFC: tlv.Bit(s.PFCEnabled), PartnerTxPause: tlv.Bit(s.TxFlowControl),
			PartnerRxPause: tlv.Bit(s.RxFlowControl), PartnerPause: s.PartnerAdvPause,
			SFPTxFault: tlv.Bit(s.SFPTxFault)}}
}

// VFSet is what an administrator changes of a VF.
type VFSet = vf.Set

// VFErrno is the name of Linux's number of an error about VFs, empty if it has none.
func VFErrno(err error) string { return vf.Errno(err) }

// ShowVF describes the VFs, none without SR-IOV.
func (v *sriov) ShowVF() []VFRow {
	if v.bridge == nil {
		return []VFRow{}
	}
	return v.bridge.Show()
}

// ParseVFSet reads the words of `ip link set PF vf N`.
func ParseVFSet(words []string) (VFSet, error) { return vf.ParseSet(words) }
