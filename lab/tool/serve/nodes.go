package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tapir/lab/conf"
	"tapir/lab/conf/hficonf"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/swconf"
	"tapir/lab/node"
	"tapir/lab/node/emnode"
	"tapir/lab/node/hfinode"
	"tapir/lab/node/nicnode"
	"tapir/lab/node/swnode"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/dcb"
	"tapir/lab/tool/fcoe"
	"tapir/lab/tool/iscsi"
	"tapir/lab/tool/nvme"
	"tapir/lab/tool/vf"
	"tapir/nic/uapi/relay"
	"tapir/nic/view"
)

// Env are the surroundings of nodes that report to the log.
func (o *Options) Env() node.Env { return node.Env{Version: o.Version, Log: o.Log} }

// HFIs runs Omni-Path HFIs.
func HFIs(ctx context.Context, o Options, all []hficonf.Config) error {
	return Run(ctx, o, all, (*hficonf.Config).ControlName,
		func(ctx context.Context, cfg hficonf.Config) (*hfinode.Node, error) {
			return hfinode.Start(ctx, cfg, o.Env())
		}, func([]*hfinode.Node) error {
			f, err := reread(&o, all, hficonf.Load, (*hficonf.Config).ControlName)
			f.report(&o, func(i int) []string { return differing(&f.old[i], &f.now[i]) })
			return err
		})
}

// Switches runs switches.
func Switches(ctx context.Context, o Options, all []swconf.Config) error {
	return Run(ctx, o, all, (*swconf.Config).ControlName,
		func(_ context.Context, cfg swconf.Config) (*swnode.Node, error) {
			return swnode.Start(cfg, node.Env{Version: o.Version})
		}, func([]*swnode.Node) error {
			f, err := reread(&o, all, swconf.Load, (*swconf.Config).ControlName)
			f.report(&o, func(i int) []string { return differing(&f.old[i], &f.now[i]) })
			return err
		})
}

// Manager runs an Ethernet Manager. It reads its file again at SIGHUP.
func Manager(ctx context.Context, o Options, file string, cfg hficonf.EMConfig) error {
	o.File = file
	return Run(ctx, o, []hficonf.EMConfig{cfg}, func(c *hficonf.EMConfig) string { return c.Port.ControlName() },
		func(ctx context.Context, cfg hficonf.EMConfig) (*emnode.EM, error) {
			return emnode.Start(ctx, file, cfg, o.Env())
		}, func(m []*emnode.EM) error { return m[0].Reload() })
}

// NIC is a NIC with the socket of tapir run.
type NIC struct {
	*nicnode.Node
	o        *Options
	programs *relay.Server
	clients  func() any
	finish   func() // of the printing of its log; nil: it is not printed
}

// NICs runs NICs. Their RDMA devices have one access layer, so that a program
// can use several. log, unless nil, gets what the layers say.
func NICs(ctx context.Context, o Options, all []nicconf.Config, log *LogPrinter) error {
	env, programs := node.Env{Layer: node.NewLayer(), Log: o.Log, Cards: node.NewCards()}, nicnode.NewPrograms()
	return Run(ctx, o, all, func(c *nicconf.Config) string { return c.Name },
		func(ctx context.Context, cfg nicconf.Config) (*NIC, error) {
			n, err := StartNIC(ctx, &o, cfg, env, programs)
			if err != nil {
				return nil, err
			}
			if log != nil {
				n.finish = log.follow(n.Node)
			}
			for _, hint := range n.Hints() {
				fmt.Fprintln(o.Log, hint)
			}
			return n, nil
		}, func(nodes []*NIC) error { return reloadNICs(&o, all, nodes) })
}

// StartNIC starts a NIC that programs can use.
func StartNIC(ctx context.Context, o *Options, cfg nicconf.Config, env node.Env, programs *nicnode.Programs) (*NIC,
	error) {
	r, err := relay.Listen(ctl.RunPath(cfg.Name))
	if err != nil {
		return nil, err
	}
	n, err := nicnode.Start(ctx, cfg, env)
	if err != nil {
		r.Close()
		return nil, err
	}
	programs.Add(n)
	r.Log = o.Log
	programs.Serve(r)
	return &NIC{Node: n, o: o, programs: r,
		clients: func() any { return programs.Clients(cfg.Name) }}, nil
}

// Served returns the NIC as its control server wants it.
func (n *NIC) Served(stop func()) ctl.NIC {
	storage := &iscsi.NIC{Device: n.Device, Thread: n.Node, CA: n.CA()}
	if n.HostTAP() != "" {
		storage.Host = n.Space.NS
	}
	channel := &fcoe.NIC{Device: n.Device, Thread: n.Node}
	express := &nvme.NIC{Device: n.Device, Thread: n.Node, Layer: n.Layer()}
	d := ctl.Device{Device: n.Device, Thread: n.Node, Version: n.o.Version, TAP: n.TAP, HostTAP: n.HostTAP,
		LocalMAD: n.LocalMAD(), Clients: n.clients, Wire: n.Wire, OnStop: stop,
		Commands: vf.NIC{Device: n.Device, Thread: n.Node, SetNumVFs: n.SetNumVFs, Netdevs: n.VFNetdevs}.Commands(),
		Jobs:     storage.Jobs(), Tables: storage.Tables(),
		Counted: func() []view.Counter { return append(storage.Counters(), express.Counters()...) }}
	maps.Copy(d.Commands, storage.Commands())
	for _, o := range []interface {
		Commands() map[string]ctl.Answer
		Jobs() map[string]ctl.Job
		Tables() map[string]func() any
	}{express, channel} {
		maps.Copy(d.Commands, o.Commands())
		maps.Copy(d.Jobs, o.Jobs())
		maps.Copy(d.Tables, o.Tables())
	}
	maps.Copy(d.Commands, dcb.Commands(n.Device, n.Node))
	return d.Served()
}

// Close tells programs first, and takes from them what they have of the NIC.
func (n *NIC) Close() error {
	n.Withdraw()
	n.programs.Close()
	return n.Node.Close()
}

// conclude prints the rest of the log and names RDMA objects that nobody
// destroyed.
func (n *NIC) conclude() {
	if n.finish != nil {
		n.finish()
	}
	for _, l := range n.Leaks() {
		fmt.Fprintf(n.o.Log, "%s: left at the end: %v\n", n.Name(), l)
	}
}

// PrintPlan prints what a manager of that configuration would change on the fabric.
func PrintPlan(ctx context.Context, o Options, file string, cfg hficonf.EMConfig) error {
	lines, err := plan(ctx, o, file, cfg)
	if err == nil && len(lines) == 0 {
		lines = []string{"no change"}
	}
	for _, line := range lines {
		fmt.Fprintln(o.Out, line)
	}
	return err
}

// plan asks the manager of that name, if one runs.
func plan(ctx context.Context, o Options, file string, cfg hficonf.EMConfig) (lines []string, err error) {
	name := cfg.Port.ControlName()
	if !slices.Contains(ctl.List(), name) {
		return emnode.DryRun(ctx, cfg, o.Env())
	}
	text, err := conf.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := ctl.Dial(name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = c.Command(ctx, "plan", map[string]string{"path": file, "text": string(text)}, &lines)
	return lines, err
}
