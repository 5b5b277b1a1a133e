package ethtool

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/msglog"
	"tapir/nic/view"
)

// changeOptions change what the settings show.
var changeOptions = []Option{{Short: "s", Long: "change", Example: "-s nic0 speed 10000 autoneg off",
	Usage: "change settings: speed N, duplex full, autoneg on|off, advertise MASK or MODE on|off ..., " +
		"wol g|d, msglvl N, N/MASK, or TYPE on|off ...",
	Operands: "speed N autoneg on|off ...", run: changing("Cannot set new settings", changeLink)}}

// printSettings is ethtool without an option.
func printSettings(c *call) error {
	l := &c.nic.Link
	if c.fabric { // no link modes: as ethtool prints what a driver knows nothing else of
		c.printf("Settings for %s:\n\tLink detected: %s\n", c.Name, either(l.Up, "yes", "no"))
		return nil
	}
	c.printf("Settings for %s:\n\tSupported ports: [ %s ]\n", c.Name, strings.Join(l.Ports, " "))
	c.printModes("Supported", "Supports", &l.Supported)
	c.printModes("Advertised", "Advertised", &l.Advertised)
	if p := &l.Partner; p.Autoneg || len(p.Modes) > 0 {
		c.printModes("Link partner advertised", "Link partner advertised", p)
	}
	speed, duplex := "Unknown!", "Unknown! (255)"
	if l.Up {
		speed, duplex = fmt.Sprintf("%dMb/s", l.Speed), "Full"
	}
	c.printf("\tSpeed: %s\n\tDuplex: %s\n\tAuto-negotiation: %s\n\tPort: %s\n\tPHYAD: 0\n\tTransceiver: internal\n",
		speed, duplex, onOff(l.Autoneg), l.Port)
	if slices.Contains(l.Ports, "TP") {
		c.printf("\tMDI-X: Unknown\n")
	}
	c.printf("\tSupports Wake-on: g\n\tWake-on: %s\n%s\tLink detected: %s\n",
		either(l.WoL, "g", "d"), msglvlLine(c.nic.Msglvl), either(l.Up, "yes", "no"))
	return nil
}

// printModes is a block about one end of the link; autoneg begins the line
// about auto-negotiation.
func (c *call) printModes(who, autoneg string, m *view.EthtoolModes) {
	c.listModes(fmt.Sprintf("%-24s", who+" link modes:  "), m.Modes)
	pause := map[[2]bool]string{{true, true}: "Symmetric Receive-only", {true, false}: "Symmetric",
		{false, true}: "Transmit-only", {false, false}: "No"}[[2]bool{m.Pause, m.AsymPause}]
	c.printf("\t%s pause frame use: %s\n\t%s auto-negotiation: %s\n\t%s FEC modes: Not reported\n",
		who, pause, autoneg, either(m.Autoneg, "Yes", "No"), who)
}

// linkChange is what ethtool -s was asked for. Nothing is sent before all of it
// has been understood.
type linkChange struct {
	autoneg   string // on or off; empty: as it is
	speed     string
	advertise string // speeds, as link_advertise has them
	settings  []ctl.Setting
}

func (l *linkChange) set(name, value string) {
	l.settings = append(l.settings, ctl.Setting{Name: name, Value: value})
}

// changeLink is ethtool -s.
func changeLink(c *call) ([]ctl.Setting, error) {
	if len(c.operands) == 0 {
		return nil, usage.Errorf("what to change is missing: "+
			"tapir ethtool -s %s speed 10000 autoneg off: see: tapir ethtool --help", c.Name)
	}
	var l linkChange
	if err := each(c.operands, func(name string, values []string) (int, error) {
		return l.take(c, name, values)
	}); err != nil {
		return nil, err
	}
	return l.settings, l.resolve(&c.nic.Link)
}

// resolve turns speed, advertise and autoneg into settings of the NIC.
func (l *linkChange) resolve(have *view.EthtoolLink) error {
	auto := l.autoneg == "on" || l.autoneg == "" && have.Autoneg
	switch {
	case !auto && l.advertise != "":
		return fmt.Errorf("advertise: without auto-negotiation nothing is advertised: add autoneg on")
	case auto && l.speed != "" && l.advertise != "":
		return fmt.Errorf("speed and advertise exclude each other: what is negotiated is what is advertised")
	case auto && l.speed != "":
		l.advertise = l.speed
	case !auto && l.speed == "" && have.Autoneg: // it stays as it is
		i := slices.IndexFunc(have.Supported.Modes, func(m view.EthtoolMode) bool { return m.Mbps == have.Speed })
		if i < 0 {
			return fmt.Errorf("autoneg off: the link has no speed that could stay: add speed N")
		}
		l.speed = have.Supported.Modes[i].Speed
	}
	if !auto && l.speed != "" {
		l.set("link_speed", l.speed)
	}
	if auto && l.autoneg == "on" {
		l.set("link_speed", "auto")
	}
	if l.advertise != "" {
		l.set("link_advertise", l.advertise)
	}
	return nil
}

// changeable are the settings that -s changes.
var changeable = []string{"speed", "duplex", "autoneg", "advertise", "wol", "msglvl"}

// take takes in one setting with its value, which is n of the operands that
// follow its name.
func (l *linkChange) take(c *call, name string, values []string) (n int, err error) {
	v := values[0]
	switch name {
	case "speed":
		l.speed, err = speedOf(c, v)
	case "duplex":
		if v == "half" {
			err = fmt.Errorf("duplex half: %s has link modes of full duplex only", c.Name)
		} else if v != "full" {
			err = usage.Errorf("duplex %s: expected full", v)
		}
	case "autoneg":
		l.autoneg = v
		_, err = wantOnOff(name, v)
	case "advertise":
		l.advertise, n, err = changeModes(c.nic.Link.Advertised.Modes, c.nic.Link.Supported.Modes, values)
		if err == nil && l.advertise == "" {
			err = fmt.Errorf("advertise %s: none of %s's link modes is left", strings.Join(values[:n], " "), c.Name)
		}
		return n, err
	case "wol":
		if v == "" || strings.Trim(v, "pumbagsfd") != "" {
			err = usage.Errorf("wol %s: expected g (magic packet) or d (nothing)", v)
		} else if v != "g" && v != "d" {
			err = fmt.Errorf("wol %s: %s can be woken by g, a magic packet; d: by nothing", v, c.Name)
		}
		l.set("wol", v)
	case "msglvl":
		return l.takeMsglvl(c, values)
	default:
		err = usage.Errorf("%q cannot be changed: choose one of %s", name, strings.Join(changeable, ", "))
	}
	return 1, err
}

// speedOf is a speed in Mb/s as settings have it.
func speedOf(c *call, v string) (string, error) {
	mbps, err := count(v)
	if err != nil {
		return "", usage.Errorf("speed %s: expected a number of Mb/s", v)
	}
	var have []int
	for _, m := range c.nic.Link.Supported.Modes {
		if m.Mbps == int(mbps) {
			return m.Speed, nil
		}
		have = append(have, m.Mbps)
	}
	if have == nil {
		return "", fmt.Errorf("speed %s: %s has no link modes to choose from", v, c.Name)
	}
	slices.Sort(have)
	return "", fmt.Errorf("speed %s: %s has %s Mb/s", v, c.Name, strings.Trim(fmt.Sprint(slices.Compact(have)), "[]"))
}

// takeMsglvl takes the message level: a number, or names to the end or to the
// name of another setting.
func (l *linkChange) takeMsglvl(c *call, values []string) (n int, err error) {
	n = 1
	if strings.Trim(values[0][:min(1, len(values[0]))], "0123456789") != "" {
		for n = 0; n < len(values) && !slices.Contains(changeable, values[n]); {
			n += 2
		}
		n = min(n, len(values))
	}
	word, err := newMsglvl(c.nic.Msglvl, values[:n])
	l.set("msglvl", strconv.FormatUint(uint64(word), 10))
	return n, err
}

// msglvlLine is the message level as the settings show it, its topics below.
func msglvlLine(word uint32) string {
	var names []string
	for bit, name := range msglog.Modules {
		if name != "" && word&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return fmt.Sprintf("        Current message level: 0x%08x (%d)\n                               %s\n",
		word, word, strings.Join(names, " "))
}

// newMsglvl is old as operands change it: a number, a number with a mask of
// the bits that it changes, or names of topics with on or off.
func newMsglvl(old uint32, operands []string) (uint32, error) {
	if len(operands) == 1 {
		value, mask, masked := strings.Cut(operands[0], "/")
		word, err := count(value)
		bits := uint64(1<<32 - 1)
		if err == nil && masked {
			bits, err = count(mask)
		}
		if err != nil {
			return 0,
				usage.Errorf("message level %q: expected a number of 32 bits, one with a mask, or names with on or off",
					operands[0])
		}
		return old&^uint32(bits) | uint32(word&bits), nil
	}
	if len(operands)%2 != 0 {
		return 0, usage.Errorf("message level: %s lacks on or off", operands[len(operands)-1])
	}
	for i := 0; i < len(operands); i += 2 {
		topics, err := msglog.ParseTopics(operands[i])
		if err != nil {
			return 0, usage.Wrap(err)
		}
		on, err := parseOnOff(operands[i+1])
		if err != nil {
			return 0, usage.Errorf("message level: %s %s: expected on or off", operands[i], operands[i+1])
		}
		old &^= uint32(topics)
		if on {
			old |= uint32(topics)
		}
	}
	return old, nil
}
