package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tapir/lab/conf"
	"tapir/lab/run/result"
	"tapir/lab/run/virtual/ptpsim"
	"tapir/lab/tool/usage"
)

// ptpSim are the flags of `tapir ptp sim`.
type ptpSim struct {
	seed                   uint64
	duration               time.Duration
	csv, svg, log, capture string
	counters               bool
}

func newPTPSim() *cobra.Command {
	var f ptpSim
	return withFlags(&cobra.Command{
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
		Args: exactlyOne("name one scenario file: see: tapir ptp sim --help"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := ptpsim.Load(args[0])
			if err != nil {
				if bad := (*conf.Error)(nil); errors.As(err, &bad) {
					return usage.Wrap(err)
				}
				return err
			}
			if cmd.Flags().Changed("seed") {
				c.Seed = f.seed
			}
			if f.duration > 0 {
				c.Duration = f.duration
			}
			return f.run(cmd.OutOrStdout(), args[0], c)
		},
	},
		flag{&f.seed, "seed", "", "of all chance, instead of the file's"},
		flag{&f.duration, "duration", "", "of virtual time, instead of the file's"},
		flag{&f.csv, "csv", "", "write the offsets of all clocks to this file"},
		flag{&f.svg, "svg", "", "draw them into this file"},
		flag{&f.log, "log", "", "write what happened to this file, - prints it"},
		flag{&f.counters, "counters", "", "print what was counted: frames sent, lost and dropped, and why"},
		flag{&f.capture, "write", "w", "write all frames to this pcapng file"},
	)
}

// run runs a scenario and writes what the flags ask for.
func (f *ptpSim) run(out io.Writer, name string, c ptpsim.Config) error {
	var err error
	var done []func() error
	create := func(path string) io.Writer {
		if path == "" || err != nil {
			return nil
		}
		if path == "-" {
			return out
		}
		file, e := os.Create(path)
		if e != nil {
			err = e
			return nil
		}
		b := bufio.NewWriter(file)
		done = append(done, func() error { return errors.Join(b.Flush(), file.Close()) })
		return b
	}
	c.Log, c.Capture = create(f.log), create(f.capture)
	csv, svg := create(f.csv), create(f.svg)
	if err == nil {
		err = f.simulate(out, name, c, csv, svg)
	}
	for _, close := range done {
		err = errors.Join(err, close())
	}
	return err
}

func (f *ptpSim) simulate(out io.Writer, name string, c ptpsim.Config, csv, svg io.Writer) error {
	s, err := ptpsim.New(c)
	if err != nil {
		return usage.Wrap(err)
	}
	defer s.Close()
	if err := s.Run(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d nodes, %v of virtual time, seed %d; statistics from %v on, in ns\n\n", name, len(c.Nodes),
		s.Now(), c.Seed, s.Skip())
	if err := s.WriteReport(out); err != nil {
		return err
	}
	if f.counters {
		fmt.Fprintln(out)
		if err := s.WriteCounters(out); err != nil {
			return err
		}
	}
	if csv != nil {
		if err := result.WriteCSV(csv, s.Series()); err != nil {
			return err
		}
	}
	if svg != nil {
		return result.WriteSVG(svg, name, s.Series(), s.Skip())
	}
	return nil
}
