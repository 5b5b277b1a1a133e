// Package course tests the exercises of the course.
package course

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tapir/lab/run/result"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// Each exercise fails as it is handed out, and passes with its solution, which differs in one line.
func TestExercises(t *testing.T) {
	dirs, err := filepath.Glob("[1-9]-*")
	if err != nil || len(dirs) != 6 {
		t.Fatalf("%v: %v", dirs, err)
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			for file, want := range map[string]string{"lab.yaml": result.Failed, "solution.yaml": result.Passed} {
				lab, err := topo.Load(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				r, err := virtual.Run(t.Context(), lab, virtual.Options{})
				if err != nil || r.Verdict != want {
					t.Errorf("%s: %v %v", file, err, r.Verdict)
				}
				for _, s := range r.Steps {
					t.Logf("%s: %s: %v %s", file, s.Text, s.Verdict, s.Error)
				}
			}
			task, err := os.ReadFile(filepath.Join(dir, "README.md"))
			if err != nil || !strings.Contains(string(task), "tapir lab test examples/course/"+dir+"/lab.yaml") {
				t.Errorf("%v: %s", err, task)
			}
			if given, solved := lines(t, dir, "lab.yaml"), lines(t, dir, "solution.yaml"); len(given) != len(solved)+1 {
				t.Error("the solution is longer than one line")
			}
		})
	}
}

func lines(t *testing.T, dir, file string) []string {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}
