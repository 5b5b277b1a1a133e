package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tapir/lab/perf"
	"tapir/lab/topo"
)

// The verdicts of steps and labs.
const (
	Passed = "pass"
	Failed = "fail"
)

// Result is what came out of a lab.
type Result struct {
	Lab     string        `json:"lab"`
	Clock   string        `json:"clock"`
	Seed    uint64        `json:"seed"`
	Verdict string        `json:"verdict"`
	Error   string        `json:"error,omitempty"` // of the lab, not of a step
	Seconds float64       `json:"seconds"`
	Steps   []*StepResult `json:"steps"`
	Links   []LinkResult  `json:"links"`
}

// StepResult is what came out of a step.
type StepResult struct {
	Line    int         `json:"line"` // of the file
	Verb    string      `json:"verb"`
	Name    string      `json:"name,omitempty"` // of a program
	Text    string      `json:"text"`
	Verdict string      `json:"verdict"`
	Error   string      `json:"error,omitempty"`
	Seconds float64     `json:"seconds"`
	Exit    *int        `json:"exit,omitempty"`
	Output  string      `json:"output,omitempty"`
	Perf    *PerfReport `json:"perf,omitempty"`
}

// LinkResult is what a link did.
type LinkResult struct {
	Name    string          `json:"name"`
	Ends    [2]string       `json:"ends"`
	Capture string          `json:"capture,omitempty"` // its file, beside this one
	Counts  topo.LinkCounts `json:"counts"`
}

// PerfReport is the client's report of a workload.
type PerfReport struct{ perf.Report }

// String is the report in one line.
func (r *PerfReport) String() string {
	switch {
	case len(r.Checks) > 0:
		return fmt.Sprintf("%d operations verified", len(r.Checks))
	case r.Latency != nil:
		return fmt.Sprintf("%d messages of %d octets, median %v", r.Messages, r.Size, r.Latency.Median)
	}
	return fmt.Sprintf("%d messages of %d octets, %.2f Gb/s", r.Messages, r.Size, r.Gbps)
}

func (r *StepResult) judge(err error) {
	if err != nil {
		r.Verdict, r.Error = Failed, err.Error()
	}
}

func (b *Bed) newResult() *Result {
	return &Result{Lab: b.lab.Name, Clock: b.lab.Clock, Seed: b.lab.Seed, Verdict: Passed}
}

// Run runs a lab from its start to its end. The error says why it could not
// start; everything else is in the result.
func Run(ctx context.Context, lab *topo.Lab, o Options) (*Result, error) {
	b, err := Up(ctx, lab, o)
	if err != nil {
		return nil, err
	}
	r := b.Steps(ctx)
	return r, b.Finish(ctx, r)
}

// Finish ends the lab, judges what only its end shows, and writes the result
// into the output directory.
func (b *Bed) Finish(ctx context.Context, r *Result) error {
	b.collect(r)
	if err := b.end(); err != nil {
		r.Error = err.Error()
		b.log.printf("FAIL  %v", err)
	}
	b.judgeCaptures(ctx, r)
	for _, s := range r.Steps {
		if s.Verdict == Failed {
			r.Verdict = Failed
		}
	}
	if r.Error != "" {
		r.Verdict = Failed
	}
	r.Seconds = time.Since(b.start).Seconds()
	b.log.printf("lab %s: %s after %d of %d steps", b.lab.Name, r.Verdict, len(r.Steps), len(b.lab.Steps))
	err := b.write(r)
	b.removeAll()
	return err
}

// collect notes what programs and links have to tell before they end. A program
// in the background that has ended on its own has to be content.
func (b *Bed) collect(r *Result) {
	for _, p := range b.started {
		if p.step.Background && p.res.Verdict == Passed && p.proc.HasEnded() {
			err := p.verdict()
			if p.res.judge(err); err != nil {
				b.log.printf("FAIL  line %d: %s: %v", p.step.Line, p.step.Text, err)
			}
		}
		p.res.Output = p.proc.Said()
	}
	for i := range b.lab.Links {
		c := b.links[b.lab.Links[i].Name]
		l := LinkResult{Name: c.Name, Ends: c.Ends, Counts: c.counts()}
		if b.opt.Out != "" && c.file != "" {
			l.Capture = filepath.Base(c.file)
		}
		r.Links = append(r.Links, l)
	}
}

// judgeCaptures judges the steps that look into captures, if the others were
// done.
func (b *Bed) judgeCaptures(ctx context.Context, r *Result) {
	for i, res := range r.Steps {
		s := &b.lab.Steps[i]
		if res.Verdict != "" {
			continue
		}
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, s.Timeout)
		err := b.filter(limited, &s.Condition)
		cancel()
		res.Verdict, res.Seconds = Passed, time.Since(began).Seconds()
		if res.judge(err); err != nil {
			b.log.printf("FAIL  line %d: %s: %v", s.Line, s.Text, err)
			continue
		}
		b.log.printf("ok    %s", s.Text)
	}
}

// write writes the result as JSON.
func (b *Bed) write(r *Result) error {
	if b.opt.Out == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.opt.Out, "result.json"), append(data, '\n'), 0o666)
}
