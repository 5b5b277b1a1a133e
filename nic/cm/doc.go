// Package cm is the connection manager of a NIC: connection ids, listeners,
// their events and states. It knows no transport; a Transport makes the
// connections and reports what becomes of them.
//
// Events reach an ID's handler through the device's dispatch queue, in the
// order of their occurrence and in order with completions:
//
//	active   [ConnectResponse,] ActiveComplete | Rejected | Refused | TimedOut | Unreachable | Failed
//	passive  ConnectRequest, then PassiveComplete | Failed
//	both     Disconnected (after a completion), Closed (always last)
//
// Pause and Remove add ListenPaused and DeviceRemoved. A Log keeps the latest
// events under the names that the transport gives them (Words), together with the
// errors that end connections.
package cm

import "errors"

// Errors of the calls of this package, wrapped with the id concerned.
var (
	ErrState       = errors.New("id state does not allow it")
	ErrInvalid     = errors.New("invalid argument")
	ErrBusy        = errors.New("connection still open; disconnect first")
	ErrInCallback  = errors.New("not allowed from within a callback; use Device.Defer")
	ErrRemoved     = errors.New("the NIC is being removed")
	ErrNoResources = errors.New("no resources left for a connection")
	ErrNoDevice    = errors.New("the interface offers no RDMA")
	ErrAddrInUse   = errors.New("address in use")
	ErrNoTransport = errors.New("connection manager has no transport")
)

// Errors that an event carries when a connection fails.
var (
	ErrRejected    = errors.New("connection rejected by the peer's application")
	ErrRefused     = errors.New("connection refused: nothing listens there")
	ErrTimedOut    = errors.New("connection timed out")
	ErrUnreachable = errors.New("peer unreachable")
	ErrReset       = errors.New("connection reset by peer")
	ErrClosing     = errors.New("connection closed before it was established")
	ErrAborted     = errors.New("connection aborted by this side")
)
