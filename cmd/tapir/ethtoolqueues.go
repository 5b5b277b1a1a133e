package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// queueOptions show the queues of a device and what it does for frames.
func queueOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "k", long: "show-features", usage: "offloads and other features", run: printFeatures},
		{short: "g", long: "show-ring", usage: "sizes of rings", run: printRings},
		{short: "l", long: "show-channels", usage: "numbers of queues", run: printChannels},
	}
}

func printFeatures(cmd *cobra.Command, d *netdev, _ []string) error {
	if err := d.notVNIC(); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Features for %s:\n", d.name)
	for _, f := range d.nic.Features {
		if f.Whole != "" {
			b.WriteString("\t")
		}
		b.WriteString(f.Name + ": " + onOff(f.On))
		if f.Fixed {
			b.WriteString(" [fixed]")
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// orNone is a number as ethtool prints it, 0 for what there is none of.
func orNone(n int) string {
	if n == 0 {
		return "n/a"
	}
	return strconv.Itoa(n)
}

func printRings(cmd *cobra.Command, d *netdev, _ []string) error {
	if err := d.notVNIC(); err != nil {
		return err
	}
	r := d.nic.Rings
	rows := "RX:\t\t%s\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t%s\n"
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Ring parameters for %s:\nPre-set maximums:\n"+rows+"Current hardware settings:\n"+rows,
		d.name, orNone(r.RxMax), orNone(r.TxMax), orNone(r.Rx), orNone(r.Tx))
	return err
}

func printChannels(cmd *cobra.Command, d *netdev, _ []string) error {
	if err := d.notVNIC(); err != nil {
		return err
	}
	c := d.nic.Channels
	rows := "RX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\nCombined:\t%d\n"
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Channel parameters for %s:\nPre-set maximums:\n"+rows+"Current hardware settings:\n"+rows,
		d.name, c.MaxCombined, c.Combined)
	return err
}
