package swconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tapir/lab/conf"
	"tapir/lab/conf/ptpconf"
	"tapir/nic/tap"
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

// Keys are the settings of any switch, in virtual time too.
var Keys = []conf.Field[Config]{
	{Name: "mode", Expect: "plain, e2e-tc, p2p-tc or bc", Set: func(c *Config, s string) error {
		return conf.Parsed(&c.Mode, s, ParseMode)
	}},
	{Name: "delay", Expect: delayExpect, Set: func(c *Config, s string) error {
		return conf.Parsed(&c.Delay, s, ParseDelay)
	}},
	{Name: "queue", Expect: "a number of frames from 1 to 65536", Set: func(c *Config, s string) error {
		return conf.Number(&c.Queue, s, 1, 1<<16)
	}},
	{Name: "seed", Expect: "a number", Set: func(c *Config, s string) error { return conf.Uint64(&c.Seed, s) }},
	{Name: "ageing", Expect: "a time such as 300s", Set: func(c *Config, s string) error {
		return conf.Time(&c.Ageing, s, time.Millisecond, 0)
	}},
	{Name: "macs", Expect: "a number of addresses from 1 to 1048576", Set: func(c *Config, s string) error {
		return conf.Number(&c.MACs, s, 1, 1<<20)
	}},
	{Name: "group_fwd_mask", Expect: "a mask such as 0x4000, without the lowest three bits",
		Set: func(c *Config, s string) error {
			err := conf.Number(&c.GroupFwdMask, s, 0, 0xffff)
			if c.GroupFwdMask&neverForwarded != 0 {
				return conf.ErrValue
			}
			return err
		}},
	{Name: "one_step", Expect: "true or false", Set: func(c *Config, s string) error {
		return conf.Bool(&c.OneStep, s)
	}},
	{Name: "syntonize", Expect: "true or false", Set: func(c *Config, s string) error {
		return conf.Bool(&c.Syntonize, s)
	}},
	{Name: "domain", Expect: "a domain number from 0 to 255", Set: func(c *Config, s string) error {
		return conf.Number(&c.Domain, s, 0, 255)
	}},
	{Name: "pdelay_req_interval", Expect: "log2 of an interval in seconds, from -7 to 5",
		Set: func(c *Config, s string) error {
			return conf.Number(&c.PdelayInterval, s, -7, 5)
		}},
}

// PortKeys are the settings of a port of any switch.
var PortKeys = []conf.Field[PortConfig]{
	{Name: "delay", Expect: delayExpect, Set: func(p *PortConfig, s string) error {
		d, err := ParseDelay(s)
		p.Delay = &d
		return err
	}},
	{Name: "delay_asymmetry", Expect: "a duration such as 120ns or -1.5us",
		Set: func(p *PortConfig, s string) (err error) {
			p.Asymmetry, err = conf.ParseDuration(s)
			return err
		}},
}

// keys are the settings of a switch on TAPs; scalar ones are flags of `tapir
// sw` too.
var keys = append([]conf.Field[Draft]{
	{Name: "name", Expect: "1 to 32 letters, digits, `-`, `_` and `.`", Set: func(d *Draft, s string) error {
		return conf.Name(&d.Name, s)
	}},
	{Name: "ports", Node: addPorts},
	{Name: "transport", Expect: "L2, UDPv4 or UDPv6", Set: func(d *Draft, s string) error {
		return d.Transport.UnmarshalText([]byte(s))
	}},
	{Name: "ip", Expect: "an IP address", Set: func(d *Draft, s string) error {
		return conf.Parsed(&d.IP, s, netip.ParseAddr)
	}},
	{Name: "oscillator", Expect: "xo, tcxo, ocxo or ideal", Set: func(d *Draft, s string) error {
		return conf.Parsed(&d.Hardware.Oscillator, s, clock.Preset)
	}},
	{Name: "clock", Schema: conf.Object(ptpconf.Clock), Node: func(d *Draft, n conf.Node) error {
		return conf.Decode(n, &d.Hardware, "the settings of the switch's clock", ptpconf.Clock)
	}},
	{Name: "profile", Expect: "a profile such as default-e2e, gptp or g8275.1", Set: func(d *Draft, s string) error {
		p, err := ptp.ParseProfile(s)
		d.profile = &p
		return err
	}},
	{Name: "ptp", Schema: conf.Object(ptpconf.Instance), Node: func(d *Draft, n conf.Node) error {
		d.settings = append(d.settings, func(c *ptp.Config) error {
			return conf.Decode(n, c, "the settings of the boundary clock", ptpconf.Instance)
		})
		return nil
	}},
}, conf.Part(Keys, func(d *Draft) *Config { return &d.Config })...)

// Fields are the settings of a switch for a file that gives it name and ports.
func Fields() []conf.Field[Draft] {
	return slices.DeleteFunc(slices.Clone(keys), func(f conf.Field[Draft]) bool {
		return f.Name == "name" || f.Name == "ports"
	})
}

const delayExpect = "a delay such as 250us, 0-500us (uniform), exp:10us (the mean) or exp:5us+10us (a minimum and " +
	"the mean above it)"

// portKeys are the settings of a port on a TAP.
var portKeys = append([]conf.Field[PortConfig]{
	{Name: "tap", Expect: "an interface name such as tap0, at most 15 characters",
		Set: func(p *PortConfig, s string) error {
			p.TAP = s
			return tap.CheckName(s)
		}},
	{Name: "tap_fd", Expect: "the number of an open TAP file descriptor, 3 or more",
		Set: func(p *PortConfig, s string) error {
			return conf.Number(&p.TAPFD, s, 3, 1<<20)
		}},
	{Name: "netns", Expect: "a name that `ip netns add` made, or the path of a network namespace",
		Set: func(p *PortConfig, s string) error {
			return conf.Text(&p.Netns, s)
		}},
}, PortKeys...)

// addPorts takes a list of TAPs' names and of ports' settings.
func addPorts(d *Draft, n conf.Node) error {
	list, _ := n.List()
	if len(list) < 2 {
		return n.Errorf("ports: expected a list of at least two, such as [tap0, tap1]")
	}
	for _, n := range list {
		var p PortConfig
		if name, ok := n.Text(); ok {
			if err := p.set(name); err != nil {
				return n.Errorf("ports: %v", err)
			}
		} else if err := conf.Decode(n, &p, "a TAP's name or the settings of a port", portKeys); err != nil {
			return err
		}
		d.Ports = append(d.Ports, p)
	}
	return nil
}

// set reads "tap0", or "tap0@NETNS" for a TAP in another network namespace.
func (p *PortConfig) set(text string) error {
	name, space, _ := strings.Cut(text, "@")
	p.TAP, p.Netns = name, space
	if name == "" || tap.CheckName(name) != nil {
		return fmt.Errorf("%q: expected %s, or TAP@NETNS", text, portKeys[0].Expect)
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
func (d *Draft) Set(name, text string) error { return conf.Set(d, keys, name, text) }

// SetPTP sets one setting of a boundary clock: "priority1=100".
func (d *Draft) SetPTP(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("ptp: %q: expected NAME=VALUE, such as priority1=100", text)
	}
	d.settings = append(d.settings, func(c *ptp.Config) error { return conf.Set(c, ptpconf.Instance, name, value) })
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
	list := conf.List[Config]{Key: "switches", One: "switch", Many: "switches", Exclude: exclude,
		Decode: func(n conf.Node, i int) (Config, error) {
			d := Draft{Config: Config{Name: fmt.Sprint("sw", i)}}
			if err := conf.Decode(n, &d, "the settings of a switch", keys); err != nil {
				return d.Config, err
			}
			return d.Finish()
		}}
	return list.Parse(path, data)
}

// exclude says why two switches cannot run side by side.
func exclude(a, b *Config) string {
	if a.Name == b.Name {
		return fmt.Sprintf("name: two switches are called %s", a.Name)
	}
	for _, p := range a.Ports {
		for _, q := range b.Ports {
			if p.TAP != "" && p.TAP == q.TAP && p.Netns == q.Netns {
				return fmt.Sprintf("ports: %s and %s both use %s", a.Name, b.Name, p.TAP)
			}
		}
	}
	return ""
}
