package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// Write writes the result into dir, which is made if it is not there:
// result.json, junit.xml and report.html.
func Write(dir string, r *Result) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return errors.Join(
		WriteFile(filepath.Join(dir, "result.json"), func(w io.Writer) error { return writeJSON(w, r) }),
		WriteFile(filepath.Join(dir, "junit.xml"), func(w io.Writer) error { return JUnit(w, r) }),
		WriteFile(filepath.Join(dir, "report.html"), func(w io.Writer) error { return r.page(w, dir) }),
	)
}

// WriteFile makes the file of that name with what write writes.
func WriteFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// JSON writes results as a list.
func JSON(w io.Writer, all ...*Result) error { return writeJSON(w, all) }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// clipMost is how much of a program's output stands in documents for people;
// result.json has all of it.
const clipMost = 64 << 10

// escape is a control sequence of terminals, such as for colors (ECMA-48).
var escape = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// clip is text that may stand in a document: of a long one the beginning and the
// end, without what is meant for terminals.
func clip(text string) string {
	if n := len(text); n > clipMost {
		text = fmt.Sprintf("%s\n[... %d octets are left out ...]\n%s", text[:clipMost/2], n-clipMost,
			text[n-clipMost/2:])
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\r':
			return -1
		case unicode.IsControl(c) && c != '\n' && c != '\t', c == 0xfffe, c == 0xffff:
			return unicode.ReplacementChar
		}
		return c
	}, strings.ToValidUTF8(escape.ReplaceAllString(text, ""), string(unicode.ReplacementChar)))
}
