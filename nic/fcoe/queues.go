package fcoe

import (
	"tapir/wire/drop"
	"tapir/wire/enum"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/frame"
)

// Queues are those between a node and the hardware that has its sessions.
type Queues interface {
	// Post puts a sequence of a session into its send queue, false: that is full. Fetch takes
	// the oldest one out, as it begins to leave.
	Post(handle int) bool
	Fetch(handle int)
	// Complete puts a frame into a completion queue, and its payload, borrowed, into a buffer if
	// there is one for it. take gets them at once or later, but not after Terminate. With a
	// reason there is no room for the frame.
	Complete(handle int, h *fc.Header, payload []byte,
		take func(h *fc.Header, payload []byte, now frame.Time), now frame.Time) frame.DropReason
	// Violation tells of an error in what the other port has sent, or has not.
	Violation(handle int, e Error)
}

// Post, Fetch, Complete and Violation implement Queues.
func (Unlimited) Post(int) bool { return true }
func (Unlimited) Fetch(int)     {}
func (Unlimited) Complete(_ int, h *fc.Header, payload []byte,
	take func(*fc.Header, []byte, frame.Time), now frame.Time) frame.DropReason {
	take(h, payload, now)
	return frame.DropNone
}
func (Unlimited) Violation(int, Error) {}

// Error is what a session has met.
type Error uint8

// Errors: those of FCP_XFER_RDY, of FCP_RSP and of data come to initiators, those of commands and
// bursts to targets.
const (
	NoError Error = iota
	ErrTransferLength
	ErrTransferBurst
	ErrTransferOffset
	ErrTransferRange
	ErrTransferNotWrite
	ErrTransferPending
	ErrResponseLength
	ErrResponsePending
	ErrResponseLost
	ErrResponseData
	ErrDataNotRead
	ErrDataOffset
	ErrDataRange
	ErrDataSize
	ErrFrameType
	ErrTimeout
	ErrAbortTimeout
	ErrAbortRejected
	ErrCommandLength
	ErrBurstCount
	ErrBurstOffset
	ErrBurstRange
	ErrBurstShort
	ErrBurstTimeout
	NumErrors
)

var errorNames = [NumErrors]string{"no error", "XFER_RDY: length of the payload", "XFER_RDY: no octets",
	"XFER_RDY: not where the last burst has ended", "XFER_RDY: beyond the data", "XFER_RDY: the command does not write",
	"XFER_RDY: the last burst is not sent", "FCP_RSP: length of the payload", "FCP_RSP: the burst is not sent",
	"FCP_RSP: the target has lost data", "FCP_RSP: data of the read is missing", "data: the command does not read",
	"data: relative offset", "data: beyond the buffer", "data: longer than a frame may be", "frame of another type",
	"E_D_TOV has passed", "ABTS: no answer", "ABTS: rejected", "FCP_CMND: length of the payload",
	"burst: sequence count", "burst: relative offset", "burst: beyond what was asked for", "burst: it ends early",
	"burst: R_A_TOV has passed"}

// String says what is wrong.
func (e Error) String() string { return enum.Name(errorNames[:], e, "Error(%d)") }

// violation tells the hardware of an error of the session.
func (r *Remote) violation(e Error) { r.p.n.env.Sessions.Violation(r.handle, e) }

// post sends a frame that is not data, and as some do begins a sequence of the send queue; done:
// with it a task ends.
func (r *Remote) post(h fc.Header, payload []byte, posted, done bool) {
	n := r.p.n
	if posted && !n.env.Sessions.Post(r.handle) {
		n.stats[TxQueueFull]++
		n.left(&packet{done: done, handle: r.handle})
		return
	}
	n.env.Sessions.Traffic(r.handle, h.RCtl, len(payload), true)
	n.count(&h, len(payload), true)
	n.queue(packet{r.p.header(r.mac), fcoe.Append(nil, h, payload), posted, done, r.handle})
}

// left tells the hardware that a packet leaves.
func (n *Node) left(p *packet) {
	if p.posted {
		n.env.Sessions.Fetch(p.handle)
	}
	if p.done {
		n.env.Sessions.Done(p.handle)
		n.wakeSleeping()
	}
}

// complete has the node hear of a frame of the session through a completion queue.
func (r *Remote) complete(h *fc.Header, payload []byte, now frame.Time) frame.DropReason {
	return r.p.n.env.Sessions.Complete(r.handle, h, payload, r.p.take, now)
}

// took takes a frame out of a completion queue.
func (p *Port) took(h *fc.Header, payload []byte, now frame.Time) {
	why := frame.DropNone
	if r := p.remote(h.S); r == nil {
		why = drop.FCLogin
	} else if h.FCtl&fc.FromResponder == 0 {
		why = r.took(h, payload, now)
	} else if x := p.n.exchanges[h.OXID]; x != nil && x.request != nil && x.request.r == r {
		x.request.took(h, payload, now)
	}
	if why != frame.DropNone {
		p.n.dropped(why)
	}
}
