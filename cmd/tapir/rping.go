package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tapir/lab/tool/perf"
)

func newRping() *cobra.Command {
	o := perfFlags{job: perf.Job{Op: perf.Rping}}
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
				return usagef("choose one of -s (serve) and -c (connect)")
			case serve && address != "":
				return usagef("-s and -a exclude each other: a server listens on every address")
			case connect && address == "":
				return usagef("-c needs -a ADDRESS")
			}
			var args []string
			if connect {
				args = []string{address}
			}
			if err := o.check(args); err != nil {
				return usageError{err}
			}
			return o.rping(cmd, verbose)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.nic, "nic", "", "`name` of the NIC to use; may be left out if only one runs")
	f.BoolVarP(&serve, "server", "s", false, "serve one client")
	f.BoolVarP(&connect, "client", "c", false, "connect")
	f.StringVarP(&address, "address", "a", "", "the server's `address`")
	f.Uint16VarP(&o.job.Port, "port", "p", perf.RpingPort, "TCP port of the server")
	f.Int64VarP(&o.job.Iters, "count", "C", perf.RpingIters, "pings to send")
	f.IntVarP(&o.job.Size, "size", "S", 0, "bytes of a ping (default 64)")
	f.BoolVarP(&verbose, "verbose", "v", false, "print the data of each ping")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	return cmd
}

// rping runs the job and prints what the pings carried.
func (o *perfFlags) rping(cmd *cobra.Command, verbose bool) error {
	c, err := dial(o.nic, "--nic NAME")
	if err != nil {
		return err
	}
	defer c.Close()
	show := func(raw json.RawMessage) {
		var p perf.Progress
		if verbose && json.Unmarshal(raw, &p) == nil && p.Data != "" {
			fmt.Fprintln(cmd.OutOrStdout(), p.Data)
		}
	}
	var report perf.Report
	err = c.Perf(cmd.Context(), o.job, show, &report)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("rping was interrupted")
	case err != nil:
		return err
	case o.json:
		raw, err := json.Marshal(report)
		if err != nil {
			return err
		}
		return printJSON(cmd.OutOrStdout(), raw)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d pings of %d bytes, all data as sent\n", report.Messages, report.Size)
	return err
}
