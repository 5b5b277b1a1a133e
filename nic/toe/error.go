package toe

import "tapir/nic/toe/failure"

// Error is the one error type of this package, Kind why a connection or a call failed.
type (
	Error = failure.Error
	Kind  = failure.Kind
)

// What a Timeout is the end of.
const (
	ErrKeepAlive   = failure.ErrKeepAlive
	ErrRetries     = failure.ErrRetries
	ErrUserTimeout = failure.ErrUserTimeout
	ErrFinWait2    = failure.ErrFinWait2
)

// The kinds.
const (
	Refused     = failure.Refused
	Reset       = failure.Reset
	Timeout     = failure.Timeout
	Unreachable = failure.Unreachable
	Aborted     = failure.Aborted
	AddrInUse   = failure.AddrInUse
	BadAddr     = failure.BadAddr
	NotQuiet    = failure.NotQuiet
)
