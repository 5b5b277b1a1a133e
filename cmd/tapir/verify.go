package main

import (
	"errors"
	"net/netip"

	"github.com/spf13/cobra"

	"tapir/lab/tool/usage"
	"tapir/lab/tool/verify"
)

// newVerify makes the command by its name, or by its former one, siwt.
func newVerify(name string) *cobra.Command {
	return group(&cobra.Command{
		Use: name + " {server | client ADDRESS STEP...}", Hidden: name != "verify",
		Short: "Every RDMA operation, verified, with a Linux guest or a NIC as peer",
		Long: "Verify goes through RDMA operations step by step between this NIC and another verifier: the\n" +
			"program of that name in a guest of `tapir peer`, or a second NIC. Each side verifies\n" +
			"what the other did. A step is NAME[:SIZE[:COUNT]]; see: tapir verify client --help.",
		Example: "  tapir verify server --nic nic0\n" +
			"  tapir verify client 10.0.0.1 --nic nic1 write:4096 read:4096 send:64 sendinv:8",
	}, "command", newVerifyServer(), newVerifyClient())
}

// verifyFlags are the flags of one side.
type verifyFlags struct {
	jobFlags
	job verify.Job
}

func newVerifyServer() *cobra.Command {
	o := verifyFlags{job: verify.Job{Port: verify.DefaultPort, Conns: 1}}
	return inOrder(&cobra.Command{
		Use:   "server",
		Short: "Serve clients",
		Example: "  tapir verify server --nic nic0\n" +
			"  tapir peer exec 'verify client 10.0.0.1 write:100000 read:100000 echo:999'",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.work(cmd) },
	}, append(o.flags(&o.job.Port, &o.job.Transport),
		flag{&o.job.Conns, "connections", "n", "end after this number of connections; 0: only at Ctrl-C"},
		flag{&o.job.IRD, "ird", "i", "Reads to serve at a time; 0: what a client asks for, -1: none"},
		flag{&o.job.ORD, "ord", "o", "Reads to issue at a time; 0: what a client offers, -1: none"})...)
}

func newVerifyClient() *cobra.Command {
	o := verifyFlags{job: verify.Job{
		Port: verify.DefaultPort, Conns: 1, IRD: verify.DefaultReads, ORD: verify.DefaultReads,
		Receives: verify.DefaultReceives, RecvKiB: verify.DefaultRecvKiB, Patience: verify.DefaultPatience,
	}}
	return inOrder(&cobra.Command{
		Use:   "client ADDRESS STEP...",
		Short: "Connect and work through steps",
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
			"  tapir verify client 10.0.0.2 -c 8 burst:4096:50 read:4096\n" +
			"  tapir verify client 10.0.0.2 rbounds:100",
		Args: atLeast(1, "the address is missing: see: tapir verify client --help"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.job.Remote, err = netip.ParseAddr(args[0]); err != nil {
				return usage.Errorf("%q is no IP address: give the address of the server", args[0])
			}
			o.job.Steps = args[1:]
			return o.work(cmd)
		},
	}, append(o.flags(&o.job.Port, &o.job.Transport),
		flag{&o.job.Conns, "connections", "c", "connections at a time, each with all steps"},
		flag{&o.job.IRD, "ird", "i", "Reads to serve at a time; -1: none"},
		flag{&o.job.ORD, "ord", "o", "Reads to issue at a time; -1: none"},
		flag{&o.job.Private, "private", "P", "`octets` of private data (default 8, at most 508; siw takes 252)"},
		flag{&o.job.Reject, "reject", "X", "ask the server to reject the connection"},
		flag{&o.job.SRQ, "srq", "Q", "the server receives from a shared receive queue"},
		flag{&o.job.Receives, "receives", "R", "receives that the server posts"},
		flag{&o.job.RecvKiB, "size", "S", "size of each in `KiB`"},
		flag{&o.job.Patience, "patience", "T", "`time` that a step may take"},
		flag{&o.job.Settle, "settle", "W", "`time` to wait before the first step"})...)
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
