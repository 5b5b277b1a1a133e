package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ptprun"
	"tapir/ptp"
	"tapir/ptp/msg"
)

func newPTP() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ptp {run|status|set|pmc|refclock|sim}",
		Short: "Clocks of NICs, and PTP (IEEE 1588)",
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
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown verb %q: see: tapir ptp --help", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPTPRun(), newPTPStatus(), newPTPSet(), newPTPPMC(), newPTPRefclock(), newPTPSim())
	return cmd
}

func newPTPRun() *cobra.Command {
	job := ptprun.Job{Op: ptprun.Op}
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run [NIC]",
		Short: "Run a PTP instance on a NIC until Ctrl-C",
		Long: "Run starts a PTP instance on the wire port of a running NIC and prints a line each\n" +
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
			"  tapir ptp run nic1 --slave-only true --clock-class 255 --transport UDPv4\n" +
			"  tapir ptp run nic1 -c ptp.yaml --interval 10s\n" +
			"  pmc -u -b 0 -s /run/tapir/nic1.ptp 'GET PARENT_DATA_SET'",
		Args:              atMost(1),
		ValidArgsFunction: completeNIC,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			if file != "" {
				data, err := os.ReadFile(file)
				if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
					return fmt.Errorf("cannot read the configuration: %w", err)
				}
				job.File, job.YAML = file, string(data)
			}
			return runPTP(cmd, name, job, asJSON)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&file, "config", "c", "", "settings in a YAML `file`")
	f.DurationVarP(&job.Interval, "interval", "i", time.Second, "`time` between two lines")
	f.IntVarP(&job.Count, "count", "n", 0, "end after so many lines, 0 for never")
	f.StringVar(&job.UDS, "uds", "", "`path` of the socket for pmc -u -s (default: NIC.ptp beside the control socket)")
	f.BoolVar(&asJSON, "json", false, "print JSON, an object each interval")
	for _, fl := range ptprun.Flags() {
		f.Func(strings.ReplaceAll(fl.Name, "_", "-"), fl.Expect, func(v string) error {
			job.Settings = append(job.Settings, ptprun.Setting{Name: fl.Name, Value: v})
			return nil
		})
	}
	return cmd
}

// runPTP follows an instance to its end, which an interrupt is too.
func runPTP(cmd *cobra.Command, name string, job ptprun.Job, asJSON bool) error {
	c, err := dial(name, "its name: tapir ptp run NIC")
	if err != nil {
		return err
	}
	defer c.Close()
	out := cmd.OutOrStdout()
	show := func(raw json.RawMessage) {
		var r ptprun.Report
		switch {
		case asJSON:
			fmt.Fprintf(out, "%s\n", raw)
		case json.Unmarshal(raw, &r) == nil:
			printPTPReport(out, &r)
		}
	}
	var last json.RawMessage
	err = c.Perf(cmd.Context(), job, show, &last)
	if e := (*ctl.Error)(nil); errors.As(err, &e) && e.Usage() {
		return usageError{err}
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err == nil {
		show(last)
	}
	return err
}

func printPTPReport(w io.Writer, r *ptprun.Report) {
	for _, e := range r.Events {
		fmt.Fprintf(w, "%8.3f port 1: %s\n", r.Elapsed.Seconds(), e)
	}
	fmt.Fprintf(w, "%8.3f %s", r.Elapsed.Seconds(), r.State)
	if r.Samples > 0 {
		fmt.Fprintf(w, " %s rms %.0f max %.0f freq %+.0f delay %.0f", r.Servo, r.RMS, r.Max, r.Freq+0, r.Delay)
	}
	fmt.Fprintf(w, " true offset %d\n", r.TrueOffset)
}

func newPTPStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "status [NIC]",
		Short:             "Show a NIC's clock, its PTP unit and its PTP instance",
		Long:              "Status shows the hardware clock of a running NIC, who uses its PTP unit and how, and the\ndata sets, port, servo and counters of its PTP instance, if one runs; of a switch that is a boundary\nclock, the same without the unit. Offsets are in\nnanoseconds; the true offset is that of the clock from the system's CLOCK_REALTIME.",
		Example:           "  tapir ptp status nic0\n  tapir ptp status --json",
		Args:              atMost(1),
		ValidArgsFunction: completeNIC,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			c, err := dial(name, "its name: tapir ptp status NIC")
			if err != nil {
				return err
			}
			defer c.Close()
			var raw json.RawMessage
			if err := c.Command(cmd.Context(), "ptp.status", nil, &raw); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), raw)
			}
			var s ptprun.Status
			if err := json.Unmarshal(raw, &s); err != nil {
				return err
			}
			return printPTPStatus(cmd.OutOrStdout(), &s)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printPTPStatus(w io.Writer, s *ptprun.Status) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	counters := func(list []ptp.Counter) {
		for _, c := range list {
			if c.Value != 0 {
				row("  "+c.Name, "%d", c.Value)
			}
		}
	}
	row("clock", "%s %s", s.NIC, time.Unix(0, s.Clock.Time).UTC().Format("2006-01-02 15:04:05.000000000"))
	row("true offset", "%d ns", s.Clock.TrueOffset)
	row("correction", "%+.3f ppb (drift register %#08x)", s.Clock.Correction, s.Clock.DriftNow)
	row("true rate", "%+.3f ppb", s.Clock.TrueRate)
	if u := s.Unit; u != nil {
		owner := s.Owner
		if owner == "" {
			owner = "nobody"
		}
		row("PTP unit", "owner %s, tx %v, rx filter %v, %d Tx stamps, %d skipped, %d Rx stamps, %d missed", owner, u.Config.TxType, u.Config.Filter,
			u.Stats.TxStamps, u.Stats.TxSkipped, u.Stats.RxStamps, u.Stats.RxMissed)
	}
	if i := s.Instance; i != nil {
		gm, cur := &i.Parent.Grandmaster, &i.Current
		row("instance", "%s over %s, clock %v, domain %d, priorities %d and %d", i.Profile, s.Transport, i.ClockIdentity, i.Domain, i.Default.Priority1, i.Default.Priority2)
		row("grandmaster", "%v, class %d, accuracy %#x, priorities %d and %d", gm.Identity, gm.Quality.Class, gm.Quality.Accuracy, gm.Priority1, gm.Priority2)
		row("parent", "%v, %d steps removed", i.Parent.Port, cur.StepsRemoved)
		row("offset from master", "%v", cur.OffsetFromMaster)
		row("mean path delay", "%v", cur.MeanDelay)
		row("servo", "%s %s, %+.0f ppb", i.Servo.Kind, i.Servo.State, i.Servo.Freq+0) // not -0
		for n := range i.Ports {
			p := &i.Ports[n]
			row(fmt.Sprintf("port %d", p.Port), "%s, delay mechanism %s, link delay %v, %d foreign masters%s", p.StateName, mechanismName(p.Mechanism), p.LinkDelay, p.Foreign, faultText(p.Fault))
			counters(p.Counters)
		}
		row("management", "%s", "")
		counters(s.Management)
	}
	return tw.Flush()
}

func mechanismName(m msg.DelayMechanism) string {
	switch m {
	case msg.DelayE2E:
		return "E2E"
	case msg.DelayP2P:
		return "P2P"
	}
	return "none"
}

func faultText(why string) string {
	if why == "" {
		return ""
	}
	return ", last fault: " + why
}

func newPTPSet() *cobra.Command {
	return &cobra.Command{
		Use:   "set [NIC] NAME=VALUE...",
		Short: "Change settings of a running PTP instance",
		Long:  "Set changes settings of the PTP instance that runs on a NIC, by management messages' rules:\n" + strings.Join(ptprun.Settable(), ", ") + ".",
		Example: "  tapir ptp set nic0 priority1=100 sync_interval=-3\n" +
			"  tapir ptp set slave_only=true",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 && !strings.Contains(args[0], "=") {
				name, args = args[0], args[1:]
			}
			settings, err := settingsOf(args)
			if err != nil {
				return err
			}
			if settings == nil {
				return usagef("nothing to set: see: tapir ptp set --help")
			}
			c, err := dial(name, "its name: tapir ptp set NIC ...")
			if err != nil {
				return err
			}
			defer c.Close()
			err = c.Command(cmd.Context(), "ptp.set", settings, nil)
			if e := (*ctl.Error)(nil); errors.As(err, &e) && e.Usage() {
				return usageError{err}
			}
			return err
		},
	}
}
