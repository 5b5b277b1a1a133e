package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// row is one line of the document's table: a case against its reference.
type row struct {
	what      string
	name, ref string
	value     func(sample) float64
	unit      string
	must, aim float64
	less      bool // a smaller ratio is better
}

func gbps(s sample) float64    { return s.gbps }
func rate(s sample) float64    { return s.rate / 1e6 }
func latency(s sample) float64 { return s.latency }
func cpu(s sample) float64     { return s.cpu }

var rows = []row{
	{"RDMA Write 1 MiB, `gso` : kernel TCP", gsoWrite, kernelStream, gbps, "Gb/s", 0.60, 0.90, false},
	{"the same as one TCP stream in `gso` : kernel TCP", gsoWrite, kernelStream, gbps, "Gb/s", 0.65, 0.95, false},
	{"RDMA Write 1 MiB, `jumbo` : kernel TCP", jumboWrite, kernelStream, gbps, "Gb/s", 0.65, 1.0, false},
	{"RDMA Write 1 MiB, `wire` 1500 : kernel TCP, offloads off", wire1500, kernelOff1500, gbps, "Gb/s", 0.50, 0.80, false},
	{"RDMA Write 1 MiB, `wire` 9000 : kernel TCP, offloads off", wire9000, kernelOff9000, gbps, "Gb/s", 0.55, 0.90, false},
	{"CPU time per KiB, both ends, `gso` : kernel TCP", gsoWrite, kernelStream, cpu, "ns", 2.5, 1.5, true},
	{"Send 64 B ping-pong, one CPU : kernel TCP", sendPing, kernelPing, latency, "µs", 1.3, 0.8, true},
	{"Write 8 B ping-pong, one CPU : kernel TCP 64 B", writePing, kernelPing, latency, "µs", 1.3, 0.8, true},
	{"Write 1 MiB `gso`, own capture on (256 octets) : off", gsoCaptured, gsoWrite, gbps, "Gb/s", 0.85, 0.95, false},
	{"RDMA Write 64 KiB : UCX put", gsoWrite64, ucxPut64, gbps, "Gb/s", 2, 4.5, false},
	{"RDMA Write 1 MiB : UCX put", gsoWrite, ucxPut, gbps, "Gb/s", 5, 15, false},
	{"RDMA Read 1 MiB : UCX get", gsoRead, ucxGet, gbps, "Gb/s", 3, 6, false},
	{"8 B Writes per second : UCX put", writeRate, ucxRate, rate, "M/s", 2, 6, false},
}

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

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// verdict says which of the two marks a ratio reaches.
func (r *row) verdict(ratio float64) string {
	reaches := func(mark float64) bool { return r.less == (ratio <= mark) || ratio == mark }
	switch {
	case reaches(r.aim):
		return "aim"
	case reaches(r.must):
		return "must"
	}
	return "**missed**"
}

// line is the row's line in the table, empty if it was not measured.
func (b *bench) line(r *row) string {
	c, ref := b.find(r.name), b.find(r.ref)
	if c == nil || ref == nil {
		return ""
	}
	v, w := c.values(r.value), ref.values(r.value)
	var ratios []float64
	for i := range v {
		ratios = append(ratios, v[i]/w[i])
	}
	ratio := median(v) / median(w)
	return fmt.Sprintf("| %s | %g | %g | **%.2f** | %.2f–%.2f | %.3g : %.3g %s | %s |\n",
		r.what, r.must, r.aim, ratio, slices.Min(ratios), slices.Max(ratios), median(v), median(w), r.unit, r.verdict(ratio))
}

// document is the result as Markdown.
func (b *bench) document(loads string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "Measured %s with `make bench`: %d rounds of %v each.\n\n", time.Now().UTC().Format(time.DateOnly), b.opt.rounds, b.opt.duration)
	fmt.Fprintf(&out, "%s\n\n", machine())
	fmt.Fprintf(&out, "Load average (1, 5, 15 minutes) before: %s; after: %s.\n\n", loads, loadAverage())
	out.WriteString("| metric : reference | must | aim | ratio | rounds | medians | reaches |\n|---|---|---|---|---|---|---|\n")
	for i := range rows {
		out.WriteString(b.line(&rows[i]))
	}
	if !haveUCX() {
		out.WriteString("\n`ucx_perftest` is not installed: no comparison with UCX.\n")
	}
	out.WriteString("\n| measured | Gb/s | messages/s | half round trip, µs | CPU ns/KiB |\n|---|---|---|---|---|\n")
	for _, c := range b.cases {
		cell := func(of func(sample) float64, format string) string {
			if m := median(c.values(of)); m > 0 {
				return fmt.Sprintf(format, m)
			}
			return ""
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", c.name, cell(gbps, "%.2f"),
			cell(func(s sample) float64 { return s.rate }, "%.0f"), cell(latency, "%.2f"), cell(cpu, "%.0f"))
	}
	return out.Bytes()
}

// machine describes what the figures were measured on.
func machine() string {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("Machine: %d CPUs (%s), Linux %s, %s.", runtime.NumCPU(), model, word("/proc/sys/kernel/osrelease"), runtime.Version())
}

func word(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

func loadAverage() string {
	f := strings.Fields(word("/proc/loadavg"))
	return strings.Join(f[:min(3, len(f))], " ")
}
