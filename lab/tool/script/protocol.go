package script

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tapir/wire/ether"
)

// protocol is a language of scripts besides those of TCP and iWARP: the words
// that it has, and the machine that its scripts run against.
type protocol struct {
	settings func(s *settings) readers
	commands map[string]func(l *line) action
	expects  map[string]expectReader
	messages map[string]*messageKind
	start    func(r *runner) (bench, error)
}

// bench is the machine of such a script.
type bench interface {
	// send lets the peer send m; wrong says why it cannot.
	send(m *fields) (wrong string)
	simulation
}

// messageKind is a kind of message: its fields, in the order of a trace.
type messageKind struct {
	name   string
	fields []fieldSpec
}

// fieldSpec is a field. usual is what it has if a message to the machine does
// not give it; in a message of the machine it need not be stated, unless
// strict: then it must be usual.
type fieldSpec struct {
	name   string
	form   valueForm
	usual  any
	strict bool
	in     bool // of messages to the machine alone
}

// valueForm is how values of a field are written. A flag has none: its name
// stands for true.
type valueForm struct {
	want  string
	parse func(text string) (any, bool)
	text  func(v any) string
}

func numberForm(bits int, hex bool) valueForm {
	return valueForm{
		want: fmt.Sprintf("a number of %d bits", bits),
		parse: func(text string) (any, bool) {
			n, err := parseNumber(text)
			return n, err == nil && (bits == 64 || n>>bits == 0)
		},
		text: func(v any) string {
			if hex {
				return fmt.Sprintf("%#x", v)
			}
			return fmt.Sprint(v)
		},
	}
}

var flagForm = valueForm{}

var macForm = valueForm{
	want:  "an Ethernet address such as 02:00:00:00:00:01",
	parse: func(text string) (any, bool) { a, err := ether.ParseAddr(text); return a, err == nil },
	text:  func(v any) string { return fmt.Sprint(v) },
}

// timeForm is a length of time, which may be negative.
var timeForm = valueForm{
	want: "a time such as 0.5 (seconds), 40ms or -250us",
	parse: func(text string) (any, bool) {
		digits, negative := strings.CutPrefix(text, "-")
		d, err := parseDuration(digits)
		if negative {
			d = -d
		}
		return d, err == nil
	},
	text: func(v any) string {
		d := v.(time.Duration)
		if d < 0 {
			return "-" + formatTime(-d)
		}
		return formatTime(d)
	},
}

// fields is a message as a script writes it: a kind, and fields with values.
type fields struct {
	kind  *messageKind
	given map[string]any // nil: open
	at    map[string]word
	word  word
	out   bool
}

// form takes a word of the form f.
func (l *line) form(f *valueForm) (any, word) {
	w := l.next(f.want)
	v, ok := f.parse(w.text)
	if !ok {
		panic(l.at(w, "%q: expected %s", w.text, f.want))
	}
	return v, w
}

// parseFields reads what follows the name of a kind.
func parseFields(l *line, kind *messageKind, w word, out bool) *fields {
	m := &fields{kind: kind, given: map[string]any{}, at: map[string]word{}, word: w, out: out}
	for !l.done() {
		name := l.next("")
		i := slices.IndexFunc(kind.fields, func(f fieldSpec) bool { return f.name == name.text && !(out && f.in) })
		if i < 0 {
			panic(l.at(name, "%q: expected %s", name.text, kind.words(out)))
		}
		f := &kind.fields[i]
		m.at[f.name] = name
		if f.form.parse == nil {
			m.given[f.name] = true
			continue
		}
		v := l.next(f.form.want)
		m.at[f.name] = word{name.text + " " + v.text, name.col}
		if v.text == "*" {
			if !out {
				panic(l.at(v, "what goes into the NIC is not open; expected %s", f.form.want))
			}
			m.given[f.name] = nil
			continue
		}
		var ok bool
		if m.given[f.name], ok = f.form.parse(v.text); !ok {
			panic(l.at(v, "%q: expected %s: %s", v.text, f.name, f.form.want))
		}
	}
	return m
}

func (k *messageKind) words(out bool) string {
	var names []string
	for _, f := range k.fields {
		if !out || !f.in {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// value is that of a field, given or usual.
func (m *fields) value(name string) any {
	if v, ok := m.given[name]; ok {
		return v
	}
	for _, f := range m.kind.fields {
		if f.name == name {
			return f.usual
		}
	}
	return nil
}

func (m *fields) num(name string) uint64 { n, _ := m.value(name).(uint64); return n }
func (m *fields) flag(name string) bool  { b, _ := m.value(name).(bool); return b }

// text writes the values of a message as a script does.
func (k *messageKind) text(values map[string]any) string {
	t := k.name
	for _, f := range k.fields {
		v, ok := values[f.name]
		switch {
		case !ok:
		case f.form.parse != nil:
			t += " " + f.name + " " + f.form.text(v)
		case v == true:
			t += " " + f.name
		}
	}
	return t
}

// send implements message.
func (m *fields) send(r *runner, _ *peer) (string, *difference) {
	if wrong := r.bench.send(m); wrong != "" {
		return "", &difference{wrong, m.word}
	}
	return m.kind.text(m.given), nil
}

// compare implements message.
func (m *fields) compare(_ *runner, _ *peer, got *packet) (diffs []difference) {
	if got.unit.record != m.kind {
		return []difference{{"message: not " + m.kind.name, m.word}}
	}
	for _, f := range m.kind.fields {
		want, given := m.given[f.name]
		have, known := got.unit.values[f.name]
		at := m.word
		switch {
		case given:
			at = m.at[f.name]
			if want == nil || known && have == want || want == false && !known {
				continue
			}
		case !f.strict || !known || have == f.usual:
			continue
		}
		diffs = append(diffs, difference{f.name, at})
	}
	return diffs
}

// observed queues a message of the machine.
func (r *runner) observed(kind *messageKind, values map[string]any, broken string) {
	u := &unit{text: kind.text(values), record: kind, values: values, broken: broken}
	r.queue = append(r.queue, &packet{at: r.at, peer: r.peer(1), unit: u, broken: broken})
}

// do makes a command of a bench.
func do[B bench](run func(b B) string) action {
	return &command{func(r *runner, _ *peer) string { return run(r.bench.(B)) }}
}

// bare is a command without words behind it.
func bare[B bench](run func(b B)) func(*line) action {
	return simple(func(r *runner, _ *peer) string {
		run(r.bench.(B))
		return ""
	})
}

// numbered is an expectation with a number: what it is now.
func numbered[B bench](now func(b B) uint64) expectReader {
	return func(e *expectation, l *line) {
		n, w := l.unsigned("a number", 1<<63)
		e.mark(w)
		e.holds = func(r *runner, _ *peer) (bool, string) {
			have := now(r.bench.(B))
			return have == n, fmt.Sprint(have)
		}
	}
}

// counted is an expectation with the name of a counter and its value.
func counted[B bench](list func(b B) map[string]uint64) expectReader {
	return func(e *expectation, l *line) {
		name := l.next("the name of a counter")
		n, w := l.unsigned("a number", 1<<63)
		e.mark(word{name.text + " " + w.text, 0})
		e.holds = func(r *runner, _ *peer) (bool, string) {
			have, ok := list(r.bench.(B))[name.text]
			if !ok {
				return false, "no counter is called " + name.text
			}
			return have == n, fmt.Sprintf("%s %d", name.text, have)
		}
	}
}

// quiet is an expectation that everything has been stated: nothing is left.
func quiet(left func(r *runner) string) expectReader {
	return func(e *expectation, _ *line) {
		e.waits = false
		e.holds = func(r *runner, _ *peer) (bool, string) {
			have := left(r)
			return have == "", have
		}
	}
}

func unclaimed(r *runner) string { return r.bench.unclaimed() }

// parseMessage reads a message of the protocol.
func (p *protocol) parseMessage(l *line, out bool) message {
	w := l.next("a message: " + sortedNames(p.messages))
	kind := p.messages[w.text]
	if kind == nil {
		panic(l.at(w, "%q: expected a message: %s", w.text, sortedNames(p.messages)))
	}
	return parseFields(l, kind, w, out)
}
