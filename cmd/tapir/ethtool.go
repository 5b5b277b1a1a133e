package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/ctl"
	"tapir/lab/fabric"
)

func newEthtool() *cobra.Command {
	var stats, info, stamps, all bool
	cmd := &cobra.Command{
		Use:   "ethtool {-S|-i|-T} NETDEV",
		Short: "Show a NIC as ethtool does",
		Long: "Ethtool prints the statistics (-S) or the driver (-i) of the virtual NIC whose host TAP is\n" +
			"NETDEV, in the format of ethtool(8). -S prints the 39 of the Linux driver opa_vnic in its\n" +
			"order, with --all also Tapir's own: learned stations, queues, and a counter for each drop reason.\n\n" +
			"-T prints the time stamps that a NIC has, which is named by itself or by one of its TAPs.",
		Example: "  tapir ethtool -S opa-vesw2\n  tapir ethtool -S --all opa-vesw2\n  tapir ethtool -i opa-vesw2\n  tapir ethtool -T nic0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("the netdev is missing: see: tapir ethtool --help")
			}
			return atMost(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := len(slices.DeleteFunc([]bool{stats, info, stamps}, func(on bool) bool { return !on })); n != 1 {
				return usagef("one of -S, -i and -T is needed: see: tapir ethtool --help")
			}
			if stamps {
				return printTimestamping(cmd, args[0])
			}
			e, err := findNetdev(cmd, args[0])
			if err != nil {
				return err
			}
			if info {
				return printDriver(cmd.OutOrStdout(), e)
			}
			return printStats(cmd.OutOrStdout(), e, all)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&stats, "statistics", "S", false, "statistics")
	f.BoolVarP(&info, "driver", "i", false, "driver information")
	f.BoolVarP(&stamps, "show-time-stamping", "T", false, "time stamps and hardware clock")
	f.BoolVar(&all, "all", false, "with -S: also the counters that the Linux driver has not")
	return cmd
}

// findNetdev asks the running HFIs whose host TAP that is.
func findNetdev(cmd *cobra.Command, netdev string) (found fabric.EthtoolInfo, err error) {
	var known []string
	for _, name := range ctl.List() {
		c, err := ctl.Dial(name)
		if err != nil {
			return found, err
		}
		var list []fabric.EthtoolInfo
		err = c.Show(cmd.Context(), "ethtool", &list)
		c.Close()
		if err != nil {
			continue // not an HFI
		}
		for _, e := range list {
			if e.Netdev == netdev {
				return e, nil
			}
			known = append(known, e.Netdev)
		}
	}
	if known == nil {
		return found, fmt.Errorf("no virtual NIC is running: start one with: tapir vnic")
	}
	return found, fmt.Errorf("%s is no host TAP of a virtual NIC: choose one of %s", netdev, strings.Join(known, ", "))
}

func printStats(w io.Writer, e fabric.EthtoolInfo, all bool) error {
	list := e.Stats
	if !all && len(list) > fabric.DriverStats {
		list = list[:fabric.DriverStats]
	}
	var b strings.Builder
	b.WriteString("NIC statistics:\n")
	for _, c := range list {
		fmt.Fprintf(&b, "     %s: %d\n", c.Name, c.Value)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printDriver(w io.Writer, e fabric.EthtoolInfo) error {
	_, err := fmt.Fprintf(w, "driver: %s\nversion: %s\nfirmware-version: \nexpansion-rom-version: \nbus-info: %s\n"+
		"supports-statistics: yes\nsupports-test: no\nsupports-eeprom-access: no\nsupports-register-dump: no\nsupports-priv-flags: no\n",
		e.Driver, e.Version, e.BusInfo)
	return err
}
