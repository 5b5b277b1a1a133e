package ideal

import (
	"tapir/nic/hardware"
	"tapir/nic/pacing"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// queueFrames bounds the frames that wait for a link.
const queueFrames = 256

// host is the operating system's interface with one queue each way, which Poll
// empties. Frames pass as they are.
type host struct {
	nic    hardware.NIC
	rx, tx []*frame.Frame
}

// FromWire implements hostfn.Function.
func (h *host) FromWire(f *frame.Frame) {
	f.Queue = 0
	h.rx = h.add(h.rx, frame.Host, drop.HostQueue, f)
}

// FromHost implements hostfn.Function.
func (h *host) FromHost(f *frame.Frame) { h.tx = h.add(h.tx, frame.Wire, drop.TxQueue, f) }

// add appends f to a queue; one that is full drops it.
func (h *host) add(q []*frame.Frame, to frame.Port, full frame.DropReason, f *frame.Frame) []*frame.Frame {
	if len(q) == queueFrames {
		h.nic.Drop(to, f, full)
		return q
	}
	return append(q, f)
}

// Diverts implements hostfn.Function.
func (h *host) Diverts(*frame.Frame) bool { return false }

// Poll implements hostfn.Function.
func (h *host) Poll(frame.Time) frame.Time {
	h.tx = pass(h.tx, h.nic.WireRoom(), h.nic.ToWire)
	h.rx = pass(h.rx, h.nic.HostRoom(), h.nic.ToHost)
	return frame.Never
}

// pass hands on the first frames of a queue for which there is room, and returns
// the others.
func pass(q []*frame.Frame, room int, to func(*frame.Frame)) []*frame.Frame {
	n := min(len(q), max(0, room))
	for _, f := range q[:n] {
		to(f)
	}
	kept := copy(q, q[n:])
	clear(q[kept:])
	return q[:kept]
}

// Due implements hostfn.Function.
func (h *host) Due() bool { return len(h.rx) > 0 && h.nic.HostRoom() > 0 }

// Fill implements hostfn.Function: an ideal port has nobody to agree with on pause.
func (h *host) Fill() int { return 0 }

// Buffers implements hostfn.Function.
func (h *host) Buffers() *pacing.Buffers { return nil }

// Waiting implements hostfn.Function.
func (h *host) Waiting() int { return len(h.rx) + len(h.tx) }
