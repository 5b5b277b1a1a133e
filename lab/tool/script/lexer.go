package script

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

// word is one word of a line with its column, from 1.
type word struct {
	text string
	col  int
}

func (w word) width() int { return len(w.text) }

// items are those of a list in brackets, such as [a, b c].
func (w word) items() iter.Seq[word] {
	return func(yield func(word) bool) {
		col := w.col + 1
		for item := range strings.SplitSeq(w.text[1:len(w.text)-1], ",") {
			at := word{strings.TrimSpace(item), col + len(item) - len(strings.TrimLeft(item, " "))}
			col += len(item) + 1
			if !yield(at) {
				return
			}
		}
	}
}

// line is what is left to read of one line of a script.
type line struct {
	file   string
	number int
	source string
	words  []word
	end    int  // column behind the last word
	iwarp  bool // in a script of the protocol iwarp
	proto  *protocol
}

// brackets are the words that may hold white space, by their first octet.
var brackets = map[byte]byte{'<': '>', '[': ']', '"': '"'}

// split cuts a line into words; what follows # is a comment. A list in <>, []
// or "" is one word; < alone is a direction.
func split(file string, number int, source string) *line {
	l := &line{file: file, number: number, source: source, end: len(source) + 1}
	for i := 0; i < len(source); {
		c := source[i]
		switch {
		case c == ' ' || c == '\t':
			i++
			continue
		case c == '#':
			l.end = i + 1
			return l
		}
		n := strings.IndexAny(source[i:], " \t#")
		if n < 0 {
			n = len(source) - i
		}
		if closing, ok := brackets[c]; ok && (n > 1 || c != '<') {
			n = strings.IndexByte(source[i+1:], closing) + 2
			if n < 2 {
				panic(l.at(word{source[i:], i + 1}, "%c without %c", c, closing))
			}
		}
		l.words = append(l.words, word{source[i : i+n], i + 1})
		i += n
	}
	return l
}

// at is a syntax error at w.
func (l *line) at(w word, format string, args ...any) *Error {
	return &Error{
		File: l.file, Line: l.number, Col: w.col, Width: w.width(), Source: l.source,
		Msg: fmt.Sprintf(format, args...), Syntax: true,
	}
}

func (l *line) done() bool { return len(l.words) == 0 }

// peek is the next word, an empty one at the end.
func (l *line) peek() word {
	if l.done() {
		return word{"", l.end}
	}
	return l.words[0]
}

// next takes the next word; what names it in the error at the end of line.
func (l *line) next(what string) word {
	w := l.peek()
	if l.done() {
		panic(l.at(w, "the line ends; expected %s", what))
	}
	l.words = l.words[1:]
	return w
}

// accept takes the next word if it is text.
func (l *line) accept(text string) bool {
	if l.done() || l.words[0].text != text {
		return false
	}
	l.words = l.words[1:]
	return true
}

// expect takes the next word, which has to be text; what names it and what
// follows it.
func (l *line) expect(text, what string) {
	if !l.accept(text) {
		panic(l.at(l.peek(), "expected %s", what))
	}
}

// finish wants the end of the line.
func (l *line) finish() {
	if l.done() {
		return
	}
	panic(l.at(l.peek(), "%q is too much; expected the end of the line", l.peek().text))
}

// integer takes a number between lo and hi.
func (l *line) integer(what string, lo, hi int64) (int64, word) {
	w := l.next(what)
	n, err := parseInt(w.text, lo, hi)
	if err != nil {
		panic(l.at(w, "%q: expected %s, %v", w.text, what, err))
	}
	return n, w
}

func parseInt(s string, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, fmt.Errorf("a number from %d to %d", lo, hi)
	}
	return n, nil
}

// duration takes a length of time.
func (l *line) duration(what string) (time.Duration, word) {
	w := l.next(what)
	d, err := parseDuration(w.text)
	if err != nil {
		panic(l.at(w, "%q: expected %s, %v", w.text, what, err))
	}
	return d, w
}

// oneOf takes a word that is one of names.
func (l *line) oneOf(what string, names []string) (int, word) {
	w := l.next(what + ": " + strings.Join(names, ", "))
	for i, name := range names {
		if name == w.text {
			return i, w
		}
	}
	panic(l.at(w, "%q: expected %s: %s", w.text, what, strings.Join(names, ", ")))
}

// units of time; a bare number counts seconds.
var units = []struct {
	suffix string
	unit   time.Duration
}{{"ms", time.Millisecond}, {"us", time.Microsecond}, {"s", time.Second}, {"", time.Second}}

// parseDuration reads a decimal number of seconds, or of the unit that follows.
func parseDuration(s string) (time.Duration, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		whole, part, _ := strings.Cut(digits, ".")
		n, err := strconv.ParseUint("0"+whole+part, 10, 63)
		for range part {
			if u.unit%10 != 0 && n%10 != 0 {
				return 0, fmt.Errorf("a time of whole nanoseconds")
			}
			if u.unit%10 == 0 {
				u.unit /= 10
			} else {
				n /= 10
			}
		}
		const longest = uint64(1000 * time.Hour)
		if err != nil || digits == "" || digits == "." || (n > 0 && uint64(u.unit) > longest/n) {
			break
		}
		return time.Duration(n) * u.unit, nil
	}
	return 0, fmt.Errorf("a time such as 1.5 (seconds), 40ms or 250us")
}

// formatTime writes a time as scripts do: in seconds.
func formatTime(d time.Duration) string {
	s := strings.TrimRight(fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second), "0")
	return strings.TrimSuffix(s, ".")
}
