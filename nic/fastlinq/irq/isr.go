package irq

import (
	"math/bits"

	"tapir/wire/frame"
)

// Handle has fn consume what is behind the indices of sb whenever it has
// changed, in every mode: between, the line is disabled, and what came
// meanwhile interrupts again. nil: nobody does.
func (sb *SB) Handle(fn func(sb *SB, now frame.Time)) { sb.handler = fn }

// Service is the interrupt service routine of the operating system for every
// mode: it finds out whom a vector means and has it consume. The slowpath of a
// hwfn runs the handlers of attentions and those of RegisterCB.
func (d *Device) Service(v int, now frame.Time) {
	d.now = now
	if d.mode == MSIX {
		n := len(d.Hwfns)
		d.serve(d.Hwfns[v%n], v/n)
		return
	}
	for _, h := range d.Hwfns {
		for left := h.ReadSISR(); left != 0; left &= left - 1 {
			d.serve(h, bits.TrailingZeros64(left))
		}
	}
}

func (d *Device) serve(h *Hwfn, vector int) {
	if vector == 0 {
		h.slowpath(d.now)
		return
	}
	var sb *SB
	if at := h.byVector[vector]; at >= 0 {
		sb = h.sbs[at]
	}
	if sb == nil || sb.handler == nil {
		d.unhandled++
		return
	}
	sb.Ack(Disable, false, d.now)
	if sb.UpdateIdx() {
		sb.handler(sb, d.now)
	}
	sb.Ack(Enable, true, d.now)
}

// slowpath is the deferred procedure of vector 0 (ecore_int_sp_dpc).
func (h *Hwfn) slowpath(now frame.Time) {
	h.sp.Ack(Disable, false, now)
	h.attentions(now)
	if h.sp.UpdateIdx() {
		for pi, fn := range h.cbs {
			if at := h.sp.pi[pi]; fn != nil && at != h.seen[pi] {
				h.seen[pi] = at
				fn(now)
			}
		}
	}
	h.sp.Ack(Enable, true, now)
}

// Look is what a driver in mode POLL does instead of being interrupted: it has
// everybody consume who has something, and reports whether there was any.
func (d *Device) Look(now frame.Time) (any bool) {
	d.now = now
	for _, h := range d.Hwfns {
		any = h.Look(now) || any
		for _, sb := range h.sbs[1:] {
			if sb != nil && sb.handler != nil && sb.UpdateIdx() {
				any = true
				sb.handler(sb, now)
				sb.Ack(Nop, true, now)
			}
		}
	}
	return any
}

// Look is that of the slowpath of one hwfn.
func (h *Hwfn) Look(now frame.Time) (any bool) {
	h.dev.now = now
	if any = h.sp.ack != h.sp.prod || h.attn.seen != h.attn.line.prod; any {
		h.slowpath(now)
	}
	return any
}

// VectorInfo describes a vector for display.
type VectorInfo struct {
	Vector     int
	Hwfn       int // of MSI-X
	SB         int // of MSI-X; -1: the slowpath, or all
	Interrupts uint64
	Masked     bool
}

// ShowVectors describes the vectors; Unhandled counts the interrupts that nobody
// wanted.
func (d *Device) ShowVectors() (list []VectorInfo) {
	n := len(d.Hwfns)
	for v, e := range d.vectors {
		info := VectorInfo{Vector: v, SB: -1, Interrupts: e.count, Masked: e.masked}
		if d.mode == MSIX {
			info.Hwfn, info.SB = v%n, v/n-1
		}
		list = append(list, info)
	}
	return list
}

// Unhandled counts interrupts for status blocks without a handler.
func (d *Device) Unhandled() uint64 { return d.unhandled }

// Reported counts the events of sb, and Updates how often it was written.
func (sb *SB) Reported() uint64 { return sb.events }

// Updates counts the writes of the status block.
func (sb *SB) Updates() uint64 { return sb.updates }
