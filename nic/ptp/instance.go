package ptp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	"tapir/nic/ip"
	"tapir/nic/port"
	"tapir/ptp"
	"tapir/ptp/mgmt"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	ipproto "tapir/wire/ip"
)

// InstanceConfig describes the PTP instance of a NIC's wire port.
type InstanceConfig struct {
	ptp.Config
	Transport transport.Kind
	Local     bool  // everything goes to the group that bridges do not forward
	DSCP      uint8 // of IP packets
	// SetFromWire lets management messages of the network change settings.
	SetFromWire bool
}

// DefaultInstance is a profile's configuration for the NIC: one port, over
// Ethernet. The NIC's clock shows the system's time, UTC, unless somebody sets
// it, so that the timescale is not PTP's.
func (s *Service) DefaultInstance(p ptp.Profile) InstanceConfig {
	c := InstanceConfig{Config: ptp.NewConfig(p, msg.IdentityOf(s.mac()), 1)}
	c.Time.PTPTimescale, c.Time.UTCOffset = false, 0
	c.Seed = s.env.Seed
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

// Instance is the PTP instance of the wire port.
type Instance struct {
	*ptp.Instance
	s      *Service
	lock   *Unit // holds the port's PTP unit
	port   transport.Port
	groups [2]transport.Addr
	events uint64 // messages whose stamp was asked for
	server *mgmt.Server
}

// Start runs a PTP instance on the wire port, which steers the NIC's clock
// or gives its time. It takes the port's PTP unit; ErrBusy of package nic/ptp
// says that the host function has it.
func (s *Service) Start(c InstanceConfig, now frame.Time) (*ptp.Instance, error) {
	if s.instance != nil {
		return nil, ErrPTPRuns
	}
	if s.env.IP == nil && c.Transport != transport.Ethernet {
		return nil, fmt.Errorf("PTP over %v: the port has no IP address: use transport L2", c.Transport)
	}
	i := &Instance{s: s, lock: New(&s.port, ptpEngine, s.PHC())}
	i.port = transport.Port{Kind: c.Transport, MAC: s.mac(), IP: s.source(c.Transport), Local: c.Local, DSCP: c.DSCP}
	if s.env.IP != nil {
		tag := s.env.IP.Header()
		i.port.Tag, i.port.Tagged = tag.Tags[0], tag.NTags > 0
	}
	i.groups = i.port.Groups()
	if err := i.port.Validate(); err != nil {
		return nil, fmt.Errorf("PTP over %v: %w", c.Transport, err)
	}
	var err error
	if i.Instance, err = ptp.New(c.Config, s.PHC(), i); err != nil {
		return nil, err
	}
	i.manage(c)
	if err := i.lock.Enable(now); err != nil {
		return nil, err
	}
	s.instance = i
	if err := s.observe(); err != nil {
		s.Stop()
		return nil, err
	}
	if s.env.IP != nil {
		s.env.IP.Listen(s, i.listens()...)
		s.env.IP.RegisterEtherType(ether.TypePTP, s)
		s.env.IP.Register(ipproto.ProtoUDP, s)
	}
	return i.Instance, nil
}

// manage lets the instance answer management messages.
func (i *Instance) manage(c InstanceConfig) {
	port := mgmt.PortInfo{Interface: cmp.Or(i.s.env.Name, i.s.env.Product), MAC: i.port.MAC,
		Timestamping: msg.TimestampingHardware, PHCIndex: -1}
	if i.port.Kind != transport.Ethernet {
		port.Address = transport.Addr{IP: i.port.IP}
	}
	if !c.TwoStep {
		port.Timestamping = msg.TimestampingOneStep
	}
	i.server = mgmt.New(mgmt.Config{
		Ports: []mgmt.PortInfo{port}, SetFromWire: c.SetFromWire,
		Product: "Tapir;NIC;" + i.s.env.Product, Revision: ";;", Profile: c.Profile.Identity(),
	}, i.Instance)
	i.Manage(i.server)
	i.Observe(i.server)
}

// Manager is the management server of the PTP instance, nil if none runs.
func (s *Service) Manager() *mgmt.Server {
	if s.instance == nil {
		return nil
	}
	return s.instance.server
}

// source is the address that messages come from: the NIC's first of the
// transport's family.
func (s *Service) source(k transport.Kind) netip.Addr {
	if s.env.IP == nil {
		return netip.Addr{}
	}
	for _, p := range s.env.IP.Addrs() {
		if k == transport.UDPv4 && p.Addr().Is4() || k == transport.UDPv6 && p.Addr().Is6() {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

// mac is the station that messages of the port's own come from.
func (s *Service) mac() ether.Addr {
	if s.env.IP == nil {
		return s.env.Station()
	}
	return s.env.IP.MAC
}

// Stop ends the PTP instance, if there is one. The clock keeps its
// frequency.
func (s *Service) Stop() {
	if s.instance == nil {
		return
	}
	s.instance.lock.Disable()
	s.instance = nil
	if s.env.IP != nil {
		s.env.IP.Listen(s)
		s.env.IP.Unregister(s)
	}
	_ = s.observe() // to end an observation does not fail
}

// Instance is the PTP instance of the wire port, nil if none runs.
func (s *Service) Instance() *ptp.Instance {
	if s.instance == nil {
		return nil
	}
	return s.instance.Instance
}

// SetMAC changes the station that the instance's messages come from.
func (s *Service) SetMAC(a ether.Addr) {
	if s.instance != nil {
		s.instance.port.MAC = a
	}
}

// Port tells how the instance's port carries messages; nil without one.
func (s *Service) Port() *transport.Port {
	if s.instance == nil {
		return nil
	}
	return &s.instance.port
}

// listens are the groups of the instance's messages.
func (i *Instance) listens() []ip.Group {
	return []ip.Group{{IP: i.groups[0].IP, MAC: i.groups[0].GroupMAC()},
		{IP: i.groups[1].IP, MAC: i.groups[1].GroupMAC()}}
}

// Receive implements ip.Handler: it takes the frame in hand, which has passed
// the station filter, if it is a message to the instance.
func (s *Service) Receive(p *ip.Packet) ip.Verdict {
	switch taken, r := s.Take(p.Frame, p.Off.NeedsCsum || p.Off.DataValid, p.Now); {
	case r != frame.DropNone:
		return p.Discard(r)
	case taken:
		return ip.Consumed
	}
	return ip.Unmatched
}

// Take hands the instance a frame (borrowed) of the wire, if it is a message to
// it, or says why the frame is to be dropped. unchecked: a wrong checksum of UDP
// does not count.
func (s *Service) Take(f *frame.Frame, unchecked bool, now frame.Time) (taken bool, r frame.DropReason) {
	i := s.instance
	if i == nil {
		return false, frame.DropNone
	}
	b := f.Bytes()
	m, err := transport.Decapsulate(b)
	if err != nil && unchecked {
		var ok bool
		if m, ok = transport.Find(b); ok {
			err = nil
		}
	}
	switch {
	case errors.Is(err, transport.ErrChecksum):
		return false, drop.L4Checksum
	case err != nil || m.Kind != i.port.Kind:
		return false, frame.DropNone
	}
	meta := ptp.Meta{Src: m.Src, Now: now}
	if at := port.PassedAt(f, now); m.Event && at != frame.Never {
		meta.Stamp, meta.Stamped, meta.Seen = s.PHC().At(at), true, at
		s.note(meta.Stamp)
	}
	i.Instance.Receive(0, m.Body, meta)
	return true, frame.DropNone
}

// Send implements ptp.Lower.
func (i *Instance) Send(_ int, m ptp.Outgoing) {
	s := i.s
	f := s.env.Pool.Get(i.port.Len(m.Body))
	if f == nil { // the instance notices that no stamp comes
		s.env.Wire.Drops.Count(drop.NoBuffer)
		return
	}
	b := i.port.Append(f.Extend(i.port.Len(m.Body))[:0], m.Body, m.Dst, ether.Addr{})
	o := port.Out{Frame: f, Message: m.ID}
	if m.OneStep {
		o.OneStep, o.Since = true, m.Since
	}
	if m.Dst.IP.IsValid() && !m.Dst.IP.IsMulticast() {
		f.TrimFront(len(b) - i.ipLen(m.Body)) // the way to a neighbor begins with the IP packet
		s.env.IP.Output(o, m.Dst.IP, m.Now)
		return
	}
	s.env.Wire.Send(o, m.Now)
}

// ipLen is the length of the IP packet that carries body.
func (i *Instance) ipLen(body []byte) int {
	n := i.port.Len(body) - ether.HeaderLen
	if i.port.Tagged {
		n -= ether.TagLen
	}
	return n
}

// sent reports the stamp of a message of the instance's, as the faults allow.
func (i *Instance) sent(id uint64, at, now frame.Time) {
	s := i.s
	i.events++
	fault := s.host.Faults.Of(i.events)
	if fault != (Fault{}) {
		s.faults++
	}
	if fault.Lose {
		return
	}
	report := func(now frame.Time) {
		if s.instance != i {
			return
		}
		if at == frame.Never {
			i.TxStamp(0, id, 0, errStampMissed, now)
			return
		}
		i.TxStamp(0, id, s.PHC().At(at), nil, now)
	}
	if fault.Delay > 0 {
		s.env.Schedule(now.Add(fault.Delay), report)
		return
	}
	report(now)
	if fault.Duplicate {
		report(now)
	}
}
