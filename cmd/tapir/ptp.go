package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/conf"
	"tapir/lab/conf/ptpconf"
	"tapir/lab/tool/cli"
	"tapir/lab/tool/complete"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ptprun"
	"tapir/lab/tool/show"
	"tapir/lab/tool/usage"
)

func newPTP() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "ptp {run|status|set|pmc|refclock|sim}",
		Short: "Run and show PTP (IEEE 1588) and the clocks of NICs",
		Long: "Ptp runs a PTP instance on a NIC's wire port, shows what it and the NIC's hardware clock\n" +
			"do, and changes its settings while it runs. Pmc manages it as linuxptp's pmc does, and every\n" +
			"ptp4l too. Refclock offers the clock to chronyd or ntpd. Sim runs whole networks of clocks\n" +
			"in virtual time.",
		Example: "  tapir ptp run nic0 --priority1 1\n" +
			"  tapir ptp run nic1 -c ptp.yaml\n" +
			"  tapir ptp status nic1\n" +
			"  tapir ptp set nic1 priority1=100\n" +
			"  tapir ptp pmc nic1 'GET PARENT_DATA_SET'\n" +
			"  tapir ptp sim examples/ptp-pair.yaml",
	}, "verb", newPTPRun(), newPTPStatus(), newPTPSet(), newPTPPMC(), newPTPRefclock(), newPTPSim())
}

func newPTPRun() *cobra.Command {
	job := ptprun.Job{Op: ptprun.Op, Interval: time.Second}
	var file string
	var asJSON bool
	flags := []cli.Flag{
		cli.F(&file, "config", "c", "settings in a YAML `file`"),
		cli.F(&job.Interval, "interval", "i", "`time` between two lines"),
		cli.F(&job.Count, "count", "n", "end after this number of lines; 0: never"),
		cli.F(&job.UDS, "uds", "", "`path` of the socket for pmc -u -s (default: NIC.ptp beside the control socket)"),
		cli.F(&asJSON, "json", "", "print JSON, an object each interval"),
	}
	for _, fl := range ptpconf.Flags() {
		var set any = func(v string) error {
			job.Settings = append(job.Settings, ptpconf.Setting{Name: fl.Name, Value: v})
			return nil
		}
		if fl.Switch {
			set = cli.Toggle(set.(func(string) error))
		}
		flags = append(flags, cli.F(set, strings.ReplaceAll(fl.Name, "_", "-"), "", fl.Expect))
	}
	return cli.InOrder(&cobra.Command{
		Use:   "run [NIC]",
		Short: "Run a PTP instance on a NIC until Ctrl-C",
		Long: "Run starts a PTP instance on the wire port of a running NIC or HFI and prints a line each\n" +
			"interval: the state of port and servo, the root mean square and the largest of the\n" +
			"offsets from the master that were measured, the correction of the clock's frequency, the\n" +
			"path delay, and in the end the truth: how far the NIC's clock is from the system's. It\n" +
			"ends with Ctrl-C; the clock keeps its frequency.\n\n" +
			"The settings are those of the file, which has the same names with _, and then those of\n" +
			"the flags. A NIC's clock shows the system's time, UTC, so that ptp_timescale is false\n" +
			"unless it is set. Stamps are those of the kernel at the TAP; a one-step message carries\n" +
			"the time at which it is written, which is some microseconds less exact.\n\n" +
			"linuxptp's pmc reads and sets over the network and by a Unix socket.",
		Example: "  tapir ptp run nic0 --priority1 1\n" +
			"  tapir ptp run nic1 --slave-only --clock-class 255 --transport UDPv4\n" +
			"  tapir ptp run nic1 -c ptp.yaml --interval 10s\n" +
			"  pmc -u -b 0 -s /run/tapir/nic1.ptp 'GET PARENT_DATA_SET'",
		Args:              cli.AtMost(1),
		ValidArgsFunction: complete.NIC,
		RunE: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				data, err := conf.ReadFile(file)
				if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
					return fmt.Errorf("cannot read the configuration: %w", err)
				}
				job.File, job.YAML = file, string(data)
			}
			return runPTP(cmd, cli.First(args), job, asJSON)
		},
	}, flags...)
}

// runPTP follows an instance to its end, which an interrupt is too.
func runPTP(cmd *cobra.Command, name string, job ptprun.Job, asJSON bool) error {
	out := cmd.OutOrStdout()
	progress := func(raw json.RawMessage) {
		var r ptprun.Report
		switch {
		case asJSON:
			fmt.Fprintf(out, "%s\n", raw)
		case json.Unmarshal(raw, &r) == nil:
			r.WriteText(out)
		}
	}
	return withNIC(name, "its name: tapir ptp run NIC", func(c *ctl.Client) error {
		var last json.RawMessage
		err := c.Perf(cmd.Context(), job, progress, &last)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err == nil {
			progress(last)
		}
		return clientError(err)
	})
}

func newPTPStatus() *cobra.Command {
	var asJSON bool
	return cli.With(&cobra.Command{
		Use:   "status [NIC]",
		Short: "Show a NIC's clock, its PTP unit and its PTP instance",
		Long: "Status shows the hardware clock of a running NIC, who uses its PTP unit and how, and " +
			"the\ndata sets, port, servo and counters of its PTP instance, if one runs; of a switch that is a " +
			"boundary\nclock, the same without the unit. Offsets are in\nnanoseconds; the true offset is that of " +
			"the clock from the system's CLOCK_REALTIME.",
		Example:           "  tapir ptp status nic0\n  tapir ptp status --json",
		Args:              cli.AtMost(1),
		ValidArgsFunction: complete.NIC,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withNIC(cli.First(args), "its name: tapir ptp status NIC", func(c *ctl.Client) error {
				var raw json.RawMessage
				if err := c.Command(cmd.Context(), "ptp.status", nil, &raw); err != nil {
					return err
				}
				if asJSON {
					return show.JSON(cmd.OutOrStdout(), raw)
				}
				var s ptprun.Status
				if err := json.Unmarshal(raw, &s); err != nil {
					return err
				}
				return s.WriteText(cmd.OutOrStdout())
			})
		},
	},
		cli.JSON(&asJSON),
	)
}

func newPTPSet() *cobra.Command {
	return &cobra.Command{
		Use:   "set [NIC] NAME=VALUE...",
		Short: "Change settings of a running PTP instance",
		Long: "Set changes settings of the PTP instance that runs on a NIC, by management messages' rules:\n" +
			strings.Join(ptprun.Settable(), ", ") + ".",
		Example: "  tapir ptp set nic0 priority1=100 sync_interval=-3\n" +
			"  tapir ptp set slave_only=true",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			var all []complete.Setting
			expect := map[string]string{}
			for _, f := range ptpconf.Flags() {
				expect[f.Name] = f.Expect
			}
			for _, s := range ptprun.Settable() {
				all = append(all, complete.Setting{Name: s, Values: complete.Expected(expect[s])})
			}
			names, directive := complete.Settings(all, part)
			if len(args) == 0 && !strings.Contains(part, "=") {
				names = append(ctl.List(), names...)
			}
			return names, directive
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name, args := nameFirst(args, "=")
			settings, err := ctl.ParseSettings(args)
			if err != nil {
				return err
			}
			if settings == nil {
				return usage.Errorf("nothing to set: see: tapir ptp set --help")
			}
			return withNIC(name, "its name: tapir ptp set NIC ...", func(c *ctl.Client) error {
				return clientError(c.Command(cmd.Context(), "ptp.set", settings, nil))
			})
		},
	}
}
