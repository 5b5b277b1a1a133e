package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/perf"
)

// perfShort says what each workload does.
var perfShort = map[perf.Op]string{
	perf.WriteBW:  "RDMA Write bandwidth",
	perf.ReadBW:   "RDMA Read bandwidth",
	perf.SendBW:   "Send bandwidth",
	perf.WriteLat: "RDMA Write latency, ping-pong",
	perf.SendLat:  "Send latency, ping-pong",
	perf.Verify:   "Send, Write and Read once per size, target memory checked by SHA-256",
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
				return usagef("unknown test %q: see: tapir perf --help", args[0])
			}
			return usagef("the test is missing: see: tapir perf --help")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, op := range perf.Ops {
		if op != perf.Rping { // a verb of its own
			cmd.AddCommand(newPerfOp(op))
		}
	}
	return cmd
}

// perfFlags are the options of one test.
type perfFlags struct {
	job     perf.Job
	nic     string
	seconds int
	json    bool
}

func newPerfOp(op perf.Op) *cobra.Command {
	o := perfFlags{job: perf.Job{Op: op}}
	cmd := &cobra.Command{
		Use:   string(op) + " [ADDRESS]",
		Short: perfShort[op],
		Example: fmt.Sprintf("  tapir perf %[1]s --nic nic0              # serves\n"+
			"  tapir perf %[1]s --nic nic1 10.0.0.1     # connects", op),
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return usageError{err}
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.nic, "nic", "", "`name` of the NIC to use; may be left out if only one runs")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.Uint16VarP(&o.job.Port, "port", "p", perf.DefaultPort, "TCP port of the server")
	if op == perf.Verify {
		f.IntSliceVarP(&o.job.Sizes, "size", "s", nil, "message sizes in bytes (default 8,4096,16777216)")
	} else {
		defaults := perf.Job{Op: op}.WithDefaults()
		f.IntVarP(&o.job.Size, "size", "s", defaults.Size, "message size in bytes")
		f.Int64VarP(&o.job.Iters, "iters", "n", 0, fmt.Sprintf("messages per queue pair (default %d)", perf.DefaultIters))
		f.IntVarP(&o.seconds, "duration", "D", 0, "run for so many `seconds` instead of -n")
		f.IntVarP(&o.job.QPs, "qp", "q", defaults.QPs, "number of queue pairs")
		f.IntVarP(&o.job.Depth, "tx-depth", "t", defaults.Depth, "outstanding messages per queue pair")
	}
	if err := cmd.RegisterFlagCompletionFunc("nic", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
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
	c, err := dial(o.nic, "--nic NAME")
	if err != nil {
		return err
	}
	defer c.Close()
	errOut := cmd.ErrOrStderr()
	if o.job.Serves() {
		fmt.Fprintf(errOut, "%s serves %s on port %d; end with Ctrl-C\n", c.Hello.Name, o.job.Op, o.job.Port)
	}
	line := progressLine{w: errOut, tty: isTerminal(errOut)}
	var report perf.Report
	err = c.Perf(cmd.Context(), o.job, line.show, &report)
	line.end()
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s was interrupted", o.job.Op)
	}
	if err != nil {
		return err
	}
	if o.json {
		raw, err := json.Marshal(report)
		if err != nil {
			return err
		}
		return printJSON(cmd.OutOrStdout(), raw)
	}
	return printReport(cmd.OutOrStdout(), &report)
}

// progressLine prints at most one line a second, over itself on a terminal.
type progressLine struct {
	w    io.Writer
	tty  bool
	last time.Duration
}

func (l *progressLine) show(raw json.RawMessage) {
	var p perf.Progress
	if json.Unmarshal(raw, &p) != nil || p.Messages == 0 || p.Elapsed < l.last+time.Second {
		return
	}
	l.last = p.Elapsed
	text := fmt.Sprintf("%6.1f s  %d messages  %d bytes  %.2f Gb/s", p.Elapsed.Seconds(), p.Messages, p.Bytes, p.Gbps())
	if l.tty {
		fmt.Fprint(l.w, "\r\x1b[K"+text)
		return
	}
	fmt.Fprintln(l.w, text)
}

func (l *progressLine) end() {
	if l.tty && l.last > 0 {
		fmt.Fprintln(l.w)
	}
}

// printReport writes a result for people.
func printReport(w io.Writer, r *perf.Report) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	switch {
	case len(r.Checks) > 0:
		fmt.Fprintln(tw, "operation\tbytes\ttime\tGb/s\tverified\t")
		for _, c := range r.Checks {
			fmt.Fprintf(tw, "%s\t%d\t%v\t%.2f\t%v\t\n", c.Operation, c.Size, c.Elapsed.Round(time.Microsecond), c.Gbps(), c.Verified)
		}
	case r.Latency != nil:
		fmt.Fprintln(tw, "bytes\tmessages\tmin\tmedian\tmean\t99%\t99.9%\tmax\t")
		l := r.Latency
		fmt.Fprintf(tw, "%d\t%d\t%v\t%v\t%v\t%v\t%v\t%v\t\n", r.Size, r.Messages, l.Min, l.Median, l.Mean, l.P99, l.P999, l.Max)
	default:
		fmt.Fprintln(tw, "bytes\tmessages\tqps\tdepth\ttime\tGb/s\tmessages/s\t")
		fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t%v\t%.2f\t%.0f\t\n", r.Size, r.Messages, r.QPs, r.Depth, r.Elapsed.Round(time.Microsecond), r.Gbps, r.MsgRate)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, c := range r.Checks {
		if !c.Verified {
			return fmt.Errorf("%s of %d bytes: the target memory differs: SHA-256 %s, want %s", c.Operation, c.Size, c.SHA256, c.Want)
		}
	}
	return nil
}
