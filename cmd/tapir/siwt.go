package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/netip"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tapir/lab/tool/show"
	"tapir/lab/tool/siwt"
	"tapir/lab/tool/usage"
)

func newSiwt() *cobra.Command {
	return group(&cobra.Command{
		Use:   "siwt {server | client ADDRESS STEP...}",
		Short: "Every RDMA operation, verified, with a Linux guest or a NIC as peer",
		Long: "Siwt goes through RDMA operations step by step between this NIC and another siwt: the\n" +
			"program of that name in a guest of `tapir peer`, or a second NIC. Each side verifies\n" +
			"what the other did. A step is NAME[:SIZE[:COUNT]]; see: tapir siwt client --help.",
		Example: "  tapir siwt server --nic nic0\n" +
			"  tapir siwt client 10.0.0.1 --nic nic1 write:4096 read:4096 send:64 sendinv:8",
	}, "command", newSiwtServer(), newSiwtClient())
}

// siwtFlags are the options of one side.
type siwtFlags struct {
	job  siwt.Job
	nic  string
	json bool
}

func (o *siwtFlags) common(f *pflag.FlagSet) {
	f.SortFlags = false
	nicFlag(f, &o.nic)
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
		Args: atLeast(1, "the address is missing: see: tapir siwt client --help"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.job.Remote, err = netip.ParseAddr(args[0]); err != nil {
				return usage.Errorf("%q is no IP address: give the address of the server", args[0])
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
		return usage.Wrap(err)
	}
	var report siwt.Report
	if err := runJob(cmd, o.nic, "siwt", o.job, quietly, func(json.RawMessage) {}, &report); err != nil {
		return err
	}
	write := report.WriteText
	if o.json {
		write = func(w io.Writer) error { return show.JSON(w, report) }
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return err
	}
	if report.Error != "" {
		return errors.New(report.Error)
	}
	return nil
}
