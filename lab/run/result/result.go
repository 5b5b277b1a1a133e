// Package result holds what a run measured and how it is written down: the
// verdicts of a lab's steps as JSON, JUnit XML and HTML, the drawings of its
// workloads, and the statistics of clocks as tables, CSV and SVG.
//
// A series of a clock has its time errors in nanoseconds, at equal intervals.
package result

import (
	"errors"
	"fmt"
	"time"

	"tapir/lab/tool/perf"
	"tapir/lab/topo"
)

// The verdicts of steps and labs.
const (
	Passed  = "pass"
	Failed  = "fail"
	Skipped = "skip" // not reached
)

// Result is what came out of a lab. Times are of the lab's clock, in seconds.
type Result struct {
	Lab     string    `json:"lab"`
	File    string    `json:"file"`
	Clock   string    `json:"clock"`
	Seed    uint64    `json:"seed"`
	Verdict string    `json:"verdict"`
	Error   string    `json:"error,omitempty"` // of the lab, not of a step
	Began   time.Time `json:"began,omitzero"`  // of the real clock alone
	Seconds float64   `json:"seconds"`
	Steps   []*Step   `json:"steps"` // all of the file
	Links   []Link    `json:"links"` // in the file's order, as are nodes
	Nodes   []Node    `json:"nodes"`
	Clocks  []Clock   `json:"clocks,omitempty"` // of PTP, if the lab is recorded
	Ladders []Ladder  `json:"-"`                // of the failure that is not of a step
	lab     *topo.Lab
}

// Step is what came out of a step.
type Step struct {
	Line    int    `json:"line"` // of the file
	Verb    string `json:"verb"`
	Name    string `json:"name,omitempty"` // of a program
	Text    string `json:"text"`
	Verdict string `json:"verdict"`
	Error   string `json:"error,omitempty"`
	// Disturbed says what makes the verdict on a clock doubtful.
	Disturbed string      `json:"disturbed,omitempty"`
	Start     float64     `json:"start"` // after that of the lab
	Seconds   float64     `json:"seconds"`
	Exit      *int        `json:"exit,omitempty"`
	Output    string      `json:"output,omitempty"`
	Perf      *PerfReport `json:"perf,omitempty"`
	Samples   []Samples   `json:"samples,omitempty"` // while its workload moved data
	Ladders   []Ladder    `json:"-"`                 // of the failure
	start     time.Duration
}

// Link is what a link did.
type Link struct {
	Name    string          `json:"name"`
	Ends    [2]string       `json:"ends"`
	Capture string          `json:"capture,omitempty"` // its file, beside this one
	Counts  topo.LinkCounts `json:"counts"`
}

// Node is what became of a node.
type Node struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`
	Addresses []string  `json:"addresses,omitempty"`
	Counters  []Counter `json:"counters,omitempty"` // that are not zero, at the end
	// Tables are those of an Ethernet Manager at the end: manager, vesw, member, mac and port.
	Tables map[string]any `json:"tables,omitempty"`
	Error  string         `json:"error,omitempty"`  // why it ended early, or what it left over
	Output string         `json:"output,omitempty"` // the end of what it said, if there is an error
}

// Counter is one counter of a NIC, as `tapir show NIC counters` has it.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// PerfReport is the clients' report of a workload, together and, if there are several, of each.
type PerfReport struct {
	perf.Report
	Flows []Flow `json:"flows,omitempty"`
}

// Flow is what one client of several did.
type Flow struct {
	Client   string          `json:"client"`
	Server   string          `json:"server"`
	Gbps     float64         `json:"gbps"`
	Progress []perf.Progress `json:"progress,omitempty"`
}

// NewPerfReport joins the reports of a workload's pairs, in their order.
func NewPerfReport(pairs []topo.Pair, reports []perf.Report) *PerfReport {
	r := &PerfReport{Report: perf.Together(reports)}
	for i := range reports {
		if f := &reports[i]; len(reports) > 1 {
			r.Flows = append(r.Flows, Flow{pairs[i].Client, pairs[i].Server, f.Gbps, f.Progress})
		}
	}
	return r
}

// fewFlows is how many flows are told apart in a line or a drawing.
const fewFlows = 6

// String is the report in one line.
func (r *PerfReport) String() string {
	switch {
	case len(r.Checks) > 0:
		return fmt.Sprintf("%d operations verified", len(r.Checks))
	case r.Latency != nil:
		return fmt.Sprintf("%d messages of %d octets, median %v", r.Messages, r.Size, r.Latency.Median)
	}
	text := fmt.Sprintf("%d messages of %d octets, %.2f Gb/s", r.Messages, r.Size, r.Gbps)
	if len(r.Flows) > fewFlows {
		return text
	}
	for i := range r.Flows {
		text += fmt.Sprintf("%s %.2f", []string{"; each", ","}[min(i, 1)], r.Flows[i].Gbps)
	}
	return text
}

// New is the result of a lab that has not begun: all of its steps are still to
// be reached.
func New(lab *topo.Lab) *Result {
	r := &Result{Lab: lab.Name, File: lab.File, Clock: lab.Clock, Seed: lab.Seed, Verdict: Skipped, lab: lab}
	for i := range lab.Nodes {
		n := Node{Name: lab.Nodes[i].Name, Kind: string(lab.Nodes[i].Title())}
		for _, a := range lab.Nodes[i].Addrs() {
			n.Addresses = append(n.Addresses, a.String())
		}
		r.Nodes = append(r.Nodes, n)
	}
	for i := range lab.Links {
		r.Links = append(r.Links, Link{Name: lab.Links[i].Name, Ends: lab.Links[i].Ends})
	}
	r.Extend()
	return r
}

// Extend adds the steps that the lab has got since.
func (r *Result) Extend() {
	for i := len(r.Steps); i < len(r.lab.Steps); i++ {
		s := &r.lab.Steps[i]
		r.Steps = append(r.Steps, &Step{Line: s.Line, Verb: string(s.Verb), Name: s.Name, Text: s.Text,
			Verdict: Skipped})
	}
}

// Done counts the steps that were reached.
func (r *Result) Done() (n int) {
	for _, s := range r.Steps {
		if s.Verdict != Skipped {
			n++
		}
	}
	return n
}

// Why says in a line why the lab failed; "" if it did not.
func (r *Result) Why() string {
	if r.Error != "" {
		return r.Error
	}
	for _, s := range r.Steps {
		if s.Verdict == Failed {
			return fmt.Sprintf("line %d: %s: %s", s.Line, s.Text, s.Error)
		}
	}
	return ""
}

// Samples are values of nodes over time, in seconds since the first was taken.
type Samples struct {
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Curves []Curve `json:"curves"`
}

// Told tells whether there is more to a step than its verdict.
func (s *Step) Told() bool {
	return s.Error != "" || s.Output != "" || s.Perf != nil || s.Samples != nil
}

// Judge ends the lab so long after its start: it has failed if err is one, if a
// step has, or if a link has a rule that never struck.
func (r *Result) Judge(at time.Duration, err error) {
	r.Verdict, r.Seconds = Passed, at.Seconds()
	for _, s := range r.Steps {
		if s.Verdict == Failed {
			r.Verdict = Failed
		}
	}
	if err == nil && r.Verdict == Passed && r.Done() == len(r.Steps) {
		err = r.silent()
	}
	if err != nil {
		r.Verdict, r.Error = Failed, err.Error()
	}
}

// silent names the rules that never struck and should have.
func (r *Result) silent() (err error) {
	for _, l := range r.Links {
		for _, c := range l.Counts.Rules {
			if why := c.Silent(); why != nil {
				err = errors.Join(err, fmt.Errorf("link %s: %w", l.Name, why))
			}
		}
	}
	return err
}

// Begin begins a step so long after the lab's start. It passes if nothing else
// is said.
func (s *Step) Begin(at time.Duration) {
	s.Verdict, s.Start, s.start = Passed, at.Seconds(), at
}

// End ends a step that has begun.
func (s *Step) End(at time.Duration, err error) {
	s.Seconds = (at - s.start).Seconds()
	s.Judge(err)
}

// Judge fails a step that has begun if err is an error.
func (s *Step) Judge(err error) {
	if err != nil {
		s.Verdict, s.Error = Failed, err.Error()
	}
}
