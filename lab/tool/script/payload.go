package script

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// payload is octets as an iWARP script writes them:
//
//	len 100           a pattern that goes by the position in message or region
//	len 100 fill 3    another one
//	len 100 from buf  what the region buf holds
//	len 100 any       whatever it is (in what comes out only)
//	hex 00ff          these
//	text "hello"      and these
//	hidden            the FPDUs marked so before (in what goes in only)
type payload struct {
	n      int
	fill   uint64
	from   *numeral
	any    bool
	raw    []byte
	hidden bool
	word   word
}

// payloads is several of them, one behind the other.
type payloads []payload

// add reads another one, whose first word is w.
func (d *payloads) add(l *line, w word, out bool) {
	var p payload
	p.parse(l, w, out)
	*d = append(*d, p)
}

// of are the octets in a message of connection e; pos is the position of the
// first one.
func (d payloads) of(e *endpoint, pos uint64) (b []byte, wrong *difference) {
	for i := range d {
		more, wrong := d[i].of(e, pos+uint64(len(b)))
		if wrong != nil {
			return nil, wrong
		}
		b = append(b, more...)
	}
	return b, nil
}

// differs says which of them is not what is found in b, and how.
func (d payloads) differs(w *world, b []byte, pos uint64, at word) *difference {
	n := 0
	for i := range d {
		n += d[i].n
		at = d[i].word
	}
	if len(b) != n {
		return &difference{fmt.Sprintf("length: %d octets", len(b)), at}
	}
	for i := range d {
		if bad := d[i].differs(w, b[:d[i].n], pos); bad != "" {
			return &difference{bad, d[i].word}
		}
		b, pos = b[d[i].n:], pos+uint64(d[i].n)
	}
	return nil
}

// maxPayload is the most that one message of a script may hold.
const maxPayload = 1 << 24

const payloadForms = "len N, hex DIGITS, text \"...\" or hidden"

// payloadWords begin a payload.
var payloadWords = map[string]bool{"len": true, "hex": true, "text": true, "hidden": true}

// read reads a payload that holds what is named.
func (d *payload) read(l *line, what string, out bool) {
	w := l.next(what + ": " + payloadForms)
	if !payloadWords[w.text] {
		panic(l.at(w, "%q: expected %s: %s", w.text, what, payloadForms))
	}
	d.parse(l, w, out)
}

// reader is read as a reader.
func (d *payload) reader(what string, out bool) reader {
	return func(l *line) { d.read(l, what, out) }
}

// parse reads a payload whose first word is w.
func (d *payload) parse(l *line, w word, out bool) {
	d.word = w
	if w.text == "hidden" {
		d.hidden = true
		if out {
			panic(l.at(w, "the payload of the NIC's output must be stated; expected %s", payloadForms))
		}
		return
	}
	if w.text != "len" {
		d.parseRaw(l, w)
		return
	}
	n, nw := l.integer("a number of octets", 0, maxPayload)
	d.n, d.word = int(n), word{w.text + " " + nw.text, w.col}
	switch {
	case l.accept("fill"):
		d.fill, _ = l.unsigned("the number of a pattern", 1<<32-1)
	case l.accept("from"):
		e := l.numeral("a region", 64, true)
		if e.name == "" {
			panic(l.at(e.word, "%q: expected a region such as buf or buf+100", e.word.text))
		}
		d.from = &e
	case out && l.accept("any"):
		d.any = true
	}
}

func (d *payload) parseRaw(l *line, w word) {
	v := l.next("octets behind " + w.text)
	if w.text == "hex" {
		var err error
		if d.raw, err = hex.DecodeString(v.text); err != nil {
			panic(l.at(v, "%q: expected an even number of hexadecimal digits", v.text))
		}
	} else {
		d.raw = quoted(l, v)
	}
	d.n, d.word = len(d.raw), v
}

// quoted is the text of a word in "".
func quoted(l *line, w word) []byte {
	s, ok := strings.CutPrefix(w.text, `"`)
	if !ok || !strings.HasSuffix(s, `"`) {
		panic(l.at(w, "%q: expected a text in \"\"", w.text))
	}
	return []byte(s[:len(s)-1])
}

// unsigned takes a number up to hi, decimal or hexadecimal.
func (l *line) unsigned(what string, hi uint64) (uint64, word) {
	w := l.next(what)
	n, err := parseNumber(w.text)
	if err != nil || n > hi {
		panic(l.at(w, "%q: expected %s, a number from 0 to %d", w.text, what, hi))
	}
	return n, w
}

// of is bytes for a message of connection e.
func (d *payload) of(e *endpoint, pos uint64) ([]byte, *difference) {
	if !d.hidden {
		return d.bytes(e.w, pos)
	}
	if len(e.hidden) == 0 {
		return nil, &difference{"nothing is hidden; expected a message with [hidden] before", d.word}
	}
	e.shown = true
	return e.hidden, nil
}

// bytes are the octets; pos is the position of the first one.
func (d *payload) bytes(w *world, pos uint64) ([]byte, *difference) {
	if d.raw != nil {
		return d.raw, nil
	}
	b := make([]byte, d.n)
	if d.from == nil {
		pattern(b, d.fill<<1|1, int64(pos))
		return b, nil
	}
	g, wrong := d.from.region(w)
	if wrong != nil {
		return nil, wrong
	}
	off := d.from.apply(0)
	if have := uint64(len(g.expected())); off > have || uint64(d.n) > have-off {
		return nil, &difference{fmt.Sprintf("region %s has %d octets only", g.name, have), d.from.word}
	}
	copy(b, g.expected()[off:])
	return b, nil
}

// differs says how b is not what the script says, "" if it is.
func (d *payload) differs(w *world, b []byte, pos uint64) string {
	if len(b) != d.n {
		return fmt.Sprintf("length: %d octets", len(b))
	}
	if d.any {
		return ""
	}
	want, wrong := d.bytes(w, pos)
	if wrong != nil {
		return wrong.name
	}
	for i := range b {
		if b[i] != want[i] {
			return fmt.Sprintf("payload: octet %d is %#02x", i, b[i])
		}
	}
	return ""
}

// octetsText writes octets as a script may.
func octetsText(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > 16 {
		return fmt.Sprintf(" len %d", len(b))
	}
	for _, c := range b {
		if c < ' ' || c > '~' || c == '"' {
			return " hex " + hex.EncodeToString(b)
		}
	}
	return ` text "` + string(b) + `"`
}
