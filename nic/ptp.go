package nic

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	unit "tapir/nic/ptp"
	"tapir/ptp"
	"tapir/ptp/mgmt"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// PTPConfig describes the PTP instance of a NIC's wire port.
type PTPConfig struct {
	ptp.Config
	Transport transport.Kind
	Local     bool  // everything goes to the group that bridges do not forward
	DSCP      uint8 // of IP packets
	// SetFromWire lets management messages of the network change settings.
	SetFromWire bool
}

// DefaultPTP is a profile's configuration for the NIC: one port, over
// Ethernet. The NIC's clock shows the system's time, UTC, unless somebody sets
// it, so that the timescale is not PTP's.
func (d *Device) DefaultPTP(p ptp.Profile) PTPConfig {
	c := PTPConfig{Config: ptp.NewConfig(p, msg.IdentityOf(d.cfg.MAC), 1)}
	c.Time.PTPTimescale, c.Time.UTCOffset = false, 0
	c.Seed = d.cfg.seed()
	switch p {
	case ptp.GPTP, ptp.Automotive:
		c.Local = true
	case ptp.G8275x2:
		c.Transport = transport.UDPv4
	}
	return c
}

// What the instance's messages can suffer.
var (
	errStampMissed = errors.New("the observer of the wire has missed the message")
	// ErrPTPRuns is returned for a second instance.
	ErrPTPRuns = errors.New("a PTP instance runs already")
)

// instance is the PTP instance of the wire port.
type instance struct {
	*ptp.Instance
	d      *Device
	lock   *unit.Unit // holds the port's PTP unit
	port   transport.Port
	groups [2]transport.Addr
	events uint64 // messages whose stamp was asked for
	server *mgmt.Server
}

// StartPTP runs a PTP instance on the wire port, which steers the NIC's clock
// or gives its time. It takes the port's PTP unit; ErrBusy of package nic/ptp
// says that the host function has it.
func (d *Device) StartPTP(c PTPConfig, now frame.Time) (*ptp.Instance, error) {
	if d.instance != nil {
		return nil, ErrPTPRuns
	}
	d.now = now
	i := &instance{d: d, lock: unit.New(&d.stamping.port, ptpEngine, d.stamping.phc)}
	i.port = transport.Port{Kind: c.Transport, MAC: d.cfg.MAC, IP: d.ptpSource(c.Transport), Local: c.Local, DSCP: c.DSCP,
		Tag: d.header.Tags[0], Tagged: d.header.NTags > 0}
	i.groups = i.port.Groups()
	if err := i.port.Validate(); err != nil {
		return nil, fmt.Errorf("PTP over %v: %w", c.Transport, err)
	}
	var err error
	if i.Instance, err = ptp.New(c.Config, d.stamping.phc, i); err != nil {
		return nil, err
	}
	i.manage(c)
	if err := i.lock.Enable(now); err != nil {
		return nil, err
	}
	d.instance = i
	if err := d.look(); err != nil {
		d.StopPTP()
		return nil, err
	}
	d.setGroups()
	return i.Instance, nil
}

// manage lets the instance answer management messages.
func (i *instance) manage(c PTPConfig) {
	port := mgmt.PortInfo{Interface: cmp.Or(i.d.cfg.Iface, i.d.cfg.Name), MAC: i.d.cfg.MAC, Timestamping: msg.TimestampingHardware, PHCIndex: -1}
	if i.port.Kind != transport.Ethernet {
		port.Address = transport.Addr{IP: i.port.IP}
	}
	if !c.TwoStep {
		port.Timestamping = msg.TimestampingOneStep
	}
	i.server = mgmt.New(mgmt.Config{
		Ports: []mgmt.PortInfo{port}, SetFromWire: c.SetFromWire,
		Product: "Tapir;NIC;" + i.d.cfg.Name, Revision: ";;", Profile: c.Profile.Identity(),
	}, i.Instance)
	i.Manage(i.server)
	i.Observe(i.server)
}

// PTPManager is the management server of the PTP instance, nil if none runs.
func (d *Device) PTPManager() *mgmt.Server {
	if d.instance == nil {
		return nil
	}
	return d.instance.server
}

// ptpSource is the address that messages come from: the NIC's first of the
// transport's family.
func (d *Device) ptpSource(k transport.Kind) netip.Addr {
	for _, p := range d.addrs {
		if k == transport.UDPv4 && p.Addr().Is4() || k == transport.UDPv6 && p.Addr().Is6() {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

// StopPTP ends the PTP instance, if there is one. The clock keeps its
// frequency.
func (d *Device) StopPTP() {
	if d.instance == nil {
		return
	}
	d.instance.lock.Disable()
	d.instance = nil
	d.setGroups()
	_ = d.look() // to end an observation does not fail
}

// PTP is the PTP instance of the wire port, nil if none runs.
func (d *Device) PTP() *ptp.Instance {
	if d.instance == nil {
		return nil
	}
	return d.instance.Instance
}

// PTPPort tells how the instance's port carries messages; nil without one.
func (d *Device) PTPPort() *transport.Port {
	if d.instance == nil {
		return nil
	}
	return &d.instance.port
}

// ptpGroup tells whether a is a group of the instance's.
func (d *Device) ptpGroup(a netip.Addr) bool {
	return d.instance != nil && (d.instance.groups[0].IP == a || d.instance.groups[1].IP == a)
}

// ptpIn takes the frame in hand, which has passed the station filter, if it is
// a message to the instance.
func (d *Device) ptpIn() (verdict, bool) {
	i := d.instance
	if i == nil {
		return 0, false
	}
	p, err := transport.Decapsulate(d.in.f.Bytes())
	if err != nil && (d.in.off.NeedsCsum || d.in.off.DataValid) {
		var ok bool
		if p, ok = transport.Find(d.in.f.Bytes()); ok {
			err = nil
		}
	}
	switch {
	case errors.Is(err, transport.ErrChecksum):
		return d.drop(drop.L4Checksum), true
	case err != nil || p.Kind != i.port.Kind:
		return 0, false
	}
	meta := ptp.Meta{Src: p.Src, Now: d.now}
	if at := d.passedAt(d.in.f); p.Event && at != frame.Never {
		meta.Stamp, meta.Stamped, meta.Seen = d.stamping.phc.At(at), true, at
		if d.notes.On {
			d.noteStamp("rx", meta.Stamp)
		}
	}
	i.Receive(0, p.Body, meta)
	return consumed, true
}

// Send implements ptp.Lower.
func (i *instance) Send(_ int, m ptp.Outgoing) {
	d := i.d
	f := d.get(i.port.Len(m.Body))
	if f == nil {
		return // the instance notices that no stamp comes
	}
	b := i.port.Append(f.Extend(i.port.Len(m.Body))[:0], m.Body, m.Dst, ether.Addr{})
	o := outgoing{f: f, message: m.ID}
	if m.OneStep {
		o.oneStep, o.since = true, m.Since
	}
	if m.Dst.IP.IsValid() && !m.Dst.IP.IsMulticast() {
		f.TrimFront(len(b) - i.ipLen(m.Body)) // the way to a neighbor begins with the IP packet
		d.output(o, m.Dst.IP)
		return
	}
	d.send(&d.wire, o)
}

// ipLen is the length of the IP packet that carries body.
func (i *instance) ipLen(body []byte) int {
	n := i.port.Len(body) - ether.HeaderLen
	if i.port.Tagged {
		n -= ether.TagLen
	}
	return n
}

// oneStep writes the stamp of a one-step message into it while it leaves. It
// is the time at which the NIC hands it to its link: the observer comes too
// late for it.
func (d *Device) oneStep(o *outgoing) {
	at := d.now
	if d.clock != nil {
		at = d.clock()
	}
	transport.OneStep(o.f.Bytes(), d.stamping.phc.At(at), o.since)
}

// sent reports the stamp of a message of the instance's, as the NIC's faults
// allow.
func (i *instance) sent(id uint64, at frame.Time) {
	d := i.d
	i.events++
	fault := d.stamping.host.Faults.Of(i.events)
	if fault != (unit.Fault{}) {
		d.stamping.faults++
	}
	if fault.Lose {
		return
	}
	report := func(now frame.Time) {
		if d.instance != i {
			return
		}
		if at == frame.Never {
			i.TxStamp(0, id, 0, errStampMissed, now)
			return
		}
		i.TxStamp(0, id, d.stamping.phc.At(at), nil, now)
	}
	if fault.Delay > 0 {
		d.Schedule(d.now.Add(fault.Delay), report)
		return
	}
	report(d.now)
	if fault.Duplicate {
		report(d.now)
	}
}
