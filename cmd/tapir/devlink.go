package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
)

// devlinkBus is the bus on which devlink finds NICs: nic0 is tapir/nic0.
const devlinkBus = "tapir/"

// devlinkDev is a device with the way to its NIC.
type devlinkDev struct {
	ctl.Devlink
	client *ctl.Client
}

func (d *devlinkDev) handle() string { return devlinkBus + d.Name }

// devlinkOut is where and how devlink prints.
type devlinkOut struct {
	w            io.Writer
	json, pretty bool
}

func newDevlink() *cobra.Command {
	out := &devlinkOut{}
	cmd := &cobra.Command{
		Use:   "devlink [-j] [-p] dev|health|resource|port",
		Short: "Show a NIC as devlink does: versions, health, resources, parameters",
		Long: "Devlink prints what devlink(8) prints of a device, with its words and in its format. The\n" +
			"device tapir/nic0 is the NIC nic0; nic0 alone will do. Without one all running NICs are shown.",
		Example: "  tapir devlink dev info nic0\n  tapir devlink health show\n  tapir devlink health recover nic0 reporter fw_fatal\n" +
			"  tapir devlink -j resource show nic0",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().BoolVarP(&out.json, "json", "j", false, "print JSON")
	cmd.PersistentFlags().BoolVarP(&out.pretty, "pretty", "p", false, "with --json: indent it")
	cmd.AddCommand(
		devlinkGroup("dev", "devices: their versions and parameters", "show",
			devlinkCmd(out, "show [DEV]", "List the devices", "dev show", devShow), devlinkCmd(out, "info [DEV]", "Show driver, serial number and versions", "dev info nic0", devInfo),
			devlinkGroup("param", "parameters of the driver", "show",
				devlinkCmd(out, "show [DEV name PARAMETER]", "Show parameters", "dev param show nic0 name iwarp_cmt", paramShow),
				devlinkCmd(out, "set DEV name PARAMETER value VALUE cmode runtime", "Change a parameter", "dev param set nic0 name iwarp_cmt value true cmode runtime", paramSet))),
		devlinkGroup("health", "health of the device: its reporter is "+reporterName, "show",
			devlinkCmd(out, "show [DEV [reporter REPORTER]]", "Show the state of the reporters", "health show nic0", healthShow),
			devlinkCmd(out, "diagnose DEV reporter REPORTER", "Show what the reporter knows: errors by kind, the last one", "health diagnose nic0 reporter fw_fatal", healthDiagnose),
			devlinkCmd(out, "recover DEV reporter REPORTER", "Recover: kill the process, load the function anew", "health recover nic0 reporter fw_fatal", healthRecover),
			devlinkGroup("dump", "the dump that the first error has left", "show",
				devlinkCmd(out, "show DEV reporter REPORTER", "Show the dump; without one it is made now", "health dump show nic0 reporter fw_fatal", dumpShow),
				devlinkCmd(out, "clear DEV reporter REPORTER", "Forget the dump", "health dump clear nic0 reporter fw_fatal", dumpClear))),
		devlinkGroup("resource", "resources of the device", "show", devlinkCmd(out, "show [DEV]", "Show how many there are, and in use", "resource show nic0", resourceShow)),
		devlinkGroup("port", "ports of the device", "show", devlinkCmd(out, "show [DEV]", "Show the ports with their netdevs", "port show", portShow)),
	)
	return cmd
}

// devlinkGroup is a command with others below it, of which one stands for
// itself.
func devlinkGroup(name, what, first string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: strings.ToUpper(what[:1]) + what[1:]}
	cmd.AddCommand(below...)
	i := slices.IndexFunc(below, func(c *cobra.Command) bool { return c.Name() == first })
	cmd.Args, cmd.RunE = below[i].Args, func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q: see: %s --help", args[0], c.CommandPath())
		}
		return below[i].RunE(c, args)
	}
	cmd.Example = below[i].Example
	return cmd
}

// devlinkCmd is a command about devices.
func devlinkCmd(out *devlinkOut, use, short, example string, run func(ctx context.Context, out *devlinkOut, args []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, ValidArgsFunction: completeNIC}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		out.w = c.OutOrStdout()
		return run(c.Context(), out, args)
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.Example = "  tapir devlink " + example
	return cmd
}

// devices are the NICs that are named, or all that run. An HFI is none.
func devices(ctx context.Context, name string) (list []*devlinkDev, err error) {
	name = strings.TrimPrefix(name, devlinkBus)
	names := ctl.List()
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		c, err := ctl.Dial(n)
		if err != nil {
			return nil, err
		}
		d := &devlinkDev{client: c}
		if d.Devlink, err = c.Devlink(ctx); err == nil {
			list = append(list, d)
			continue
		}
		c.Close()
		if name != "" {
			return nil, err
		}
	}
	return list, nil
}

// device is the one that is named.
func device(ctx context.Context, name string) (*devlinkDev, error) {
	list, err := devices(ctx, name)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// closeAll ends the ways to NICs.
func closeAll(list []*devlinkDev) {
	for _, d := range list {
		d.client.Close()
	}
}

// operandsOf takes args apart: a device, which may be left out if optional is
// set, then pairs of a name among names and a value. values are in the order of
// names; those from need on may be missing.
func operandsOf(args []string, optional bool, need int, names ...string) (dev string, values []string, err error) {
	if len(args) == 0 {
		if optional {
			return "", make([]string, len(names)), nil
		}
		return "", nil, usagef("the device is missing: expected DEV %s", strings.Join(names, " ... "))
	}
	dev, args, values = args[0], args[1:], make([]string, len(names))
	for i := 0; i < len(args); i += 2 {
		n := slices.Index(names, args[i])
		switch {
		case n < 0 && len(names) == 0:
			return "", nil, usagef("unexpected argument %q", args[i])
		case n < 0:
			return "", nil, usagef("unexpected argument %q: expected %s", args[i], strings.Join(names, ", "))
		case i+1 == len(args):
			return "", nil, usagef("%s: its value is missing", args[i])
		}
		values[n] = args[i+1]
	}
	for i, name := range names[:need] {
		if values[i] == "" {
			return "", nil, usagef("%s is missing: expected DEV %s ...", name, strings.Join(names[:need], " ... "))
		}
	}
	return dev, values, nil
}

// print prints text, or v as JSON.
func (o *devlinkOut) print(text string, v any) error {
	if o.json {
		return o.printJSON(v)
	}
	_, err := fmt.Fprint(o.w, text)
	return err
}
