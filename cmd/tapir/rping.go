package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/perf"
	"tapir/lab/tool/show"
	"tapir/lab/tool/usage"
)

func newRping() *cobra.Command {
	o := perfFlags{job: perfconf.Job{Op: perfconf.Rping}}
	var serve, connect, verbose bool
	var address string
	cmd := &cobra.Command{
		Use:   "rping {-s | -c -a ADDRESS}",
		Short: "RDMA ping, with librdmacm's rping as peer",
		Long: "Rping runs the protocol of the rping program of rdma-core inside a NIC: each round\n" +
			"is two advertisements by Send, an RDMA Read and an RDMA Write. Its peer is another\n" +
			"NIC, or the stock rping on anything that speaks iWARP.",
		Example: "  tapir rping -s -v --nic nic0\n" +
			"  tapir rping -c -a 10.0.0.1 -C 5 -v --nic nic1",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case serve == connect:
				return usage.Errorf("choose one of -s (serve) and -c (connect)")
			case serve && address != "":
				return usage.Errorf("-s and -a exclude each other: a server listens on every address")
			case connect && address == "":
				return usage.Errorf("-c needs -a ADDRESS")
			}
			var args []string
			if connect {
				args = []string{address}
			}
			if err := o.check(args); err != nil {
				return usage.Wrap(err)
			}
			return o.rping(cmd, verbose)
		},
	}
	f := cmd.Flags()
	nicFlag(f, &o.nic)
	f.BoolVarP(&serve, "server", "s", false, "serve one client")
	f.BoolVarP(&connect, "client", "c", false, "connect")
	f.StringVarP(&address, "address", "a", "", "the server's `address`")
	f.Uint16VarP(&o.job.Port, "port", "p", perfconf.RpingPort, "TCP port of the server")
	f.Int64VarP(&o.job.Iters, "count", "C", perfconf.RpingIters, "pings to send")
	f.IntVarP(&o.job.Size, "size", "S", 0, "bytes of a ping (default 64)")
	f.BoolVarP(&verbose, "verbose", "v", false, "print the data of each ping")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	return cmd
}

// rping runs the job and prints what the pings carried.
func (o *perfFlags) rping(cmd *cobra.Command, verbose bool) error {
	out := cmd.OutOrStdout()
	var report perf.Report
	if err := runJob(cmd, o.nic, "rping", o.job, quietly, func(raw json.RawMessage) {
		var p perf.Progress
		if verbose && json.Unmarshal(raw, &p) == nil && p.Data != "" {
			fmt.Fprintln(out, p.Data)
		}
	}, &report); err != nil {
		return err
	}
	if o.json {
		return show.JSON(out, report)
	}
	_, err := fmt.Fprintf(out, "%d pings of %d bytes, all data as sent\n", report.Messages, report.Size)
	return err
}
