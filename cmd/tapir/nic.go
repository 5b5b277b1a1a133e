package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/conf/nicconf"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/param"
	"tapir/nic/uapi/relay"
)

// nicFlags are the settings of a NIC on the command line; the names are those
// of a nics.yaml with dashes.
var nicFlags = []struct{ name, usage string }{
	{"name", "`name` of the NIC (default nic0)"},
	{"tap", "wire TAP, made if it does not exist: an interface `name` such as tap0"},
	{"tap-fd", "a ready TAP as open file descriptor `number` instead of --tap"},
	{"tap-ip", "`address` of the kernel's side of the TAP, such as 10.0.0.254/24; may be repeated"},
	{"ip", "IPv4 `address` of the NIC, such as 10.0.0.1/24; may be repeated"},
	{"ip6", "IPv6 `address` of the NIC, such as fd00::1/64; may be repeated"},
	{"mac", "MAC `address` (default derived from name and seed)"},
	{"mtu", "`octets` of an IP packet (default 1500; 9000 with --frames jumbo)"},
	{"gw", "next hop `address` off the link; may be repeated"},
	{"vlan", "802.1Q `id` of all frames (default untagged)"},
	{"frames", "`mode`: wire, one true frame per packet; gso, 64 KiB super-frames; jumbo, gso with MTU 9000 " +
		"(default wire)"},
	{"host-tap", "interface `name` of the operating system's side, which shares MAC and IP"},
	{"host-frames", "frame `mode` of the host TAP: wire or gso (default that of the wire)"},
	{"queues", "`number` of receive and transmit queues of the host TAP, 1 to 32 (default 1)"},
	{"ip-from-host", "take addresses, MAC and MTU from the host TAP, and follow them"},
	{"firmware", "firmware of the storms: a `file`, or the form to search for: header, zipped-header, bin, " +
		"zipped-bin (default built in)"},
	{"seed", "`number` behind everything that looks random"},
}

func newNIC() *cobra.Command {
	cfg := nicconf.Config{Name: "nic0"}
	var file string
	var say nicOutput
	cmd := &cobra.Command{
		Use:   "nic --tap NAME {--ip ADDRESS | --host-tap NAME --ip-from-host}",
		Short: "Run NICs in the foreground",
		Long: "Nic runs one NIC on a TAP that it makes or finds, or with -c all NICs of a file, and\n" +
			"prints one \"ready\" line for each. Ctrl-C closes their connections in order and\n" +
			"removes what was made, and nothing else.\n\n" +
			"Without --tap-ip the kernel's side of the TAP gets no address; the line to give it\n" +
			"one is printed. With --host-tap the NIC gives the operating system an interface of\n" +
			"its own, as a card does: what is not the NIC's passes between it and --tap.",
		Example: "  tapir nic --tap tap0 --ip 10.0.0.1/24 --tap-ip 10.0.0.254/24\n" +
			"  tapir nic --tap tap0 --ip 10.0.0.1/24 --firmware zipped-bin\n" +
			"  tapir nic --name nic1 --tap tap1 --ip 10.0.1.1/24 --ip6 fd00::1/64 --frames gso\n" +
			"  tapir nic --tap wire0 --host-tap eth-host0 --ip-from-host --queues 4\n" +
			"  tapir nic -c nics.yaml\n" +
			"  tapir nic --ip 10.0.0.1/24 --dprint cm,mpa,eh -v\n" +
			"  tapir nic --ip 10.0.0.1/24 --metrics 9464 -v --log-format json",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := nicConfigs(cmd, cfg, file)
			if err != nil {
				return err
			}
			if err := say.check(); err != nil {
				return err
			}
			return runNICs(cmd.Context(), all, say, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&file, "config", "c", "",
		"run the NICs of a YAML `file`; excludes all other flags but -v, --log-format and --metrics")
	f.BoolVarP(&say.verbose, "verbose", "v", false, "print the lines of the log on standard error")
	f.StringVar(&say.format, "log-format", "text", "`form` of those lines: text, or json for one object per line")
	f.StringVar(&say.metrics, "metrics", "",
		"serve metrics for Prometheus at `[HOST:]PORT`, on the loopback address without a host")
	for _, fl := range nicFlags {
		set := func(v string) error { return cfg.Set(fl.name, v) }
		if fl.name == "ip-from-host" {
			f.BoolFunc(fl.name, fl.usage, set)
			continue
		}
		f.Func(fl.name, fl.usage, set)
	}
	for _, p := range (&nicconf.Config{}).Params() {
		fl := paramFlag{p, &cfg}
		f.Var(fl, param.Flag(p.Name), fl.usage())
	}
	return cmd
}

// paramFlag is a named setting of the NIC as a flag.
type paramFlag struct {
	p   *param.Row // of defaults
	cfg *nicconf.Config
}

func (f paramFlag) Set(v string) error { return f.cfg.Set(f.p.Name, v) }
func (f paramFlag) String() string     { return "" }
func (f paramFlag) Type() string       { return f.p.Type }

func (f paramFlag) usage() string {
	return fmt.Sprintf("%s (default %s)", f.p.Help, f.p.Get())
}

// nicConfigs returns what the command line asks for, checked.
func nicConfigs(cmd *cobra.Command, cfg nicconf.Config, file string) ([]nicconf.Config, error) {
	if file == "" {
		if err := cfg.Validate(); err != nil {
			return nil, usage.Errorf("%w: see: tapir nic --help", err)
		}
		return []nicconf.Config{cfg}, nil
	}
	if err := alone(cmd, file, "config", "verbose", "log-format", "metrics"); err != nil {
		return nil, err
	}
	return loaded(nicconf.Load(file))
}

// alone refuses flags beside those called names, one of which names the file.
func alone(cmd *cobra.Command, file string, names ...string) error {
	var other []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(names, f.Name) {
			other = append(other, "--"+f.Name)
		}
	})
	if other != nil {
		return usage.Errorf("-c and %s exclude each other: write the settings into %s", strings.Join(other, ", "), file)
	}
	return nil
}

// loaded makes a mistake in a file a usage error.
func loaded[T any](v T, err error) (T, error) {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return v, fmt.Errorf("cannot read the configuration: %w", err)
	}
	if err != nil {
		return v, usage.Wrap(err)
	}
	return v, nil
}

// running is one NIC with its sockets.
type running struct {
	node   *nicnode.Node
	server *ctl.Server
	served ctl.NIC
	run    *relay.Server // of tapir run
	finish func()        // of the printing of its log
}

// errStopped is the reason of an end that a client asked for.
var errStopped = errors.New("stopped by a client")

// runNICs runs until ctx ends, a client stops one of the NICs, or one fails.
func runNICs(ctx context.Context, all []nicconf.Config, say nicOutput, out, errOut io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var nics []*running
	defer func() { closeNICs(nics, errOut) }()
	env, programs := node.Env{Layer: node.NewLayer(), Log: errOut}, nicnode.NewPrograms()
	for _, cfg := range all {
		n, err := startNIC(ctx, cfg, env, programs, func() { stop(errStopped) })
		if err != nil {
			return err
		}
		if say.verbose {
			n.finish = printLog(n.node, say.printer(errOut))
		}
		nics = append(nics, n)
		for _, hint := range n.node.Hints() {
			fmt.Fprintln(errOut, hint)
		}
		fmt.Fprintln(out, n.node.Ready())
	}
	if say.metrics != "" {
		m, err := serveMetrics(say.metrics, nics)
		if err != nil {
			return err
		}
		defer m.Close()
		fmt.Fprintln(out, "metrics", m.URL())
	}
	var nodes []ending
	for _, n := range nics {
		nodes = append(nodes, n.node)
	}
	return await(ctx, nodes, stop)
}

// ending is what a process runs until it ends.
type ending interface {
	Done() <-chan struct{}
	Err() error
	Close() error
}

// await returns when the nodes have to end: with nil if someone wanted it.
func await(ctx context.Context, nodes []ending, stop context.CancelCauseFunc) error {
	for _, n := range nodes {
		go func() {
			<-n.Done() // at the latest when it is closed
			stop(n.Err())
		}()
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, errStopped) {
		return cause
	}
	return nil
}

// startNIC takes the control socket first, so that a name in use is found
// before a TAP is made.
func startNIC(ctx context.Context, cfg nicconf.Config, env node.Env, programs *nicnode.Programs,
	stop func()) (*running, error) {
	s, err := ctl.Listen(cfg.Name, versionText())
	if err != nil {
		return nil, err
	}
	r, err := relay.Listen(ctl.RunPath(cfg.Name))
	if err != nil {
		s.Close()
		return nil, err
	}
	n, err := nicnode.Start(ctx, cfg, env)
	if err != nil {
		r.Close()
		s.Close()
		return nil, err
	}
	programs.Add(n)
	r.Serve(programs.Devices)
	dev := ctl.Device{Device: n.Device, Thread: n, Version: versionText(), TAP: n.TAP(), HostTAP: n.Config().HostTAP,
		OnStop: stop}
	served := dev.Served()
	s.Serve(served)
	return &running{node: n, server: s, served: served, run: r, finish: func() {}}, nil
}

// closeNICs ends all NICs side by side: first programs are told and lose what
// they have of them, then the connections go, so that captures see them close,
// then the control sockets. The failure of a NIC was reported when it happened.
// RDMA objects that nobody destroyed are named.
func closeNICs(nics []*running, errOut io.Writer) {
	var wg sync.WaitGroup
	for _, n := range nics {
		wg.Go(func() {
			n.node.Withdraw()
			n.run.Close()
			_ = n.node.Close()
			n.server.Close()
		})
	}
	wg.Wait()
	for _, n := range nics {
		n.finish()
		for _, l := range n.node.Leaks() {
			fmt.Fprintf(errOut, "%s: left at the end: %v\n", n.node.Name(), l)
		}
	}
}
