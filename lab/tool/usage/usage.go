// Package usage tells mistakes on the command line from failures: a program
// that ends because of one has another exit code.
package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
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

// ExitCode is the exit code of a program that has said why it failed.
type ExitCode int

// Exit codes of a program that could not be executed, as of env(1).
const (
	notExecutable ExitCode = 126
	notFound      ExitCode = 127
)

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Exit is the error of an exit code: nil for 0.
func Exit(code int) error {
	if code == 0 {
		return nil
	}
	return ExitCode(code)
}

// Coded is an error with an exit code of its own.
type Coded struct {
	error
	Code ExitCode
}

func (c Coded) Unwrap() error { return c.error }

// Unexecutable gives err, with which a program could not be started, the exit
// code that env(1) would have.
func Unexecutable(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return Coded{err, notFound}
	}
	return Coded{err, notExecutable}
}
