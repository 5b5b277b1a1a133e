package result

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// What is sampled while a workload moves data.
const (
	Queues  = "egress queues"               // octets
	Drops   = "frames that switches lost"   // since the lab began
	Pauses  = "priority-based flow control" // percent of the time
	Limits  = "DCQCN"                       // Gb/s
	Windows = "TCP"                         // octets
	Alphas  = "estimate of congestion"
)

// Compare is a table with a line for each workload for which frames waited in a switch; "" of fewer
// than two. Of several queues, pauses and estimates it has the highest.
func (r *Result) Compare() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "Gb/s\tqueue mean\tqueue most\tlost\tpaused\talpha\t  workload\n")
	lines, before := 0, 0.0
	for _, s := range r.Steps {
		mean, most := s.sampled(Queues)
		if s.Perf == nil || most == 0 {
			continue
		}
		lines++
		lost := before
		for i := range s.Samples {
			if x := &s.Samples[i]; x.What == Drops {
				lost = slices.Max(x.Curves[0].Y)
			}
		}
		paused, _ := s.sampled(Pauses)
		alpha, _ := s.sampled(Alphas)
		fmt.Fprintf(t, "%.2f\t%.0f\t%.0f\t%.0f\t%s\t%s\t  %s\n", s.Perf.Gbps, mean, most, lost-before,
			cell("%.0f %%", paused), cell("%.2f", alpha), strings.TrimPrefix(s.Text, "perf "))
		before = lost
	}
	if err := t.Flush(); err != nil || lines < 2 {
		return ""
	}
	return b.String()
}

func cell(format string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// sampled is the mean and the peak of the curve with the highest mean.
func (s *Step) sampled(what string) (mean, most float64) {
	for i := range s.Samples {
		for _, c := range s.Samples[i].Curves {
			sum := 0.0
			for _, v := range c.Y {
				sum += v
			}
			if m := sum / float64(len(c.Y)); s.Samples[i].What == what && m >= mean {
				mean, most = m, slices.Max(c.Y)
			}
		}
	}
	return mean, most
}
