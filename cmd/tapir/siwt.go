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
	"github.com/spf13/pflag"

	"tapir/lab/tool/siwt"
)

func newSiwt() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "siwt {server | client ADDRESS STEP...}",
		Short: "Every RDMA operation, verified, with a Linux guest or a NIC as peer",
		Long: "Siwt goes through RDMA operations step by step between this NIC and another siwt: the\n" +
			"program of that name in a guest of `tapir peer`, or a second NIC. Each side verifies\n" +
			"what the other did. A step is NAME[:SIZE[:COUNT]]; see: tapir siwt client --help.",
		Example: "  tapir siwt server --nic nic0\n" +
			"  tapir siwt client 10.0.0.1 --nic nic1 write:4096 read:4096 send:64 sendinv:8",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q: see: tapir siwt --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSiwtServer(), newSiwtClient())
	return cmd
}

// siwtFlags are the options of one side.
type siwtFlags struct {
	job  siwt.Job
	nic  string
	json bool
}

func (o *siwtFlags) common(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.nic, "nic", "", "`name` of the NIC to use; may be left out if only one runs")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.Uint16VarP(&o.job.Port, "port", "p", siwt.DefaultPort, "TCP port of the server")
}

func newSiwtServer() *cobra.Command {
	var o siwtFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Serve clients",
		Example: "  tapir siwt server --nic nic0\n" +
			"  tapir peer exec 'siwt client 10.0.0.1 write:100000 read:100000 echo:999'",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	o.common(f)
	f.IntVarP(&o.job.Conns, "connections", "n", 1, "end after so many connections; 0: only at Ctrl-C")
	f.IntVarP(&o.job.IRD, "ird", "i", 0, "Reads to serve at a time; 0: what a client asks for, -1: none")
	f.IntVarP(&o.job.ORD, "ord", "o", 0, "Reads to issue at a time; 0: what a client offers, -1: none")
	return cmd
}

func newSiwtClient() *cobra.Command {
	var o siwtFlags
	cmd := &cobra.Command{
		Use:   "client ADDRESS STEP...",
		Short: "Connect and work through steps",
		Long: "Client connects to a siwt server and works through its steps; the first failure ends\n" +
			"it. SIZE is in octets (64 unless given), COUNT posts the same several times.\n\n" +
			"  write writei burst        RDMA Write: plain, of inline data, the last of COUNT signalled\n" +
			"  read readn                RDMA Read, compared with what the memory must hold\n" +
			"  send sendi echo           Send: plain, of inline data, sent back\n" +
			"  sendse sendinv sendseinv  with solicited event, with invalidate, with both\n" +
			"  wbad wkey wbounds wlow wro wpd wwo wwrap   Writes that are wrong: STag, key, bounds,\n" +
			"  rbad rkey rbounds rlow rwo rpd             rights, protection domain, wrap; and Reads\n" +
			"  sleep gone                pause; wait SIZE ms for the peer to end the connection\n" +
			"  abort                     end the connection at once",
		Example: "  tapir siwt client 10.0.0.2 write:100000 read:100000 send:4096:4 echo:999\n" +
			"  tapir siwt client 10.0.0.2 -c 8 burst:4096:50 read:4096\n" +
			"  tapir siwt client 10.0.0.2 rbounds:100",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 0 {
				return usagef("the address is missing: see: tapir siwt client --help")
			}
			if o.job.Remote, err = netip.ParseAddr(args[0]); err != nil {
				return usagef("%q is no IP address: give the address of the server", args[0])
			}
			o.job.Steps = args[1:]
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	o.common(f)
	f.IntVarP(&o.job.Conns, "connections", "c", 1, "connections at a time, each with all steps")
	f.IntVarP(&o.job.IRD, "ird", "i", siwt.DefaultReads, "Reads to serve at a time; -1: none")
	f.IntVarP(&o.job.ORD, "ord", "o", siwt.DefaultReads, "Reads to issue at a time; -1: none")
	f.IntVarP(&o.job.Private, "private", "P", 0, "`octets` of private data (default 8, at most 508; siw takes 252)")
	f.BoolVarP(&o.job.Reject, "reject", "X", false, "ask the server to reject the connection")
	f.BoolVarP(&o.job.SRQ, "srq", "Q", false, "the server receives from a shared receive queue")
	f.IntVarP(&o.job.Receives, "receives", "R", siwt.DefaultReceives, "receives that the server posts")
	f.IntVarP(&o.job.RecvKiB, "size", "S", siwt.DefaultRecvKiB, "size of each in `KiB`")
	f.DurationVarP(&o.job.Patience, "patience", "T", siwt.DefaultPatience, "`time` that a step may take")
	f.DurationVarP(&o.job.Settle, "settle", "W", 0, "`time` to wait before the first step")
	return cmd
}

func (o *siwtFlags) run(cmd *cobra.Command) error {
	o.job = o.job.WithDefaults()
	if err := o.job.Validate(); err != nil {
		return usageError{err}
	}
	c, err := dial(o.nic, "--nic NAME")
	if err != nil {
		return err
	}
	defer c.Close()
	var report siwt.Report
	err = c.Perf(cmd.Context(), o.job, func(json.RawMessage) {}, &report)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("siwt was interrupted")
	case err != nil:
		return err
	}
	if err := o.print(cmd.OutOrStdout(), &report); err != nil {
		return err
	}
	if report.Error != "" {
		return errors.New(report.Error)
	}
	return nil
}

func (o *siwtFlags) print(w io.Writer, r *siwt.Report) error {
	if o.json {
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return printJSON(w, raw)
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, c := range r.Conns {
		fmt.Fprintf(tw, "%v\tird %d\tord %d\tprivate data %d\t\n", c.Remote, c.IRD, c.ORD, c.Private)
		if c.Rejected != "" {
			fmt.Fprintf(tw, "\trejected: %s\t\n", c.Rejected)
		}
		for _, s := range c.Steps {
			outcome := "ok"
			if s.Error != "" {
				outcome = s.Error
			}
			fmt.Fprintf(tw, "\t%s\t%v\t%s\t\n", s.Step, s.Elapsed.Round(time.Microsecond), outcome)
		}
		for _, m := range c.Received {
			fmt.Fprintf(tw, "\treceived %d\tsum %08x\t\t\n", m.Octets, m.Sum)
		}
		if c.End != "" {
			fmt.Fprintf(tw, "\tended: %s\t\n", c.End)
		}
	}
	return tw.Flush()
}
