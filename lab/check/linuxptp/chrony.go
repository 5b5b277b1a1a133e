package linuxptp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Chrony is a running chronyd that only watches its sources: -x keeps it from
// the system clock.
type Chrony struct {
	*Program
	host    *Host
	control string
}

// Chrony starts chronyd with the lines of a configuration, such as "refclock
// SOCK /tmp/sock poll 0". It shares System V memory with the machine if a
// line asks for it.
func (h *Host) Chrony(ctx context.Context, lines ...string) (*Chrony, error) {
	return h.ChronyUnder(ctx, nil, lines...)
}

// ChronyUnder is Chrony, run by another command line, as Command.Under is.
func (h *Host) ChronyUnder(ctx context.Context, under []string, lines ...string) (*Chrony, error) {
	control := h.Path("chronyd")
	text := strings.Join(append([]string{"bindcmdaddress " + control, "cmdport 0", "port 0",
		"pidfile " + h.Path("pid")}, lines...), "\n")
	config, err := h.write("conf", text+"\n")
	if err != nil {
		return nil, err
	}
	p, err := h.Start(ctx, Command{
		Name: "chronyd", Args: []string{"-x", "-d", "-u", "root", "-f", config}, Under: under,
		SharedMemory: strings.Contains(text, "refclock SHM "),
	})
	if err != nil {
		return nil, err
	}
	return &Chrony{p, h, control}, nil
}

// SourceStats is a row of `chronyc sourcestats`.
type SourceStats struct {
	Name         string
	Samples      int
	Frequency    float64 // ppm that the system clock is fast against the source
	Skew, StdDev float64 // ppm, s
	Offset       float64 // s
}

// SourceStats asks chronyd for the statistics of its sources.
func (c *Chrony) SourceStats(ctx context.Context) ([]SourceStats, error) {
	lines, err := c.host.Run(ctx, Command{Name: "chronyc", Args: []string{"-c", "-h", c.control, "sourcestats"}})
	if err != nil {
		return nil, err
	}
	return parseSourceStats(lines)
}

func parseSourceStats(lines []string) (list []SourceStats, err error) {
	for _, l := range lines {
		var s SourceStats
		var runs, span string
		columns := strings.Split(l, ",")
		if len(columns) != 8 {
			return nil, fmt.Errorf("chronyc: %d columns of sourcestats: %q", len(columns), l)
		}
		if _, err := fmt.Sscan(strings.Join(columns, " "), &s.Name, &s.Samples, &runs, &span, &s.Frequency, &s.Skew,
			&s.Offset, &s.StdDev); err != nil {
			return nil, fmt.Errorf("chronyc: sourcestats: %w", err)
		}
		list = append(list, s)
	}
	return list, nil
}

// AwaitSamples asks until chronyd knows at least n samples of a source.
func (c *Chrony) AwaitSamples(ctx context.Context, source string, n int) (SourceStats, error) {
	for {
		list, err := c.SourceStats(ctx)
		i := slices.IndexFunc(list, func(s SourceStats) bool { return s.Name == source && s.Samples >= n })
		if i >= 0 {
			return list[i], nil
		}
		select {
		case <-ctx.Done():
			return SourceStats{}, fmt.Errorf("waiting for %d samples of %s: %w\n%s", n, source,
				errors.Join(ctx.Err(), err), c.Tail())
		case <-time.After(time.Second / 10):
		}
	}
}
