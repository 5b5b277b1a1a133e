package result

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
)

func TestCharts(t *testing.T) {
	var b bytes.Buffer
	if err := writeSteps(&b, "write-bw <b>", "Gb/s", []interval{{0, 1, 8}, {1, 2, 0}, {2, 2.5, 9}}); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.Bytes())
	for _, want := range []string{"write-bw &lt;b&gt;", "Gb/s", "time (s)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	b.Reset()
	bars := []bar{{10, 12, 50}, {12, 14, 30}, {20, 24, 19}, {100, 120, 1}}
	if err := writeHistogram(&b, "send-lat", "µs", bars, []marker{{"median 12", 12}, {"p99 24", 24}}); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.Bytes())
	for _, want := range []string{"send-lat", "µs", "share (%)", "median 12", "p99 24"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	for _, tt := range []struct {
		low, high float64
		want      string
	}{{10, 100, "10 20 50 100"}, {15, 45, "20 30 40"}, {3, 4000, "5 10 20 50 100 200 500 1000 2000"}, {0.0004, 0.0022, "0.0005 0.001 0.002"}} {
		var got []string
		for _, tick := range (&axis{low: tt.low, high: tt.high, log: true}).ticks() {
			got = append(got, tickLabel(tick))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("ticks from %v to %v: %q", tt.low, tt.high, got)
		}
	}
	if n := len((&axis{low: 21, high: 28, log: true}).ticks()); n < 3 {
		t.Errorf("%d ticks in a narrow range", n)
	}
	// Steps are equal on a linear axis, and few even where the values are large.
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
	for name, err := range map[string]error{
		"not a number":    (&plot{shapes: []shape{{points: []point{{math.NaN(), 1}}}}}).write(io.Discard, workloadSize),
		"no values":       writeSteps(io.Discard, "", "", nil),
		"no distribution": writeHistogram(io.Discard, "", "", nil, nil),
		"zero":            writeHistogram(io.Discard, "", "", []bar{{0, 1, 100}}, nil),
	} {
		if err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
}
