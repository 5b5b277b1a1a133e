package result

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/inspect"
	"tapir/lab/tool/ui/record"
	"tapir/lab/topo"
)

// Recording is where one can read what passed the links of a lab.
type Recording struct {
	// Open opens the capture that has the link; nil if there is none. The link
	// is an interface of that name, or one for each end, such as a-s:a.
	Open func(link string) (io.ReadCloser, error)
	// Start is the captures' time at the start of the lab, in nanoseconds since
	// the epoch.
	Start int64
}

// Ladder is what entered a link during a failure.
type Ladder struct {
	Link     string    `json:"link"`
	Exchange *Exchange `json:"exchange,omitempty"` // nil if there is none
	Note     string    `json:"note,omitempty"`     // why not
}

// Exchange is what inspect says of a capture.
type Exchange struct {
	Schema  int             `json:"schema"`
	Verdict inspect.Verdict `json:"verdict"`
	*inspect.Report
	Command string `json:"command"` // which says the same
}

// Bounds of the ladder of a failure: its steps, its links, and the octets of
// capture that are read for it.
const (
	ladderSteps = 60
	ladderLinks = 2
	ladderRead  = 256 << 20
)

// Draw draws the ladder of each failure from the captures.
func (r *Result) Draw(rec Recording) {
	for i, s := range r.Steps {
		if s.Verdict != Failed {
			continue
		}
		step, from, until := &r.lab.Steps[i], s.Start, s.Start+s.Seconds
		if step.Background { // it ended when the program had begun
			until = r.Seconds
		}
		if step.Verb == topo.Wait || step.Verb == topo.Expect { // for what came of the steps before
			from = 0
		}
		s.Ladders = r.ladders(rec, r.concerned(step), from, until)
	}
	var lost []string
	for i := range r.Nodes {
		if r.Nodes[i].Error != "" {
			lost = append(lost, r.around(r.Nodes[i].Name)...)
		}
	}
	r.Ladders = r.ladders(rec, lost, 0, r.Seconds)
}

// around are the links of a node.
func (r *Result) around(node string) (all []string) {
	for _, l := range r.Links {
		if slices.Contains(l.Ends[:], node) {
			all = append(all, l.Name)
		}
	}
	return all
}

// concerned are the links that a step has to do with.
func (r *Result) concerned(s *topo.Step) []string {
	c := &s.Condition
	for _, link := range []string{s.Link, c.Link} {
		if link != "" {
			return []string{link}
		}
	}
	node := s.On + c.Node // at most one of them is there
	if len(s.Pairs) > 0 {
		node = s.Pairs[0].Client
	}
	for i := range r.lab.Steps {
		if other := &r.lab.Steps[i]; other.Verb == topo.Run && other.Name == c.Step {
			node = other.On
		}
	}
	return r.around(node)
}

// ladders draws what entered the links between two times of the lab, in
// seconds.
func (r *Result) ladders(rec Recording, links []string, from, to float64) (all []Ladder) {
	at := func(seconds float64) int64 { return rec.Start + int64(seconds*1e9) }
	window := inspect.Window{From: at(from), To: at(to)}
	for _, link := range links[:min(len(links), ladderLinks)] {
		l := Ladder{Link: link}
		if err := l.draw(rec, window); err != nil {
			l.Note = err.Error()
		}
		all = append(all, l)
	}
	return all
}

func (l *Ladder) draw(rec Recording, window inspect.Window) error {
	file, err := rec.Open(l.Link)
	if err != nil {
		return err
	}
	if file == nil {
		l.Note = "the link was not captured"
		return nil
	}
	defer file.Close()
	limited := &io.LimitedReader{R: file, N: ladderRead}
	in := inspect.New(inspect.Options{Ladder: ladderSteps, Last: true, Window: window, Start: rec.Start,
		Choose: func(iface string, inbound bool) bool {
			return iface == l.Link || strings.HasPrefix(iface, l.Link+":") && !inbound
		}})
	if err := inspect.Read(limited, in); err != nil && limited.N > 0 {
		return fmt.Errorf("the capture: %w", err)
	}
	if limited.N <= 0 {
		l.Note = fmt.Sprintf("the capture is longer than %d MiB: tapir inspect --ladder draws it", ladderRead>>20)
		return nil
	}
	report := in.Finish()
	if len(report.Ladder) == 0 {
		l.Note = fmt.Sprintf("no RDMA and no PTP passed between %v and %v", round(window.From-rec.Start),
			round(window.To-rec.Start))
		return nil
	}
	l.Exchange = &Exchange{record.Schema, report.Verdict(), report, "tapir inspect --ladder " + capture.LabFile}
	return nil
}

func round(ns int64) time.Duration { return time.Duration(ns).Round(time.Microsecond) }
