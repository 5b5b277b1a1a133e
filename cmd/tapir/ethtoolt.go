package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/ctl"
)

// printTimestamping is ethtool -T of a running NIC, named by itself or one of
// its TAPs.
func printTimestamping(cmd *cobra.Command, netdev string) error {
	var known []string
	for _, name := range ctl.List() {
		c, err := ctl.Dial(name)
		if err != nil {
			return err
		}
		var row struct {
			Name, TAP string
			HostTAP   string `json:"host_tap_name"`
		}
		err = c.Show(cmd.Context(), "nic", &row)
		var caps ctl.HWTimestampCaps
		if err == nil && (netdev == row.Name || netdev == row.TAP || netdev == row.HostTAP) {
			caps, err = c.HWTimestampCaps(cmd.Context())
			c.Close()
			if err != nil {
				return err
			}
			return printCaps(cmd.OutOrStdout(), netdev, caps)
		}
		c.Close()
		if err == nil {
			known = append(known, row.Name)
		}
	}
	if known == nil {
		return fmt.Errorf("no NIC is running: start one with: %s", ctl.StartHint)
	}
	return fmt.Errorf("%s is neither a NIC nor the TAP of one: choose one of %s", netdev, strings.Join(known, ", "))
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
