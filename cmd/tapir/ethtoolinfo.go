package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/node/hfinode"
	"tapir/nic"
)

// infoOptions show what a device is, and what it has counted.
func infoOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "i", long: "driver", example: "-i nic0", usage: "driver information", vnic: true, run: printDriver},
		{short: "S", long: "statistics", example: "-S --all nic0", usage: "statistics", vnic: true, run: printStats},
		{short: "P", long: "show-permaddr", example: "-P nic0", usage: "permanent address", run: printPermAddr},
	}
}

func printStats(cmd *cobra.Command, d *netdev, _ []string) error {
	all, err := cmd.Flags().GetBool(allFlag)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("NIC statistics:\n")
	line := func(name string, value uint64) { fmt.Fprintf(&b, "     %s: %d\n", name, value) }
	if d.vnic != nil {
		for i, c := range d.vnic.Stats {
			if all || i < hfinode.DriverStats {
				line(c.Name, c.Value)
			}
		}
		_, err := io.WriteString(cmd.OutOrStdout(), b.String())
		return err
	}
	list := d.nic.Stats
	if all {
		var own []nic.Counter
		if err := d.client.Show(cmd.Context(), "counters", &own); err != nil {
			return err
		}
		list = append(list, own...)
	}
	for _, c := range list {
		line(c.Name, c.Value)
	}
	_, err = io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

func printDriver(cmd *cobra.Command, d *netdev, _ []string) error {
	e, its := nic.EthtoolInfo{}, "no" // what a virtual NIC has
	if d.nic != nil {
		e, its = *d.nic, "yes"
		e.Version += " [storm " + e.StormVersion + "]"
	} else {
		e.Driver, e.Version, e.BusInfo = d.vnic.Driver, d.vnic.Version, d.vnic.BusInfo
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "driver: %s\nversion: %s\nfirmware-version: %s\nexpansion-rom-version: %s\nbus-info: %s\n"+
		"supports-statistics: yes\nsupports-test: %s\nsupports-eeprom-access: %s\nsupports-register-dump: %s\nsupports-priv-flags: no\n",
		e.Driver, e.Version, e.FirmwareVersion, e.BootVersion, e.BusInfo, its, its, its)
	return err
}

func printPermAddr(cmd *cobra.Command, d *netdev, _ []string) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Permanent address: %v\n", d.nic.PermAddr)
	return err
}
