package ethtool

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/view"
)

// featureOptions show and change the offloads of a device.
var featureOptions = []Option{
	{Short: "k", Long: "show-features", Example: "-k nic0", Usage: "offloads and other features", run: printFeatures},
	{Short: "K", Long: "features", Example: "-K nic0 tso off rx-gro-hw on",
		Usage:    "change them: NAME on|off ..., such as tso off, rx-gro-hw on",
		Operands: "NAME on|off ...", run: setFeatures},
}

// oldFeatures are the names that ethtool has for features besides the kernel's:
// a short one for -K, the line of -k, and a pattern of the kernel's names.
var oldFeatures = []struct{ short, line, pattern string }{
	{"rx", "rx-checksumming", "rx-checksum"},
	{"tx", "tx-checksumming", "tx-checksum-*"},
	{"sg", "scatter-gather", "tx-scatter-gather*"},
	{"tso", "tcp-segmentation-offload", "tx-tcp*-segmentation"},
	{"gso", "generic-segmentation-offload", "tx-generic-segmentation"},
	{"gro", "generic-receive-offload", "rx-gro"},
	{"lro", "large-receive-offload", "rx-lro"},
	{"rxvlan", "rx-vlan-offload", "rx-vlan-hw-parse"},
	{"txvlan", "tx-vlan-offload", "tx-vlan-hw-insert"},
	{"ntuple", "ntuple-filters", "rx-ntuple-filter"},
	{"rxhash", "receive-hashing", "rx-hashing"},
}

// matches tells whether the pattern means a feature.
func matches(pattern, feature string) bool {
	ok, err := path.Match(pattern, feature)
	return ok && err == nil
}

func printFeatures(c *call) error {
	c.printf("Features for %s:\n", c.Name)
	rest := slices.Clone(c.nic.Features)
	for _, old := range oldFeatures {
		group := strings.Contains(old.pattern, "*")
		of := slices.DeleteFunc(slices.Clone(rest), func(f view.EthtoolFeature) bool {
			return !matches(old.pattern, f.Name)
		})
		rest = slices.DeleteFunc(rest, func(f view.EthtoolFeature) bool { return matches(old.pattern, f.Name) })
		if group {
			on := slices.ContainsFunc(of, func(f view.EthtoolFeature) bool { return f.On })
			c.printf("%s: %s\n", old.line, onOff(on))
		}
		for _, f := range of {
			c.printFeature(either(group, "\t"+f.Name, old.line), f)
		}
	}
	for _, f := range rest {
		c.printFeature(f.Name, f)
	}
	return nil
}

func (c *call) printFeature(name string, f view.EthtoolFeature) {
	state := onOff(f.On)
	switch {
	case f.Fixed:
		state += " [fixed]"
	case f.On != f.Wanted:
		state += " [requested " + onOff(f.Wanted) + "]"
	}
	c.printf("%s: %s\n", name, state)
}

// setFeatures is ethtool -K. It prints what differs from what was asked for.
func setFeatures(c *call) error {
	wanted, err := wantedFeatures(c.nic.Features, c.operands)
	if err != nil {
		return err
	}
	var settings []ctl.Setting
	impossible := len(c.operands) == 0
	for _, f := range c.nic.Features {
		on, asked := wanted[f.Name]
		switch {
		case asked && f.Fixed && f.On != on:
			impossible = true
		case asked && !f.Fixed && f.Wanted != on:
			settings = append(settings, featureSettings(c.nic, &f, on)...)
		}
	}
	if err := c.set("Cannot change features", settings...); err != nil {
		return err
	}
	after, _, err := Open(c, c.client, c.nic.Netdev)
	if err != nil {
		return err
	}
	if after == nil {
		return fmt.Errorf("Cannot change features: %s has ended", c.Name)
	}
	c.printf("%s", actualChanges(c.nic.Features, after.nic.Features, wanted))
	if settings == nil && impossible {
		return errors.New("Could not change any device features")
	}
	return nil
}

// wantedFeatures are the features that operands name, with on or off.
func wantedFeatures(list []view.EthtoolFeature, operands []string) (map[string]bool, error) {
	wanted := map[string]bool{}
	for i := 0; i < len(operands); i += 2 {
		name := operands[i]
		pattern := name
		for _, old := range oldFeatures {
			if name == old.short || name == old.line {
				pattern = old.pattern
			}
		}
		if i+1 == len(operands) || operands[i+1] != "on" && operands[i+1] != "off" {
			return nil, usage.Errorf("ethtool (-K): flag '%s' is not followed by 'on' or 'off'", name)
		}
		known := false
		for _, f := range list {
			if f.Name == pattern || pattern != name && matches(pattern, f.Name) {
				wanted[f.Name], known = operands[i+1] == "on", true
			}
		}
		if !known {
			return nil, usage.Errorf("ethtool (-K): unknown feature '%s': see: tapir ethtool -k", name)
		}
	}
	return wanted, nil
}

// featureSettings turn a feature on or off. Rules go with the filters, as
// drivers do it.
func featureSettings(e *view.EthtoolInfo, f *view.EthtoolFeature, on bool) []ctl.Setting {
	list := []ctl.Setting{{Name: f.Setting, Value: either(on, f.Values[1], f.Values[0])}}
	if f.Setting == "ntuple_filters" && !on && len(e.Rules) > 0 {
		list = append(list, ctl.Setting{Name: "ntuple", Value: "none"})
	}
	return list
}

// actualChanges lists the features that changed, unless they are just those
// that were asked for.
func actualChanges(before, after []view.EthtoolFeature, wanted map[string]bool) string {
	text := "Actual changes:\n"
	surprise := false
	for i, f := range after {
		on, asked := wanted[f.Name]
		changed, note := i < len(before) && before[i].On != f.On, ""
		switch {
		case asked && f.On != on:
			note = " [requested " + onOff(on) + "]"
		case changed && !asked:
			note = " [not requested]"
		case !changed:
			continue
		}
		surprise = surprise || note != ""
		text += f.Name + ": " + onOff(f.On) + note + "\n"
	}
	return either(surprise, text, "")
}
