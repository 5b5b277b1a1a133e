package script

import (
	"strings"
	"time"
)

// reader reads what stands behind a word of a line, and sets what it is bound
// to.
type reader func(l *line)

// readers are words with what stands behind them.
type readers map[string]reader

type integer interface {
	~int | ~int8 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// options reads words of the table up to the end of the line. The reader of ""
// takes what begins with none of them, itself included; without it that is an
// error.
func (l *line) options(table readers, expected string) {
	for !l.done() {
		l.option(table, expected)
	}
}

// option reads one word of the table and what stands behind it.
func (l *line) option(table readers, expected string) {
	w := l.peek()
	read := table[w.text]
	switch {
	case read != nil:
		l.next("")
		read(l)
	case table[""] != nil:
		table[""](l)
	default:
		panic(l.at(w, "%q: expected %s", w.text, expected))
	}
}

// sets is a word that stands alone and sets v to value.
func sets[T any](v *T, value T) reader { return func(*line) { *v = value } }

// signed is a decimal number from lo to hi.
func signed[T integer](v *T, what string, lo, hi int64) reader {
	return func(l *line) {
		n, _ := l.integer(what, lo, hi)
		*v = T(n)
	}
}

// unsigned is a number up to hi, decimal or hexadecimal.
func unsigned[T integer](v *T, what string, hi uint64) reader {
	return func(l *line) {
		n, _ := l.unsigned(what, hi)
		*v = T(n)
	}
}

// given is an unsigned number that may be left out: v is nil then.
func given[T integer](v **T, what string, hi uint64) reader {
	return func(l *line) {
		*v = new(T)
		unsigned(*v, what, hi)(l)
	}
}

// symbol is a number of that many bits, or a region if named is set.
func symbol(v *numeral, what string, bits int, named bool) reader {
	return func(l *line) { *v = l.numeral(what, bits, named) }
}

// timed is a length of time.
func timed(v *time.Duration) reader { return func(l *line) { *v, _ = l.duration("a time") } }

// oneOf is one of the words, with commas between them, that stand for 0, 1 and
// so on.
func oneOf[T integer](v *T, what, words string) reader {
	return func(l *line) {
		i, _ := l.oneOf(what, strings.Split(words, ","))
		*v = T(i)
	}
}

// either is one of two words, of which the second stands for true.
func either(v *bool, what, no, yes string) reader {
	return func(l *line) {
		i, _ := l.oneOf(what, []string{no, yes})
		*v = i == 1
	}
}
