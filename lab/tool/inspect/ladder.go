package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Event is one step of the exchange.
type Event struct {
	Packet int           `json:"packet"`
	Time   time.Duration `json:"time_ns"` // since the first packet of the capture
	Flow   int           `json:"flow"`
	From   string        `json:"from"`
	To     string        `json:"to,omitempty"` // empty: to all
	Name   string        `json:"name"`
	Detail string        `json:"detail,omitempty"`
}

// event adds a step to the ladder.
func (i *Inspector) event(e Event, now int64) {
	if i.opt.Tell != nil {
		e.Time = time.Duration(now - i.start)
		i.opt.Tell(e)
	}
	if i.opt.Ladder == 0 || !i.opt.Window.has(now) {
		return
	}
	if len(i.report.Ladder) >= i.opt.Ladder {
		if i.report.Beyond++; !i.opt.Last {
			return
		}
		i.report.Ladder = i.report.Ladder[1:]
	}
	e.Time = time.Duration(now - i.start)
	i.report.Ladder = append(i.report.Ladder, e)
}

// event adds a step of the connection.
func (h *half) event(packet int, now int64, name, detail string) {
	if h.c.flow.of != nil {
		return
	}
	h.c.in.event(Event{Packet: packet, Flow: h.c.flow.Number, From: h.addr.String(), To: h.peer().addr.String(),
		Name: name, Detail: detail}, now)
}

// rung is a line of a drawing: a step, or a finding about its packet.
type rung struct {
	packet  int
	event   *Event
	finding *Finding
}

// drawing is the ladder of one flow.
type drawing struct {
	flow  *Flow
	ends  []string // in the order in which they appear
	rungs []rung
}

// drawings are the ladders of all flows that have steps.
func (r *Report) drawings() (list []*drawing) {
	for _, f := range r.Flows {
		d := &drawing{flow: f}
		for k := range r.Ladder {
			if e := &r.Ladder[k]; e.Flow == f.Number {
				d.rungs = append(d.rungs, rung{packet: e.Packet, event: e})
				d.column(e.From)
				if e.To != "" {
					d.column(e.To)
				}
			}
		}
		if len(d.rungs) == 0 {
			continue
		}
		for k := range r.Findings {
			if x := &r.Findings[k]; x.Flow == f.Number && !(r.part && d.outside(x.Packet)) {
				d.rungs = append(d.rungs, rung{packet: x.Packet, finding: x})
			}
		}
		slices.SortStableFunc(d.rungs, func(a, b rung) int { return cmp.Compare(a.packet, b.packet) })
		list = append(list, d)
	}
	return list
}

// outside tells whether a packet lies before or behind all steps of the drawing.
func (d *drawing) outside(packet int) bool {
	first, last := d.rungs[0].packet, d.rungs[0].packet
	for _, x := range d.rungs {
		first, last = min(first, x.packet), max(last, x.packet)
	}
	return packet < first || packet > last
}

// beyond says how many steps are not drawn.
func (r *Report) beyond() string {
	if r.last {
		return fmt.Sprintf("%d earlier steps", r.Beyond)
	}
	return fmt.Sprintf("%d more steps", r.Beyond)
}

// column is the place of an end in the drawing.
func (d *drawing) column(end string) int {
	k := slices.Index(d.ends, end)
	if k < 0 {
		k = len(d.ends)
		d.ends = append(d.ends, end)
	}
	return k
}

// span is the arrow of a step: the columns that it joins, and whether it
// points to the right. A step to all goes to the farther edge.
func (d *drawing) span(e *Event) (left, right int, forward bool) {
	from := d.column(e.From)
	to := len(d.ends) - 1
	switch {
	case e.To != "":
		to = d.column(e.To)
	case from > to/2:
		to = 0
	}
	return min(from, to), max(from, to), to > from
}

// Width of a drawing in characters: the margin with packet and time, and
// between two columns.
const (
	margin = 22
	gap    = 40
)

// WriteLadder draws the exchange of each flow in characters.
func (r *Report) WriteLadder(w io.Writer) error {
	p := &printer{w: w}
	for _, d := range r.drawings() {
		p.f("flow %d  %s\n", d.flow.Number, d.flow.Protocol)
		heads := []rune(strings.Repeat(" ", margin+gap*len(d.ends)))
		for k, end := range d.ends {
			copy(heads[margin+gap*k-4:], []rune(end))
		}
		p.f("%s\n", strings.TrimRight(string(heads), " "))
		for _, x := range d.rungs {
			if x.finding != nil {
				p.f("%*s! %s\n", margin, "", x.finding)
				continue
			}
			p.f("%s\n", strings.TrimRight(d.line(x.event), " "))
		}
		p.f("\n")
	}
	if r.Beyond > 0 {
		p.f("%s\n", r.beyond())
	}
	return p.err
}

// line draws one step.
func (d *drawing) line(e *Event) string {
	b := []rune(fmt.Sprintf("%7d %*.6f %s", e.Packet, margin-9, e.Time.Seconds(),
		strings.Repeat(" ", gap*(len(d.ends)-1)+1)))
	for k := range d.ends {
		b[margin+gap*k] = '|'
	}
	left, right, forward := d.span(e)
	for k := margin + gap*left + 1; k < margin+gap*right; k++ {
		b[k] = '-'
	}
	name := " " + e.Name + " "
	if n := gap*max(right-left, 1) - 4; utf8.RuneCountInString(name) > n {
		name = string([]rune(name)[:n])
	}
	if left < right {
		copy(b[margin+gap*left+3:], []rune(name))
	}
	if forward {
		b[margin+gap*right-1] = '>'
	} else if left < right {
		b[margin+gap*left+1] = '<'
	}
	text := string(b)
	if left == right {
		text += " " + e.Name
	}
	return text + " " + e.Detail
}
