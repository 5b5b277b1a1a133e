// Package failure says why a TCP connection or a call of its engine failed.
package failure

import (
	"fmt"
	"net/netip"

	"tapir/wire/enum"
)

// Kind says why a connection or a call failed.
type Kind uint8

const (
	Refused     Kind = iota + 1 // the peer answered the SYN with RST
	Reset                       // the peer reset the connection
	Timeout                     // the peer did not answer any more
	Unreachable                 // ICMP says that the peer cannot be reached
	Aborted                     // this side called Abort
	AddrInUse                   // the address or 4-tuple is taken
	BadAddr                     // an address that cannot be used
	NotQuiet                    // a connection that cannot be taken over now
)

var kindText = [...]string{
	Refused:     "connection refused: nothing listens there",
	Reset:       "connection reset by peer",
	Timeout:     "connection timed out: the peer does not answer",
	Unreachable: "destination unreachable",
	Aborted:     "connection aborted by this side",
	AddrInUse:   "address already in use",
	BadAddr:     "unusable address",
	NotQuiet:    "data is unacknowledged or out of order, or the connection is closing",
}

func (k Kind) String() string {
	return enum.Name(kindText[:], k, "unknown error")
}

// Cause is what a Timeout is the end of.
type Cause uint8

// The causes.
const (
	ErrKeepAlive Cause = iota + 1
	ErrRetries
	ErrUserTimeout
	ErrFinWait2
)

var causeText = [...]string{ErrKeepAlive: "keep-alive probes were not answered",
	ErrRetries: "all retransmissions were in vain", ErrUserTimeout: "the user timeout has passed",
	ErrFinWait2: "the peer does not close its side"}

// Error says it in words.
func (c Cause) Error() string { return enum.Name(causeText[:], c, "cause %d") }

// Err is the cause as an error, nil if there is none.
func (c Cause) Err() error {
	if c == 0 {
		return nil
	}
	return c
}

// Error is the one error type of the TCP engine.
type Error struct {
	Kind          Kind
	Local, Remote netip.AddrPort // Remote is the zero value for a listener
	Err           error          // the cause, if another layer gave one
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Error gives one line: what, and between which addresses.
func (e *Error) Error() string {
	s := fmt.Sprintf("tcp listen %v: %v", e.Local, e.Kind)
	if e.Remote.IsValid() {
		s = fmt.Sprintf("tcp %v -> %v: %v", e.Local, e.Remote, e.Kind)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is an *Error of the same kind; addresses left
// zero in target match any.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind &&
		(!t.Local.IsValid() || t.Local == e.Local) && (!t.Remote.IsValid() || t.Remote == e.Remote)
}
