package virtual_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tapir/lab/check/pagetest"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual"
	"tapir/lab/topo"
)

// examples are the topology files that run in virtual time.
func examples(t *testing.T) (files []string) {
	t.Helper()
	all, err := filepath.Glob("../../examples/*/lab.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		lab, err := topo.Load(f)
		if err != nil {
			t.Fatal(err)
		}
		if lab.SetClock(topo.Virtual) == nil {
			files = append(files, f)
		}
	}
	if len(files) < 2 {
		t.Fatalf("only %q run in virtual time", files)
	}
	return files
}

// load reads a lab without the steps for which tshark is needed: what they find
// in the captures is in the captures' hashes.
func load(t *testing.T, file string) *topo.Lab {
	t.Helper()
	lab, err := topo.Load(file)
	if err == nil {
		err = lab.SetClock(topo.Virtual)
	}
	if err != nil {
		t.Fatal(err)
	}
	lab.Steps = slices.DeleteFunc(lab.Steps, func(s topo.Step) bool { return s.Condition.Filter != "" })
	return lab
}

// run runs a lab that has to pass, and returns its result and the hashes of all
// files that it leaves, a line each.
func run(t *testing.T, lab *topo.Lab, o virtual.Options) (*result.Result, string) {
	t.Helper()
	out := t.TempDir()
	var said strings.Builder
	o.Out, o.Print = out, &said
	r, err := virtual.Run(t.Context(), lab, o)
	if err != nil || r.Verdict != result.Passed {
		t.Fatalf("%s: %v, %v\n%s", lab.Name, r.Verdict, err, said.String())
	}
	files, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%x %s\n", sha256.Sum256(b), f.Name())
	}
	return r, all.String()
}

// The same file gives the same octets: in one process, on any number of
// processors.
func TestSameSeedSameOctets(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, file := range examples(t) {
		var first string
		for _, procs := range []int{1, 8} {
			runtime.GOMAXPROCS(procs)
			_, hashes := run(t, load(t, file), virtual.Options{})
			if first == "" {
				first = hashes
			}
			if hashes != first {
				t.Errorf("%s: with %d processors\n%sinstead of\n%s", file, procs, hashes, first)
			}
		}
		if !strings.Contains(file, "lossy") {
			continue
		}
		lab := load(t, file)
		lab.Seed += 100
		if _, hashes := run(t, lab, virtual.Options{}); hashes == first {
			t.Errorf("%s: another seed changes nothing", file)
		}
	}
}

// The report of a lab that fails is complete in virtual time, too, and the same
// each time.
func TestReportOfFailure(t *testing.T) {
	var pages [2][]byte
	for i := range pages {
		lab, err := topo.Parse("lab.yaml", []byte(`
clock: virtual
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  b: {kind: nic, ip: 10.0.0.2/24}
links: [[a, b]]
steps:
  - {perf: send-lat, server: a, client: b, iters: 5}
  - expect: {link: a-b, counter: corrupted}
  - wait: 1s
`))
		if err != nil {
			t.Fatal(err)
		}
		out := t.TempDir()
		r, err := virtual.Run(t.Context(), lab, virtual.Options{Options: steps.Options{Out: out}})
		if err != nil || r.Verdict != result.Failed || r.Steps[2].Verdict != result.Skipped || !r.Began.IsZero() {
			t.Errorf("%v: %+v", err, r)
		}
		if pages[i], err = os.ReadFile(filepath.Join(out, "report.html")); err != nil {
			t.Fatal(err)
		}
	}
	text := pagetest.Text(t, pages[0])
	for _, want := range []string{"it is 0", "a-b", "MPA reply", "Send with Solicited Event", "p999_ns"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if !bytes.Equal(pages[0], pages[1]) {
		t.Error("the pages differ")
	}
}

// A lab that is up keeps the directory of its capture from Collect; what one
// left that was killed is removed.
func TestCollect(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	lab, err := topo.Load("../../examples/many-nics/lab.yaml")
	if err == nil {
		err = lab.SetClock(topo.Virtual)
	}
	if err != nil {
		t.Fatal(err)
	}
	lab.Steps = nil
	up, err := virtual.Up(t.Context(), lab, virtual.Options{Options: steps.Options{Draw: true}})
	if err != nil {
		t.Fatal(err)
	}
	if removed := virtual.Collect(); len(removed) > 0 {
		t.Errorf("removed while the lab is up: %q", removed)
	}
	left := filepath.Join(os.TempDir(), "tapir-virtual1")
	if err := errors.Join(up.Finish(t.Context(), up.Steps(t.Context())), os.Mkdir(left, 0o700)); err != nil {
		t.Fatal(err)
	}
	if removed := virtual.Collect(); !slices.Equal(removed, []string{left}) {
		t.Errorf("removed %q", removed)
	}
}
