package mpa

import "tapir/wire/enum"

// Code is an MPA error number: RFC 5044 section 8 and RFC 6581 section 8.
// In a Terminate message it stands under layer LLP, type 0.
type Code uint8

const (
	// Closed: the TCP connection was closed, terminated or lost.
	Closed Code = 1
	// CRC: the received CRC does not match the FPDU.
	CRC Code = 2
	// Marker: a marker and the ULPDU lengths disagree on an FPDU's start.
	Marker Code = 3
	// Startup: an invalid request or reply frame.
	Startup Code = 4
	// LocalCatastrophic: any local error without a code of its own.
	LocalCatastrophic Code = 5
	// InsufficientIRD: the peer wants more inbound Reads than there are
	// resources for.
	InsufficientIRD Code = 6
	// NoRTR: the two sides share no ready-to-receive indication.
	NoRTR Code = 7
)

var codeNames = [...]string{
	Closed:            "connection lost",
	CRC:               "CRC error",
	Marker:            "marker and length disagree",
	Startup:           "invalid start-up frame",
	LocalCatastrophic: "local catastrophic error",
	InsufficientIRD:   "insufficient IRD resources",
	NoRTR:             "no matching RTR option",
}

// String is the error's description.
func (c Code) String() string {
	return enum.Name(codeNames[:], c, "unknown MPA error")
}

// Error is an error of this layer. errors.Is matches on Code alone, so that
// &Error{Code: CRC} serves as a pattern.
type Error struct {
	Code   Code
	Detail string // what exactly, may be empty
	// Pos is the position in the full operation stream of the FPDU at fault.
	Pos uint64
	// Version tells, with code Startup, that the frame is of a revision that
	// this side does not speak.
	Version bool
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return "mpa: " + e.Code.String()
	}
	return "mpa: " + e.Code.String() + ": " + e.Detail
}

// Is reports whether target is an *Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Rejected is the error of an initiator whose connection the responder's
// upper layer refused (R=1). TCP is still open.
type Rejected struct {
	PrivateData []byte // the upper layer's private data of the reply
	// IRD and ORD are the responder's values when Enhanced is set.
	IRD, ORD uint16
	Enhanced bool
}

func (r *Rejected) Error() string { return "mpa: connection rejected by the peer" }
