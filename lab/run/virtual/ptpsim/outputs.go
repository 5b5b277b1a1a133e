package ptpsim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"tapir/lab/run/result"
	"tapir/lab/tool/usage"
)

// Outputs says what is written of a scenario beside the report: files, - for
// what is printed, or nothing where the name is empty.
type Outputs struct {
	CSV, SVG, Log, Capture string
	Counters               bool // printed, too
}

// Run runs the scenario called name and prints its report.
func (o *Outputs) Run(out io.Writer, name string, c Config) (err error) {
	var to [4]io.Writer
	for i, path := range []string{o.Log, o.Capture, o.CSV, o.SVG} {
		switch path {
		case "":
		case "-":
			to[i] = out
		default:
			f, failed := os.Create(path)
			if failed != nil {
				return failed
			}
			b := bufio.NewWriter(f)
			defer func() { err = errors.Join(err, b.Flush(), f.Close()) }()
			to[i] = b
		}
	}
	c.Log, c.Capture = to[0], to[1]
	return o.simulate(out, name, c, to[2], to[3])
}

func (o *Outputs) simulate(out io.Writer, name string, c Config, csv, svg io.Writer) error {
	s, err := New(c)
	if err != nil {
		return usage.Wrap(err)
	}
	defer s.Close()
	if err := s.Run(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d nodes, %v of virtual time, seed %d; statistics from %v on, in ns\n\n", name, len(c.Nodes),
		s.Now(), c.Seed, s.Skip())
	err = s.WriteReport(out)
	if err == nil && o.Counters {
		fmt.Fprintln(out)
		err = s.WriteCounters(out)
	}
	if err == nil && csv != nil {
		err = result.WriteCSV(csv, s.Series())
	}
	if err == nil && svg != nil {
		err = result.WriteSVG(svg, name, s.Series(), s.Skip())
	}
	return err
}
