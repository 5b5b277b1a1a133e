// Package verbs holds the RDMA objects of a NIC and their rules: protection
// domains, memory regions, completion queues, queue pairs and shared receive
// queues. It knows no transport: work that is posted is handed to a
// Transport, which pulls work requests through an Endpoint per queue pair and
// reports their completion.
//
// A transport works on a send queue in this order:
//
//  1. Endpoint.Posted tells it that there is something to do.
//  2. QP.NextSend returns the oldest request not begun. On the way it does
//     the local operations (fast registration, binding, invalidation) whose
//     turn has come, so the transport calls it only when all octets of the
//     request before are sent or on record. Fences are observed here: nil
//     means that there is nothing to begin now; when a fence opens, Posted
//     is called again.
//  3. QP.Resolve finds and checks this side's memory, SendWQE.Fetch reads it.
//  4. QP.BeginSend takes the request; QP.FinishSend reports its outcome, in
//     any order. Completions, Reads with Invalidate and errors of local
//     operations are verbs' business.
//
// For the peer's requests there are QP.CheckRemote with Region.Place, Fetch,
// Load and Store; QP.NextRecv, RecvWQE.Place and QP.FinishRecv; and
// QP.InvalidateRemote.
//
// A transport that is a Fabric (fabric.go) is one in the manner of InfiniBand:
// queue pairs have types (QPConfig.Type), their owners move them with
// QP.ModifyAttr, and there are address handles (PD.CreateAH), multicast groups
// (QP.AttachMcast) and XRC domains (Context.AllocXRCD). iWARP is none and refuses
// all of these.
//
// The terms are those of the InfiniBand verbs; where iWARP differs (queue
// pair states, STags) the mapping of the Linux RDMA core is used. Nothing
// here locks or starts a goroutine: all calls belong to the NIC's loop.
// Handlers are queued and run by Device.Dispatch; within a handler work may
// be posted, but no object may be destroyed (ErrInCallback); Device.Defer
// runs a function right after the handlers.
package verbs

import "errors"

// Errors of the verbs calls. They are wrapped with the object concerned; test
// with errors.Is.
var (
	ErrInCallback  = errors.New("not allowed from within a callback; use the asynchronous call or Device.Defer")
	ErrBusy        = errors.New("still referenced")
	ErrDestroyed   = errors.New("object was destroyed")
	ErrLimit       = errors.New("device limit reached")
	ErrInvalid     = errors.New("invalid argument")
	ErrState       = errors.New("queue pair state does not allow it")
	ErrQueueFull   = errors.New("queue is full")
	ErrTooManySGE  = errors.New("more scatter/gather elements than the queue pair allows")
	ErrInlineSize  = errors.New("inline data longer than the queue pair allows")
	ErrNoTransport = errors.New("device has no transport")
	ErrPortState   = errors.New("port state does not allow it")
	ErrUnsupported = errors.New("not supported by an RNIC (EOPNOTSUPP)")
	ErrNotStarted  = errors.New("RDMA is not started on the device")
	ErrRemoved     = errors.New("device is gone")
	ErrFirmware    = errors.New("firmware of the device failed")
)
