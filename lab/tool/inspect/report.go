package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"tapir/lab/tool/schema"
)

// Finding is a rule that a packet breaks, or a note.
type Finding struct {
	Packet int    `json:"packet"`           // its number in the capture, from 1
	Flow   int    `json:"flow,omitempty"`   // 0: none
	Clause string `json:"clause,omitempty"` // empty in a note that is about no rule
	Says   string `json:"says,omitempty"`
	Detail string `json:"detail,omitempty"`
	Siw    bool   `json:"siw,omitempty"`  // Linux siw is known to do it
	Note   bool   `json:"note,omitempty"` // no violation
}

// String is the finding in one line.
func (f Finding) String() string {
	s := fmt.Sprintf("packet %d: ", f.Packet)
	if f.Clause != "" {
		s += f.Clause + ": " + f.Says
		if f.Detail != "" {
			s += ": "
		}
	}
	s += f.Detail
	if f.Siw {
		s += " (siw is known for it)"
	}
	return s
}

// State says how far a flow was judged.
type State string

// The states.
const (
	Replayed    State = "replayed"
	Partly      State = "replayed in part"
	NotReplayed State = "not replayed"
	NotRDMA     State = "not RDMA"
)

// Flow is a connection, a virtual Ethernet switch, or a PTP domain.
type Flow struct {
	Number   int    `json:"number"`
	Protocol string `json:"protocol"`
	A        string `json:"a"` // who opened it, or was seen first
	B        string `json:"b,omitempty"`
	First    int    `json:"first"` // packet
	Last     int    `json:"last"`
	Packets  int    `json:"packets"`
	State    State  `json:"state"`
	Why      string `json:"why,omitempty"` // it was not replayed, or only in part

	Violations int    `json:"violations"`
	Notes      int    `json:"notes"`
	Agreed     string `json:"agreed,omitempty"` // what start-up agreed on
	Sides      []Side `json:"sides,omitempty"`  // A's packets and B's
	// Ends are the link ends of a lab where the flow was seen. Packets are
	// counted at the first; what breaks a rule is reported where it is seen first.
	Ends []string `json:"ends,omitempty"`
	of   *Flow    // of which it is another sight; nil: the first
	// sights are its connection as seen at each of Ends, if it is the first.
	sights []*conn
	RTT    *RTT `json:"rtt,omitempty"`
}

func (f *Flow) judged(note bool) {
	if note {
		f.Notes++
	} else {
		f.Violations++
	}
}

// Side counts what one side of a flow sent.
type Side struct {
	Packets         int            `json:"packets"`
	Octets          uint64         `json:"octets"` // of the layer below messages
	Retransmissions int            `json:"retransmissions,omitempty"`
	OutOfOrder      int            `json:"out_of_order,omitempty"`
	SuperFrames     int            `json:"super_frames,omitempty"` // longer than the MSS
	FPDUs           int            `json:"fpdus,omitempty"`
	PDUs            int            `json:"pdus,omitempty"` // of iSCSI
	CRCErrors       int            `json:"crc_errors,omitempty"`
	Messages        map[string]int `json:"messages,omitempty"` // by name
	MessageOctets   uint64         `json:"message_octets,omitempty"`
	names           []string       // of Messages, in order of appearance
}

// RTT is how long acknowledgements took, as seen where the capture was made.
type RTT struct {
	Samples int           `json:"samples"`
	Min     time.Duration `json:"min_ns"`
	Mean    time.Duration `json:"mean_ns"`
	Max     time.Duration `json:"max_ns"`
	sum     time.Duration
}

func (r *RTT) add(d time.Duration) {
	if r.Samples == 0 || d < r.Min {
		r.Min = d
	}
	r.Max = max(r.Max, d)
	r.Samples++
	r.sum += d
	r.Mean = r.sum / time.Duration(r.Samples)
}

// message counts a message of the given name and length.
func (s *Side) message(name string, octets uint64) {
	if s.Messages == nil {
		s.Messages = map[string]int{}
	}
	if s.Messages[name] == 0 {
		s.names = append(s.names, name)
	}
	s.Messages[name]++
	s.MessageOctets += octets
}

// Report is what an inspector found.
type Report struct {
	Packets  int       `json:"packets"`
	Other    int       `json:"other"` // packets of protocols that are none of ours
	Flows    []*Flow   `json:"flows"`
	Ends     []string  `json:"ends,omitempty"` // of links, in a lab's capture
	Findings []Finding `json:"findings"`
	Ladder   []Event   `json:"ladder,omitempty"`
	Beyond   int       `json:"ladder_beyond,omitempty"` // events that the ladder has no place for

	part, last bool // of the ladder: it is not the whole, or its end
}

// PTP is the protocol of flows of IEEE 1588.
const PTP = "PTP"

// Verdict is the report in a word.
type Verdict string

// The verdicts. Clean means that all RDMA and PTP traffic of the capture was
// replayed and broke no rule.
const (
	Clean       Verdict = "clean"
	Violations  Verdict = "violations"
	NotJudged   Verdict = "not judged"
	NothingSeen Verdict = "nothing to replay"
)

// Verdict judges the whole capture.
func (r *Report) Verdict() Verdict {
	judged, open := false, false
	for _, f := range r.Flows {
		judged = judged || f.State == Replayed || f.State == Partly
		open = open || f.State == NotReplayed || f.State == Partly
	}
	switch {
	case r.First() != nil:
		return Violations
	case open:
		return NotJudged
	case !judged:
		return NothingSeen
	}
	return Clean
}

// First is the first violation, nil if there is none.
func (r *Report) First() *Finding {
	for k := range r.Findings {
		if !r.Findings[k].Note {
			return &r.Findings[k]
		}
	}
	return nil
}

// Violations counts the findings that are no notes.
func (r *Report) Violations() (n int) {
	for _, f := range r.Findings {
		if !f.Note {
			n++
		}
	}
	return n
}

// verdictReport is what is written.
type verdictReport struct {
	Verdict Verdict `json:"verdict"`
	*Report
}

var _ = schema.Add("inspect", 1, verdictReport{})

// WriteJSON writes the report as one JSON object with the verdict.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(verdictReport{r.Verdict(), r})
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.f("%d packets", r.Packets)
	if len(r.Ends) > 0 {
		p.f(" at %d link ends (%s)", len(r.Ends), strings.Join(r.Ends, ", "))
	}
	if p.f(", %d flow", len(r.Flows)); len(r.Flows) != 1 {
		p.f("s")
	}
	if r.Other > 0 {
		p.f(", %d packets of other protocols", r.Other)
	}
	p.f("\n")
	for _, f := range r.Flows {
		f.write(p)
	}
	r.writeFindings(p)
	return p.err
}

func (r *Report) writeFindings(p *printer) {
	if len(r.Findings) > 0 {
		p.f("\n")
	}
	for _, f := range r.Findings {
		kind := "violation"
		if f.Note {
			kind = "note"
		}
		p.f("%-9s  %s", kind, f)
		if f.Flow > 0 {
			p.f(" [flow %d]", f.Flow)
		}
		p.f("\n")
	}
	p.f("\n")
	switch first := r.First(); r.Verdict() {
	case Clean:
		p.f("no violation\n")
	case Violations:
		if n := r.Violations(); n > 1 {
			p.f("%d violations, the first: %s\n", n, first)
		} else {
			p.f("1 violation: %s\n", first)
		}
	case NotJudged:
		p.f("no violation in what was replayed; not all of the capture could be\n")
	case NothingSeen:
		p.f("nothing to replay: no iWARP, RoCE, iSCSI, FCoE, Omni-Path or PTP traffic\n")
	}
}

func (f *Flow) write(p *printer) {
	ends := f.A
	if f.B != "" {
		ends += " > " + f.B
	}
	p.f("\nflow %d  %s  %s  packets %d to %d", f.Number, f.Protocol, ends, f.First, f.Last)
	if len(f.Ends) > 0 {
		p.f("\n  at %s", strings.Join(f.Ends, ", "))
	}
	if f.Why != "" {
		p.f("\n  %s", f.Why)
	}
	if f.Agreed != "" {
		p.f("\n  %s", f.Agreed)
	}
	p.f("\n")
	for n := range f.Sides {
		from := f.A
		if n == 1 {
			from = f.B
		}
		f.Sides[n].write(p, from)
	}
	if f.RTT != nil {
		p.f("  round trip %v min, %v mean, %v max of %d\n", f.RTT.Min, f.RTT.Mean, f.RTT.Max, f.RTT.Samples)
	}
}

func (s *Side) write(p *printer, from string) {
	if s.Packets == 0 {
		return
	}
	p.f("  %s: %d packets, %d octets", from, s.Packets, s.Octets)
	for _, c := range []struct {
		n    int
		name string
	}{{s.FPDUs, "FPDUs"}, {s.PDUs, "PDUs"}, {s.Retransmissions, "retransmissions"}, {s.OutOfOrder, "out of order"},
		{s.SuperFrames, "super-frames"}, {s.CRCErrors, "wrong CRCs"}} {
		if c.n > 0 {
			p.f(", %d %s", c.n, c.name)
		}
	}
	p.f("\n")
	for _, name := range s.names {
		p.f("    %6d %s\n", s.Messages[name], name)
	}
	if s.MessageOctets > 0 {
		p.f("    %d octets in messages\n", s.MessageOctets)
	}
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
