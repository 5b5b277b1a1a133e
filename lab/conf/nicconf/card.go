package nicconf

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tapir/lab/conf"
	"tapir/nic/fastlinq"
	"tapir/nic/hardware"
	"tapir/nic/ideal"
	"tapir/nic/tap"
	"tapir/nic/tap/wires"
	"tapir/nic/verbs"
	"tapir/wire/ether"
)

// Card is a device with several functions, each of which is a NIC.
type Card struct {
	fastlinq.AdapterConfig // of ideal hardware only Functions
	Ideal                  bool
	Name                   string
	Ports                  []Port
	MTU                    int // the largest of the functions
}

// Open makes the device.
func (c *Card) Open() (hardware.Device, error) {
	if c.Ideal {
		return (&ideal.Config{Functions: c.Functions}).Open()
	}
	return fastlinq.NewAdapter(c.AdapterConfig)
}

// TagLen is what outer VLANs add to a frame.
func (c *Card) TagLen() int {
	if c.tags() {
		return ether.TagLen
	}
	return 0
}

// tags tells whether each function has an outer VLAN.
func (c *Card) tags() bool { return c.MF == fastlinq.OVLAN || c.MF == fastlinq.UFP }

// Port is a port of a card.
type Port struct {
	TAP   string         // made or found; empty: the kernel chooses
	Wire  string         // takes its place: a text that wires.Check accepts
	TAPIP []netip.Prefix // addresses of the kernel's side
}

// Draft is an entry of a file while it is read: a NIC, or a card.
type Draft struct {
	Config
	PortMode, MFMode string
	Ports            []Port

	functions []func(fields []conf.Field) error // each reads its own
	nodes     []conf.Node                       // of the functions in the file
}

// mfModes are how functions of a port are told apart.
var mfModes = map[string]fastlinq.MFMode{"": fastlinq.SingleFunction, "npar": fastlinq.NPAR, "ovlan": fastlinq.OVLAN,
	"ufp": fastlinq.UFP}

// Fields are the settings of the entry, bound to d.
func (d *Draft) Fields() []conf.Field {
	return append(d.Config.Fields(), d.CardFields()...)
}

// CardFields are those that make it a card.
func (d *Draft) CardFields() []conf.Field {
	function := conf.Object(d.functionFields(new(Config)))
	port := new(Port)
	return []conf.Field{
		{Name: "port_mode", Expect: "ports of a card and its engines: " + strings.Join(fastlinq.PortModes(), ", "),
			Schema: conf.Choice(fastlinq.PortModes()...),
			Set:    d.ofFastLinQ("port_mode", conf.Word(&d.PortMode, fastlinq.PortModes()...))},
		{Name: "mf_mode", Expect: "npar, ovlan or ufp: how functions of one port are told apart",
			Schema: conf.Choice("npar", "ovlan", "ufp"),
			Set:    d.ofFastLinQ("mf_mode", conf.Word(&d.MFMode, "npar", "ovlan", "ufp"))},
		{Name: "ports", Schema: conf.ListOf(conf.Schema{"anyOf": []conf.Schema{{"type": "string"},
			conf.Object(port.fields())}}),
			Node: func(n conf.Node) error {
				return n.Each(1, "ports: expected a list of TAPs or wires, such as [wire0, wire1]", d.addPort)
			}},
		{Name: "functions", Schema: conf.ListOf(function), Node: func(n conf.Node) error {
			return n.Each(1, "functions: expected a list with at least one function", func(n conf.Node, _ int) error {
				d.nodes = append(d.nodes, n)
				d.functions = append(d.functions, func(fields []conf.Field) error {
					return conf.Decode(n, "the settings of a function", fields)
				})
				return nil
			})
		}},
	}
}

// notIdeal says why an ideal card has no such setting.
var notIdeal = map[string]string{
	"port_mode": "hardware ideal has no port modes: its ports are those in `ports`, and those that functions name",
	"mf_mode": "hardware ideal has no management firmware that gives out outer VLANs: functions of one port are told " +
		"apart by station address: leave mf_mode out",
}

// ofFastLinQ refuses a setting that an ideal card has not.
func (d *Draft) ofFastLinQ(name string, set conf.Setter) conf.Setter {
	return func(v string) error {
		if d.ideal() {
			return conf.Refusal(notIdeal[name])
		}
		return set(v)
	}
}

// SetCard sets what makes it a card.
func (d *Draft) SetCard(name, value string) error { return conf.Set(d.CardFields(), name, value) }

// AddPort names the TAP or the wire of the next port.
func (d *Draft) AddPort(text string) error {
	var p Port
	err := p.set(text)
	d.Ports = append(d.Ports, p)
	return err
}

// set reads the name of a TAP, or a wire.
func (p *Port) set(text string) error {
	if wires.Is(text) {
		p.Wire = text
		return wires.Check(text)
	}
	if p.TAP = text; tap.CheckName(text) != nil {
		return fmt.Errorf("%q: expected %s, or a wire: %s", text, tapExpect, wires.Expect)
	}
	return nil
}

const tapExpect = "an interface name such as wire0, at most 15 characters"

// AddFunction adds a function of words such as name=f0 ip=10.0.0.1/24.
func (d *Draft) AddFunction(words string) error {
	d.functions = append(d.functions, func(fields []conf.Field) error {
		for _, w := range strings.Fields(words) {
			key, value, ok := strings.Cut(w, "=")
			if !ok {
				return fmt.Errorf("function %q: %q: expected settings such as name=f0 ip=10.0.0.1/24", words, w)
			}
			if err := conf.Set(fields, key, value); err != nil {
				return fmt.Errorf("function %q: %w", words, err)
			}
		}
		return nil
	})
	return nil
}

func (p *Port) fields() []conf.Field {
	return []conf.Field{
		{Name: "tap", Expect: tapExpect, Set: conf.Checked(&p.TAP, tap.CheckName)},
		{Name: "wire", Expect: wires.Expect, Set: conf.Checked(&p.Wire, wires.Check)},
		{Name: "tap_ip", Expect: "an address with prefix length, such as 10.0.0.254/24 or fd00::fe/64", Many: true,
			Set: conf.Append(&p.TAPIP, conf.Prefixes(netip.Addr.IsValid))},
	}
}

func (d *Draft) addPort(n conf.Node, _ int) error {
	var p Port
	if text, ok := n.Text(); ok {
		if err := p.set(text); err != nil {
			return n.Errorf("ports: %v", err)
		}
	} else if err := conf.Decode(n, "the name of a TAP or the settings of a port", p.fields()); err != nil {
		return err
	}
	if p.Wire != "" && (p.TAP != "" || len(p.TAPIP) > 0) {
		return n.Errorf("ports: wire takes the place of a TAP: leave out tap and tap_ip")
	}
	d.Ports = append(d.Ports, p)
	return nil
}

// ofCard are the settings that all functions of a card have from it.
var ofCard = []string{"tap", "wire", "tap_fd", "tap_ip", "frames", "hardware", "engines"}

// functionFields are the settings of a function.
func (d *Draft) functionFields(c *Config) []conf.Field {
	return append(conf.Without(c.Fields(), ofCard...), conf.Field{Name: "port",
		Expect: "the number of the function's port, from 0", Set: conf.Int(&c.Port, 0, 3)})
}

// Finish returns the NIC, or the functions of the card. The error of a function has
// its place in the file.
func (d *Draft) Finish() ([]Config, error) {
	if len(d.functions) == 0 {
		if d.PortMode != "" || d.MFMode != "" || d.Ports != nil {
			return nil, fmt.Errorf("port_mode, mf_mode and ports are about several functions: give functions")
		}
		return []Config{d.Config}, d.Validate()
	}
	mode, err := d.portMode()
	if err != nil {
		return nil, err
	}
	card := &Card{Name: d.Name, Ports: d.Ports, Ideal: d.ideal(),
		AdapterConfig: fastlinq.AdapterConfig{Mode: mode, MF: mfModes[d.MFMode]}}
	if problem := d.refused(&mode); problem != "" {
		return nil, fmt.Errorf("%s: %s", d.Name, problem)
	}
	for len(card.Ports) < mode.Ports {
		card.Ports = append(card.Ports, Port{})
	}
	list := make([]Config, len(d.functions))
	for i, read := range d.functions {
		c := &list[i]
		*c = d.Config
		c.FastLinQ() // is the default
		c.NIC.Hardware = c.NIC.Hardware.Clone()
		c.Name, c.Card, c.Function, c.Port = fmt.Sprintf("%sf%d", d.Name, i), card, i, i%mode.Ports
		if err := read(d.functionFields(c)); err != nil {
			return nil, err
		}
		for card.Ideal && len(card.Ports) <= c.Port {
			card.Ports = append(card.Ports, Port{})
		}
		card.Functions = append(card.Functions, c.Port)
		card.MTU = max(card.MTU, c.WithDefaults().MTU)
		port := &card.Ports[min(c.Port, len(card.Ports)-1)]
		c.TAP, c.Wire, c.TAPIP = port.TAP, port.Wire, nil
		if mode.CMT {
			c.FastLinQ().Engines = mode.Engines
		}
	}
	if !card.Ideal {
		if err := card.AdapterConfig.Validate(); err != nil {
			return nil, fmt.Errorf("functions: %w", err)
		}
	}
	for i := range list {
		if err := d.check(&list[i]); err != nil {
			return nil, d.place(i, err)
		}
	}
	return list, nil
}

// maxPorts and maxFunctions bound an ideal card.
const (
	maxPorts     = 4
	maxFunctions = 16
)

// portMode is that of a FastLinQ card; an ideal one has the ports that are named.
func (d *Draft) portMode() (fastlinq.PortMode, error) {
	if d.ideal() {
		return fastlinq.PortMode{Name: "of hardware ideal", Ports: max(1, len(d.Ports)), Functions: maxFunctions}, nil
	}
	m, err := fastlinq.ParsePortMode(d.PortMode)
	if err != nil {
		err = fmt.Errorf("port_mode: expected one of %s", strings.Join(fastlinq.PortModes(), ", "))
	}
	return m, err
}

// refused is what the entry of a card cannot have.
func (d *Draft) refused(m *fastlinq.PortMode) string {
	return cmp.Or(
		conf.Problem(d.TAP != "" || d.Wire != "" || d.TAPFD != 0 || len(d.TAPIP) > 0,
			"tap and wire are of one port: give ports"),
		conf.Problem(len(d.Ports) > m.Ports, "ports: %d TAPs: port mode %s has %d", len(d.Ports), m.Name, m.Ports),
		conf.Problem(len(d.Addrs()) > 0 || d.HostTAP != "" || d.MAC != [6]byte{}, "ip, mac and host_tap are of one "+
			"function: give them there"),
		conf.Problem(d.ideal() && d.PortMode != "", "port_mode: %s", notIdeal["port_mode"]),
		conf.Problem(d.ideal() && d.MFMode != "", "mf_mode: %s", notIdeal["mf_mode"]),
		conf.Problem(d.ideal() && (len(d.Ports) > maxPorts || len(d.functions) > maxFunctions),
			"hardware ideal has up to %d ports and %d functions, not %d and %d", maxPorts, maxFunctions, len(d.Ports),
			len(d.functions)),
		conf.Problem(d.Config.Engines() > 1, "engines follow from port_mode: leave it out"))
}

// check finds what is wrong with a function.
func (d *Draft) check(c *Config) error {
	if err := c.Validate(); err != nil || c.Card.Ideal {
		return err
	}
	if c.NIC.RDMA.MaxCNQ == 0 && c.NIC.RDMA.Personality.RDMA() {
		c.NIC.RDMA.MaxCNQ = max(c.NIC.RDMA.DesiredCNQs, min(verbs.DefaultLimits().MaxCNQ, c.Card.CNQs(c.Function)))
	}
	if err := c.Card.Fits(c.Function, c.Queues, c.NIC.RDMA.MaxCNQ); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	if tag := c.FastLinQ().Link.OVLAN; c.Card.tags() != (tag != 0) {
		return fmt.Errorf("%s: ovlan %d: a function has an outer VLAN with mf_mode ovlan or ufp, and only then",
			c.Name, tag)
	}
	if c.Card.MF != fastlinq.UFP && c.FastLinQ().Link.UFP != (fastlinq.Link{}).UFP {
		return fmt.Errorf("%s: ufp_tc and ufp_pri are of functions with mf_mode ufp", c.Name)
	}
	return nil
}

// place gives an error the place of a function in the file.
func (d *Draft) place(i int, err error) error {
	if i < len(d.nodes) {
		return d.nodes[i].Place(err)
	}
	return err
}

// FirstOnPort tells whether the NIC is no function of a card, or the first one on its
// port.
func (c *Config) FirstOnPort() bool {
	return c.Card == nil || slices.Index(c.Card.Functions, c.Port) == c.Function
}
