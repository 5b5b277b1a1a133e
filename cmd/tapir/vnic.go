package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"tapir/lab/conf/hficonf"
	"tapir/lab/node/hfinode"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
)

// hfiFlags are settings of an HFI on the command line; the names are those of
// an hfi.yaml with dashes.
var hfiFlags = []struct{ name, usage string }{
	{"name", "`name` of the HFI (default hfi0)"},
	{"fabric-tap", "fabric TAP, made if it does not exist: an interface `name` such as fab0"},
	{"fabric-tap-fd", "a ready TAP as open file descriptor `number` instead of --fabric-tap"},
	{"guid", "`GUID` of the port, such as 0x0011750101000001"},
	{"lid", "`LID` of the port, for a fabric without managers"},
	{"framing", "`mode` of packets on the TAP: nsh, 88b5 or geneve (default nsh)"},
	{"icrc", "`mode` of the invariant CRC: v1, none or bad (default v1)"},
	{"fabric-mtu", "`octets` of payload that the fabric carries: 2048, 4096, 8192 or 10240 (default 10240)"},
	{"pkeys", "`P_Keys` of the port, with commas (default those of the VNICs)"},
	{"bridge", "`name` of a bridge that the fabric TAP joins, made if it does not exist"},
	{"netns", "network `namespace` of the host TAPs: a name of ip netns, or a path"},
	{"netdev", "`name` of host TAPs, %d is the vESW id (default opa-vesw%d)"},
	{"queues", "`number` of queues of each host TAP, over which flows are spread, 1 to 8 (default 1)"},
}

// vnicFlags are settings of every VNIC on the command line.
var vnicFlags = []struct{ name, usage string }{
	{"pkey", "`P_Key` of the VNICs (default 0x8001)"},
	{"mtu", "`octets` of Ethernet payload (default 1500)"},
	{"fabric", "`id` of the fabric (default 1)"},
	{"default-ports", "`LIDs` for unknown unicast, with commas"},
	{"ip", "`address` of the host TAP, such as 10.0.0.1/24; may be repeated"},
}

func newVNIC() *cobra.Command {
	var cfg hficonf.Config
	var file string
	settings := map[string][]string{}
	cmd := &cobra.Command{
		Use:   "vnic --fabric-tap NAME --guid GUID [--lid LID] --vesw ID:TAP",
		Short: "Run Omni-Path HFIs with virtual NICs in the foreground",
		Long: "Vnic runs an Omni-Path HFI on a fabric TAP, with one virtual NIC per --vesw: a host TAP\n" +
			"whose Ethernet frames cross the fabric in 16B packets. With -c it runs all HFIs of a file.\n" +
			"It prints one \"ready\" line for each; Ctrl-C removes what was made, and nothing else.\n\n" +
			"With --lid the VNICs are as given here and need no manager. Without it, or with --managed,\n" +
			"LID, P_Keys and VNICs come from `tapir em`; --vesw then only names host TAPs.",
		Example: "  tapir vnic --fabric-tap fab0 --guid 0x0011750101000001 --lid 1 --vesw 2:opa-vesw2 --ip " +
			"10.2.0.1/24\n" +
			"  tapir vnic --fabric-tap fab1 --guid 0x0011750101000002\n" +
			"  tapir vnic -c hfi.yaml",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := hfiConfigs(cmd, cfg, settings, file)
			if err != nil {
				return err
			}
			return runHFIs(cmd.Context(), all, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&file, "config", "c", "", "run the HFIs of a YAML `file`; excludes all other flags")
	for _, fl := range hfiFlags {
		f.Func(fl.name, fl.usage, func(v string) error { return cfg.Set(fl.name, v) })
	}
	f.BoolVar(&cfg.Managed, "managed", false, "LID, P_Keys and VNICs come from tapir em (default without --lid)")
	f.Func("vesw", "a VNIC in the vESW of that `ID[:TAP]`; may be repeated", cfg.AddVESW)
	for _, fl := range vnicFlags {
		f.Func(fl.name, fl.usage, func(v string) error { settings[fl.name] = append(settings[fl.name], v); return nil })
	}
	return cmd
}

// hfiConfigs returns what the command line asks for, checked.
func hfiConfigs(cmd *cobra.Command, cfg hficonf.Config, settings map[string][]string,
	file string) ([]hficonf.Config, error) {
	if file != "" {
		if err := alone(cmd, file, "config"); err != nil {
			return nil, err
		}
		return loaded(hficonf.Load(file))
	}
	cfg.Managed = cfg.Managed || cfg.LID == 0
	for _, fl := range vnicFlags {
		for _, v := range settings[fl.name] {
			if err := cfg.SetVNICs(fl.name, v); err != nil {
				return nil, usage.Errorf("%w: see: tapir vnic --help", err)
			}
		}
	}
	if err := cfg.Validate(); err != nil {
		return nil, usage.Errorf("%w: see: tapir vnic --help", err)
	}
	return []hficonf.Config{cfg}, nil
}

// onFabric is an HFI, an Ethernet Manager or a switch with its control socket.
type onFabric struct {
	node   ending
	server *ctl.Server
}

// runHFIs runs until ctx ends, a client stops one of the HFIs, or one fails.
func runHFIs(ctx context.Context, all []hficonf.Config, out, errOut io.Writer) error {
	start := func(ctx context.Context, cfg hficonf.Config) (*hfinode.Node, error) {
		return hfinode.Start(ctx, cfg, reporting(errOut))
	}
	return runOnFabric(ctx, all, (*hficonf.Config).ControlName, start, out)
}

// fabricNode is what runOnFabric runs.
type fabricNode interface {
	ending
	Served(stop func()) ctl.NIC
	Ready() string
}

// runOnFabric starts a node for each configuration, with a control socket of
// that name, and runs them until ctx ends, a client stops one, or one fails.
func runOnFabric[C any, N fabricNode](ctx context.Context, all []C, name func(*C) string,
	start func(context.Context, C) (N, error), out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running []onFabric
	var nodes []ending
	defer func() { closeFabric(running) }()
	for _, cfg := range all {
		s, err := ctl.Listen(name(&cfg), versionText())
		if err != nil {
			return err
		}
		n, err := start(ctx, cfg)
		if err != nil {
			s.Close()
			return err
		}
		s.Serve(n.Served(func() { stop(errStopped) }))
		running = append(running, onFabric{n, s})
		nodes = append(nodes, n)
		fmt.Fprintln(out, n.Ready())
	}
	return await(ctx, nodes, stop)
}

// closeFabric ends all nodes side by side, then the control sockets.
func closeFabric(running []onFabric) {
	var wg sync.WaitGroup
	for _, r := range running {
		wg.Go(func() {
			_ = r.node.Close() // its failure was reported when it happened
			r.server.Close()
		})
	}
	wg.Wait()
}
