package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
)

// queueOptions show and change the queues of a device, and the flow control
// of its port.
func queueOptions() []ethtoolOption {
	return []ethtoolOption{
		{short: "g", long: "show-ring", example: "-g nic0", usage: "sizes of rings", run: printRings},
		{short: "G", long: "set-ring", example: "-G nic0 rx 1024 tx 512", usage: "change them: rx N tx N (128..8191)", operands: "rx N tx N", run: setRings},
		{short: "l", long: "show-channels", example: "-l nic0", usage: "numbers of queues", run: printChannels},
		{short: "L", long: "set-channels", example: "-L nic0 combined 2", usage: "change them: combined N", operands: "combined N", run: setChannels},
		{short: "a", long: "show-pause", example: "-a nic0", usage: "flow control", run: printPause},
		{short: "A", long: "pause", example: "-A nic0 autoneg off rx on", usage: "change it: autoneg on|off rx on|off tx on|off", operands: "autoneg on|off ...", run: setPause},
	}
}

// pairs reads operands as ethtool does: names that are known, each with a value
// that parse takes.
func pairs[T any](flag string, operands []string, parse func(string) (T, error), known ...string) (map[string]T, error) {
	values := map[string]T{}
	for i := 0; i < len(operands); i += 2 {
		name := operands[i]
		switch {
		case !slices.Contains(known, name):
			return nil, usagef("ethtool (%s): unknown parameter '%s'", flag, name)
		case i+1 == len(operands):
			return nil, usagef("ethtool (%s): no value for parameter '%s'", flag, name)
		}
		v, err := parse(operands[i+1])
		if err != nil {
			return nil, usagef("ethtool (%s): invalid value '%s' for parameter '%s'", flag, operands[i+1], name)
		}
		values[name] = v
	}
	return values, nil
}

// count is a number as ethtool reads it, in any base.
func count(s string) (uint64, error) { return strconv.ParseUint(s, 0, 32) }

func parseOnOff(s string) (bool, error) {
	if s != "on" && s != "off" {
		return false, strconv.ErrSyntax
	}
	return s == "on", nil
}

// set changes settings of the NIC; what begins ethtool's message if that fails.
func (d *netdev) set(cmd *cobra.Command, what string, settings ...ctl.Setting) error {
	if len(settings) == 0 {
		return nil
	}
	if err := d.client.Set(cmd.Context(), settings, nil); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// orNone is a number as ethtool prints it, 0 for what there is none of.
func orNone(n int) string {
	if n == 0 {
		return "n/a"
	}
	return strconv.Itoa(n)
}

func printRings(cmd *cobra.Command, d *netdev, _ []string) error {
	r := d.nic.Rings
	rows := "RX:\t\t%s\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t%s\n"
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Ring parameters for %s:\nPre-set maximums:\n"+rows+"Current hardware settings:\n"+rows,
		d.name, orNone(r.RxMax), orNone(r.TxMax), orNone(r.Rx), orNone(r.Tx))
	return err
}

func setRings(cmd *cobra.Command, d *netdev, operands []string) error {
	values, err := pairs("-G", operands, count, "rx", "tx")
	if err != nil {
		return err
	}
	r := d.nic.Rings
	var settings []ctl.Setting
	for _, ring := range []struct {
		name string
		max  int
	}{{"rx", r.RxMax}, {"tx", r.TxMax}} {
		n, given := values[ring.name]
		switch {
		case given && ring.max > 0 && n > uint64(ring.max):
			return fmt.Errorf("netlink error: requested ring size exceeds maximum: %s %d of %d", ring.name, n, ring.max)
		case given:
			settings = append(settings, ctl.Setting{Name: ring.name + "_ring", Value: strconv.FormatUint(n, 10)})
		}
	}
	return d.set(cmd, "Cannot set device ring parameters", settings...)
}

func printChannels(cmd *cobra.Command, d *netdev, _ []string) error {
	c := d.nic.Channels
	rows := "RX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\nCombined:\t%d\n"
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Channel parameters for %s:\nPre-set maximums:\n"+rows+"Current hardware settings:\n"+rows,
		d.name, c.MaxCombined, c.Combined)
	return err
}

func setChannels(cmd *cobra.Command, d *netdev, operands []string) error {
	values, err := pairs("-L", operands, count, "rx", "tx", "other", "combined")
	if err != nil {
		return err
	}
	for _, name := range []string{"rx", "tx", "other"} {
		if values[name] > 0 {
			return fmt.Errorf("netlink error: requested channel count exceeds maximum: %s %d of 0", name, values[name])
		}
	}
	n, given := values["combined"]
	switch c := d.nic.Channels; {
	case !given:
		return nil
	case n == 0:
		return errors.New("netlink error: requested channel counts would result in no RX or TX channel being configured")
	case n > uint64(c.MaxCombined):
		return fmt.Errorf("netlink error: requested channel count exceeds maximum: combined %d of %d", n, c.MaxCombined)
	case n == uint64(c.Combined):
		return nil
	}
	return d.set(cmd, "Cannot set device channel parameters", ctl.Setting{Name: "channels", Value: strconv.FormatUint(n, 10)})
}

func printPause(cmd *cobra.Command, d *netdev, _ []string) error {
	p := d.nic.Pause
	var b strings.Builder
	fmt.Fprintf(&b, "Pause parameters for %s:\nAutonegotiate:\t%s\nRX:\t\t%s\nTX:\t\t%s\n", d.name, onOff(p.Autoneg), onOff(p.Rx), onOff(p.Tx))
	if p.Autoneg {
		fmt.Fprintf(&b, "RX negotiated: %s\nTX negotiated: %s\n", onOff(p.RxNegotiated), onOff(p.TxNegotiated))
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), b.String())
	return err
}

// pauseSettings are the values of the setting by autoneg, rx and tx.
var pauseSettings = map[[3]bool]string{
	{false, false, false}: "none", {false, true, false}: "rx", {false, false, true}: "tx", {false, true, true}: "both",
	{true, false, false}: "auto-none", {true, true, false}: "auto-rx", {true, false, true}: "auto-tx", {true, true, true}: "auto",
}

func setPause(cmd *cobra.Command, d *netdev, operands []string) error {
	values, err := pairs("-A", operands, parseOnOff, "autoneg", "rx", "tx")
	if err != nil {
		return err
	}
	p := d.nic.Pause
	want := [3]bool{p.Autoneg, p.Rx, p.Tx}
	for i, name := range []string{"autoneg", "rx", "tx"} {
		if on, given := values[name]; given {
			want[i] = on
		}
	}
	if want == [3]bool{p.Autoneg, p.Rx, p.Tx} {
		return nil
	}
	return d.set(cmd, "Cannot set device pause parameters", ctl.Setting{Name: "pause", Value: pauseSettings[want]})
}
