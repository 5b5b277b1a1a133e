package main

import (
	"errors"
	"net/netip"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/usage"
	"tapir/lab/tool/verify"
)

// newVerify makes the command by its name, or by its former one, siwt.
func newVerify(name string) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: name + " {server [NIC] | client [NIC] ADDRESS STEP...}", Hidden: name != "verify",
		Short: "Verify every RDMA operation against a Linux guest or a NIC",
		Long: "Verify goes through RDMA operations step by step between this NIC and another verifier: the\n" +
			"program of that name in a guest of `tapir peer`, or a second NIC. Each side verifies\n" +
			"what the other did. A step is NAME[:SIZE[:COUNT]]; see: tapir verify client --help.",
		Example: "  tapir verify server nic0\n" +
			"  tapir verify client nic1 10.0.0.1 write:4096 read:4096 send:64 sendinv:8",
	}, "command", newVerifyServer(), newVerifyClient())
}

// verifyFlags are the flags of one side.
type verifyFlags struct {
	jobFlags
	job verify.Job
}

func newVerifyServer() *cobra.Command {
	o := verifyFlags{job: verify.Job{Port: verify.DefaultPort, Conns: 1}}
	return o.onNIC(cli.Old(cli.InOrder(&cobra.Command{
		Use:   "server [NIC]",
		Short: "Serve clients",
		Example: "  tapir verify server nic0\n" +
			"  tapir peer exec 'verify client 10.0.0.1 write:100000 read:100000 echo:999'",
		Args: cli.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := o.target(args); err != nil {
				return err
			}
			return o.work(cmd)
		},
	}, append(o.flags(&o.job.Port, &o.job.Transport),
		cli.F(&o.job.Conns, "connections", "n", "end after this number of connections; 0: only at Ctrl-C"),
		cli.F(&o.job.IRD, "ird", "", "Reads to serve at a time; 0: what a client asks for, -1: none"),
		cli.F(&o.job.ORD, "ord", "", "Reads to issue at a time; 0: what a client offers, -1: none"))...),
		cli.F(&o.job.IRD, "i", "i", "--ird"), cli.F(&o.job.ORD, "o", "o", "--ord")))
}

func newVerifyClient() *cobra.Command {
	o := verifyFlags{job: verify.Job{
		Port: verify.DefaultPort, Conns: 1, IRD: verify.DefaultReads, ORD: verify.DefaultReads,
		Receives: verify.DefaultReceives, RecvKiB: verify.DefaultRecvKiB, Patience: verify.DefaultPatience,
	}}
	return o.onNIC(cli.Old(cli.InOrder(&cobra.Command{
		Use:   "client [NIC] ADDRESS STEP...",
		Short: "Connect and run the steps",
		Long: "Client connects to a verify server and works through its steps; the first failure ends\n" +
			"it. SIZE is in octets (64 unless given), COUNT posts the same several times.\n\n" +
			"  write writei burst        RDMA Write: plain, of inline data, the last of COUNT signalled\n" +
			"  read readn                RDMA Read, compared with what the memory must hold\n" +
			"  send sendi echo           Send: plain, of inline data, sent back\n" +
			"  sendse sendinv sendseinv  with solicited event, with invalidate, with both\n" +
			"  wbad wkey wbounds wlow wro wpd wwo wwrap   Writes that are wrong: STag, key, bounds,\n" +
			"  rbad rkey rbounds rlow rwo rpd             rights, protection domain, wrap; and Reads\n" +
			"  sleep gone                pause; wait SIZE ms for the peer to end the connection\n" +
			"  abort                     end the connection at once",
		Example: "  tapir verify client 10.0.0.2 write:100000 read:100000 send:4096:4 echo:999\n" +
			"  tapir verify client 10.0.0.2 -n 8 burst:4096:50 read:4096\n" +
			"  tapir verify client 10.0.0.2 rbounds:100",
		Args: cli.AtLeast(1, "the address is missing: see: tapir verify client --help"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if args, err = o.target(args); err != nil {
				return err
			}
			if len(args) == 0 {
				return usage.Errorf("the address is missing: see: tapir verify client --help")
			}
			if o.job.Remote, err = netip.ParseAddr(args[0]); err != nil {
				return usage.Errorf("%q is no IP address: give the address of the server", args[0])
			}
			o.job.Steps = args[1:]
			return o.work(cmd)
		},
	}, append(o.flags(&o.job.Port, &o.job.Transport),
		cli.F(&o.job.Conns, "connections", "n", "connections at a time, each with all steps"),
		cli.F(&o.job.IRD, "ird", "", "Reads to serve at a time; -1: none"),
		cli.F(&o.job.ORD, "ord", "", "Reads to issue at a time; -1: none"),
		cli.F(&o.job.Private, "private", "P", "`octets` of private data (default 8, at most 508; siw takes 252)"),
		cli.F(&o.job.Reject, "reject", "X", "ask the server to reject the connection"),
		cli.F(&o.job.SRQ, "srq", "Q", "the server receives from a shared receive queue"),
		cli.F(&o.job.Receives, "receives", "R", "receives that the server posts"),
		cli.F(&o.job.RecvKiB, "size", "", "size of each in `KiB`"),
		cli.F(&o.job.Patience, "patience", "T", "`time` that a step may take"),
		cli.F(&o.job.Settle, "settle", "W", "`time` to wait before the first step"))...),
		cli.F(&o.job.Conns, "c", "c", "--connections"), cli.F(&o.job.IRD, "i", "i", "--ird"),
		cli.F(&o.job.ORD, "o", "o", "--ord"), cli.F(&o.job.RecvKiB, "S", "S", "--size")))
}

// work goes through the steps, or serves them.
func (o *verifyFlags) work(cmd *cobra.Command) error {
	o.job = o.job.WithDefaults()
	if err := o.job.Validate(); err != nil {
		return usage.Wrap(err)
	}
	var report verify.Report
	if err := o.run(cmd, "verify", o.job, quietly, nil, &report); err != nil {
		return err
	}
	if err := o.print(cmd, &report); err != nil {
		return err
	}
	if report.Error != "" {
		return errors.New(report.Error)
	}
	return nil
}
