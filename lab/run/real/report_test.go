package real

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tapir/lab/check/pagetest"
	"tapir/lab/host/process"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/topo"
)

// text is that of an XML document, which has to be well-formed.
func text(t *testing.T, file string) (text string, elements map[string]int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	elements = map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(data)); ; {
		token, err := d.Token()
		switch token := token.(type) {
		case xml.CharData:
			text += string(token)
		case xml.StartElement:
			elements[token.Name.Local]++
		}
		if err == io.EOF {
			return text, elements
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// pageText is that of the data of a report.
func pageText(t *testing.T, file string) string {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return pagetest.Text(t, page)
}

// complete checks that reports lie in out that say the same, with every step,
// link and node of the lab and with all that wants says, and returns the result.
func complete(t *testing.T, lab *topo.Lab, out string, wants ...string) *result.Result {
	t.Helper()
	r := &result.Result{}
	data, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err := errors.Join(err, json.Unmarshal(data, r)); err != nil {
		t.Fatal(err)
	}
	if r.Verdict != result.Failed || len(r.Steps) != len(lab.Steps) || len(r.Links) != len(lab.Links) || len(r.Nodes) != len(lab.Nodes) || r.Began.IsZero() || r.Seconds <= 0 {
		t.Errorf("%s", data)
	}
	skipped, failures := 0, 0
	for _, s := range r.Steps {
		wants = append(wants, s.Text)
		switch s.Verdict {
		case result.Skipped:
			skipped++
		case result.Failed:
			failures++
		}
	}
	if r.Error != "" {
		failures++
	}
	for _, n := range r.Nodes {
		wants = append(append(wants, n.Name), n.Addresses...)
	}
	page := pageText(t, filepath.Join(out, "report.html"))
	for _, want := range append(wants, "fail") {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	_, elements := text(t, filepath.Join(out, "junit.xml"))
	if elements["testcase"] != len(lab.Steps)+1 || elements["failure"] != failures || elements["skipped"] != skipped || failures == 0 {
		t.Errorf("JUnit: %v; %d failures, %d skipped", elements, failures, skipped)
	}
	return r
}

// read reads a lab.
func read(t *testing.T, text string) *topo.Lab {
	t.Helper()
	lab, err := topo.Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// A lab whose step fails, with a workload before it.
func TestReportOfFailure(t *testing.T) {
	lab, out := read(t, `
nodes:
  a: {kind: nic, ip: 10.0.0.1/24}
  b: {kind: nic, ip: 10.0.0.2/24}
links: [[a, b]]
steps:
  - {perf: send-lat, server: a, client: b, iters: 50}
  - {fault: a-b, delay: 1ms}
  - expect: {link: a-b, counter: corrupted}
  - wait: 1ms
`), t.TempDir()
	if _, err := Run(t.Context(), lab, Options{Options: steps.Options{Out: out}, Tapir: tapir}); err != nil {
		t.Fatal(err)
	}
	r := complete(t, lab, out, "it is 0", "p999_ns", "ladder_beyond", "Send with Solicited Event", "rdma_send_se_in")
	if s := r.Steps; s[0].Verdict != result.Passed || s[2].Verdict != result.Failed || s[3].Verdict != result.Skipped || s[2].Start <= s[0].Start || len(s[0].Perf.Latency.Histogram) == 0 {
		t.Errorf("%+v %+v", s[0], s[2])
	}
	if _, err := os.Stat(filepath.Join(out, r.Links[0].Capture)); err != nil || r.Links[0].Counts.Frames == 0 {
		t.Errorf("%v: %+v", err, r.Links[0])
	}
	nothingLeft(t)
}

// A lab that does not come up.
func TestReportOfNoStart(t *testing.T) {
	lab, out := read(t, pair+"  - wait: 1ms\n"), filepath.Join(t.TempDir(), "new")
	r, err := Run(t.Context(), lab, Options{Options: steps.Options{Out: out}, Tapir: "/bin/false"})
	if err != nil || !strings.Contains(r.Error, "a: it has ended: exit status 1") {
		t.Errorf("%v: %+v", err, r)
	}
	if complete(t, lab, out, "a: it has ended: exit status 1"); r.Done() != 0 {
		t.Error("steps were reached")
	}
	nothingLeft(t)
}

// A NIC that crashes.
func TestReportOfCrash(t *testing.T) {
	lab, out := read(t, pair+"  - {run: echo <said>, on: h}\n"), t.TempDir()
	b, err := Up(t.Context(), lab, Options{Options: steps.Options{Out: out}, Tapir: tapir})
	if err != nil {
		t.Fatal(err)
	}
	a := b.bed.nodes["a"].proc
	if err := syscall.Kill(a.PID(), syscall.SIGSEGV); err != nil { // a Go program prints its goroutines
		t.Fatal(err)
	}
	<-a.Ended()
	r := b.Steps(t.Context())
	if err := b.Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r = complete(t, lab, out, "a has ended: ", "a-h", "no RDMA and no PTP passed", "<said>")
	if r.Nodes[0].Error == "" || !strings.Contains(r.Nodes[0].Output, "SIGSEGV") && !strings.Contains(r.Nodes[0].Output, "goroutine") || r.Steps[0].Output != "<said>\n" {
		t.Errorf("%+v", r.Nodes[0])
	}
	nothingLeft(t)
}

// A lab that is interrupted, as one of several of which the last is not begun.
func TestReportOfInterrupt(t *testing.T) {
	file, out := labFile(t), t.TempDir()
	lab, err := topo.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd, _ := keeper(t, "h: sleep 1000 (in the background)", "run", "--out", out, file)
	interrupt := func() {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("an interrupted lab passes")
		}
	}
	interrupt()
	if r := complete(t, lab, out, "interrupted"); r.Steps[1].Error != "interrupted" {
		t.Errorf("%+v", r.Steps[1])
	}
	good := filepath.Join(t.TempDir(), "good.yaml")
	if err := os.WriteFile(good, []byte(pair+"  - {run: echo up, on: h}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(out, name) }
	cmd, complaint := keeper(t, "pass  good", "test", "--junit", at("all.xml"), "--results", at("all.json"), "--html", at("all.html"), good, file, good)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The first has ended by then: these are processes of the second.
	if err := process.Until(ctx, func() (bool, error) { return len(marked(nil)) > 0, nil }); err != nil {
		t.Fatalf("the second lab does not begin: %v: %s", err, complaint)
	}
	interrupt()
	var all []result.Result
	data, err := os.ReadFile(at("all.json"))
	if err := errors.Join(err, json.Unmarshal(data, &all)); err != nil || len(all) != 3 || all[0].Verdict != result.Passed || all[1].Verdict != result.Failed || all[2].Verdict != result.Skipped {
		t.Fatalf("%v: %s", err, data)
	}
	if page := pageText(t, at("all.html")); strings.Count(page, "lab\n") < 3 {
		t.Errorf("%.400s", page)
	}
	if _, elements := text(t, at("all.xml")); elements["testsuite"] != 3 || elements["testcase"] != 2+3+2 {
		t.Errorf("%v", elements)
	}
	nothingLeft(t)
}
