package virtual_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/pagetest"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// The report of a workload has plots of what its flows cannot tell: the rate of each flow, the
// depth of queues, the time that PFC stops senders, and DCQCN's rates and estimates. They agree
// with the counters, and result.json has their values.
func TestReportHasSamples(t *testing.T) {
	out := t.TempDir()
	lab := load(t, "../../examples/victim-flow/lab.yaml")
	perfs := slices.DeleteFunc(slices.Clone(lab.Steps), func(s topo.Step) bool { return s.Verb != topo.Perf })
	lab.Steps = []topo.Step{perfs[0], perfs[2]}
	r, err := virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Out: out}})
	if err != nil || r.Verdict != result.Passed {
		t.Fatalf("%v: %+v", err, r)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	text := pagetest.Text(t, page)
	for _, want := range []string{"right to hot, class 0", "egress queues", "priority-based flow control",
		"victim by left, priority 0", "DCQCN", "estimate of congestion", "compare", "idle"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the report has no plot with %q", want)
		}
	}
	raw, err := os.ReadFile(filepath.Join(out, "result.json"))
	var read result.Result
	if err == nil {
		err = json.Unmarshal(raw, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	curve := func(step int, what, name string) []float64 {
		for _, s := range read.Steps[step].Samples {
			for _, c := range s.Curves {
				if s.What == what && c.Name == name {
					if len(c.X) != len(c.Y) || len(c.X) > 256 || !slices.IsSorted(c.X) || c.X[0] != 0 || c.X[len(c.X)-1] < 0.019 {
						t.Errorf("%s %s: from %v on %v", what, name, c.X[0], c.X)
					}
					return c.Y
				}
			}
		}
		t.Errorf("step %d has no samples %s of %s", step, what, name)
		return []float64{0}
	}
	lines := strings.Split(r.Compare(), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], " 76 %") || !strings.HasSuffix(lines[2], "  write-bw from dcqcn, victim to hot, hot, idle") ||
		!strings.Contains(string(page), strings.TrimSpace(lines[2])) {
		t.Errorf("side by side:\n%s", r.Compare())
	}
	counter := func(node, name string) float64 {
		for _, n := range read.Nodes {
			for _, c := range n.Counters {
				if n.Name == node && c.Name == name {
					return float64(c.Value)
				}
			}
		}
		t.Errorf("%s has no counter %s", node, name)
		return 0
	}
	queue := slices.Max(curve(0, "egress queues", "right to hot, class 0"))
	if most := counter("right", "p1_tx_tc0_queue_most_bytes"); queue > most || queue < most/2 {
		t.Errorf("the queue had %v octets at most, its samples %v", most, queue)
	}
	mean := func(all []float64) (sum float64) {
		for _, v := range all {
			if sum += v; v < 0 || v > 100 {
				t.Errorf("%v %%", v)
			}
		}
		return sum / float64(len(all))
	}
	victim, trunk := mean(curve(0, "priority-based flow control", "victim by left, priority 0")),
		mean(curve(0, "priority-based flow control", "left by right, priority 0"))
	if victim < 60 || trunk < 30 || trunk > 45 {
		t.Errorf("PFC stopped the victim for %.1f %% and the trunk for %.1f %% of the time", victim, trunk)
	}
	alpha := curve(1, "estimate of congestion", "dcqcn1")
	if slices.Max(alpha) > 1 || slices.Min(alpha) > 0.5 || slices.Min(curve(1, "DCQCN", "dcqcn1")) > 1 {
		t.Errorf("alpha goes from %v to %v", slices.Max(alpha), slices.Min(alpha))
	}
}
