package swconf

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/lab/conf/ptpconf"
	"tapir/nic/linkmode"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
	"tapir/opa"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
)

// Draft is a Config while it is read: the settings of a boundary clock are
// applied to its profile when that is known.
type Draft struct {
	Config
	profile  *ptp.Profile
	settings []func(*ptp.Config) error
}

// fields are the settings of marking, bound to e.
func (e *ECN) fields() []conf.Field {
	return []conf.Field{
		{Name: "ecn_kmin", Expect: octetsExpect, Set: conf.Parsed(&e.Kmin, parseOctets)},
		{Name: "ecn_kmax", Expect: octetsExpect, Set: conf.Parsed(&e.Kmax, parseOctets)},
		{Name: "ecn_pmax", Expect: "a chance up to 100% such as 1% or 0.5%", Set: conf.Parsed(&e.Pmax, parsePercent)},
	}
}

const octetsExpect = "a number of octets up to 1G such as 5000, 5K or 1M"

// parseOctets reads a number of octets: K are 1000.
func parseOctets(s string) (int, error) {
	unit := 1
	text, kilo := strings.CutSuffix(strings.TrimSuffix(s, "B"), "K")
	if kilo {
		unit = 1000
	} else if t, mega := strings.CutSuffix(text, "M"); mega {
		text, unit = t, 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1e9/unit {
		return 0, conf.ErrValue
	}
	return n * unit, nil
}

// parsePercent reads parts per million.
func parsePercent(s string) (ppm int, err error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return 0, conf.ErrValue
	}
	return int(math.Round(v * 1e4)), nil
}

// Fields are the settings of any switch, in virtual time too, bound to c.
func (c *Config) Fields() []conf.Field {
	return append([]conf.Field{
		{Name: "mode", Expect: "plain, e2e-tc, p2p-tc or bc", Set: conf.Parsed(&c.Mode, ParseMode)},
		{Name: "delay", Expect: delayExpect, Set: conf.Parsed(&c.Delay, ParseDelay)},
		{Name: "queue", Expect: "a number of frames from 1 to 65536", Set: conf.Number(&c.Queue, 1, 1<<16)},
		{Name: "speed", Expect: speedExpect, Set: conf.Parsed(&c.Speed, parseSpeed)},
		{Name: "pause", Expect: "true or false", Set: conf.Bool(&c.Pause)},
		{Name: "fecn_threshold", Expect: "a number from 0 to 15",
			Set: conf.Number(&c.FECNThreshold, 0, fecnSteps-1)},
		{Name: "fecn_packet_size", Expect: "a number of octets from 0 to 16376",
			Set: conf.Number(&c.FECNSize, 0, opa.MaxPacket)},
		{Name: "fecn_marking_rate", Expect: "a number of packets from 0 to 65535",
			Set: conf.Number(&c.FECNRate, 0, 65535)},
		{Name: "seed", Expect: "a number", Set: conf.Uint64(&c.Seed)},
		{Name: "ageing", Expect: "a time such as 300s", Set: conf.Time(&c.Ageing, time.Millisecond, 0)},
		{Name: "macs", Expect: "a number of addresses from 1 to 1048576", Set: conf.Number(&c.MACs, 1, 1<<20)},
		{Name: "group_fwd_mask", Expect: "a mask such as 0x4000, without the lowest three bits",
			Set: func(s string) error {
				err := conf.Number(&c.GroupFwdMask, 0, 0xffff)(s)
				if c.GroupFwdMask&neverForwarded != 0 {
					return conf.ErrValue
				}
				return err
			}},
		{Name: "one_step", Expect: "true or false", Set: conf.Bool(&c.OneStep)},
		{Name: "syntonize", Expect: "true or false", Set: conf.Bool(&c.Syntonize)},
		{Name: "domain", Expect: "a domain number from 0 to 255", Set: conf.Number(&c.Domain, 0, 255)},
		{Name: "pdelay_req_interval", Expect: "log2 of an interval in seconds, from -7 to 5",
			Set: conf.Number(&c.PdelayInterval, -7, 5)},
		c.FCF.field(),
	}, slices.Concat(c.Queues.Fields(), c.LLDP.Fields(), c.Routing.Fields(), c.ECN.fields())...)
}

// Fields are the settings of a port of any switch, bound to p.
func (p *PortConfig) Fields() []conf.Field {
	return append([]conf.Field{
		{Name: "delay", Expect: delayExpect, Set: conf.ParsedNew(&p.Delay, ParseDelay)},
		{Name: "delay_asymmetry", Expect: "a duration such as 120ns or -1.5us",
			Set: conf.Parsed(&p.Asymmetry, conf.ParseDuration)},
	}, p.ECN.fields()...)
}

// Fields are the settings of a switch on TAPs, bound to d; scalar ones are flags
// of `tapir sw` too.
func (d *Draft) Fields() []conf.Field {
	return append([]conf.Field{
		{Name: "name", Expect: "1 to 32 letters, digits, `-`, `_` and `.`", Set: conf.Name(&d.Name)},
		{Name: "ports", Node: d.addPorts},
		{Name: "transport", Expect: "L2, UDPv4 or UDPv6", Set: conf.Unmarshaled(&d.Transport)},
		{Name: "ip", Expect: "an IP address", Set: conf.Parsed(&d.IP, netip.ParseAddr)},
		{Name: "oscillator", Expect: "xo, tcxo, ocxo or ideal", Set: conf.Parsed(&d.Hardware.Oscillator, clock.Preset)},
		{Name: "clock", Schema: conf.Object(ptpconf.Clock(&d.Hardware)), Node: func(n conf.Node) error {
			return conf.Decode(n, "the settings of the switch's clock", ptpconf.Clock(&d.Hardware))
		}},
		{Name: "profile", Expect: "a profile such as default-e2e, gptp or g8275.1",
			Set: conf.ParsedNew(&d.profile, ptp.ParseProfile)},
		{Name: "ptp", Schema: conf.Object(ptpconf.Instance(new(ptp.Config))), Node: func(n conf.Node) error {
			d.settings = append(d.settings, func(c *ptp.Config) error {
				return conf.Decode(n, "the settings of the boundary clock", ptpconf.Instance(c))
			})
			return nil
		}},
	}, d.Config.Fields()...)
}

const delayExpect = "a delay such as 250us, 0-500us (uniform), exp:10us (the mean) or exp:5us+10us (a minimum and " +
	"the mean above it)"

const speedExpect = "a link speed such as 10M, 1G or 25G"

// parseSpeed reads the name of a link speed.
func parseSpeed(name string) (linkmode.Speeds, error) {
	for s := linkmode.Speeds(1); s <= linkmode.AllSpeeds; s <<= 1 {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, conf.ErrValue
}

const tapExpect = "an interface name such as tap0, at most 15 characters"

// onTAP are the settings of a port on a TAP.
func (p *PortConfig) onTAP() []conf.Field {
	return append([]conf.Field{
		{Name: "tap", Expect: tapExpect, Set: conf.Checked(&p.TAP, tap.CheckName)},
		{Name: "wire", Expect: wires.Expect, Set: conf.Checked(&p.Wire, wires.Check)},
		{Name: "tap_fd", Expect: "the number of an open TAP file descriptor, 3 or more",
			Set: conf.Number(&p.TAPFD, 3, 1<<20)},
		{Name: "netns", Expect: "a name that `ip netns add` made, or the path of a network namespace",
			Set: conf.Text(&p.Netns)},
	}, p.Fields()...)
}

// addPorts takes a list of TAPs' names and of ports' settings.
func (d *Draft) addPorts(n conf.Node) error {
	return n.Each(2, "ports: expected a list of at least two, such as [tap0, tap1]", func(n conf.Node, _ int) error {
		var p PortConfig
		if name, ok := n.Text(); ok {
			if err := p.set(name); err != nil {
				return n.Errorf("ports: %v", err)
			}
		} else if err := conf.Decode(n, "a TAP's name or the settings of a port", p.onTAP()); err != nil {
			return err
		}
		d.Ports = append(d.Ports, p)
		return nil
	})
}

// set reads "tap0", or "tap0@NETNS" for a TAP in another network namespace, or a wire.
func (p *PortConfig) set(text string) error {
	if wires.Is(text) {
		p.Wire = text
		return wires.Check(text)
	}
	name, space, _ := strings.Cut(text, "@")
	p.TAP, p.Netns = name, space
	if name == "" || tap.CheckName(name) != nil {
		return fmt.Errorf("%q: expected %s, TAP@NETNS, or a wire: %s", text, tapExpect, wires.Expect)
	}
	return nil
}

// AddPort adds a port on a TAP, as --port does: "tap0", or "tap0@NETNS".
func (d *Draft) AddPort(text string) error {
	var p PortConfig
	err := p.set(text)
	d.Ports = append(d.Ports, p)
	return err
}

// Set sets a scalar setting, in whose name `-` stands for `_`, as a flag does.
func (d *Draft) Set(name, text string) error { return conf.Set(d.Fields(), name, text) }

// SetText sets a scalar setting, given as NAME=VALUE.
func (d *Draft) SetText(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("set: %q: expected NAME=VALUE, such as dcbx=ieee", text)
	}
	return d.Set(name, value)
}

// SetPTP sets one setting of a boundary clock: "priority1=100".
func (d *Draft) SetPTP(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("ptp: %q: expected NAME=VALUE, such as priority1=100", text)
	}
	d.settings = append(d.settings, func(c *ptp.Config) error { return conf.Set(ptpconf.Instance(c), name, value) })
	return nil
}

// Finish is the configuration, checked.
func (d *Draft) Finish() (Config, error) {
	if d.profile != nil || d.settings != nil {
		if d.Mode != Boundary {
			return Config{}, fmt.Errorf("%s: profile and ptp are of boundary clocks: choose mode bc",
				d.WithDefaults().Name)
		}
		p := ptp.DefaultE2E
		if d.profile != nil {
			p = *d.profile
		}
		c := ptp.NewConfig(p, msg.ClockIdentity{}, max(1, len(d.Ports)))
		for _, set := range d.settings {
			if err := set(&c); err != nil {
				return Config{}, err
			}
		}
		d.PTP = &c
	}
	return d.Config, d.Config.Validate()
}

// Load reads a file with a list of switches.
func Load(path string) ([]Config, error) { return conf.Load(path, Parse) }

// Parse is Load of a file already read; path is for messages only.
func Parse(path string, data []byte) ([]Config, error) {
	list := conf.List[Config]{Key: "switches", One: "switch", Many: "switches", Claims: claims,
		Decode: func(n conf.Node, i int, add func(conf.Node, Config) error) error {
			d := Draft{Config: Config{Name: fmt.Sprint("sw", i)}}
			if err := conf.Decode(n, "the settings of a switch", d.Fields()); err != nil {
				return err
			}
			c, err := d.Finish()
			if err != nil {
				return err
			}
			return add(n, c)
		}}
	return list.Parse(path, data)
}

// claims are what two switches cannot share.
func claims(c *Config) (name string, all []conf.Claim) {
	for _, p := range c.Ports {
		if p.TAP != "" {
			all = append(all, conf.Uses("ports", path.Join(p.Netns, p.TAP)))
		}
	}
	return c.Name, all
}
