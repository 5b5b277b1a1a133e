package nic

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"

	"tapir/nic/hardware"
	"tapir/nic/ip"
	"tapir/nic/iwarp"
	"tapir/nic/msglog"
	"tapir/nic/param"
	"tapir/nic/port"
	"tapir/nic/secret"
	"tapir/nic/settings"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// MaxQueues is the share of a function in the device's queues, each way.
const MaxQueues = hardware.MaxQueues

// gsoSegs is the number of segments in a super-frame: 64 KiB of 1460.
const gsoSegs = 44

// RDMA, PHC and PTP are parts of the configuration.
type (
	RDMA = settings.RDMA
	PHC  = settings.PHC
	PTP  = settings.PTP
	// Reserver keeps TCP ports of the operating system free for the engine.
	Reserver = settings.Reserver
	// FrameMode says what frames a NIC exchanges with its TAP.
	FrameMode = settings.FrameMode
)

// The modes.
const (
	Wire  = settings.Wire
	GSO   = settings.GSO
	Jumbo = settings.Jumbo
)

// LoopbackIface is the loopback interface, on which a NIC reaches itself alone and may have
// addresses of the loopback network.
const LoopbackIface = "lo"

// Config describes a NIC. The zero value of every field but Name and Hardware
// means its default.
type Config struct {
	Name     string
	MAC      ether.Addr     // zero: derived from Name and Seed, locally administered
	Addrs    []netip.Prefix // each with the prefix length of its link
	Gateways []netip.Addr   // next hops off the link, the first of each family counts
	// HostAddrs says that Addrs are those of the operating system's interface:
	// there may be none yet, and no link-local one is derived from the MAC.
	HostAddrs bool
	Queues    int       // receive and transmit queues of the host function; default 1
	MTU       int       // of IP, in octets; 1500, or 9000 with Jumbo
	VLAN      uint16    // 802.1Q id of the frames of Addrs; 0: untagged
	VLANs     []ip.VLAN // interfaces on further VLANs, with addresses of their own; RoCE alone serves them
	Frames    FrameMode
	// Secret is behind STags, sequence numbers and all else that others must not
	// guess. Zero: it follows from Seed and Name, as tests and virtual time want it.
	Secret secret.Secret
	Seed   uint64 // of the MAC address and of the clock's noise
	RDMA   RDMA   // of its limits, MaxIRD and MaxORD are 32 by default
	IWARP  iwarp.Config
	// TCP sets up the offload engine. The NIC itself decides on its Seed, MTU
	// and MaxSegs, and with a Reserver on the ports and Reserve.
	TCP toe.Config
	// NoLoopback refuses RDMA connections to the NIC's own addresses.
	NoLoopback bool
	// Msglvl says what Device.Log is told about: topics, or a level alone.
	Msglvl msglog.Msglvl
	// Iface is the name of the interface that the wire is: LoopbackIface for none. If IfaceList is not
	// empty and does not hold it, the NIC offers no RDMA.
	Iface     string
	IfaceList []string
	// PHC is the hardware clock, PTP the faults of its stamps.
	PHC PHC
	PTP PTP
	DCB settings.DCB // traffic classes and PFC of the wire
	// Hardware is the configuration of the device that the NIC is made of. It
	// must be given.
	Hardware hardware.Config
}

// Env is the world that a NIC lives in.
type Env struct {
	Pool frame.Pool
	Wire frame.Link
	// Host is the operating system's side; nil if the NIC owns its addresses
	// alone. With it, Reserver must be set.
	Host     frame.Link
	Clock    frame.Clock // the system's, which the hardware clock starts from; nil: the engine's time
	Reserver Reserver
	// Second is the world of the second engine if it has a thread of its own; nil:
	// the NIC drives it. Then Host has its queues, too, those with odd numbers.
	Second *hardware.Second
	// Device is a device with several functions, of which the NIC is one; nil: the
	// NIC opens a device of its own. Port is the one that its wire belongs to.
	Device         hardware.Device
	Function, Port int
	// Line is the transmitter of a port that functions share; nil: the NIC's own.
	Line *port.Line
	// Tagged is told the outer VLAN tag that the port puts on all frames of the
	// function, TPID 0: none, and whether a frame's own VLAN tag decides on its
	// priority; nil: the port puts none.
	Tagged func(t ether.Tag, inner bool)
	// Observe starts and ends the observation of the wire for PTP event
	// messages, whose frames then tell when they were seen; nil: nothing to
	// observe, as in virtual time.
	Observe func(on bool) error
	// Now is the time within a call, for one-step messages of PTP; nil: time
	// stands still meanwhile, as in virtual time.
	Now func() frame.Time
	// Laser is called when the port's transmitter is switched: without it the
	// other end of the wire loses its carrier; nil: it does not notice.
	Laser func(on bool)
}

// engineClock shows the engine's time.
type engineClock struct{}

func (engineClock) At(now frame.Time) frame.Stamp { return frame.Stamp(now) }

// withDefaults fills in what was left zero.
func (c Config) withDefaults() Config {
	if c.MTU == 0 {
		c.MTU = 1500
		if c.Frames == Jumbo {
			c.MTU = 9000
		}
	}
	c.Queues = cmp.Or(c.Queues, 1)
	c.RDMA.MaxIRD, c.RDMA.MaxORD = cmp.Or(c.RDMA.MaxIRD, settings.MaxReads), cmp.Or(c.RDMA.MaxORD, settings.MaxReads)
	c.TCP.KeepAlive = cmp.Or(c.TCP.KeepAlive, settings.DefaultKeepAlive)
	c.TCP.KeepAliveInterval = cmp.Or(c.TCP.KeepAliveInterval, settings.DefaultKeepAliveInterval)
	c.IWARP.Nudge = cmp.Or(c.IWARP.Nudge, settings.DefaultNudge)
	c.IWARP.SendFirst = cmp.Or(c.IWARP.SendFirst, settings.DefaultSendFirst)
	if c.MAC.IsZero() {
		c.MAC = ip.DeriveMAC(c.seed())
	}
	if c.Secret == (secret.Secret{}) {
		c.Secret = secret.FromSeed(c.Seed, c.Name)
	}
	if c.Hardware != nil {
		c.Hardware = c.Hardware.Clone()
	}
	return c
}

// seed mixes the name in, so that NICs with the same Seed differ. What follows
// from it is public.
func (c *Config) seed() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", c.Seed, c.Name)
	return h.Sum64()
}

// validate says what is wrong with a configuration whose defaults are filled
// in, and how to mend it.
func (c *Config) validate() error {
	addresses := c.ip()
	if err := addresses.Validate(); err != nil {
		return err
	}
	switch {
	case c.Queues < 1 || c.Queues > MaxQueues:
		return fmt.Errorf("%d queues: want 1 to %d", c.Queues, MaxQueues)
	case c.Frames > Jumbo:
		return fmt.Errorf("frame mode %d: use wire, gso or jumbo", c.Frames)
	}
	if c.Hardware == nil {
		return errors.New("no hardware: give Config.Hardware, such as &fastlinq.Config{}")
	}
	if err := c.Hardware.Validate(c.shape()); err != nil {
		return err
	}
	if err := cmp.Or(c.IWARP.Validate(), c.RDMA.Validate(), c.DCB.Validate()); err != nil {
		return err
	}
	if len(c.VLANs) > 0 && c.RDMA.Personality != verbs.RoCE {
		return errors.New("VLAN interfaces are RoCE's alone: use personality roce, or VLAN for all frames of the NIC")
	}
	return addresses.ValidateAddrs()
}

// ip are the settings of the internet layer.
func (c *Config) ip() ip.Settings {
	return ip.Settings{MAC: c.MAC, VLAN: c.VLAN, MTU: c.MTU, Prefixes: c.Addrs, Gateways: c.Gateways,
		HostAddrs: c.HostAddrs, Loopback: c.Iface == LoopbackIface, VLANs: c.VLANs}
}

// maxSegs is how many segments a frame of the offload engine holds at most.
func (c *Config) maxSegs() int {
	if c.Frames == Wire || !c.Hardware.Segments() {
		return 1
	}
	return gsoSegs
}

func errNoHost(r *param.Row) error {
	return fmt.Errorf("%s: the NIC has no host TAP: give it one with --host-tap", r.Name)
}

// needHost refuses settings of the host function for a NIC without a host TAP.
func (c *Config) needHost() error {
	defaults := c.Hardware.Default().Params()
	for i, r := range c.Hardware.Params() {
		if r.Host && r.Get() != defaults[i].Get() {
			return errNoHost(r)
		}
	}
	return nil
}

// Params are the settings of the NIC and of its hardware but for those of the TAP
// and the addresses, in the order of the documents, bound to c.
func (c *Config) Params() []*param.Row {
	b := settings.Bound{NoLoopback: &c.NoLoopback, IfaceList: &c.IfaceList, Msglvl: &c.Msglvl, IWARP: &c.IWARP,
		TCP: &c.TCP, RDMA: &c.RDMA, PHC: &c.PHC, PTP: &c.PTP, DCB: &c.DCB}
	rows := b.Rows()
	if c.Hardware != nil {
		rows = append(rows, c.Hardware.Params()...)
	}
	return rows
}

// Param is the setting called name (`-` and `_` are the same), or nil.
func (c *Config) Param(name string) *param.Row { return param.Find(c.Params(), name) }

// Setting is one value for a named setting.
type Setting struct{ Name, Value string }

// ShowParams describes the named settings and their values.
func (d *Device) ShowParams() []view.ParamInfo {
	return view.Params(d.cfg.Params())
}

// Set changes settings while the NIC runs, all or none. They count for what
// begins from now on: connections that exist keep theirs.
func (d *Device) Set(list ...Setting) error {
	cfg := d.cfg
	cfg.Hardware = cfg.Hardware.Clone()
	rows := cfg.Params()
	for _, s := range list {
		if r := param.Find(rows, s.Name); r != nil && r.Runtime && r.Host && !d.Host.Exists() {
			return errNoHost(r)
		}
		if err := param.Change(rows, s.Name, s.Value); err != nil {
			return err
		}
	}
	if err := cfg.validate(); err != nil {
		return err
	}
	if err := d.Hardware.Check(cfg.shape(), cfg.Hardware); err != nil {
		return err
	}
	d.cfg = cfg
	if d.IWARP != nil {
		d.IWARP.Configure(cfg.IWARP)
	}
	d.TCPEngine.SetParams(cfg.TCP.Params)
	d.tcp.SetSegments()
	d.Common.Log.SetMsglvl(cfg.Msglvl)
	d.Wire.SetClasses(cfg.DCB.Values(), d.called)
	d.Wire.SetPauseLimit(cfg.DCB.PauseLimit)
	d.PTP.SetFaults(cfg.PTP.Faults())
	err := d.Hardware.Apply(cfg.shape(), cfg.Hardware, d.called)
	d.holds = d.Hardware.Holds()
	return err
}
