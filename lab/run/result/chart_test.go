package result

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/perfconf"
	"tapir/lab/tool/perf"
	"tapir/lab/topo"
)

// A workload of several clients has their rates side by side in its line, if they are few.
func TestFlows(t *testing.T) {
	flow := func(octets ...int64) perf.Report {
		r := perf.Report{Op: perfconf.WriteBW, Size: 1000, Messages: 1, Elapsed: time.Millisecond * time.Duration(len(octets)), Gbps: float64(len(octets))}
		for i, n := range octets {
			r.Bytes += n
			r.Progress = append(r.Progress, perf.Progress{Elapsed: time.Millisecond * time.Duration(i+1), Bytes: r.Bytes})
		}
		return r
	}
	two := NewPerfReport([]topo.Pair{{Client: "a", Server: "x"}, {Client: "b", Server: "x"}}, []perf.Report{flow(125_000, 250_000), flow(375_000, 125_000, 0)})
	if got := two.String(); got != "2 messages of 1000 octets, 2.33 Gb/s; each 2.00, 3.00" || len(two.Flows) != 2 {
		t.Error(got)
	}
	if one := NewPerfReport([]topo.Pair{{}}, []perf.Report{flow(1)}); one.Flows != nil {
		t.Errorf("a single flow: %+v", one.Flows)
	}
	many := NewPerfReport(make([]topo.Pair, 7), make([]perf.Report, 7))
	if got := many.String(); strings.Contains(got, "each") {
		t.Error(got)
	}
}

// Steps of an axis are equal, and few even where the values are large.
func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		low, high float64
		want      string
	}{{0, 10, "0 2 4 6 8 10"}, {-3, 3.5, "-2 0 2"}, {0, 0.07, "0 0.02 0.04 0.06"}, {1e18, 1e18 + 1024, "1e+18 1e+18 1e+18"}} {
		var got []string
		for _, tick := range (&axis{low: tt.low, high: tt.high}).ticks() {
			got = append(got, tickLabel(tick))
		}
		if !strings.HasPrefix(strings.Join(got, " "), tt.want) || len(got) > 20 {
			t.Errorf("ticks from %v to %v: %q", tt.low, tt.high, got)
		}
	}
	if err := (&plot{shapes: []shape{{points: []point{{math.NaN(), 1}}}}}).write(io.Discard, workloadSize); err == nil {
		t.Error("what is no number is drawn")
	}
}
