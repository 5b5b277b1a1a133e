package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
)

// eeeOptions show and change energy-efficient Ethernet.
func eeeOptions() []ethtoolOption {
	return []ethtoolOption{
		{long: "show-eee", example: "--show-eee nic0", usage: "energy-efficient Ethernet", run: printEEE},
		{long: "set-eee", example: "--set-eee nic0 eee on tx-timer 256", usage: "change it: eee on|off tx-lpi on|off tx-timer N (us) advertise MASK or MODE on|off ...",
			operands: "eee on|off ...", run: setEEE},
	}
}

func printEEE(cmd *cobra.Command, d *netdev, _ []string) error {
	e := &d.nic.Link.EEE
	var b strings.Builder
	fmt.Fprintf(&b, "EEE settings for %s:\n\tEEE status: ", d.name)
	status := map[bool]string{true: "active", false: "inactive"}[e.Active]
	switch {
	case len(e.Supported) == 0:
		b.WriteString("not supported\n")
		_, err := io.WriteString(cmd.OutOrStdout(), b.String())
		return err
	case e.Enabled:
		fmt.Fprintf(&b, "enabled - %s\n", status)
	default:
		b.WriteString("disabled\n")
	}
	if e.TxLPI && e.TxTimer > 0 {
		fmt.Fprintf(&b, "\tTx LPI: %d (us)\n", e.TxTimer)
	} else {
		b.WriteString("\tTx LPI: disabled\n")
	}
	listModes(&b, "Supported EEE link modes:  ", e.Supported)
	listModes(&b, "Advertised EEE link modes:  ", e.Advertised)
	listModes(&b, "Link partner advertised EEE link modes:  ", e.Partner)
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

// setEEE is ethtool --set-eee.
func setEEE(cmd *cobra.Command, d *netdev, operands []string) error {
	if len(operands) == 0 {
		return usagef("what to change is missing: tapir ethtool --set-eee %s eee on", d.name)
	}
	if len(d.nic.Link.EEE.Supported) == 0 {
		return fmt.Errorf("%s has no EEE, which only twisted pairs have: start a NIC with --media base-t", d.name)
	}
	var settings []ctl.Setting
	for rest := operands; len(rest) > 0; {
		if len(rest) == 1 {
			return usagef("%s: its value is missing: see: tapir ethtool --help", rest[0])
		}
		s, n, err := eeeSetting(d, rest[0], rest[1:])
		if err != nil {
			return err
		}
		settings = append(settings, s)
		rest = rest[1+n:]
	}
	return d.set(cmd, "Cannot set EEE settings", settings...)
}

// eeeSetting is the setting that name stands for, whose value is n of values.
func eeeSetting(d *netdev, name string, values []string) (s ctl.Setting, n int, err error) {
	e, v := &d.nic.Link.EEE, values[0]
	switch name {
	case "eee", "tx-lpi":
		if v != "on" && v != "off" {
			return s, 0, usagef("%s %s: expected on or off", name, v)
		}
		if name == "eee" {
			return ctl.Setting{Name: "eee", Value: v}, 1, nil
		}
		return ctl.Setting{Name: "eee_tx_lpi", Value: map[string]string{"on": "1", "off": "0"}[v]}, 1, nil
	case "tx-timer":
		if _, err := strconv.ParseUint(v, 0, 32); err != nil {
			return s, 0, usagef("tx-timer %s: expected a number of microseconds", v)
		}
		return ctl.Setting{Name: "eee_tx_timer", Value: v}, 1, nil
	case "advertise":
		speeds, n, err := changeModes(e.Advertised, e.Supported, values)
		if err != nil {
			return s, 0, fmt.Errorf("advertise: %w", err)
		}
		if speeds == "" {
			return s, 0, fmt.Errorf("advertise %s: no mode is left: turn EEE off with eee off", strings.Join(values[:n], " "))
		}
		return ctl.Setting{Name: "eee_advertise", Value: speeds}, n, nil
	}
	return s, 0, usagef("%q cannot be changed: choose eee, tx-lpi, tx-timer or advertise", name)
}
