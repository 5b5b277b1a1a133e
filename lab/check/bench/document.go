package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"tapir/lab/check/figures"
)

func (b *bench) find(name string) *testCase {
	for _, c := range b.cases {
		if c.name == name && len(c.samples) > 0 {
			return c
		}
	}
	return nil
}

func (c *testCase) values(of func(sample) float64) []float64 {
	var v []float64
	for _, s := range c.samples {
		v = append(v, of(s))
	}
	return v
}

// line is the row's line in the table, empty if it was not measured.
func (b *bench) line(r *row) string {
	c := b.find(r.name)
	if c == nil || r.what == "" {
		return ""
	}
	v := c.values(r.value)
	if r.ref == "" {
		m := figures.Median(v)
		return fmt.Sprintf("| %s | %s | %s | | %.3g–%.3g | **%s** | %s |\n",
			r.what, r.limit(r.must), r.limit(r.aim), slices.Min(v), slices.Max(v), r.amount(m), r.verdict(m))
	}
	ref := b.find(r.ref)
	if ref == nil {
		return ""
	}
	w := ref.values(r.value)
	var ratios []float64
	for i := range min(len(v), len(w)) {
		ratios = append(ratios, v[i]/w[i])
	}
	ratio := figures.Median(ratios)
	return fmt.Sprintf("| %s | %s | %s | **%.2f** | %.2f–%.2f | %.3g : %.3g %s | %s |\n",
		r.what, r.mark(r.must), r.mark(r.aim), ratio, slices.Min(ratios), slices.Max(ratios),
		figures.Median(v), figures.Median(w),
		r.unit, r.verdict(ratio))
}

// limit is must or aim with the row's unit, as the table has it.
func (r *row) limit(v float64) string {
	if v == noLimit {
		return ""
	}
	return r.amount(v)
}

// amount is a figure with the row's unit.
func (r *row) amount(v float64) string { return strings.TrimSpace(fmt.Sprintf("%.3g %s", v, r.unit)) }

// document is the result as Markdown.
func (b *bench) document(loads string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "Measured %s with `make bench`: %d rounds of %v each.\n\n",
		time.Now().UTC().Format(time.DateOnly), b.opt.rounds, b.opt.duration)
	fmt.Fprintf(&out, "Machine: %s.\n\n", figures.Machine())
	fmt.Fprintf(&out, "Load average (1, 5, 15 minutes) before: %s; after: %s.\n\n", loads, figures.Load())
	out.WriteString(
		"| metric : reference | must | aim | ratio | rounds | medians | reaches |\n|---|---|---|---|---|---|---|\n")
	for _, r := range b.rows {
		out.WriteString(b.line(r))
	}
	out.WriteString("\n| measured | Gb/s | messages/s | half round trip, µs | CPU ns/KiB |\n|---|---|---|---|---|\n")
	var remarks []string
	for _, c := range b.cases {
		if c.missing != "" {
			remarks = append(remarks, fmt.Sprintf("Not measured: %s (%s).", c.name, c.missing))
		}
		if len(c.samples) == 0 {
			continue
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", c.name, c.cell(gbps, "%.2f"),
			c.cell(func(s sample) float64 { return s.rate }, "%.0f"), c.cell(latency, "%.2f"), c.cell(cpu, "%.0f"))
		if lost := figures.Median(c.values(func(s sample) float64 { return s.lost })); lost > 0 {
			remarks = append(remarks, fmt.Sprintf("%s: %.0f packets are missing in the files.", c.name, lost))
		}
	}
	out.Write(b.coalesceTable())
	if len(remarks) > 0 {
		fmt.Fprintf(&out, "\n%s\n", strings.Join(remarks, "\n\n"))
	}
	return out.Bytes()
}

// cell is the median of a figure, empty if the case has none.
func (c *testCase) cell(of func(sample) float64, format string) string {
	if m := figures.Median(c.values(of)); m > 0 {
		return fmt.Sprintf(format, m)
	}
	return ""
}
