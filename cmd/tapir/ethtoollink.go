package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// linkOptions show and change the link.
func linkOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "a", long: "show-pause", usage: "flow control", run: printPause},
	}
}

func printPause(cmd *cobra.Command, d *netdev, _ []string) error {
	if err := d.notVNIC(); err != nil {
		return err
	}
	p := d.nic.Pause
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Pause parameters for %s:\nAutonegotiate:\t%s\nRX:\t\t%s\nTX:\t\t%s\n",
		d.name, onOff(p.Autoneg), onOff(p.Rx), onOff(p.Tx))
	return err
}
