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

// printSettings is ethtool without an option.
func printSettings(cmd *cobra.Command, d *netdev, _ []string) error {
	if err := d.notVNIC(); err != nil {
		return err
	}
	speed, duplex, detected := "Unknown!", "Unknown! (255)", "no"
	if l := d.nic.Link; l.Up {
		speed, duplex, detected = fmt.Sprintf("%dMb/s", l.Speed), "Full", "yes"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Settings for %s:\n"+
		"\tSpeed: %s\n\tDuplex: %s\n\tAuto-negotiation: %s\n\tPort: Other\n\tPHYAD: 0\n\tTransceiver: internal\n%s\tLink detected: %s\n",
		d.name, speed, duplex, onOff(d.nic.Link.Autoneg), msglvlLine(d.nic.Msglvl), detected)
	return err
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
