// Package status has the status codes of the driver core: the ecore_status of
// FastLinQ. Every call of the device model ends with one of them; nil is
// SUCCESS, any other error says its code through Of.
package status

import (
	"errors"
	"fmt"
	"strings"
)

// Code is a status of the driver core. Its values are those of ecore.
type Code int8

// The codes.
const (
	Success      Code = 0
	Pending      Code = 1
	NoMem        Code = -1
	Busy         Code = -2
	Inval        Code = -3
	Timeout      Code = -4
	IO           Code = -5
	Exists       Code = -6
	NotImpl      Code = -7
	Again        Code = -8
	Aborted      Code = -9
	NoDev        Code = -10
	NoResources  Code = -11
	UnknownError Code = -12
	ConnReset    Code = -13
	ConnRefused  Code = -14
	NoEnt        Code = -15
)

var names = [...]string{
	"SUCCESS", "NOMEM", "BUSY", "INVAL", "TIMEOUT", "IO", "EXISTS", "NOTIMPL", "AGAIN", "ABORTED",
	"NODEV", "NORESOURCES", "UNKNOWN_ERROR", "CONN_RESET", "CONN_REFUSED", "NOENT",
}

// String is the name of ecore's constant, without its prefix.
func (c Code) String() string {
	switch {
	case c == Pending:
		return "PENDING"
	case c <= 0 && int(-c) < len(names):
		return names[-c]
	}
	return fmt.Sprintf("Code(%d)", int8(c))
}

// Error makes a code an error of its own.
func (c Code) Error() string { return c.String() }

// coded is an error with a text of its own.
type coded struct {
	code Code
	text string
}

func (e *coded) Error() string { return e.text + ": " + e.code.String() }
func (e *coded) Unwrap() error { return e.code }

// Errorf is an error with a code, which its text ends with, once, whatever the
// arguments end with: "queue 9 of 8: INVAL".
func (c Code) Errorf(format string, args ...any) error {
	return &coded{c, strings.TrimSuffix(fmt.Sprintf(format, args...), ": "+c.String())}
}

// Of is the code of an error: SUCCESS for nil, UNKNOWN_ERROR for one that has
// none.
func Of(err error) Code {
	var c Code
	switch {
	case err == nil:
		return Success
	case errors.As(err, &c):
		return c
	}
	return UnknownError
}
