package script

import (
	"strings"
	"time"

	"tapir/wire/frame"
)

// message is one thing that crosses the wire, as a script writes it.
type message interface {
	// send lets the peer of connection p send it to the NIC. The text says
	// what was sent, for a trace; wrong, if not nil, why it cannot be.
	send(r *runner, p *peer) (text string, wrong *difference)
	// compare says how what the NIC has sent differs from the message: the
	// words of the script that are not fulfilled, empty if it is the same.
	compare(r *runner, p *peer, got *packet) []difference
}

// difference is one field of a message that is not as the script says.
type difference struct {
	name string
	at   word
}

// differences are those of a message.
type differences []difference

// add notes a difference if something is bad.
func (d *differences) add(bad bool, name string, at word) {
	if bad {
		*d = append(*d, difference{name, at})
	}
}

// grammar parses one kind of message. out tells whether the NIC sends it.
type grammar func(l *line, out bool) message

// grammars are the kinds of messages by their first word. Whatever begins
// with no such word is a TCP segment.
var grammars = map[string]grammar{
	"icmp": parseICMP,
}

func parseMessage(l *line, out bool) message {
	if l.proto != nil {
		return l.proto.parseMessage(l, out)
	}
	if l.iwarp && rdmaMessage(l) {
		return parseRDMA(l, out)
	}
	if g, ok := grammars[l.peek().text]; ok {
		l.words = l.words[1:]
		return g(l, out)
	}
	return parseSegment(l, out)
}

// inbound is a step in which the peer sends.
type inbound struct{ m message }

func (a *inbound) do(r *runner, s *step) *Error {
	text, wrong := a.m.send(r, r.peer(s.conn))
	if wrong != nil {
		return r.fail(s, wrong.at, wrong.name, "")
	}
	if text != "" {
		r.tracef("<", text, r.at)
	}
	return nil
}

// outbound is a step in which the NIC must send.
type outbound struct{ m message }

func (a *outbound) do(r *runner, s *step) *Error {
	from, until := r.window(s)
	got := r.await(until)
	if got == nil {
		return r.fail(s, s.when.word, "missing: the NIC has sent nothing until "+formatTime(until),
			r.idle(r.peer(s.conn)))
	}
	text := formatTime(got.at) + " > " + got.text()
	if got.peer == nil {
		return r.fail(s, s.when.word, "unexpected: "+got.broken, text)
	}
	want := r.peer(s.conn)
	if got.peer != want {
		return r.fail(s, s.when.word, "another connection has sent", text)
	}
	diffs := differences(a.m.compare(r, want, got))
	diffs.add(got.broken != "", got.broken, s.when.word)
	if len(diffs) == 0 {
		diffs.add(got.at < from, "time: too early", s.when.word)
		diffs.add(got.at > until, "time: too late", s.when.word)
	}
	if r.live != nil {
		diffs = r.live.tolerate(diffs, got)
	}
	if len(diffs) > 0 {
		return r.fail(s, diffs[0].at, "wrong "+names(diffs), text)
	}
	if r.world == nil {
		r.tracef(">", got.text(), got.at)
	}
	r.ref = got.at
	return nil
}

// idle says why nothing comes: the state of connection p and the next timer.
func (r *runner) idle(p *peer) string {
	if r.live != nil {
		return ""
	}
	text := "nothing"
	if r.bench == nil {
		text += "; state " + r.state(p).String()
	}
	if next := r.poll(); next != frame.Never {
		return text + ", the next timer runs at " + formatTime(time.Duration(next-epoch))
	}
	return text + ", no timer runs"
}

func names(diffs []difference) string {
	var all []string
	for _, d := range diffs {
		all = append(all, d.name)
	}
	return strings.Join(all, ", ")
}

// farAway is how long * waits.
const farAway = 3 * time.Hour
