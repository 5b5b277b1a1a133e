package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
)

// stampOptions show the time stamps of a device.
func stampOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "T", long: "show-time-stamping", example: "-T tap0", usage: "time stamps and hardware clock", run: printTimestamping},
	}
}

func printTimestamping(cmd *cobra.Command, d *netdev, _ []string) error {
	caps, err := d.client.HWTimestampCaps(cmd.Context())
	if err != nil {
		return err
	}
	return printCaps(cmd.OutOrStdout(), d.name, caps)
}
func printCaps(w io.Writer, netdev string, caps ctl.HWTimestampCaps) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Time stamping parameters for %s:\nCapabilities:\n", netdev)
	for _, c := range []string{"hardware-transmit", "software-transmit", "hardware-receive", "software-receive", "software-system-clock", "hardware-raw-clock"} {
		b.WriteString("\t" + c + "\n")
	}
	fmt.Fprintf(&b, "PTP Hardware Clock: %s\nHardware Transmit Timestamp Modes:\n", caps.Clock)
	for _, t := range caps.TxTypes {
		fmt.Fprintf(&b, "\t%v\n", t)
	}
	b.WriteString("Hardware Receive Filter Modes:\n")
	for _, f := range caps.RxFilters {
		fmt.Fprintf(&b, "\t%v\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
