package script

import (
	"fmt"
	"strings"
)

// Error is a script that cannot be read or that failed. Its text is the
// position, what is wrong, the line of the script with carets below the place
// in question, and what the NIC did instead.
type Error struct {
	File      string
	Line, Col int    // from 1; columns count octets
	Width     int    // octets marked from Col on
	Source    string // the line
	Msg       string // what is wrong, and what was expected
	Got       string // what came instead, empty if nothing did
	Syntax    bool   // the script cannot be read, so nothing was run
}

// Error gives the whole report, without a final newline.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
	if e.Source != "" {
		number := fmt.Sprint(e.Line)
		fmt.Fprintf(&b, "\n  %s | %s", number, e.Source)
		fmt.Fprintf(&b, "\n  %*s | %s%s", len(number), "", blank(e.Source, e.Col-1),
			strings.Repeat("^", max(1, e.Width)))
	}
	if e.Got != "" {
		fmt.Fprintf(&b, "\n  got: %s", e.Got)
	}
	return b.String()
}

// blank is white space as wide as the first n octets of s.
func blank(s string, n int) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, s[:min(n, len(s))])
}
