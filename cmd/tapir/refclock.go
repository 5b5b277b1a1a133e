package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/usage"
	"tapir/nic/uapi/refclock"
)

// noUnit is the --shm of who did not choose it.
const noUnit = -1

func newPTPRefclock() *cobra.Command {
	sock, unit, utcOffset, interval := "", noUnit, 0, time.Second/4
	return cli.InOrder(&cobra.Command{
		Use:   "refclock [NIC] {--sock PATH | --shm UNIT}",
		Short: "Offer a NIC's clock to chronyd or ntpd as a reference clock",
		Long: "Refclock reads the hardware clock of a running NIC and the system's at the same moment,\n" +
			"and gives both to a time daemon, until Ctrl-C. The first sample must arrive; when the\n" +
			"daemon restarts later, samples are lost until it is there again.\n\n" +
			"chronyd makes the socket of --sock itself. Shared memory (--shm) is that of ntpd's driver\n" +
			"28; units 0 and 1 are root's.",
		Example: "  # chrony.conf: refclock SOCK /run/chrony/nic0.sock refid NIC0\n" +
			"  tapir ptp refclock nic0 --sock /run/chrony/nic0.sock\n" +
			"  # chrony.conf: refclock SHM 2 refid NIC0\n" +
			"  tapir ptp refclock nic0 --shm 2",
		Args:              cli.AtMost(1),
		ValidArgsFunction: complete.NIC,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (sock == "") == (unit == noUnit):
				return usage.Errorf("choose one of --sock PATH and --shm UNIT")
			case interval < time.Millisecond:
				return usage.Errorf("interval %v: expected at least 1ms", interval)
			}
			return withNIC(cli.First(args), "its name: tapir ptp refclock NIC", func(c *ctl.Client) (err error) {
				var to refclock.Sink = refclock.OpenSock(sock)
				if sock == "" {
					if to, err = refclock.OpenSHM(unit); err != nil {
						return err
					}
				}
				defer to.Close()
				sample := c.ClockSample(time.Duration(utcOffset) * time.Second)
				s, err := refclock.Feed(cmd.Context(), interval, sample, to)
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%d samples, %d of them lost\n", s.Written+s.Lost, s.Lost)
				}
				return err
			})
		},
	},
		cli.F(&sock, "sock", "", "socket of chronyd's SOCK driver"),
		cli.F(&unit, "shm", "", "`unit` of shared memory"),
		cli.F(&interval, "interval", "i", "`time` between two samples"),
		cli.F(&utcOffset, "utc-offset", "",
			"`seconds` that the NIC's clock is ahead of UTC, such as 37 if it shows TAI"),
	)
}
