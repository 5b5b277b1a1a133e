package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/nic"
)

// changeOptions change what the settings show.
func changeOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "s", long: "change", example: "-s nic0 speed 10000 autoneg off", usage: "change settings: speed N, duplex full, autoneg on|off, advertise MASK or MODE on|off ..., wol g|d, msglvl N, N/MASK, or TYPE on|off ...",
			operands: "speed N autoneg on|off ...", run: change},
	}
}

// printSettings is ethtool without an option.
func printSettings(cmd *cobra.Command, d *netdev, _ []string) error {
	l := &d.nic.Link
	var b strings.Builder
	fmt.Fprintf(&b, "Settings for %s:\n\tSupported ports: [ %s ]\n", d.name, strings.Join(l.Ports, " "))
	printModes(&b, "Supported", "Supports", &l.Supported)
	printModes(&b, "Advertised", "Advertised", &l.Advertised)
	if p := &l.Partner; p.Autoneg || len(p.Modes) > 0 {
		printModes(&b, "Link partner advertised", "Link partner advertised", p)
	}
	speed, duplex, detected := "Unknown!", "Unknown! (255)", "no"
	if l.Up {
		speed, duplex, detected = fmt.Sprintf("%dMb/s", l.Speed), "Full", "yes"
	}
	fmt.Fprintf(&b, "\tSpeed: %s\n\tDuplex: %s\n\tAuto-negotiation: %s\n\tPort: %s\n\tPHYAD: 0\n\tTransceiver: internal\n",
		speed, duplex, onOff(l.Autoneg), l.Port)
	if slices.Contains(l.Ports, "TP") {
		b.WriteString("\tMDI-X: Unknown\n")
	}
	wol := "d"
	if l.WoL {
		wol = "g"
	}
	fmt.Fprintf(&b, "\tSupports Wake-on: g\n\tWake-on: %s\n%s\tLink detected: %s\n", wol, msglvlLine(d.nic.Msglvl), detected)
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

// printModes is a block of what an end of the link has; autoneg begins the line
// about auto-negotiation.
func printModes(b *strings.Builder, who, autoneg string, m *nic.EthtoolModes) {
	listModes(b, fmt.Sprintf("%-24s", who+" link modes:  "), m.Modes)
	fmt.Fprintf(b, "\t%s pause frame use: %s\n\t%s auto-negotiation: %s\n\t%s FEC modes: Not reported\n",
		who, pauseUse(m), autoneg, map[bool]string{true: "Yes", false: "No"}[m.Autoneg], who)
}

func pauseUse(m *nic.EthtoolModes) string {
	switch {
	case m.Pause && m.AsymPause:
		return "Symmetric Receive-only"
	case m.Pause:
		return "Symmetric"
	case m.AsymPause:
		return "Transmit-only"
	}
	return "No"
}

// linkChange is what ethtool -s was asked for. Nothing is sent before all of it
// has been understood.
type linkChange struct {
	autoneg   string // on or off; empty: as it is
	speed     string
	advertise string // speeds, as link_advertise has them
	settings  []ctl.Setting
}

// change is ethtool -s.
func change(cmd *cobra.Command, d *netdev, operands []string) error {
	if len(operands) == 0 {
		return usagef("what to change is missing: tapir ethtool -s %s speed 10000 autoneg off: see: tapir ethtool --help", d.name)
	}
	var c linkChange
	for rest := operands; len(rest) > 0; {
		if len(rest) == 1 {
			return usagef("%s: its value is missing: see: tapir ethtool --help", rest[0])
		}
		n, err := c.take(d, rest[0], rest[1:])
		if err != nil {
			return err
		}
		rest = rest[1+n:]
	}
	settings, err := c.resolve(d)
	if err != nil {
		return err
	}
	return d.set(cmd, "Cannot set new settings", settings...)
}

// resolve makes settings of the NIC of what was asked for.
func (c *linkChange) resolve(d *netdev) ([]ctl.Setting, error) {
	auto := c.autoneg == "on" || c.autoneg == "" && d.nic.Link.Autoneg
	set := func(name, value string) { c.settings = append(c.settings, ctl.Setting{Name: name, Value: value}) }
	switch {
	case !auto && c.advertise != "":
		return nil, fmt.Errorf("advertise: without auto-negotiation nothing is advertised: add autoneg on")
	case auto && c.speed != "" && c.advertise != "":
		return nil, fmt.Errorf("speed and advertise exclude each other: what is negotiated is what is advertised")
	}
	if !auto {
		if c.speed == "" && d.nic.Link.Autoneg { // it stays as it is
			i := slices.IndexFunc(d.nic.Link.Supported.Modes, func(m nic.EthtoolMode) bool { return m.Mbps == d.nic.Link.Speed })
			if i < 0 {
				return nil, fmt.Errorf("autoneg off: the link has no speed that could stay: add speed N")
			}
			c.speed = d.nic.Link.Supported.Modes[i].Speed
		}
		if c.speed != "" {
			set("link_speed", c.speed)
		}
		return c.settings, nil
	}
	if c.speed != "" {
		c.advertise = c.speed
	}
	if c.autoneg == "on" {
		set("link_speed", "auto")
	}
	if c.advertise != "" {
		set("link_advertise", c.advertise)
	}
	return c.settings, nil
}

// changeable are the settings that -s changes.
var changeable = []string{"speed", "duplex", "autoneg", "advertise", "wol", "msglvl"}

// take takes in one setting with its value, which is n of the operands that
// follow its name.
func (c *linkChange) take(d *netdev, name string, values []string) (n int, err error) {
	v := values[0]
	switch name {
	case "speed":
		if c.speed, err = speedOf(d, v); err != nil {
			return 0, err
		}
	case "duplex":
		if v == "half" {
			return 0, fmt.Errorf("duplex half: %s has link modes of full duplex only", d.name)
		} else if v != "full" {
			return 0, usagef("duplex %s: expected full", v)
		}
	case "autoneg":
		if v != "on" && v != "off" {
			return 0, usagef("autoneg %s: expected on or off", v)
		}
		c.autoneg = v
	case "advertise":
		if c.advertise, n, err = changeModes(d.nic.Link.Advertised.Modes, d.nic.Link.Supported.Modes, values); err != nil {
			return 0, fmt.Errorf("advertise: %w", err)
		}
		if c.advertise == "" {
			return 0, fmt.Errorf("advertise %s: none of %s's link modes is left", strings.Join(values[:n], " "), d.name)
		}
		return n, nil
	case "wol":
		if v == "" || strings.Trim(v, "pumbagsfd") != "" {
			return 0, usagef("wol %s: expected g (magic packet) or d (nothing)", v)
		} else if v != "g" && v != "d" {
			return 0, fmt.Errorf("wol %s: %s can be woken by g, a magic packet; d: by nothing", v, d.name)
		}
		c.settings = append(c.settings, ctl.Setting{Name: "wol", Value: v})
	case "msglvl":
		return c.takeMsglvl(d, values)
	default:
		return 0, usagef("%q cannot be changed: choose one of %s", name, strings.Join(changeable, ", "))
	}
	return 1, nil
}

// speedOf is the speed of so many Mb/s as settings have it.
func speedOf(d *netdev, v string) (string, error) {
	mbps, err := strconv.ParseUint(v, 0, 32)
	if err != nil {
		return "", usagef("speed %s: expected a number of Mb/s", v)
	}
	var have []int
	for _, m := range d.nic.Link.Supported.Modes {
		if m.Mbps == int(mbps) {
			return m.Speed, nil
		}
		have = append(have, m.Mbps)
	}
	slices.Sort(have)
	return "", fmt.Errorf("speed %s: %s has %s Mb/s", v, d.name, strings.Trim(fmt.Sprint(slices.Compact(have)), "[]"))
}

// takeMsglvl takes the message level: a number, or names to the end or to the
// name of another setting.
func (c *linkChange) takeMsglvl(d *netdev, values []string) (n int, err error) {
	n = 1
	if strings.Trim(values[0][:min(1, len(values[0]))], "0123456789") != "" {
		n = 0
		for n < len(values) && !slices.Contains(changeable, values[n]) {
			n += 2
		}
		n = min(n, len(values))
	}
	word, err := newMsglvl(d.nic.Msglvl, values[:n])
	if err != nil {
		return 0, err
	}
	c.settings = append(c.settings, ctl.Setting{Name: "msglvl", Value: strconv.FormatUint(uint64(word), 10)})
	return n, nil
}
