package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/perf"
	"tapir/lab/tool/usage"
)

func newRping() *cobra.Command {
	o := perfFlags{job: perfconf.Job{Op: perfconf.Rping, Port: perfconf.RpingPort, Iters: perfconf.RpingIters}}
	var serve, connect, verbose bool
	var address string
	return o.onNIC(cli.With(&cobra.Command{
		Use:   "rping [NIC] {-s | -c -a ADDRESS}",
		Short: "Ping by RDMA, with librdmacm's rping as peer",
		Long: "Rping runs the protocol of the rping program of rdma-core inside a NIC: each round\n" +
			"is two advertisements by Send, an RDMA Read and an RDMA Write. Its peer is another\n" +
			"NIC, or the stock rping on anything that speaks the same transport.",
		Example: "  tapir rping nic0 -s -v\n" +
			"  tapir rping nic1 -c -a 10.0.0.1 -C 5 -v",
		Args: cli.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := o.target(args); err != nil {
				return err
			}
			switch {
			case serve == connect:
				return usage.Errorf("choose one of -s (serve) and -c (connect)")
			case serve && address != "":
				return usage.Errorf("-s and -a exclude each other: a server listens on every address")
			case connect && address == "":
				return usage.Errorf("-c needs -a ADDRESS")
			}
			if err := o.job.Complete(address); err != nil {
				return usage.Wrap(err)
			}
			return o.rping(cmd, verbose)
		},
	}, append(o.flags(&o.job.Port, &o.job.Transport),
		cli.F(&serve, "server", "s", "serve one client"),
		cli.F(&connect, "client", "c", "connect"),
		cli.F(&address, "address", "a", "the server's `address`"),
		cli.F(&o.job.Iters, "count", "C", "pings to send"),
		cli.F(&o.job.Size, "size", "S", "bytes of a ping (default 64)"),
		cli.F(&verbose, "verbose", "v", "print the data of each ping"))...))
}

// rping runs the job and prints what the pings carried.
func (o *perfFlags) rping(cmd *cobra.Command, verbose bool) error {
	var report perf.Report
	if err := o.run(cmd, "rping", o.job, quietly, func(raw json.RawMessage) {
		var p perf.Progress
		if verbose && json.Unmarshal(raw, &p) == nil && p.Data != "" {
			fmt.Fprintln(cmd.OutOrStdout(), p.Data)
		}
	}, &report); err != nil {
		return err
	}
	return o.print(cmd, &report)
}
