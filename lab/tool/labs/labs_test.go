package labs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

func load(t *testing.T, name string) *topo.Lab {
	t.Helper()
	lab, err := topo.Load(filepath.Join("../../examples", name, "lab.yaml"))
	if err == nil {
		err = lab.SetClock("virtual")
	}
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// A suite runs its labs, and its reports have all of them.
func TestSuite(t *testing.T) {
	dir := t.TempDir()
	s := Suite{Labs: []*topo.Lab{load(t, "first-write"), load(t, "out-of-order")}, Out: dir,
		JUnit: filepath.Join(dir, "junit.xml"), Results: filepath.Join(dir, "all.json"), HTML: filepath.Join(dir, "all.html")}
	var out strings.Builder
	if err := s.Run(t.Context(), &out); err != nil || strings.Count(out.String(), "pass  ") != 2 {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, report := range []string{s.JUnit, s.Results, s.HTML} {
		text, err := os.ReadFile(report)
		if err != nil || !strings.Contains(string(text), "first-write") || !strings.Contains(string(text), "out-of-order") {
			t.Errorf("%s: %v", report, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx, &out); err == nil || err.Error() != "interrupted" {
		t.Error(err)
	}
}

func TestVerdict(t *testing.T) {
	var out strings.Builder
	r := result.New(load(t, "first-write"))
	r.Verdict, r.Error = result.Failed, "no namespace"
	r.Steps[0].Verdict, r.Steps[0].Error = result.Failed, "late"
	printVerdict(&out, r)
	if lines := strings.Split(out.String(), "\n"); !strings.HasPrefix(lines[0], "fail  first-write") ||
		!strings.HasSuffix(lines[1], ": late") || lines[2] != "      no namespace" {
		t.Error(out.String())
	}
}

// The stepper waits for a line, lets as many events pass as a number says, all
// at the end of the input, and ends the lab by q.
func TestStepper(t *testing.T) {
	var out strings.Builder
	s := NewStepper(strings.NewReader("what\n\n2\nq\n"), &out)
	for i := range 3 {
		if err := s.Step(t.Context(), &virtual.Event{}); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := s.Step(t.Context(), &virtual.Event{}); err == nil || err.Error() != "ended by q" {
		t.Error(err)
	}
	if strings.Count(out.String(), "Enter: the next event") != 1 {
		t.Error(out.String())
	}
	s = NewStepper(strings.NewReader(""), &out)
	for range 3 {
		if err := s.Step(t.Context(), &virtual.Event{}); err != nil {
			t.Error(err)
		}
	}
}
