package script

import (
	"fmt"
	"strconv"
	"strings"
)

// numeral is a number of an iWARP script: 5, 0x1000, or what a region of the
// NIC is called by, with something added or changed in it: buf, buf+100,
// buf-1, buf^1. * leaves it open.
type numeral struct {
	name string
	op   byte // '+', '-' or '^', 0 if there is no operand
	n    uint64
	any  bool
	word word
}

const numberForms = "a number such as 5 or 0x1f, a region such as buf, buf+100, buf-8 or buf^1"

func parseNumber(text string) (uint64, error) {
	return strconv.ParseUint(text, 0, 64)
}

// numeral takes a number of up to bits bits, or a region if named is set.
func (l *line) numeral(what string, bits int, named bool) numeral {
	w := l.next(what)
	e := numeral{word: w}
	var err error
	if w.text == "*" {
		e.any = true
		return e
	}
	if !named || w.text[0] >= '0' && w.text[0] <= '9' {
		e.n, err = parseNumber(w.text)
		if err != nil || bits < 64 && e.n>>bits != 0 {
			panic(l.at(w, "%q: expected %s: a number of %d bits, decimal or 0x and hexadecimal digits", w.text, what,
				bits))
		}
		return e
	}
	e.name = w.text
	if i := strings.IndexAny(w.text, "+-^"); i > 0 {
		e.name, e.op = w.text[:i], w.text[i]
		if e.n, err = parseNumber(w.text[i+1:]); err != nil {
			panic(l.at(w, "%q: expected %s: %s", w.text, what, numberForms))
		}
	}
	if !isName(e.name) {
		panic(l.at(w, "%q: expected %s: %s", w.text, what, numberForms))
	}
	return e
}

// isName tells whether s may name a region.
func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

func (e *numeral) apply(base uint64) uint64 {
	switch e.op {
	case '+':
		return base + e.n
	case '-':
		return base - e.n
	case '^':
		return base ^ e.n
	}
	return base
}

// region finds the region that e names, nil if it names none.
func (e *numeral) region(w *world) (*region, *difference) {
	if e.name == "" {
		return nil, nil
	}
	g := w.find(e.name)
	if g == nil {
		return nil, &difference{fmt.Sprintf("no region is called %q; expected an mr line before", e.name), e.word}
	}
	return g, nil
}

// stag is e as an STag, to as a tagged offset.
func (e *numeral) stag(w *world) (uint64, *difference) {
	g, wrong := e.region(w)
	if g == nil {
		return e.n, wrong
	}
	return uint64(uint32(e.apply(uint64(g.mr.RKey())))), nil
}

func (e *numeral) to(w *world) (uint64, *difference) {
	g, wrong := e.region(w)
	if g == nil {
		return e.n, wrong
	}
	return e.apply(g.mr.Addr()), nil
}
