package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/files"
	"tapir/lab/tool/perf"
	"tapir/lab/tool/show"
	"tapir/lab/tool/usage"
)

// perfShort says what each workload does.
var perfShort = map[perfconf.Op]string{
	perfconf.WriteBW:  "RDMA Write bandwidth",
	perfconf.ReadBW:   "RDMA Read bandwidth",
	perfconf.SendBW:   "Send bandwidth",
	perfconf.WriteLat: "RDMA Write latency, ping-pong",
	perfconf.SendLat:  "Send latency, ping-pong",
	perfconf.Verify:   "Send, Write and Read once per size, target memory checked by SHA-256",
}

func newPerf() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "perf TEST [NIC] [ADDRESS]",
		Short: "Measure RDMA bandwidth and latency between two NICs",
		Long: "Perf runs a workload inside a running NIC, in the vocabulary of perftest. Without an\n" +
			"address it serves one client; with the address of the serving NIC it connects. The\n" +
			"client's parameters win.",
		Example: "  tapir perf write-bw nic0                # serves\n" +
			"  tapir perf write-bw nic1 10.0.0.1       # connects",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Unknown(cmd, "test", args[0])
			}
			return usage.Errorf("the test is missing: see: tapir perf --help")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, op := range perfconf.Ops {
		if op != perfconf.Rping { // a verb of its own
			cmd.AddCommand(newPerfOp(op))
		}
	}
	return cmd
}

// jobFlags are the flags that all workloads share.
type jobFlags struct {
	nic       string
	json      bool
	transport *string // of the job
}

func (o *jobFlags) flags(port *uint16, transport *string) []cli.Flag {
	o.transport = transport
	return []cli.Flag{
		cli.F(transport, "transport", "",
			"`iwarp or roce`: what the NIC must speak; without a NIC, the only one that does"),
		cli.F(&o.json, "json", "", "print the result as JSON"),
		cli.F(port, "port", "p", "port of the server"),
	}
}

// onNIC completes a command whose first argument may be a NIC; --nic is the older spelling.
func (o *jobFlags) onNIC(cmd *cobra.Command) *cobra.Command {
	cmd.ValidArgsFunction = complete.NIC
	return cli.Old(cmd, cli.F(&o.nic, "nic", "", "`name` of the NIC to use"))
}

// target takes the name of the NIC from args, which go on with an address.
func (o *jobFlags) target(args []string) (rest []string, err error) {
	if o.nic, rest, err = cli.Target(args, o.nic, cli.IsAddress); err == nil && len(rest) < len(args) &&
		!in(ctl.List())(o.nic) {
		err = usage.Errorf("%q is neither an IP address nor a running NIC: see: tapir ls", o.nic)
	}
	return rest, err
}

// run runs a workload to its end. what names it if it is interrupted; begun, with
// the NIC's name, is called when it has begun.
func (o *jobFlags) run(cmd *cobra.Command, what string, job any, begun func(nic string),
	progress func(json.RawMessage), report any) error {
	name, err := ctl.Speaking(cmd.Context(), o.nic, *o.transport)
	if err != nil {
		return err
	}
	err = withNIC(name, "its name: "+cmd.CommandPath()+" NIC", func(c *ctl.Client) error {
		c.Begun = func() { begun(c.Hello.Name) }
		return c.Perf(cmd.Context(), job, progress, report)
	})
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s was interrupted", what)
	}
	return err
}

func quietly(string) {}

// print prints a report as the flags say.
func (o *jobFlags) print(cmd *cobra.Command, report interface{ WriteText(io.Writer) error }) error {
	if o.json {
		return show.JSON(cmd.OutOrStdout(), report)
	}
	return report.WriteText(cmd.OutOrStdout())
}

// perfFlags are the flags of one test.
type perfFlags struct {
	jobFlags
	job     perfconf.Job
	seconds int
}

func newPerfOp(op perfconf.Op) *cobra.Command {
	o := perfFlags{job: perfconf.Job{Op: op, Port: perfconf.DefaultPort}}
	flags := o.flags(&o.job.Port, &o.job.Transport)
	if op == perfconf.Verify {
		flags = append(flags, cli.F(&o.job.Sizes, "size", "s", "message sizes in bytes (default 8,4096,16777216)"))
	} else {
		defaults := o.job.WithDefaults()
		o.job.Size, o.job.QPs, o.job.Depth = defaults.Size, defaults.QPs, defaults.Depth
		flags = append(flags,
			cli.F(&o.job.Size, "size", "s", "message size in bytes"),
			cli.F(&o.job.Iters, "iters", "n", fmt.Sprint("messages per queue pair, default ", perfconf.DefaultIters)),
			cli.F(&o.job.SL, "sl", "S", "service `level` of RoCE, 0 to 7: the priority of frames on a VLAN"),
			cli.F(&o.seconds, "duration", "D", "run for this number of `seconds` instead of -n"),
			cli.F(&o.job.QPs, "qp", "q", "number of queue pairs"),
			cli.F(&o.job.Depth, "tx-depth", "t", "outstanding messages per queue pair"))
	}
	return o.onNIC(cli.With(&cobra.Command{
		Use:   string(op) + " [NIC] [ADDRESS]",
		Short: perfShort[op],
		Example: fmt.Sprintf("  tapir perf %[1]s nic0                # serves\n"+
			"  tapir perf %[1]s nic1 10.0.0.1       # connects", op),
		Args: cli.AtMost(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := o.target(args)
			if err != nil {
				return err
			}
			if len(args) > 1 {
				return usage.Errorf("unexpected argument %q: see: %s --help", args[1], cmd.CommandPath())
			}
			o.job.Duration = time.Duration(o.seconds) * time.Second
			if err := o.job.Complete(cli.First(args)); err != nil {
				return usage.Wrap(err)
			}
			return o.test(cmd)
		},
	}, flags...))
}

// test runs the job, with a line that shows how far it is.
func (o *perfFlags) test(cmd *cobra.Command) error {
	errOut := cmd.ErrOrStderr()
	line := perf.ProgressLine{W: errOut, Terminal: files.Terminal(errOut)}
	var report perf.Report
	err := o.run(cmd, string(o.job.Op), o.job, func(nic string) {
		if o.job.Serves() {
			fmt.Fprintf(errOut, "%s serves %s on port %d to one client; Ctrl-C ends it\n", nic, o.job.Op, o.job.Port)
		}
	}, line.Show, &report)
	line.End()
	if err != nil {
		return err
	}
	return o.print(cmd, &report)
}
