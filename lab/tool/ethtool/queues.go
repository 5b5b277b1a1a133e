package ethtool

import (
	"errors"
	"fmt"
	"strconv"

	"tapir/lab/tool/ctl"
)

// queueOptions show and change the queues of a device, and the flow control
// of its port.
var queueOptions = []Option{
	{Short: "g", Long: "show-ring", Example: "-g nic0", Usage: "sizes of rings", run: printRings},
	{Short: "G", Long: "set-ring", Example: "-G nic0 rx 1024 tx 512", Usage: "change them: rx N tx N (128..8191)",
		Operands: "rx N tx N", run: changing("Cannot set device ring parameters", setRings)},
	{Short: "l", Long: "show-channels", Example: "-l nic0", Usage: "numbers of queues", run: printChannels},
	{Short: "L", Long: "set-channels", Example: "-L nic0 combined 2", Usage: "change them: combined N",
		Operands: "combined N", run: changing("Cannot set device channel parameters", setChannels)},
	{Short: "a", Long: "show-pause", Example: "-a nic0", Usage: "flow control", run: printPause},
	{Short: "A", Long: "pause", Example: "-A nic0 autoneg off rx on",
		Usage:    "change it: autoneg on|off rx on|off tx on|off",
		Operands: "autoneg on|off ...", run: changing("Cannot set device pause parameters", setPause)},
}

// orNone is a number as ethtool prints it; 0 is no queue.
func orNone(n int) string { return either(n == 0, "n/a", strconv.Itoa(n)) }

func printRings(c *call) error {
	r := c.nic.Rings
	rows := "RX:\t\t%s\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t%s\n"
	c.printf("Ring parameters for %s:\nPre-set maximums:\n"+rows+"Current hardware settings:\n"+rows,
		c.Name, orNone(r.RxMax), orNone(r.TxMax), orNone(r.Rx), orNone(r.Tx))
	return nil
}

func setRings(c *call) (settings []ctl.Setting, err error) {
	values, err := pairs("-G", c.operands, count, "rx", "tx")
	if err != nil {
		return nil, err
	}
	for _, ring := range []struct {
		name string
		max  int
	}{{"rx", c.nic.Rings.RxMax}, {"tx", c.nic.Rings.TxMax}} {
		n, given := values[ring.name]
		switch {
		case given && ring.max > 0 && n > uint64(ring.max):
			return nil, fmt.Errorf("netlink error: requested ring size exceeds maximum: %s %d of %d", ring.name, n,
				ring.max)
		case given:
			settings = append(settings, ctl.Setting{Name: ring.name + "_ring", Value: strconv.FormatUint(n, 10)})
		}
	}
	return settings, nil
}

func printChannels(c *call) error {
	n := c.nic.Channels
	rows := "RX:\t\t%s\nTX:\t\t%s\nOther:\t\tn/a\nCombined:\t%s\n"
	c.printf("Channel parameters for %s:\nPre-set maximums:\n"+rows+"Current hardware settings:\n"+rows, c.Name,
		orNone(n.Rx), orNone(n.Tx), orNone(n.MaxCombined), orNone(n.Rx), orNone(n.Tx), orNone(n.Combined))
	return nil
}

func setChannels(c *call) ([]ctl.Setting, error) {
	values, err := pairs("-L", c.operands, count, "rx", "tx", "other", "combined")
	if err != nil {
		return nil, err
	}
	const exceeds = "netlink error: requested channel count exceeds maximum: %s %d of %d"
	for _, name := range []string{"rx", "tx", "other"} {
		if values[name] > 0 {
			return nil, fmt.Errorf(exceeds, name, values[name], 0)
		}
	}
	n, given := values["combined"]
	switch have := c.nic.Channels; {
	case !given:
		return nil, nil
	case n == 0:
		return nil,
			errors.New("netlink error: requested channel counts would result in no RX or TX channel being configured")
	case n > uint64(have.MaxCombined):
		return nil, fmt.Errorf(exceeds, "combined", n, have.MaxCombined)
	case n == uint64(have.Combined):
		return nil, nil
	}
	return []ctl.Setting{{Name: "channels", Value: strconv.FormatUint(n, 10)}}, nil
}

func printPause(c *call) error {
	p := c.nic.Pause
	c.printf("Pause parameters for %s:\nAutonegotiate:\t%s\nRX:\t\t%s\nTX:\t\t%s\n", c.Name, onOff(p.Autoneg),
		onOff(p.Rx), onOff(p.Tx))
	if p.Autoneg {
		c.printf("RX negotiated: %s\nTX negotiated: %s\n", onOff(p.RxNegotiated), onOff(p.TxNegotiated))
	}
	c.printf("\n")
	return nil
}

// pauseSettings are the values of the setting by autoneg, rx and tx.
var pauseSettings = map[[3]bool]string{
	{false, false, false}: "none", {false, true, false}: "rx", {false, false, true}: "tx", {false, true, true}: "both",
	{true, false, false}: "auto-none", {true, true, false}: "auto-rx", {true, false, true}: "auto-tx",
	{true, true, true}: "auto",
}

func setPause(c *call) ([]ctl.Setting, error) {
	values, err := pairs("-A", c.operands, parseOnOff, "autoneg", "rx", "tx")
	have := [3]bool{c.nic.Pause.Autoneg, c.nic.Pause.Rx, c.nic.Pause.Tx}
	want := have
	for i, name := range []string{"autoneg", "rx", "tx"} {
		if on, given := values[name]; given {
			want[i] = on
		}
	}
	if err != nil || want == have {
		return nil, err
	}
	return []ctl.Setting{{Name: "pause", Value: pauseSettings[want]}}, nil
}
