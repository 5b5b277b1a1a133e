// Package nicconf is the configuration of a NIC: the flags of `tapir nic` and
// the entries of a nics.yaml.
package nicconf

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tapir/lab/conf"
	"tapir/nic"
	"tapir/nic/fastlinq"
	"tapir/nic/hardware"
	"tapir/nic/ideal"
	"tapir/nic/ip"
	"tapir/nic/param"
	"tapir/nic/settings"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
	"tapir/nic/verbs"
	"tapir/wire/ether"
)

// Config describes one NIC, as the flags of `tapir nic` and the entries of a
// nics.yaml do. The zero value of every field means its default.
type Config struct {
	Name string `json:"name" yaml:"name"` // default nic0
	// made or found; empty: the kernel chooses
	TAP   string `json:"tap,omitempty" yaml:"tap,omitempty"`
	TAPFD int    `json:"tap_fd,omitempty" yaml:"tap_fd,omitempty"` // a ready descriptor, taken over
	// Wire takes the place of a TAP: a text that wires.Check accepts.
	Wire  string         `json:"wire,omitempty" yaml:"wire,omitempty"`
	TAPIP []netip.Prefix `json:"tap_ip,omitempty" yaml:"tap_ip,omitempty"` // addresses of the kernel's side
	IP    []netip.Prefix `json:"ip,omitempty" yaml:"ip,omitempty"`         // IPv4
	IP6   []netip.Prefix `json:"ip6,omitempty" yaml:"ip6,omitempty"`       // IPv6
	MAC   ether.Addr     `json:"mac,omitzero" yaml:"mac,omitempty"`        // default derived from name and seed
	// octets of IP; default 1500, jumbo 9000
	MTU      int          `json:"mtu,omitempty" yaml:"mtu,omitempty"`
	Gateways []netip.Addr `json:"gw,omitempty" yaml:"gw,omitempty"`           // next hops off the link
	VLAN     uint16       `json:"vlan,omitempty" yaml:"vlan,omitempty"`       // 802.1Q id; 0 untagged
	VLANIP   []VLANAddr   `json:"vlan_ip,omitempty" yaml:"vlan_ip,omitempty"` // of VLAN interfaces
	Frames   string       `json:"frames,omitempty" yaml:"frames,omitempty"`   // wire (default), gso or jumbo
	// the operating system's side, same MAC and IP
	HostTAP string `json:"host_tap,omitempty" yaml:"host_tap,omitempty"`
	// HostFrames is the frame mode of the host TAP, default that of the wire: with
	// wire on one side and gso on the other the NIC segments and completes checksums.
	HostFrames string `json:"host_frames,omitempty" yaml:"host_frames,omitempty"`
	// receive and transmit queues of the host TAP; default 1
	Queues int `json:"queues,omitempty" yaml:"queues,omitempty"`
	// IPFromHost takes addresses, MAC and MTU from the host TAP and follows them.
	IPFromHost bool `json:"ip_from_host,omitempty" yaml:"ip_from_host,omitempty"`
	// of the storms: a file, or a form to search for; empty: built in
	Firmware string `json:"firmware,omitempty" yaml:"firmware,omitempty"`
	// SRIOV are the virtual functions; nil: it can have none.
	SRIOV *SRIOV `json:"sriov,omitempty" yaml:"sriov,omitempty"`
	// Seed is behind the MAC address, the clock's noise and, if it is given, the
	// secrets: others can then guess them.
	Seed *uint64 `json:"seed,omitempty" yaml:"seed,omitempty"`

	// Card is the device of which the NIC is a function, on a port; nil: the NIC has one
	// of its own.
	Card           *Card `json:"-" yaml:"functions,omitempty"`
	Function, Port int   `json:"-" yaml:"-"`

	// NIC holds the settings of Params; of its other fields those above
	// decide.
	NIC nic.Config `json:"-" yaml:"-"`
}

// The frame modes.
const (
	framesWire  = "wire"
	framesGSO   = "gso"
	framesJumbo = "jumbo"
)

// Fields are the settings of a NIC, those of Params included, bound to c.
func (c *Config) Fields() []conf.Field {
	all := []conf.Field{
		{Name: "name", Expect: "a name of letters, digits, `-`, `_` and `.`, at most 32 long", Set: conf.Name(&c.Name)},
		{Name: "tap", Expect: "an interface name such as tap0, at most 15 characters",
			Set: conf.Checked(&c.TAP, tap.CheckName)},
		{Name: "tap_fd", Expect: "the number of an open TAP file descriptor, 3 or more",
			Set: conf.Int(&c.TAPFD, 3, 1<<20)},
		{Name: "wire", Expect: wires.Expect, Set: conf.Checked(&c.Wire, wires.Check)},
		{Name: "tap_ip", Expect: "an address with prefix length, such as 10.0.0.254/24 or fd00::fe/64", Many: true,
			Set: conf.Append(&c.TAPIP, conf.Prefixes(netip.Addr.IsValid))},
		{Name: "ip", Expect: "an IPv4 address with prefix length, such as 10.0.0.1/24", Many: true,
			Set: conf.Append(&c.IP, conf.Prefixes(netip.Addr.Is4))},
		{Name: "ip6", Expect: "an IPv6 address with prefix length, such as fd00::1/64", Many: true,
			Set: conf.Append(&c.IP6, conf.Prefixes(netip.Addr.Is6))},
		{Name: "mac", Expect: "a unicast MAC address such as 02:00:00:00:00:01", Set: conf.StationMAC(&c.MAC)},
		{Name: "mtu", Expect: "a number of octets from 576 to 16000", Set: conf.Int(&c.MTU, 576, 16000)},
		{Name: "gw", Expect: "an IP address such as 10.0.0.254", Many: true,
			Set: conf.Append(&c.Gateways, parseGateway)},
		{Name: "vlan", Expect: "a VLAN id from 0 (untagged) to 4094", Set: conf.Int(&c.VLAN, 0, 4094)},
		{Name: "vlan_ip", Expect: "a VLAN id and an address of the NIC there, such as 100=10.1.0.1/24", Many: true,
			Set: conf.Append(&c.VLANIP, parseVLANAddr)},
		{Name: "frames", Expect: "wire, gso or jumbo", Set: conf.Word(&c.Frames, framesWire, framesGSO, framesJumbo)},
		{Name: "host_tap", Expect: "an interface name such as eth1, at most 15 characters",
			Set: conf.Checked(&c.HostTAP, tap.CheckName)},
		{Name: "host_frames", Expect: "wire or gso", Set: conf.Word(&c.HostFrames, framesWire, framesGSO)},
		{Name: "queues", Expect: "a number of queues from 1 to 32", Set: conf.Int(&c.Queues, 1, nic.MaxQueues)},
		{Name: "ip_from_host", Expect: "true or false", Set: conf.Bool(&c.IPFromHost)},
		{Name: "firmware",
			Expect: "a firmware file, or the form to search for: header, zipped-header, bin or zipped-bin",
			Set:    c.setFirmware},
		{Name: "hardware", Expect: "fastlinq or ideal", First: true, Schema: conf.Choice("fastlinq", "ideal"),
			Set: c.setHardware},
		{Name: "profile", Expect: "siw", First: true, Schema: conf.Choice("siw"), Set: c.setProfile},
		{Name: "sriov", Schema: conf.Object(new(SRIOV).fields()), Node: c.setSRIOV},
		{Name: "seed", Expect: "a number from 0 to 18446744073709551615", Set: conf.ParsedNew(&c.Seed, parseSeed)},
	}
	for _, p := range new(Config).Params() {
		all = append(all, conf.Field{Name: p.Name, Expect: p.Expect, Words: p.Type == "list",
			Set: func(v string) error {
				r := c.NIC.Param(p.Name)
				if r == nil { // one of the hardware
					r = param.Find(c.Params(), p.Name)
				}
				if r == nil {
					return c.lacks("such setting")
				}
				return r.Set(v)
			}})
	}
	return all
}

// VLANAddr is an address of a VLAN interface; its text is 100=10.1.0.1/24.
type VLANAddr struct {
	VLAN   uint16
	Prefix netip.Prefix
}

// MarshalText implements encoding.TextMarshaler.
func (a VLANAddr) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d=%v", a.VLAN, a.Prefix), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *VLANAddr) UnmarshalText(b []byte) (err error) {
	*a, err = parseVLANAddr(string(b))
	return err
}

func parseVLANAddr(s string) (a VLANAddr, err error) {
	id, addr, ok := strings.Cut(s, "=")
	if !ok || conf.Int(&a.VLAN, 1, 4094)(id) != nil {
		return a, conf.ErrValue
	}
	a.Prefix, err = conf.Prefixes(netip.Addr.IsValid)(addr)
	return a, err
}

// Params are the settings of the NIC and its hardware, bound to c.
func (c *Config) Params() []*param.Row {
	c.FastLinQ() // is the default
	return c.NIC.Params()
}

// FastLinQ is the configuration of FastLinQ hardware, nil with another kind.
func (c *Config) FastLinQ() *fastlinq.Config {
	if c.NIC.Hardware == nil {
		c.NIC.Hardware = &fastlinq.Config{}
	}
	f, _ := c.NIC.Hardware.(*fastlinq.Config)
	return f
}

// ideal tells whether the hardware is ideal.
func (c *Config) ideal() bool { return c.NIC.Hardware != nil && c.FastLinQ() == nil }

// setHardware chooses the kind of hardware. It refuses one that lacks what has
// been set before.
func (c *Config) setHardware(v string) error {
	kinds := []hardware.Config{&fastlinq.Config{}, &ideal.Config{}}
	i := slices.IndexFunc(kinds, func(k hardware.Config) bool { return k.Kind() == v })
	if i < 0 {
		return conf.ErrValue
	}
	was := c.NIC.Hardware
	if was != nil && was.Kind() == v {
		return nil
	}
	c.NIC.Hardware = kinds[i]
	if was == nil {
		return nil
	}
	usual := was.Default().Params()
	for i, r := range was.Params() {
		if r.Get() != usual[i].Get() {
			return c.lacks("setting " + r.Name)
		}
	}
	return nil
}

// setProfile gives the settings that were not given the defaults of another driver.
func (c *Config) setProfile(v string) error {
	return settings.Profile(v, c.Params(), new(Config).Params())
}

// setFirmware names the firmware of the storms.
func (c *Config) setFirmware(v string) error {
	if c.ideal() {
		return c.lacks("firmware")
	}
	return conf.Text(&c.Firmware)(v)
}

// lacks refuses what the hardware does not have.
func (c *Config) lacks(what string) error {
	return conf.Refusal(fmt.Sprintf("hardware %s has no %s", c.NIC.Hardware.Kind(), what))
}

// Engines is the number of engines of the NIC.
func (c *Config) Engines() int {
	if f := c.FastLinQ(); f != nil {
		return max(1, f.Engines)
	}
	return 1
}

// Set sets the setting called name (as in nics.yaml; `-` and `_` are the
// same) from v. Settings that are lists take several values separated by
// commas, and further ones with each call. The error names key and
// expectation.
func (c *Config) Set(name, v string) error { return conf.Set(c.Fields(), name, v) }

func parseGateway(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err == nil && (a.IsUnspecified() || a.IsMulticast()) {
		err = conf.ErrValue
	}
	return a, err
}

func parseSeed(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }

// WithDefaults fills in what was left zero.
func (c Config) WithDefaults() Config {
	c.Name, c.Frames, c.Queues = cmp.Or(c.Name, "nic0"), cmp.Or(c.Frames, framesWire), cmp.Or(c.Queues, 1)
	standard := 1500
	if c.Frames == framesJumbo {
		standard = 9000
	}
	c.MTU = cmp.Or(c.MTU, standard)
	if c.SRIOV != nil {
		c.SRIOV = new(c.SRIOV.withDefaults())
	}
	if c.Loopback() && len(c.Addrs()) == 0 {
		c.IP = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}
		c.IP6 = []netip.Prefix{netip.MustParsePrefix("::1/128")}
	}
	return c
}

// Device is the NIC that the configuration describes, iface the name of the
// interface that its wire is.
func (c Config) Device(iface string) nic.Config {
	c = c.WithDefaults()
	mode, _ := settings.ParseFrameMode(c.Frames) // checked when it was set
	c.FastLinQ()                                 // is the default
	cfg := c.NIC
	cfg.Name, cfg.MAC, cfg.Addrs, cfg.Gateways = c.Name, c.MAC, c.Addrs(), c.Gateways
	cfg.MTU, cfg.VLAN, cfg.Frames, cfg.Iface = c.MTU, c.VLAN, mode, iface
	if c.Seed != nil {
		cfg.Seed = *c.Seed
	}
	cfg.HostAddrs, cfg.Queues = c.IPFromHost, c.Queues
	for _, a := range c.VLANIP {
		i := slices.IndexFunc(cfg.VLANs, func(v ip.VLAN) bool { return v.ID == a.VLAN })
		if i < 0 {
			i, cfg.VLANs = len(cfg.VLANs), append(cfg.VLANs, ip.VLAN{ID: a.VLAN})
		}
		cfg.VLANs[i].Addrs = append(cfg.VLANs[i].Addrs, a.Prefix)
	}
	return cfg
}

// Addrs are the NIC's own addresses, IPv4 first.
func (c *Config) Addrs() []netip.Prefix { return append(slices.Clone(c.IP), c.IP6...) }

// Loopback reports whether the NIC is attached to the loopback interface: it has no wire.
func (c *Config) Loopback() bool { return c.TAP == nic.LoopbackIface }

// Vnet reports whether the TAP needs virtio-net headers: super-frames pass.
func (c *Config) Vnet() bool { return c.Frames == framesGSO || c.Frames == framesJumbo }

// HostVnet reports whether the host TAP needs virtio-net headers.
func (c *Config) HostVnet() bool { return c.HostFrames == framesGSO || c.HostFrames == "" && c.Vnet() }

// Validate finds settings that do not go together. The error is one line.
func (c *Config) Validate() error {
	name := c.WithDefaults().Name
	if problem := c.conflict(); problem != "" {
		return fmt.Errorf("%s: %s", name, problem)
	}
	if err := c.NIC.IWARP.Validate(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (c *Config) conflict() string {
	own := c.Addrs()
	problem := cmp.Or(
		conf.Problem(c.HostTAP == "" && (c.IPFromHost || c.Queues > 1 || c.HostFrames != ""),
			"ip_from_host, queues and host_frames are about the host TAP: give host_tap, such as eth1"),
		conf.Problem(c.IPFromHost && len(own) > 0,
			"ip_from_host excludes ip and ip6: give the addresses to the host TAP, with `ip addr add`"),
		conf.Problem(len(c.VLANIP) > 0 && c.NIC.RDMA.Personality != verbs.RoCE,
			"vlan_ip is RoCE's: give personality roce, or vlan for all frames of the NIC"),
		conf.Problem(slices.ContainsFunc(c.VLANIP, func(a VLANAddr) bool { return a.VLAN == c.VLAN }),
			"vlan_ip and vlan name the same VLAN %d: give the address as ip", c.VLAN),
		conf.Problem(c.IPFromHost && c.VLAN != 0,
			"ip_from_host and vlan exclude each other: the host TAP's own addresses are untagged"),
		conf.Problem(c.Loopback() && (c.HostTAP != "" || len(c.TAPIP) > 0 || c.TAPFD != 0 || c.VLAN != 0),
			"tap lo is the loopback interface: leave out host_tap, tap_ip, tap_fd and vlan"),
		conf.Problem(c.Loopback() && c.NIC.NoLoopback, "tap lo is the loopback interface, and loopback_enabled is 0"),
		conf.Problem(c.Wire != "" && (c.TAP != "" || c.TAPFD != 0 || len(c.TAPIP) > 0),
			"wire takes the place of a TAP: leave out tap, tap_fd and tap_ip"),
		conf.Problem(len(own) == 0 && !c.IPFromHost && !c.Loopback(),
			"no address: give ip, such as 10.0.0.1/24, or ip6"),
		conf.Problem(c.ideal() && c.HostTAP != "" && c.HostFrames != "" && c.HostVnet() != c.Vnet(), "hardware ideal "+
			"does not segment frames between host TAP and wire: remove host_frames, or use hardware fastlinq"),
		conf.Problem(c.HostTAP != "" && len(c.TAPIP) > 0, "host_tap and tap_ip exclude each other: "+
			"with a host TAP the operating system has the NIC's own address"),
		conf.Problem(c.HostTAP != "" && c.HostTAP == c.TAP,
			"host_tap and tap are both %s: they need two interfaces", c.TAP),
		conf.Problem(c.VLAN != 0 && len(c.TAPIP) > 0, "vlan and tap_ip exclude each other: the kernel's side needs "+
			"an interface of that VLAN, made with `ip link add link TAP type vlan`"),
	)
	for _, t := range c.TAPIP {
		i := slices.IndexFunc(own, func(p netip.Prefix) bool { return p.Addr() == t.Addr() })
		if i >= 0 && problem == "" {
			problem = fmt.Sprintf("tap_ip %v is the NIC's own address: the kernel's side needs another one of %v, "+
				"such as %v", t.Addr(), own[i].Masked(), Neighbour(own[i]))
		}
	}
	return cmp.Or(problem, c.checkSRIOV())
}

// Neighbour proposes an address for the other side of a link: the last of
// the prefix that p itself does not have.
func Neighbour(p netip.Prefix) netip.Prefix {
	a := lastOf(p)
	if p.Addr().Is4() && p.Bits() < 31 {
		a = a.Prev() // the last one is the broadcast address
	}
	if a == p.Addr() {
		a = a.Prev()
	}
	return netip.PrefixFrom(a, p.Bits())
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
