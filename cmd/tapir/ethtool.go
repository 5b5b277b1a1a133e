package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/node/hfinode"
	"tapir/lab/tool/ctl"
	"tapir/nic"
)

// ethtoolOption is one of ethtool's options: what it shows of a device, or
// changes. Options that belong together have a file.
type ethtoolOption struct {
	short, long, usage string
	example            string // for the help text, behind the program's name; empty: it does nothing
	operands           string // what may follow the device, for messages; empty: nothing
	vnic               bool   // virtual NICs have it, too
	run                func(cmd *cobra.Command, d *netdev, operands []string) error
}

// ethtoolOptions are all of them, in the order of the help text. Without any,
// ethtool shows the settings.
func ethtoolOptions() []ethtoolOption {
	return slices.Concat(changeOptions(), eeeOptions(), infoOptions(), featureOptions(), queueOptions(), rssOptions(), flowOptions(), coalesceOptions(), memoryOptions(), stampOptions(), selftestOptions(), flashOptions())
}

// netdev is a device that ethtool shows: a NIC, or the virtual NIC of an HFI.
type netdev struct {
	name   string // as it was named
	client *ctl.Client
	nic    *nic.EthtoolInfo     // nil: a virtual NIC
	vnic   *hfinode.EthtoolInfo // nil: a NIC
}

func newEthtool() *cobra.Command {
	var all bool
	options := ethtoolOptions()
	chosen := make([]bool, len(options))
	cmd := &cobra.Command{
		Use:   "ethtool [OPTION] DEVICE [OPERANDS]",
		Short: "Show a NIC as ethtool does, and change it",
		Long: "Ethtool prints what ethtool(8) prints of a netdev, with its options and in its format: of a\n" +
			"NIC, which is named by itself or by one of its TAPs, or of the virtual NIC of an Omni-Path HFI,\n" +
			"named by its host TAP. Without an option it prints the settings.\n\n" +
			"-S prints the statistics of the FastLinQ driver qede that are counted, in its order, or of a\n" +
			"virtual NIC the 39 of the Linux driver opa_vnic; with --all also Tapir's own counters, such as\n" +
			"one for each drop reason. --all comes before the device.",
		Example: ethtoolExamples(options),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("the device is missing: see: tapir ethtool --help")
			}
			return nil
		},
		ValidArgsFunction: completeNIC,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := chosenOption(options, chosen)
			if err != nil {
				return err
			}
			if len(args) > 1 && o.operands == "" {
				return usagef("unexpected argument %q: options come before the device: see: tapir ethtool --help", args[1])
			}
			d, err := findNetdev(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer d.client.Close()
			if d.vnic != nil && !o.vnic {
				return fmt.Errorf("%s is a virtual NIC of Omni-Path, whose driver does not support that: it has -i and -S", d.name)
			}
			return o.run(cmd, d, args[1:])
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // operands may begin with a dash, as action -1 does
	f.SortFlags = false
	for i, o := range options {
		f.BoolVarP(&chosen[i], o.long, o.short, false, o.usage)
	}
	f.BoolVar(&all, allFlag, false, "with -S: also the counters that the Linux driver has not")
	return cmd
}

const allFlag = "all"

// ethtoolExamples has one for each option.
func ethtoolExamples(options []ethtoolOption) string {
	lines := []string{"  tapir ethtool nic0"}
	for _, o := range options {
		if o.example != "" {
			lines = append(lines, "  tapir ethtool "+o.example)
		}
	}
	return strings.Join(lines, "\n")
}

// chosenOption returns the one option that was given, or that for none.
func chosenOption(options []ethtoolOption, chosen []bool) (o ethtoolOption, err error) {
	o = ethtoolOption{run: printSettings}
	first := slices.Index(chosen, true)
	if first < 0 {
		return o, nil
	}
	if second := slices.Index(chosen[first+1:], true); second >= 0 {
		return o, usagef("--%s and --%s exclude each other: see: tapir ethtool --help", options[first].long, options[first+1+second].long)
	}
	return options[first], nil
}

// findNetdev asks the running NICs and HFIs which of them has that device. The
// client of the one that is found stays open.
func findNetdev(ctx context.Context, name string) (*netdev, error) {
	var known []string
	for _, running := range ctl.List() {
		c, err := ctl.Dial(running)
		if err != nil {
			return nil, err
		}
		d := &netdev{name: name, client: c}
		var raw json.RawMessage
		if err := c.Show(ctx, "ethtool", &raw); err != nil {
			c.Close()
			continue // neither
		}
		names, err := d.match(ctx, name, raw)
		if err != nil || d.nic != nil || d.vnic != nil {
			return d, err
		}
		known = append(known, names...)
		c.Close()
	}
	if known == nil {
		return nil, fmt.Errorf("no NIC is running: start one with: %s", ctl.StartHint)
	}
	return nil, fmt.Errorf("%s is neither a NIC nor the TAP of one: choose one of %s", name, strings.Join(known, ", "))
}

// match takes the description of d that has that name from raw: one NIC, or
// the list of an HFI. names are those that there are.
func (d *netdev) match(ctx context.Context, name string, raw json.RawMessage) (names []string, err error) {
	if !bytes.HasPrefix(raw, []byte("[")) {
		var e nic.EthtoolInfo
		var row struct {
			TAP     string `json:"tap"`
			HostTAP string `json:"host_tap_name"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, err
		}
		if err := d.client.Show(ctx, "nic", &row); err != nil {
			return nil, err
		}
		if slices.Contains([]string{e.Netdev, row.TAP, row.HostTAP}, name) {
			d.nic = &e
		}
		return []string{e.Netdev}, nil
	}
	var list []hfinode.EthtoolInfo
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for i, e := range list {
		if e.Netdev == name {
			d.vnic = &list[i]
		}
		names = append(names, e.Netdev)
	}
	return names, nil
}
