// Package devlink shows and changes NICs as devlink(8) does. Commands is the
// table of its commands; Groups are the words above them.
package devlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
)

// bus is the bus on which devlink finds NICs: nic0 is tapir/nic0.
const bus = "tapir/"

// Client is what devlink needs of a NIC's control socket; *ctl.Client
// implements it.
type Client interface {
	Devlink(ctx context.Context) (ctl.Devlink, error)
	Show(ctx context.Context, kind string, v any) error
	Set(ctx context.Context, settings []ctl.Setting, v any) error
	Recover(ctx context.Context) error
	HealthDump(ctx context.Context) ([]byte, error)
	ClearHealthDump(ctx context.Context) error
	Close()
}

// NICs finds the NICs that run.
type NICs struct {
	List func() []string
	Dial func(name string) (Client, error)
}

// Running are the NICs of this machine.
var Running = NICs{List: ctl.List, Dial: func(name string) (Client, error) { return ctl.Dial(name) }}

// Format is how devlink prints.
type Format struct{ JSON, Pretty bool }

// Group is a word with commands below it. Alone it stands for its command
// show.
type Group struct {
	Path  string // with the groups above it
	Short string
}

// Groups returns the groups, each behind those above it.
func Groups() []Group {
	return []Group{
		{"dev", "Devices: their versions and parameters"},
		{"dev param", "Parameters of the driver"},
		{"health", "Health of the device: its reporter is " + reporterName},
		{"health dump", "Show or forget the dump of the first error"},
		{"resource", "Resources of the device"},
		{"port", "Ports of the device"},
	}
}

// Command is one of devlink's commands: how it is written and what it does.
type Command struct {
	Group               string // the path of its group
	Use, Short, Example string
	anyDevice           bool     // without a device it is about all NICs
	operands            []string // names, each of which a value follows
	need                int      // how many of them must be there
	run                 func(c *call) error
}

// Commands returns all commands.
func Commands() []Command {
	reporter := []string{"reporter"}
	return []Command{
		{Group: "dev", Use: "show [DEV]", Short: "List the devices", Example: "dev show", anyDevice: true,
			run: devShow},
		{Group: "dev", Use: "info [DEV]", Short: "Show driver, serial number and versions", Example: "dev info nic0",
			anyDevice: true, run: devInfo},
		{Group: "dev param", Use: "show [DEV name PARAMETER]", Short: "Show parameters",
			Example: "dev param show nic0 name iwarp_cmt", anyDevice: true, operands: []string{"name"}, run: paramShow},
		{Group: "dev param", Use: "set DEV name PARAMETER value VALUE cmode runtime", Short: "Change a parameter",
			Example:  "dev param set nic0 name iwarp_cmt value true cmode runtime",
			operands: []string{"name", "value", "cmode"}, need: 3, run: paramSet},
		{Group: "health", Use: "show [DEV [reporter REPORTER]]", Short: "Show the state of the reporters",
			Example: "health show nic0", anyDevice: true, operands: reporter, run: healthShow},
		{Group: "health", Use: "set DEV reporter REPORTER [auto_recover true|false] [grace_period MSEC]",
			Short:    "Set whether the NIC recovers from hardware errors automatically",
			Example:  "health set nic0 reporter fw_fatal auto_recover true grace_period 60000",
			operands: []string{"reporter", "auto_recover", "grace_period"}, need: 1, run: reporting(healthSet)},
		{Group: "health", Use: "diagnose DEV reporter REPORTER",
			Short:   "Show the reporter's errors by kind, and the last one",
			Example: "health diagnose nic0 reporter fw_fatal", operands: reporter, need: 1,
			run: reporting(healthDiagnose)},
		{Group: "health", Use: "recover DEV reporter REPORTER",
			Short:   "Recover: kill the process and reload the function",
			Example: "health recover nic0 reporter fw_fatal", operands: reporter, need: 1,
			run: reporting(func(c *call, d *device) error { return d.client.Recover(c) })},
		{Group: "health dump", Use: "show DEV reporter REPORTER", Short: "Show the dump, or make one",
			Example: "health dump show nic0 reporter fw_fatal", operands: reporter, need: 1, run: reporting(dumpShow)},
		{Group: "health dump", Use: "clear DEV reporter REPORTER", Short: "Forget the dump",
			Example: "health dump clear nic0 reporter fw_fatal", operands: reporter, need: 1,
			run: reporting(func(c *call, d *device) error { return d.client.ClearHealthDump(c) })},
		{Group: "resource", Use: "show [DEV]", Short: "Show the size and use of each resource",
			Example: "resource show nic0", anyDevice: true, run: resourceShow},
		{Group: "port", Use: "show [DEV]", Short: "Show the ports with their netdevs", Example: "port show",
			anyDevice: true, run: portShow},
	}
}

// call is one use of a command.
type call struct {
	context.Context
	nics   NICs
	w      io.Writer
	format Format
	dev    string   // empty: all NICs
	values []string // of the operands; empty: not given
}

// Run runs the command with args, the device and operands, and prints on w.
func (o *Command) Run(ctx context.Context, nics NICs, w io.Writer, f Format, args []string) error {
	dev, values, err := o.parse(args)
	if err != nil {
		return err
	}
	return o.run(&call{Context: ctx, nics: nics, w: w, format: f, dev: dev, values: values})
}

// parse takes args apart: a device, then pairs of a name and a value. values
// are in the order of o.operands.
func (o *Command) parse(args []string) (dev string, values []string, err error) {
	values = make([]string, len(o.operands))
	if len(args) == 0 {
		if !o.anyDevice {
			err = usage.Errorf("the device is missing: expected DEV %s", strings.Join(o.operands, " ... "))
		}
		return "", values, err
	}
	dev, args = args[0], args[1:]
	for i := 0; i < len(args); i += 2 {
		n := slices.Index(o.operands, args[i])
		switch {
		case len(o.operands) == 0:
			return "", nil, usage.Errorf("unexpected argument %q", args[i])
		case n < 0:
			return "", nil, usage.Errorf("unexpected argument %q: expected %s", args[i], strings.Join(o.operands, ", "))
		case i+1 == len(args):
			return "", nil, usage.Errorf("%s: its value is missing", args[i])
		}
		values[n] = args[i+1]
	}
	needed := o.operands[:o.need]
	for i, name := range needed {
		if values[i] == "" {
			return "", nil, usage.Errorf("%s is missing: expected DEV %s ...", name, strings.Join(needed, " ... "))
		}
	}
	return dev, values, nil
}

// device is a NIC as devlink sees it.
type device struct {
	ctl.Devlink
	client Client
}

func (d *device) handle() string { return bus + d.Name }

// devices are the NICs that are named, or all that run; an HFI is no device.
// The caller closes their clients.
func (c *call) devices() (list []*device, err error) {
	name := strings.TrimPrefix(c.dev, bus)
	names := []string{name}
	if name == "" {
		names = c.nics.List()
	}
	for _, n := range names {
		client, err := c.nics.Dial(n)
		if err != nil {
			return nil, err
		}
		d := &device{client: client}
		if d.Devlink, err = client.Devlink(c); err == nil {
			list = append(list, d)
			continue
		}
		client.Close()
		if name != "" {
			return nil, err
		}
	}
	return list, nil
}

// one calls do with the device that is named.
func (c *call) one(do func(d *device) error) error {
	list, err := c.devices()
	if err != nil {
		return err
	}
	defer list[0].client.Close()
	return do(list[0])
}

// each prints, for each device, a text or a member of the JSON object kind.
// part names what the handle of the device is followed by.
func (c *call) each(kind, part string, show func(d *device) (text string, v any, err error)) error {
	list, err := c.devices()
	if err != nil {
		return err
	}
	var text strings.Builder
	all := object{}
	for _, d := range list {
		t, v, failed := show(d)
		d.client.Close()
		err = errors.Join(err, failed)
		text.WriteString(t)
		all = append(all, member{d.handle() + part, v})
	}
	return errors.Join(err, c.print(text.String(), object{{kind, all}}))
}

// print prints text, or v as JSON.
func (c *call) print(text string, v any) error {
	if c.format.JSON {
		return printJSON(c.w, v, c.format.Pretty)
	}
	_, err := io.WriteString(c.w, text)
	return err
}

// reporterName is the health reporter of the FastLinQ driver.
const reporterName = "fw_fatal"

func checkReporter(name string) error {
	if name != reporterName {
		return fmt.Errorf("there is no reporter %q: choose %s", name, reporterName)
	}
	return nil
}

// reporting is a function about the device whose reporter is named.
func reporting(do func(c *call, d *device) error) func(*call) error {
	return func(c *call) error {
		if err := checkReporter(c.values[0]); err != nil {
			return err
		}
		return c.one(func(d *device) error { return do(c, d) })
	}
}
