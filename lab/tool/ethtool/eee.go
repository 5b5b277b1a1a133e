package ethtool

import (
	"fmt"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
)

// eeeOptions show and change energy-efficient Ethernet.
var eeeOptions = []Option{
	{Long: "show-eee", Example: "--show-eee nic0", Usage: "energy-efficient Ethernet", run: printEEE},
	{Long: "set-eee", Example: "--set-eee nic0 eee on tx-timer 256",
		Usage:    "change it: eee on|off tx-lpi on|off tx-timer N (us) advertise MASK or MODE on|off ...",
		Operands: "eee on|off ...", run: changing("Cannot set EEE settings", setEEE)},
}

func printEEE(c *call) error {
	e := &c.nic.Link.EEE
	c.printf("EEE settings for %s:\n\tEEE status: ", c.Name)
	switch {
	case len(e.Supported) == 0:
		c.printf("not supported\n")
		return nil
	case e.Enabled:
		c.printf("enabled - %s\n", either(e.Active, "active", "inactive"))
	default:
		c.printf("disabled\n")
	}
	if e.TxLPI && e.TxTimer > 0 {
		c.printf("\tTx LPI: %d (us)\n", e.TxTimer)
	} else {
		c.printf("\tTx LPI: disabled\n")
	}
	c.listModes("Supported EEE link modes:  ", e.Supported)
	c.listModes("Advertised EEE link modes:  ", e.Advertised)
	c.listModes("Link partner advertised EEE link modes:  ", e.Partner)
	return nil
}

func setEEE(c *call) (list []ctl.Setting, err error) {
	if len(c.operands) == 0 {
		return nil, usage.Errorf("what to change is missing: tapir ethtool --set-eee %s eee on", c.Name)
	}
	if len(c.nic.Link.EEE.Supported) == 0 {
		return nil, fmt.Errorf("%s has no EEE, which only twisted pairs have: start a NIC with --media base-t", c.Name)
	}
	return list, each(c.operands, func(name string, values []string) (int, error) {
		s, n, err := eeeSetting(c, name, values)
		list = append(list, s)
		return n, err
	})
}

// eeeSetting is the setting that name stands for, whose value is n of values.
func eeeSetting(c *call, name string, values []string) (s ctl.Setting, n int, err error) {
	e, v := &c.nic.Link.EEE, values[0]
	switch name {
	case "eee":
		_, err := wantOnOff(name, v)
		return ctl.Setting{Name: "eee", Value: v}, 1, err
	case "tx-lpi":
		on, err := wantOnOff(name, v)
		return ctl.Setting{Name: "eee_tx_lpi", Value: either(on, "1", "0")}, 1, err
	case "tx-timer":
		if _, err := count(v); err != nil {
			return s, 0, usage.Errorf("tx-timer %s: expected a number of microseconds", v)
		}
		return ctl.Setting{Name: "eee_tx_timer", Value: v}, 1, nil
	case "advertise":
		speeds, n, err := changeModes(e.Advertised, e.Supported, values)
		if err == nil && speeds == "" {
			err = fmt.Errorf("advertise %s: no mode is left: turn EEE off with eee off", strings.Join(values[:n], " "))
		}
		return ctl.Setting{Name: "eee_advertise", Value: speeds}, n, err
	}
	return s, 0, usage.Errorf("%q cannot be changed: choose eee, tx-lpi, tx-timer or advertise", name)
}
