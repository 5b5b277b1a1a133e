// Package ethtool shows and changes a network interface as ethtool(8) does,
// through the control socket of the NIC or HFI that it belongs to. Options is
// the table of its options.
package ethtool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/fastlinq"
	"tapir/nic/view"
)

// Client is what ethtool needs of a control socket; *ctl.Client implements it.
type Client interface {
	Show(ctx context.Context, kind string, v any) error
	Set(ctx context.Context, settings []ctl.Setting, v any) error
	Flash(ctx context.Context, region fastlinq.NVMType, file []byte) error
	EEPROM(ctx context.Context, r ctl.EEPROMRange) ([]byte, error)
	Module(ctx context.Context) (view.ModuleEEPROM, error)
	Registers(ctx context.Context) ([]byte, error)
	Identify(ctx context.Context, seconds uint32) error
	Selftest(ctx context.Context, offline bool) ([]ctl.SelftestResult, error)
	HWTimestampCaps(ctx context.Context) (ctl.HWTimestampCaps, error)
}

// Device is a network interface: a NIC, an HFI, or the virtual NIC of one.
type Device struct {
	Name   string // as the user named it
	client Client
	nic    *view.EthtoolInfo
	fabric bool // an HFI, or a virtual NIC of one
	vf     int  // number of a virtual function, from 1; 0: it is none
}

// Option is one of ethtool's options: how it is written and what it does.
type Option struct {
	Short, Long, Usage string
	Example            string // for the help text, behind the program's name; empty: none
	Operands           string // what may follow the device, for messages; empty: nothing
	run                func(c *call) error
}

// Options returns all options in the order of the help text.
func Options() []Option {
	return slices.Concat(changeOptions, eeeOptions, infoOptions, featureOptions, queueOptions, rssOptions, flowOptions,
		coalesceOptions, memoryOptions, stampOptions, selftestOptions, flashOptions)
}

// Choose returns the one option that was chosen, or the one that stands for
// none: the settings.
func Choose(options []Option, chosen []bool) (Option, error) {
	first := slices.Index(chosen, true)
	if first < 0 {
		return Option{run: printSettings}, nil
	}
	if second := slices.Index(chosen[first+1:], true); second >= 0 {
		return Option{}, usage.Errorf("--%s and --%s exclude each other: see: tapir ethtool --help",
			options[first].Long, options[first+1+second].Long)
	}
	return options[first], nil
}

// call is one use of an option.
type call struct {
	context.Context
	*Device
	operands []string
	all      bool // --all: also the counters that the Linux driver lacks
	out      strings.Builder
}

func (c *call) printf(format string, args ...any) { fmt.Fprintf(&c.out, format, args...) }

// Run applies the option to d with the operands behind the device, and prints
// on w. With all set, statistics include those that the Linux driver lacks.
func (o *Option) Run(ctx context.Context, w io.Writer, d *Device, operands []string, all bool) error {
	if d.vf > 0 && o.Long != statistics {
		return fmt.Errorf("%s is a virtual function of %s: of those there is -S, and tapir vf show %[2]s", d.Name,
			d.nic.Netdev)
	}
	c := &call{Context: ctx, Device: d, operands: operands, all: all}
	err := o.run(c)
	_, written := io.WriteString(w, c.out.String())
	return errors.Join(err, written)
}

// CheckOperands refuses operands of an option that has none.
func (o *Option) CheckOperands(operands []string) error {
	if len(operands) > 0 && o.Operands == "" {
		return usage.Errorf("unexpected argument %q: options come before the device: see: tapir ethtool --help",
			operands[0])
	}
	return nil
}

// Examples has one line for each option that has an example.
func Examples(options []Option) string {
	lines := []string{"  tapir ethtool nic0"}
	for _, o := range options {
		if o.Example != "" {
			lines = append(lines, "  tapir ethtool "+o.Example)
		}
	}
	return strings.Join(lines, "\n")
}

// Open returns the device called name of the NIC or HFI behind client. If it
// has no such device, d is nil and names are those that it has.
func Open(ctx context.Context, client Client, name string) (d *Device, names []string, err error) {
	var raw json.RawMessage
	if client.Show(ctx, "ethtool", &raw) != nil {
		return nil, nil, nil // neither a NIC nor an HFI
	}
	if bytes.HasPrefix(raw, []byte("[")) {
		var list []view.EthtoolInfo
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, nil, err
		}
		for i, e := range list {
			if e.Netdev == name || i == 0 && e.BusInfo == name { // the first is the HFI, on its fabric TAP
				return &Device{Name: name, client: client, nic: &e, fabric: true}, nil, nil
			}
			names = append(names, e.Netdev)
		}
		return nil, names, nil
	}
	var e view.EthtoolInfo
	var row struct {
		TAP     string `json:"tap"`
		HostTAP string `json:"host_tap_name"`
	}
	if err := errors.Join(json.Unmarshal(raw, &e), client.Show(ctx, "nic", &row)); err != nil {
		return nil, nil, err
	}
	if slices.Contains([]string{e.Netdev, row.TAP, row.HostTAP}, name) {
		return &Device{Name: name, client: client, nic: &e}, nil, nil
	}
	var vfs []struct{ Netdev string }
	if client.Show(ctx, "vf", &vfs) != nil {
		return nil, []string{e.Netdev}, nil // hardware without
	}
	for i, v := range vfs {
		if v.Netdev == name {
			return &Device{Name: name, client: client, nic: &e, vf: i + 1}, nil, nil
		}
	}
	return nil, []string{e.Netdev}, nil
}
