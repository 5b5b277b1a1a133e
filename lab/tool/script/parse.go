package script

import (
	"os"
	"strings"
	"time"

	"tapir/nic/toe"
)

// Script is a script that has been read. It may be run any number of times.
type Script struct {
	Name    string // file name, for errors
	set     settings
	steps   []*step
	given   []string  // settings, by name
	notLive [2]string // why it is not to be run against a Machine
}

// step is one timed line.
type step struct {
	line *line // whole; for errors
	when when
	conn int // number of the connection, from 1
	act  action
}

// action is what a step does. do returns what went wrong, nil if nothing.
type action interface {
	do(r *runner, s *step) *Error
}

// whenKind says how the time of a step is given.
type whenKind uint8

const (
	absolute  whenKind = iota
	relative           // to the step before
	anyTime            // as soon as it happens
	sameBatch          // with the step before, before the NIC answers
)

// when is the time of a step, up to until for a range.
type when struct {
	kind      whenKind
	at, until time.Duration
	word      word
}

// ReadFile reads and parses a script. Errors are *Error or those of os.
func ReadFile(name string) (*Script, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, string(b))
}

// Parse parses the text of a script; name is for errors, which are *Error. The
// functions that parse part of a line panic with their *Error, which Parse
// returns.
func Parse(name, text string) (s *Script, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			s, err = nil, e
		default:
			panic(e)
		}
	}()
	s = &Script{Name: name, set: defaultSettings()}
	for i, source := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		l := split(name, i+1, strings.TrimRight(source, " \t\r"))
		if l.done() {
			for m, words := range [...]string{Linux: "# not live: ", NIC: "# not verbs: "} {
				if why, ok := strings.CutPrefix(strings.TrimSpace(source), words); ok {
					s.notLive[m] = why
				}
			}
			continue
		}
		s.line(l)
	}
	if len(s.steps) == 0 {
		return nil,
			&Error{File: name, Line: 1, Col: 1, Msg: "the script has no step; expected a line such as: 0 listen",
				Syntax: true}
	}
	return s, nil
}

// line parses a setting or a step.
func (s *Script) line(l *line) {
	l.iwarp, l.proto = s.set.iwarp, s.set.proto
	if !strings.Contains("0123456789.+*&", l.peek().text[:1]) {
		if len(s.steps) > 0 {
			panic(l.at(l.peek(), "%q: expected a time; settings stand before the first step", l.peek().text))
		}
		s.given = append(s.given, l.peek().text)
		s.set.parse(l)
		return
	}
	st := &step{conn: 1}
	whole := *l
	st.line = &whole
	st.when = parseWhen(l)
	if st.when.kind == sameBatch && len(s.steps) == 0 {
		panic(l.at(st.when.word, "& has no step before it"))
	}
	if w := l.peek(); strings.HasPrefix(w.text, "@") {
		n, err := parseInt(w.text[1:], 1, maxConns)
		if err != nil {
			panic(l.at(w, "%q: expected the number of a connection behind @, %v", w.text, err))
		}
		st.conn = int(n)
		l.words = l.words[1:]
	}
	st.act = parseAction(l)
	l.finish()
	st.check(l)
	s.steps = append(s.steps, st)
}

// maxConns bounds the connections of one script.
const maxConns = 99

// check refuses times that an action cannot have.
func (st *step) check(l *line) {
	_, out := st.act.(*outbound)
	e, expects := st.act.(*expectation)
	waits := out || expects && e.waits
	switch st.when.kind {
	case anyTime:
		if !waits {
			panic(l.at(st.when.word, "* stands before what is waited for: a packet out, or expect; expected a time"))
		}
	case sameBatch:
		if out {
			panic(
				l.at(st.when.word,
					"& stands before what the script does; a packet out comes after it: expected a time"))
		}
	}
	if st.when.until != st.when.at && !out {
		panic(l.at(st.when.word, "a range of times stands before a packet out only; expected one time"))
	}
}

func parseWhen(l *line) when {
	w := l.next("a time")
	switch w.text {
	case "*":
		return when{kind: anyTime, word: w}
	case "&":
		return when{kind: sameBatch, word: w}
	}
	t := when{word: w}
	text := w.text
	if rest, ok := strings.CutPrefix(text, "+"); ok {
		t.kind, text = relative, rest
	}
	first, last, ranged := strings.Cut(text, "~")
	if !ranged {
		last = first
	}
	var err error
	if t.at, err = parseDuration(first); err == nil {
		t.until, err = parseDuration(last)
	}
	if err != nil || t.until < t.at {
		panic(l.at(w, "%q: expected a time: 1.5 (since the start), +0.2 (since the step before), 1~1.5, * or &",
			w.text))
	}
	return t
}

// parseAction parses what follows the time.
func parseAction(l *line) action {
	all := commands
	switch {
	case l.iwarp:
		all = rdmaCommands
	case l.proto != nil:
		all = l.proto.commands
	}
	w := l.next("< (into the NIC), > (out of the NIC) or a command: " + sortedNames(all))
	switch w.text {
	case "<":
		m := parseMessage(l, false)
		return &inbound{m}
	case ">":
		m := parseMessage(l, true)
		return &outbound{m}
	}
	parse, ok := all[w.text]
	if !ok {
		panic(l.at(w, "%q: expected <, > or a command: %s", w.text, sortedNames(all)))
	}
	return parse(l)
}

// errorKinds are the words of "expect closed".
var errorKinds = map[string]toe.Kind{
	"refused": toe.Refused, "reset": toe.Reset, "timeout": toe.Timeout,
	"unreachable": toe.Unreachable, "aborted": toe.Aborted,
}
