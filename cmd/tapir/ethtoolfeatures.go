package main

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/nic"
)

// featureOptions show and change what a device does for frames.
func featureOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "k", long: "show-features", example: "-k nic0", usage: "offloads and other features", run: printFeatures},
		{short: "K", long: "features", example: "-K nic0 tso off rx-gro-hw on", usage: "change them: NAME on|off ..., such as tso off, rx-gro-hw on", operands: "NAME on|off ...", run: setFeatures},
	}
}

// oldFeatures are the names that ethtool has for features besides the kernel's:
// a short one for -K, the line of -k, and what of the kernel's belongs there.
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

// matches tells whether a feature is one that the pattern means.
func matches(pattern, feature string) bool {
	ok, err := path.Match(pattern, feature)
	return ok && err == nil
}

func printFeatures(cmd *cobra.Command, d *netdev, _ []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Features for %s:\n", d.name)
	rest := slices.Clone(d.nic.Features)
	for _, old := range oldFeatures {
		of := slices.DeleteFunc(slices.Clone(rest), func(f nic.EthtoolFeature) bool { return !matches(old.pattern, f.Name) })
		rest = slices.DeleteFunc(rest, func(f nic.EthtoolFeature) bool { return matches(old.pattern, f.Name) })
		indent := ""
		if strings.Contains(old.pattern, "*") {
			on := slices.ContainsFunc(of, func(f nic.EthtoolFeature) bool { return f.On })
			fmt.Fprintf(&b, "%s: %s\n", old.line, onOff(on))
			indent = "\t"
		}
		for _, f := range of {
			if indent == "" {
				f.Name = old.line
			}
			b.WriteString(indent + featureLine(f))
		}
	}
	for _, f := range rest {
		b.WriteString(featureLine(f))
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

func featureLine(f nic.EthtoolFeature) string {
	s := f.Name + ": " + onOff(f.On)
	switch {
	case f.Fixed:
		s += " [fixed]"
	case f.On != f.Wanted:
		s += " [requested " + onOff(f.Wanted) + "]"
	}
	return s + "\n"
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// setFeatures is ethtool -K. What differs from what was asked for is printed.
func setFeatures(cmd *cobra.Command, d *netdev, operands []string) error {
	wanted, err := wantedFeatures(d.nic.Features, operands)
	if err != nil {
		return err
	}
	var settings []ctl.Setting
	before := d.nic.Features
	impossible := 0
	for i, f := range before {
		on, asked := wanted[f.Name]
		switch {
		case asked && f.Fixed && f.On != on:
			impossible++
		case asked && !f.Fixed && f.Wanted != on:
			settings = append(settings, featureSettings(d.nic, &before[i], on)...)
		}
	}
	if err := d.set(cmd, "Cannot change features", settings...); err != nil {
		return err
	}
	var after nic.EthtoolInfo
	if err := d.client.Show(cmd.Context(), "ethtool", &after); err != nil {
		return err
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), actualChanges(before, after.Features, wanted)); err != nil {
		return err
	}
	if settings == nil && (impossible > 0 || len(operands) == 0) {
		return errors.New("Could not change any device features")
	}
	return nil
}

// wantedFeatures are the features that operands name, with on or off.
func wantedFeatures(list []nic.EthtoolFeature, operands []string) (map[string]bool, error) {
	wanted := map[string]bool{}
	for i := 0; i < len(operands); i += 2 {
		pattern := operands[i]
		for _, old := range oldFeatures {
			if operands[i] == old.short || operands[i] == old.line {
				pattern = old.pattern
			}
		}
		if i+1 == len(operands) || operands[i+1] != "on" && operands[i+1] != "off" {
			return nil, usagef("ethtool (-K): flag '%s' is not followed by 'on' or 'off'", operands[i])
		}
		known := false
		for _, f := range list {
			if f.Name == pattern || pattern != operands[i] && matches(pattern, f.Name) {
				wanted[f.Name], known = operands[i+1] == "on", true
			}
		}
		if !known {
			return nil, usagef("ethtool (-K): unknown feature '%s': see: tapir ethtool -k", operands[i])
		}
	}
	return wanted, nil
}

// featureSettings turn a feature on or off. Rules go with the filters, as
// drivers do it.
func featureSettings(e *nic.EthtoolInfo, f *nic.EthtoolFeature, on bool) []ctl.Setting {
	value := f.Values[0]
	if on {
		value = f.Values[1]
	}
	list := []ctl.Setting{{Name: f.Setting, Value: value}}
	if f.Setting == "ntuple_filters" && !on && len(e.Rules) > 0 {
		list = append(list, ctl.Setting{Name: "ntuple", Value: "none"})
	}
	return list
}

// actualChanges says what has become of features, unless that is what was
// asked for and nothing else.
func actualChanges(before, after []nic.EthtoolFeature, wanted map[string]bool) string {
	var b strings.Builder
	surprise := false
	for i, f := range after {
		on, asked := wanted[f.Name]
		switch changed := i < len(before) && before[i].On != f.On; {
		case asked && f.On != on:
			fmt.Fprintf(&b, "%s: %s [requested %s]\n", f.Name, onOff(f.On), onOff(on))
			surprise = true
		case changed && !asked:
			fmt.Fprintf(&b, "%s: %s [not requested]\n", f.Name, onOff(f.On))
			surprise = true
		case changed:
			fmt.Fprintf(&b, "%s: %s\n", f.Name, onOff(f.On))
		}
	}
	if !surprise {
		return ""
	}
	return "Actual changes:\n" + b.String()
}
