package result

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/perf"
)

// charts are the drawings of a workload: its rate over time, and the
// distribution of its latency.
func (s *Step) charts() (all []string, err error) {
	if s.Perf == nil || s.Perf.Op == perfconf.Verify {
		return nil, nil
	}
	title := s.Text
	if r := []rune(title); len(r) > 60 {
		title = string(r[:60]) + "..."
	}
	draw := func(write func(io.Writer) error) {
		var b bytes.Buffer
		if err == nil {
			err = write(&b)
		}
		_, svg, _ := strings.Cut(b.String(), "<svg") // behind the prolog
		all = append(all, "<svg"+svg)
	}
	if unit, rates := rates(&s.Perf.Report); len(rates) > 1 {
		draw(func(w io.Writer) error { return writeSteps(w, title, unit, rates) })
	}
	if l := s.Perf.Latency; l != nil && len(l.Histogram) > 0 && l.Min > 0 {
		draw(func(w io.Writer) error {
			return writeHistogram(w, title, "half round trip (µs)", bars(l), []marker{
				mark("median", l.Median), mark("99 %", l.P99), mark("99.9 %", l.P999),
			})
		})
	}
	return all, err
}

func micro(d time.Duration) float64 { return float64(d) / 1e3 }

func mark(name string, d time.Duration) marker {
	return marker{fmt.Sprintf("%s: %v", name, d), micro(d)}
}

func bars(l *perf.Latency) (all []bar) {
	total := int64(0)
	for _, b := range l.Histogram {
		total += b.Count
	}
	low := l.Min
	for _, b := range l.Histogram {
		low = max(low, b.Least())
		all = append(all, bar{micro(low), micro(b.Most + 1), 100 * float64(b.Count) / float64(total)})
	}
	return all
}

// rates are those between the points of a test, in messages per second if it
// measures latency, else in gigabits or megabits per second.
func rates(r *perf.Report) (unit string, all []interval) {
	var last perf.Progress
	most := 0.0
	for _, p := range r.Progress {
		span := p.Elapsed - last.Elapsed
		if span <= 0 {
			continue
		}
		v := interval{last.Elapsed.Seconds(), p.Elapsed.Seconds(), float64(p.Bytes-last.Bytes) * 8 / float64(span)}
		if r.Latency != nil {
			v.value = float64(p.Messages-last.Messages) / span.Seconds()
		}
		most = max(most, v.value)
		all = append(all, v)
		last = p
	}
	if r.Latency != nil {
		return "messages per second", all
	}
	if most >= 0.5 {
		return "Gb/s", all
	}
	for i := range all {
		all[i].value *= 1e3
	}
	return "Mb/s", all
}
