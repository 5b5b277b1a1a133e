package virtual

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tapir/lab/tool/inspect"
	"tapir/nic/msglog"
	"tapir/wire/frame"
	"tapir/wire/pcapng"
)

// Event is what happens to one node at one moment, as far as there is something
// to say about it.
type Event struct {
	Number int // from 1
	At     time.Duration
	Lines  []Line // in the order in which they come to pass
}

// Line is one thing that an Event is made of.
type Line struct {
	Node string
	// Topic is one of a NIC's log, or "sends" or "gets" of a frame.
	Topic string
	Text  string
}

// String is the event as people read it: a line for each thing, the last one
// without its end.
func (e *Event) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "event %d at %.9f", e.Number, e.At.Seconds())
	for _, x := range e.Lines {
		fmt.Fprintf(&s, "\n  %-8s %-5s  %s", x.Node, x.Topic, x.Text)
	}
	return s.String()
}

// eventLog are the topics that events have.
const eventLog = msglog.CM | msglog.MPA | msglog.TX | msglog.RX | msglog.Errors | msglog.Drop | msglog.MM | msglog.WR |
	msglog.Data

// stepper collects the lines of events. It only watches: a lab runs the same way
// without it.
type stepper struct {
	lab   *lab
	event Event
	over  bool // Step returned an error: the lab closes without it
}

// say adds a line to the current event.
func (s *stepper) say(node, topic, text string) {
	s.event.Lines = append(s.event.Lines, Line{node, topic, text})
}

// tell passes the current event on, if it has lines.
func (s *stepper) tell(ctx context.Context) error {
	if len(s.event.Lines) == 0 || s.over {
		return nil
	}
	s.event.Number++
	s.event.At = s.lab.Now()
	err := s.lab.opt.Step(ctx, &s.event)
	s.event.Lines, s.over = s.event.Lines[:0], err != nil
	return err
}

// advance takes the world's next event. Lines since the last one, such as those of
// what a step posts, are a separate event.
func (l *lab) advance(ctx context.Context) error {
	if l.steps == nil {
		l.world.Step()
		return nil
	}
	if err := l.steps.tell(ctx); err != nil {
		return err
	}
	l.world.Step()
	return l.steps.tell(ctx)
}

// watch has the stepper see the link's frames.
func (k *link) watch() {
	k.reader = inspect.New(inspect.Options{Tell: func(e inspect.Event) {
		k.message += "; " + e.Name
		if e.Detail != "" {
			k.message += ", " + e.Detail
		}
	}})
}

// show tells the stepper of a frame that enters the link or leaves it.
func (k *link) show(r *frame.Record) {
	node := k.ends[r.Port].node.Name
	text := fmt.Sprintf("packet %d on %s", r.ID, k.Name)
	if r.Dir == frame.Inbound {
		k.lab.steps.say(node, "gets", text)
		return
	}
	k.message = ""
	_ = k.parts.Split(r.Offload, r.Data, func(b []byte) { // what cannot be split has no message
		k.reader.Packet(&inspect.Packet{Number: int(r.ID), Time: int64(r.System), Link: pcapng.LinkEthernet, Data: b,
			OrigLen: len(b)})
	})
	text += ": " + frameText(r.Data) + k.message
	if note := r.Text(); note != "" {
		text += "; " + note
	}
	k.lab.steps.say(node, "sends", text)
}

// listen has the NIC tell its log's lines to the capture and the stepper.
func (n *node) listen() {
	var topics msglog.Topic
	if n.said != nil {
		topics = nodeLog
	}
	if n.lab.steps != nil {
		topics |= eventLog
	}
	n.dev.Log().Listen(topics, func(t msglog.Topic, at frame.Time, text []byte) {
		if n.said != nil && t&nodeLog != 0 {
			n.said.Say(&pcapng.Journal{Stamp: int64(n.dev.System(at)), Host: n.Name, Topic: t.String(), Message: text})
		}
		if n.lab.steps != nil {
			n.lab.steps.say(n.Name, t.String(), string(text))
		}
	})
}
