package result

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"tapir/lab/tool/capture"
	"tapir/lab/tool/inspect"
	"tapir/lab/tool/ui/record"
	"tapir/lab/topo"
	"tapir/wire/pcapng"
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
	// Octets are the beginnings of packets by their number, in hexadecimal, for a page without a
	// server.
	Octets map[int]string `json:"octets,omitempty"`
	Centre int            `json:"centre,omitempty"` // number of the flow that the ladder is about
}

// Bounds of the ladder of a failure: its steps, its links, and the octets of
// capture that are read for it.
const (
	ladderSteps = 60
	ladderLinks = 2
	ladderRead  = 256 << 20
)

// Bounds of the ladder of a lab that passed: the octets of capture that are read for it, and the
// steps among which those around something are found. Then those of the packets of a ladder.
const (
	sampleRead  = 16 << 20
	sampleSteps = 50_000
	dumpMost    = 100
	dumpOctets  = 128
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
	if r.Verdict == Passed {
		r.sample(rec)
	}
}

// sample draws a ladder of a lab that passed: around the first frame that a link struck, else of
// the first connection from its handshake on.
func (r *Result) sample(rec Recording) {
	link, at := r.firstStruck(rec)
	links, note := []string{link}, fmt.Sprintf("Around the first frame that the link struck, at %v.", at)
	if link == "" {
		links, note, at = nil, "From the handshake of the first connection on.", -1
		for i := range r.Links {
			links = append(links, r.Links[i].Name)
		}
	}
	all := inspect.Options{Ladder: sampleSteps, Window: inspect.Window{From: rec.Start, To: math.MaxInt64}}
	for _, name := range links[:min(len(links), ladderLinks)] {
		l := Ladder{Link: name, Note: note}
		if _, err := l.replay(rec, all, sampleRead); err != nil || l.Exchange == nil || len(l.Exchange.Ladder) == 0 {
			continue
		}
		l.Exchange.centre(at)
		if l.Exchange.Centre == 0 {
			l.Note = "The first steps that passed; there was no connection."
		}
		if l.dump(rec) == nil {
			r.Ladders = []Ladder{l}
		}
		return
	}
}

// firstStruck finds the first frame that is lost, corrupted, duplicated or reordered on a link, and
// its time since the lab's start; without one, the link is empty.
func (r *Result) firstStruck(rec Recording) (link string, at time.Duration) {
	for i := range r.Links {
		file, err := rec.Open(r.Links[i].Name)
		if err != nil || file == nil {
			continue
		}
		defer file.Close()
		var ends []string
		_ = packets(file, sampleRead, func(b pcapng.Block, _ int) bool { // what cannot be read strikes nothing
			switch b := b.(type) {
			case *pcapng.Interface:
				ends = append(ends, b.Name)
			case *pcapng.Packet:
				if record.Struck(b) && int(b.Interface) < len(ends) {
					link, _, _ = strings.Cut(ends[b.Interface], ":")
					at = round(b.Stamp - rec.Start)
				}
			}
			return link == ""
		})
		return link, at // all links are in one capture
	}
	return "", 0
}

// packets reads so many octets of a capture, until do returns false. number is that of a packet, as
// Wireshark counts, or of the next.
func packets(r io.Reader, octets int64, do func(b pcapng.Block, number int) bool) error {
	next, err := capture.Blocks(io.LimitReader(r, octets))
	for number := 1; err == nil; {
		var b pcapng.Block
		if b, err = next(); err != nil || !do(b, number) {
			break
		}
		switch b.(type) {
		case *pcapng.Journal, *pcapng.Packet:
			number++
		}
	}
	return err
}

// centre keeps ladderSteps of the ladder: those around a time; below 0: from the first step of a
// connection on, or else of PTP.
func (x *Exchange) centre(at time.Duration) {
	all := x.Ladder
	i := slices.IndexFunc(all, func(e inspect.Event) bool {
		if at >= 0 {
			return e.Time >= at
		}
		return slices.ContainsFunc(x.Flows, func(f *inspect.Flow) bool { // that has two ends
			return f.Number == e.Flow && f.B != "" && f.Protocol != inspect.PTP
		})
	})
	if i >= 0 {
		x.Centre = all[i].Flow
	}
	if at >= 0 {
		i -= ladderSteps / 2
	}
	i = max(0, i)
	end := min(len(all), i+ladderSteps)
	x.Ladder, x.Beyond = all[i:end], x.Beyond+len(all)-(end-i)
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

// draw replays what entered the link.
func (l *Ladder) draw(rec Recording, window inspect.Window) error {
	opt := inspect.Options{Ladder: ladderSteps, Last: true, Window: window}
	if whole, err := l.replay(rec, opt, ladderRead); err != nil {
		return err
	} else if !whole {
		l.Note = fmt.Sprintf("the capture is longer than %d MiB: tapir inspect --ladder draws it", ladderRead>>20)
		l.Exchange = nil
	} else if l.Exchange != nil && len(l.Exchange.Ladder) == 0 {
		l.Note = fmt.Sprintf("no RDMA and no PTP passed between %v and %v", round(window.From-rec.Start),
			round(window.To-rec.Start))
		l.Exchange = nil
	}
	return l.dump(rec)
}

// replay makes the exchange of so many octets of the capture. whole tells that it has no more.
func (l *Ladder) replay(rec Recording, opt inspect.Options, octets int64) (whole bool, err error) {
	file, err := rec.Open(l.Link)
	if err != nil {
		return false, err
	}
	if file == nil {
		l.Note = "the link was not captured"
		return true, nil
	}
	defer file.Close()
	limited := &io.LimitedReader{R: file, N: octets}
	opt.Start = rec.Start
	opt.Choose = func(iface string, inbound bool) bool {
		return iface == l.Link || strings.HasPrefix(iface, l.Link+":") && !inbound
	}
	in := inspect.New(opt)
	if err := inspect.Read(limited, in); err != nil && limited.N > 0 {
		return false, fmt.Errorf("the capture: %w", err)
	}
	report := in.Finish()
	l.Exchange = &Exchange{Schema: record.Schema, Verdict: report.Verdict(), Report: report,
		Command: "tapir inspect --ladder " + capture.LabFile}
	return limited.N > 0, nil
}

// dump adds the octets of the packets of the ladder and its findings.
func (l *Ladder) dump(rec Recording) error {
	if l.Exchange == nil {
		return nil
	}
	want := map[int]bool{}
	for _, e := range l.Exchange.Ladder {
		want[e.Packet] = true
	}
	if n := len(l.Exchange.Ladder); n > 0 {
		for _, f := range l.Exchange.Findings {
			within := f.Packet >= l.Exchange.Ladder[0].Packet && f.Packet <= l.Exchange.Ladder[n-1].Packet
			if within && len(want) < dumpMost {
				want[f.Packet] = true
			}
		}
	}
	file, err := rec.Open(l.Link)
	if err != nil || file == nil {
		return err
	}
	defer file.Close()
	l.Exchange.Octets = map[int]string{}
	err = packets(file, ladderRead, func(b pcapng.Block, number int) bool {
		if p, ok := b.(*pcapng.Packet); ok && want[number] {
			l.Exchange.Octets[number] = hex.EncodeToString(p.Data[:min(len(p.Data), dumpOctets)])
		}
		return len(l.Exchange.Octets) < len(want)
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

func round(ns int64) time.Duration { return time.Duration(ns).Round(time.Microsecond) }
