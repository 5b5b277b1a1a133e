package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ptpuds"
	"tapir/lab/tool/usage"
)

// pmcOptions are the flags of tapir ptp pmc.
type pmcOptions struct {
	socket, target string
	domain, hops   uint8
	sdoID          uint16
	timeout        time.Duration
	listen         time.Duration
}

func newPTPPMC() *cobra.Command {
	o := pmcOptions{timeout: time.Second}
	return cli.InOrder(&cobra.Command{
		Use:   "pmc [NIC] COMMAND...",
		Short: "Send PTP management messages, as linuxptp's pmc does",
		Long: "Pmc sends management messages to the PTP instance that runs on a NIC, or to a ptp4l on this\n" +
			"machine (--socket), and prints the answers as linuxptp's pmc does. With --hops they go on to\n" +
			"the clocks in the network that many boundary clocks away. Each command is one argument: GET,\n" +
			"SET or COMMAND, a management id, and values; words may be shortened while they are unique.\n" +
			"The exit code is 1 if a command has no answer, or only errors.",
		Example: "  tapir ptp pmc nic0 'GET CURRENT_DATA_SET' 'GET PORT_DATA_SET'\n" +
			"  tapir ptp pmc nic0 'SET PRIORITY1 100'\n" +
			"  tapir ptp pmc --socket /var/run/ptp4l --hops 1 'GET DEFAULT_DATA_SET'\n" +
			"  tapir ptp pmc nic0 --listen 1m 'SET SUBSCRIBE_EVENTS_NP duration 60 NOTIFY_PORT_STATE on'",
		ValidArgsFunction: complete.NIC,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, lines := nameFirst(args, " ")
			return o.run(cmd, name, lines)
		},
	},
		cli.F(&o.socket, "socket", "", "`path` of the socket, of another program for one (default that of the NIC)"),
		cli.F(&o.target, "target", "", "ask one port only: a port `identity` such as 020000.fffe.000001-1"),
		cli.F(&o.hops, "hops", "", "`number` of boundary clocks that the messages may pass, the first included"),
		cli.F(&o.domain, "domain", "", "PTP domain `number`, which matters to ptp4l and in the network"),
		cli.F(&o.sdoID, "sdo-id", "", "sdoId `number`, the same; 0x100 for gPTP"),
		cli.F(&o.timeout, "timeout", "", "`time` to wait for the first answer to a command"),
		cli.F(&o.listen, "listen", "", "`time` to print notifications in the end"),
	)
}

func (o *pmcOptions) run(cmd *cobra.Command, name string, lines []string) error {
	if len(lines) == 0 {
		return usage.Errorf("nothing to send: see: tapir ptp pmc --help")
	}
	requests, err := ptpuds.ParseRequests(o.target, lines)
	if err != nil {
		return usage.Wrap(err)
	}
	c, err := o.dial(name)
	if err != nil {
		return err
	}
	defer c.Close()
	c.Domain, c.SdoID, c.Hops, c.Timeout = o.domain, o.sdoID, o.hops, o.timeout
	return c.AskAll(cmd.Context(), cmd.OutOrStdout(), requests, o.listen)
}

// dial opens the socket of a NIC's instance, or the one that was named.
func (o *pmcOptions) dial(name string) (client *ptpuds.Client, err error) {
	if o.socket != "" {
		return ptpuds.Dial(o.socket)
	}
	err = withNIC(name, "its name: tapir ptp pmc NIC ...", func(nic *ctl.Client) error {
		if client, err = ptpuds.Dial(ctl.PTPSocket(nic.Hello.Name)); err != nil {
			return fmt.Errorf("%w: start one with: tapir ptp run %s", err, nic.Hello.Name)
		}
		return nil
	})
	return client, err
}
