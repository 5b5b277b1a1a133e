package ptpconf

import (
	"fmt"
	"sync"

	unit "tapir/nic/ptp"

	"tapir/lab/conf"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// Setting is one setting by name.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// profileKey is the setting that the defaults of all others follow from.
const profileKey = "profile"

// nicFields are the settings of a NIC's instance, bound to c: those of package
// ptpconf, and those of its carriage.
func nicFields(c *unit.InstanceConfig) []conf.Field {
	var profile ptp.Profile // it has been looked at before
	return append([]conf.Field{
		{Name: profileKey, Expect: "default-e2e, default-p2p, gptp, automotive, g8275.1, g8275.2 or power",
			Set: conf.Parsed(&profile, ptp.ParseProfile)},
		{Name: "transport", Expect: "L2, UDPv4 or UDPv6", Set: conf.Unmarshaled(&c.Transport)},
		{Name: "local", Expect: "true or false: everything goes to the group that bridges do not forward",
			Set: conf.Bool(&c.Local)},
		{Name: "dscp", Expect: "a number from 0 to 63", Set: conf.Number(&c.DSCP, 0, 63)},
		{Name: "set_from_wire", Expect: "true or false: management messages of the network may change settings",
			Set: conf.Bool(&c.SetFromWire)},
	}, Instance(&c.Config)...)
}

// Flag is a setting that one word sets.
type Flag struct {
	Name, Expect string
	Switch       bool // it is on or off
}

// Flags are the settings for a command line.
func Flags() (list []Flag) {
	one := unit.InstanceConfig{Config: ptp.Config{Ports: make([]ptp.PortConfig, 1)}}
	for _, f := range nicFields(&one) {
		if f.Set != nil {
			truth := f.Set("true") == nil && f.Set("false") == nil && f.Set("0") == nil
			list = append(list, Flag{f.Name, f.Expect, truth})
		}
	}
	return list
}

// Configure returns the configuration of a NIC's instance: its defaults for the
// profile, changed by a YAML file (path is for messages, no data: no file), changed by
// settings. Errors in the file name line and column.
func Configure(defaults func(ptp.Profile) unit.InstanceConfig, path string, data []byte,
	settings []Setting) (c unit.InstanceConfig, err error) {
	var body conf.Node
	var profile ptp.Profile
	if len(data) > 0 {
		if body, err = conf.Read(path, data, "the settings of a PTP instance, such as `profile: default-e2e`"); err !=
			nil {
			return c, err
		}
		if profile, err = profileIn(body); err != nil {
			return c, err
		}
	}
	for _, s := range settings {
		if s.Name == profileKey {
			if profile, err = ptp.ParseProfile(s.Value); err != nil {
				return c, err
			}
		}
	}
	c = defaults(profile)
	if len(data) > 0 {
		if err := conf.Decode(body, "the settings of a PTP instance", nicFields(&c)); err != nil {
			return c, err
		}
	}
	for _, s := range settings {
		if err := conf.Set(nicFields(&c), s.Name, s.Value); err != nil {
			return c, err
		}
	}
	return c, check(&c)
}

// Schema describes the settings in a file. It is made once: each NIC has it.
var Schema = sync.OnceValue(func() conf.Schema { return conf.Object(nicFields(new(unit.InstanceConfig))) })

// Check finds mistakes in the settings of a NIC's instance, which is not there
// yet.
func Check(body conf.Node) error {
	profile, err := profileIn(body)
	if err != nil {
		return err
	}
	c := unit.InstanceConfig{Config: ptp.NewConfig(profile, msg.ClockIdentity{1}, 1)} // the real one is that of the NIC
	if err := conf.Decode(body, "the settings of a PTP instance", nicFields(&c)); err != nil {
		return err
	}
	return check(&c)
}

// check finds settings that do not go together.
func check(c *unit.InstanceConfig) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Transport == transport.Ethernet && c.DSCP != 0 {
		return fmt.Errorf("dscp: frames of transport L2 have none: choose UDPv4 or UDPv6")
	}
	return nil
}

// profileIn is the profile that a file names, the default one if it names none.
func profileIn(body conf.Node) (p ptp.Profile, err error) {
	entries, err := body.Map("the settings of a PTP instance")
	if err != nil {
		return p, err
	}
	for _, e := range entries {
		if e.Name != profileKey {
			continue
		}
		name, _ := e.Value.Text()
		if p, err = ptp.ParseProfile(name); err != nil {
			return p, e.Value.Errorf("%v", err)
		}
	}
	return p, nil
}
