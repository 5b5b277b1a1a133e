package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/spf13/pflag"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/ctl"
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
		Use:   "perf TEST [--nic NAME] [ADDRESS]",
		Short: "Measure RDMA bandwidth and latency between two NICs",
		Long: "Perf runs a workload inside a running NIC, in the vocabulary of perftest. Without an\n" +
			"address it serves one client; with the address of the serving NIC it connects. The\n" +
			"client's parameters win.",
		Example: "  tapir perf write-bw --nic nic0              # serves\n" +
			"  tapir perf write-bw --nic nic1 10.0.0.1     # connects",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.Errorf("unknown test %q: see: tapir perf --help", args[0])
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

// perfFlags are the options of one test.
type perfFlags struct {
	job     perfconf.Job
	nic     string
	seconds int
	json    bool
}

func newPerfOp(op perfconf.Op) *cobra.Command {
	o := perfFlags{job: perfconf.Job{Op: op}}
	cmd := &cobra.Command{
		Use:   string(op) + " [ADDRESS]",
		Short: perfShort[op],
		Example: fmt.Sprintf("  tapir perf %[1]s --nic nic0              # serves\n"+
			"  tapir perf %[1]s --nic nic1 10.0.0.1     # connects", op),
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return usage.Wrap(err)
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	nicFlag(f, &o.nic)
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.Uint16VarP(&o.job.Port, "port", "p", perfconf.DefaultPort, "TCP port of the server")
	if op == perfconf.Verify {
		f.IntSliceVarP(&o.job.Sizes, "size", "s", nil, "message sizes in bytes (default 8,4096,16777216)")
	} else {
		defaults := perfconf.Job{Op: op}.WithDefaults()
		f.IntVarP(&o.job.Size, "size", "s", defaults.Size, "message size in bytes")
		f.Int64VarP(&o.job.Iters, "iters", "n", 0, fmt.Sprintf("messages per queue pair (default %d)",
			perfconf.DefaultIters))
		f.IntVarP(&o.seconds, "duration", "D", 0, "run for so many `seconds` instead of -n")
		f.IntVarP(&o.job.QPs, "qp", "q", defaults.QPs, "number of queue pairs")
		f.IntVarP(&o.job.Depth, "tx-depth", "t", defaults.Depth, "outstanding messages per queue pair")
	}
	if err := cmd.RegisterFlagCompletionFunc("nic", func(*cobra.Command, []string,
		string) ([]string, cobra.ShellCompDirective) {
		return ctl.List(), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // the flag stands a few lines above
	}
	return cmd
}

// check completes the job from the arguments.
func (o *perfFlags) check(args []string) error {
	if len(args) == 1 {
		a, err := netip.ParseAddr(args[0])
		if err != nil {
			return fmt.Errorf("%q is no IP address: give the address of the serving NIC", args[0])
		}
		o.job.Remote = a
	}
	o.job.Duration = time.Duration(o.seconds) * time.Second
	j := o.job.WithDefaults()
	if err := j.Validate(); err != nil {
		return err
	}
	o.job = j
	return nil
}

func (o *perfFlags) run(cmd *cobra.Command) error {
	errOut := cmd.ErrOrStderr()
	line := perf.ProgressLine{W: errOut, Terminal: isTerminal(errOut)}
	var report perf.Report
	err := runJob(cmd, o.nic, string(o.job.Op), o.job, func(c *ctl.Client) {
		if o.job.Serves() {
			fmt.Fprintf(errOut, "%s serves %s on port %d; end with Ctrl-C\n", c.Hello.Name, o.job.Op, o.job.Port)
		}
	}, line.Show, &report)
	line.End()
	if err != nil {
		return err
	}
	if o.json {
		return show.JSON(cmd.OutOrStdout(), report)
	}
	return report.WriteText(cmd.OutOrStdout())
}

// runJob runs a workload on a NIC to its end. what names it if it is
// interrupted; begin is called before it starts.
func runJob(cmd *cobra.Command, nic, what string, job any, begin func(*ctl.Client), progress func(json.RawMessage),
	report any) error {
	err := withNIC(nic, "--nic NAME", func(c *ctl.Client) error {
		begin(c)
		return c.Perf(cmd.Context(), job, progress, report)
	})
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s was interrupted", what)
	}
	return err
}

// nicFlag is the flag that names the NIC of a workload.
func nicFlag(f *pflag.FlagSet, nic *string) {
	f.StringVar(nic, "nic", "", "`name` of the NIC to use; may be left out if only one runs")
}

func quietly(*ctl.Client) {}
