package main

import (
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/run/virtual/ptpsim"
	"tapir/lab/tool/cli"
)

func newPTPSim() *cobra.Command {
	var seed uint64
	var duration time.Duration
	var o ptpsim.Outputs
	return cli.With(&cobra.Command{
		Use:   "sim FILE",
		Short: "Run PTP clocks, switches and links in virtual time",
		Long: "The scenario FILE has clocks with their oscillators and servos, switches, links with delay,\n" +
			"asymmetry and faults, and events. They run in virtual time, thousands of times faster than\n" +
			"the clocks they simulate, and always the same way for the same seed. What is printed is\n" +
			"how far each clock truly was from the reference, beside what it believed itself, and the\n" +
			"stability of the true offset. All in nanoseconds.\n\n" +
			"The frames are real: -w writes them as a capture in which each port has two interfaces,\n" +
			"one in true time and one in that of its hardware clock.",
		Example: "  tapir ptp sim examples/ptp-pair.yaml\n" +
			"  tapir ptp sim examples/ptp-tc.yaml --csv offsets.csv --svg offsets.svg\n" +
			"  tapir ptp sim examples/ptp-holdover.yaml --log - --seed 7 -w frames.pcapng",
		Args: cli.ExactlyOne("name one scenario file: see: tapir ptp sim --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := cli.Mistakes(ptpsim.Load(args[0]))
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("seed") {
				c.Seed = seed
			}
			if duration > 0 {
				c.Duration = duration
			}
			return o.Run(cmd.OutOrStdout(), args[0], c)
		},
	},
		cli.F(&seed, "seed", "", "of all chance, instead of the file's"),
		cli.F(&duration, "duration", "", "of virtual time, instead of the file's"),
		cli.F(&o.CSV, "csv", "", "write the offsets of all clocks to this file"),
		cli.F(&o.SVG, "svg", "", "draw them into this file"),
		cli.F(&o.Log, "log", "", "write what happened to this file, - prints it"),
		cli.F(&o.Counters, "counters", "", "print what was counted: frames sent, lost and dropped, and why"),
		cli.F(&o.Capture, "write", "w", "write all frames to this pcapng file"),
	)
}
