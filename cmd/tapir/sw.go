package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"tapir/lab/conf/swconf"
	"tapir/lab/node"
	"tapir/lab/node/swnode"
	"tapir/lab/tool/usage"
)

// swFlags are settings of a switch on the command line; the names are those of
// a switches.yaml with dashes.
var swFlags = []struct{ name, usage string }{
	{"name", "`name` of the switch (default sw0)"},
	{"mode", "`mode`: plain, e2e-tc, p2p-tc or bc (default plain)"},
	{"delay", "queueing `delay` of frames: 250us, 0-500us (uniform), exp:10us (default 0)"},
	{"queue", "`frames` that an egress queue holds (default 512)"},
	{"seed", "`number` that the delays are drawn from"},
	{"ageing", "`time` after which an address is forgotten (default 300s)"},
	{"macs", "`number` of addresses that are learned (default 4096)"},
	{"group-fwd-mask", "`mask` of link-local groups that pass, such as 0x4000 for peer delay messages"},
	{"domain", "PTP domain `number` of the clock's own messages and of what it follows (default 0)"},
	{"pdelay-req-interval", "log2 of the `seconds` between Pdelay_Reqs of a p2p-tc (default 0)"},
	{"transport", "`carrier` of the clock's own messages: L2, UDPv4 or UDPv6 (default L2)"},
	{"ip", "their source `address` on UDP (default a link-local one)"},
	{"oscillator", "`preset` that drives the clock: xo, tcxo, ocxo or ideal (default ideal)"},
	{"profile", "`profile` of a boundary clock, such as default-e2e, gptp or g8275.1"},
}

func newSw() *cobra.Command {
	var d swconf.Draft
	var file string
	cmd := &cobra.Command{
		Use:   "sw --port TAP --port TAP [--mode MODE]",
		Short: "Run a switch that is a PTP clock in the foreground",
		Long: "Sw joins TAPs as a learning switch does, with a queueing delay of choice. It is a plain\n" +
			"switch, a transparent clock (e2e-tc, p2p-tc) that corrects PTP messages by the time that\n" +
			"they stayed in it, or a boundary clock (bc). Its stamps are the kernel's. With -c it runs\n" +
			"all switches of a file. It prints one \"ready\" line for each; Ctrl-C removes what was made.\n" +
			"tapir show lists its ports, addresses and counters.",
		Example: "  tapir sw --port tap0 --port tap1 --mode e2e-tc --delay 0-500us\n" +
			"  tapir sw --port tap0 --port tap1 --port tap2 --mode bc --profile gptp --ptp priority1=250\n" +
			"  tapir sw -c switches.yaml\n  tapir show sw0 port",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := switchConfigs(cmd, &d, file)
			if err != nil {
				return err
			}
			return runSwitches(cmd.Context(), all, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&file, "config", "c", "", "run the switches of a YAML `file`; excludes all other flags")
	f.Func("port", "a port on the `TAP[@NETNS]` of that name, made if it does not exist; twice or more", d.AddPort)
	for _, fl := range swFlags {
		f.Func(fl.name, fl.usage, func(v string) error { return d.Set(fl.name, v) })
	}
	f.BoolVar(&d.OneStep, "one-step", false, "messages are corrected as they leave, not by a Follow_Up")
	f.BoolVar(&d.Syntonize, "syntonize", false, "residence times in the unit of the master's clock")
	f.Func("ptp", "a setting `NAME=VALUE` of a boundary clock, such as priority1=100; may be repeated", d.SetPTP)
	return cmd
}

// switchConfigs returns what the command line asks for, checked.
func switchConfigs(cmd *cobra.Command, d *swconf.Draft, file string) ([]swconf.Config, error) {
	if file != "" {
		if err := alone(cmd, file, "config"); err != nil {
			return nil, err
		}
		return loaded(swconf.Load(file))
	}
	cfg, err := d.Finish()
	if err != nil {
		return nil, usage.Errorf("%w: see: tapir sw --help", err)
	}
	return []swconf.Config{cfg}, nil
}

// runSwitches runs until ctx ends, a client stops one of the switches, or one
// fails.
func runSwitches(ctx context.Context, all []swconf.Config, out io.Writer) error {
	start := func(_ context.Context, cfg swconf.Config) (*swnode.Node, error) {
		return swnode.Start(cfg, node.Env{Version: versionText()})
	}
	return runOnFabric(ctx, all, (*swconf.Config).ControlName, start, out)
}
