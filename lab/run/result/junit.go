package result

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"time"
)

// The elements of JUnit's XML that Jenkins, GitLab and GitHub's actions read.
type (
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		Name    string   `xml:"name,attr"`
		junitCounts
		Suites []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name string `xml:"name,attr"`
		junitCounts
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		File       string          `xml:"file,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitCounts struct {
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Errors   int    `xml:"errors,attr"`
		Skipped  int    `xml:"skipped,attr"`
		Time     string `xml:"time,attr"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr,omitempty"`
		Line    int           `xml:"line,attr,omitempty"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// upAndDown is the case of what is no step: that the nodes come up, stay, and
// leave nothing.
const upAndDown = "up and down"

// JUnit writes results as JUnit's XML: a lab is a suite, a step a case.
func JUnit(w io.Writer, all ...*Result) error {
	doc := junitSuites{Name: "tapir lab"}
	seconds := 0.0
	for _, r := range all {
		s := r.suite()
		doc.Suites = append(doc.Suites, s)
		doc.Tests += s.Tests
		doc.Failures += s.Failures
		doc.Skipped += s.Skipped
		seconds += r.Seconds
	}
	doc.Time = junitTime(seconds)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitTime(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 3, 64) }

func (r *Result) suite() junitSuite {
	s := junitSuite{Name: r.Lab, File: r.File, Properties: []junitProperty{
		{"clock", r.Clock}, {"seed", strconv.FormatUint(r.Seed, 10)}, {"verdict", r.Verdict},
	}}
	if !r.Began.IsZero() {
		s.Timestamp = r.Began.UTC().Format("2006-01-02T15:04:05")
	}
	bed := junitCase{Name: upAndDown, Time: junitTime(r.rest()), File: r.File}
	switch {
	case r.Error != "":
		bed.judge(Failed, r.Error, "lab", r.nodeErrors())
	case r.Verdict == Skipped:
		bed.judge(Skipped, "", "", "")
	}
	s.Cases = append(s.Cases, bed)
	for i, step := range r.Steps {
		// Numbered: servers tell cases by their names and sort them.
		c := junitCase{Name: fmt.Sprintf("%02d %s", i+1, step.Text), File: r.File, Line: step.Line,
			Time: junitTime(step.Seconds), Out: clip(step.Output)}
		c.judge(step.Verdict, step.Error, step.Verb, fmt.Sprintf("%s:%d: %s: %s", r.File, step.Line, step.Text,
			step.Error))
		s.Cases = append(s.Cases, c)
	}
	for i := range s.Cases {
		s.Cases[i].Class = r.Lab
		if s.Cases[i].Failure != nil {
			s.Failures++
		}
		if s.Cases[i].Skipped != nil {
			s.Skipped++
		}
	}
	s.Tests, s.Time = len(s.Cases), junitTime(r.Seconds)
	return s
}

func (c *junitCase) judge(verdict, message, kind, text string) {
	switch verdict {
	case Failed:
		c.Failure = &junitMessage{Message: message, Type: kind, Text: text}
	case Skipped:
		c.Skipped = &junitMessage{Message: "not reached"}
	}
}

// rest is what the lab took besides its steps.
func (r *Result) rest() float64 {
	left := time.Duration(r.Seconds * 1e9)
	for _, s := range r.Steps {
		left -= time.Duration(s.Seconds * 1e9)
	}
	return max(0, left).Seconds()
}

// nodeErrors tells what nodes did wrong, with the end of what they said.
func (r *Result) nodeErrors() string {
	text := r.Error
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.Output != "" {
			text += "\n\n" + n.Name + " said at its end:\n" + n.Output
		}
	}
	return text
}
