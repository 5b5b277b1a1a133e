// Package usage tells mistakes on the command line from failures: a program
// that ends because of one has another exit code.
package usage

import (
	"errors"
	"fmt"
	"strings"
)

// mistake is an error that the user's command line made.
type mistake struct{ error }

func (m mistake) Unwrap() error { return m.error }

// Errorf makes a usage error, as fmt.Errorf does.
func Errorf(format string, args ...any) error { return mistake{fmt.Errorf(format, args...)} }

// Wrap makes err a usage error. Wrap of nil is nil.
func Wrap(err error) error {
	if err == nil {
		return nil
	}
	return mistake{err}
}

// Is tells whether err is or wraps a usage error.
func Is(err error) bool { return errors.As(err, &mistake{}) }

// OneLine joins the lines of an error message.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
