package verbs_test

import (
	"errors"

	"tapir/nic/verbs"
)

// memory is a transport without a wire: the work of a queue pair is done at
// its peer within Poll, in the order of posting. It shows what verbs asks of a
// transport, and nothing more.
type memory struct {
	dev  *verbs.Device
	ends []*end // in order of creation
}

func newMemory(dev *verbs.Device) *memory {
	m := &memory{dev: dev}
	dev.SetTransport(m)
	return m
}

// Opcodes implements verbs.Transport.
func (m *memory) Opcodes() verbs.OpSet { return ^verbs.OpSet(0) }

// NewEndpoint implements verbs.Transport.
func (m *memory) NewEndpoint(qp *verbs.QP) verbs.Endpoint {
	e := &end{m: m, qp: qp}
	m.ends = append(m.ends, e)
	return e
}

// end is the transport's side of a queue pair.
type end struct {
	m     *memory
	qp    *verbs.QP
	peer  *end // nil: not connected
	work  bool // the send queue may hold work
	drain bool // the owner closes gracefully
}

// link connects two queue pairs in state Init.
func link(a, b *verbs.QP) {
	x, y := a.Endpoint().(*end), b.Endpoint().(*end)
	x.peer, y.peer = y, x
	a.Transition(verbs.RTS)
	b.Transition(verbs.RTS)
}

// Posted implements verbs.Endpoint.
func (e *end) Posted() { e.work = true }

// Modified implements verbs.Endpoint.
func (e *end) Modified(verbs.State) {
	if e.qp.State() == verbs.SQD {
		e.work, e.drain = true, true
		return
	}
	e.cut()
}

// Destroyed implements verbs.Endpoint.
func (e *end) Destroyed() { e.cut() }

// Reclaim implements verbs.Endpoint: nothing is ever sent again.
func (e *end) Reclaim(*verbs.MR) {}

// cut ends the connection; the peer's queue pair fails.
func (e *end) cut() {
	if peer := e.peer; peer != nil {
		e.peer, peer.peer = nil, nil
		peer.qp.Transition(verbs.Err)
	}
}

// Poll does the work that was posted and reports whether there was any.
func (m *memory) Poll() (busy bool) {
	for _, e := range m.ends {
		if !e.work {
			continue
		}
		busy, e.work = true, false
		for e.peer != nil {
			w := e.qp.NextSend()
			if w == nil {
				break
			}
			e.carry(w)
		}
		if e.drain && e.peer != nil && e.qp.SendsPending() == 0 {
			e.drain = false
			m.dev.Async(verbs.AsyncEvent{Type: verbs.EventSQDrained, QP: e.qp})
			e.cut()
			e.qp.Transition(verbs.Err)
		}
	}
	return busy
}

// outcome is why a request failed: the status of its completion, and what the
// peer's application hears.
type outcome struct {
	status verbs.Status
	event  verbs.EventType
}

var (
	done      = outcome{}
	localBad  = outcome{verbs.StatusLocalProtection, verbs.EventTerminated}
	accessBad = outcome{verbs.StatusRemoteAccess, verbs.EventQPAccessError}
	recvBad   = outcome{verbs.StatusRemoteOperation, verbs.EventQPRequestError}
)

// carry does request w and completes it.
func (e *end) carry(w *verbs.SendWQE) {
	fault, peer := e.qp.Resolve(w), e.peer
	e.qp.BeginSend()
	out := localBad
	if fault == verbs.FaultNone {
		out = e.do(w, peer.qp)
	}
	if out == done {
		e.qp.FinishSend(w.Seq, verbs.StatusSuccess)
		return
	}
	e.qp.FinishSend(w.Seq, out.status)
	e.peer, peer.peer = nil, nil
	mine := verbs.EventTerminated
	if out == localBad {
		mine = verbs.EventQPFatal
	}
	why := errors.New(out.status.String())
	e.m.dev.Async(verbs.AsyncEvent{Type: mine, QP: e.qp, Err: why})
	peer.m.dev.Async(verbs.AsyncEvent{Type: out.event, QP: peer.qp, Err: why})
	e.qp.Transition(verbs.Err)
	peer.qp.Transition(verbs.Err)
}

// do does w at the peer's queue pair.
func (e *end) do(w *verbs.SendWQE, to *verbs.QP) outcome {
	switch {
	case w.Opcode.Atomic():
		return atomic(w, to)
	case w.Opcode.Reads():
		return read(w, to)
	}
	data := make([]byte, w.Length)
	if w.Fetch(data, 0) != nil {
		return localBad
	}
	switch w.Opcode {
	case verbs.OpWrite, verbs.OpWriteImm:
		if len(data) > 0 {
			r, f := to.CheckRemote(w.RKey, w.RemoteAddr, w.Length, verbs.RemoteWrite)
			if f != verbs.FaultNone || r.Place(data, w.RemoteAddr) != nil {
				return accessBad
			}
		}
		if w.Opcode == verbs.OpWrite {
			return done
		}
		return deliver(w, to, nil)
	}
	return deliver(w, to, data)
}

// deliver gives the peer's next receive a message.
func deliver(w *verbs.SendWQE, to *verbs.QP, data []byte) outcome {
	r, f := to.NextRecv()
	switch {
	case r == nil:
		return recvBad
	case f != verbs.FaultNone:
		to.FinishRecv(verbs.RecvDone{Status: verbs.StatusLocalProtection})
		return recvBad
	case uint64(len(data)) > r.Length:
		to.FinishRecv(verbs.RecvDone{Status: verbs.StatusLocalLength})
		return recvBad
	case r.Place(data, 0) != nil:
		to.FinishRecv(verbs.RecvDone{Status: verbs.StatusLocalProtection})
		return recvBad
	}
	got := verbs.RecvDone{ByteLen: uint32(len(data)), Solicited: w.Flags&verbs.Solicited != 0}
	switch w.Opcode {
	case verbs.OpSendInv:
		if to.InvalidateRemote(w.Invalidate) != verbs.FaultNone {
			to.FinishRecv(verbs.RecvDone{Status: verbs.StatusRemoteInvalid})
			return accessBad
		}
		got.WithInv, got.Invalidated = true, w.Invalidate
	case verbs.OpSendImm, verbs.OpWriteImm:
		got.WithImm, got.Imm, got.Write = true, w.Imm, w.Opcode == verbs.OpWriteImm
	}
	to.FinishRecv(got)
	return done
}

func read(w *verbs.SendWQE, from *verbs.QP) outcome {
	if w.Length == 0 {
		return done
	}
	r, f := from.CheckRemote(w.RKey, w.RemoteAddr, w.Length, verbs.RemoteRead)
	if f != verbs.FaultNone {
		return accessBad
	}
	data := make([]byte, w.Length)
	if r.Fetch(data, w.RemoteAddr) != nil {
		return accessBad
	}
	if !w.Valid() || w.Place(data, 0) != nil {
		return localBad
	}
	return done
}

func atomic(w *verbs.SendWQE, at *verbs.QP) outcome {
	r, f := at.CheckAtomic(w.RKey, w.RemoteAddr)
	if f != verbs.FaultNone {
		return accessBad
	}
	was, err := r.Load(w.RemoteAddr)
	if err != nil || r.Store(w.RemoteAddr, apply(w.Opcode, &w.Atomic, was)) != nil {
		return accessBad
	}
	if w.PlaceOriginal(was) != nil {
		return localBad
	}
	return done
}

// apply is what an atomic operation makes of was.
func apply(op verbs.Opcode, o *verbs.Operands, was uint64) uint64 {
	switch op {
	case verbs.OpSwap:
		return o.Swap
	case verbs.OpCompSwap, verbs.OpMaskedCompSwap:
		mask, swap := o.CompareAddMask, o.SwapMask
		if op == verbs.OpCompSwap {
			mask, swap = ^uint64(0), ^uint64(0)
		}
		if (was^o.CompareAdd)&mask != 0 {
			return was
		}
		return was&^swap | o.Swap&swap
	case verbs.OpFetchAdd:
		return was + o.CompareAdd
	}
	// Fields end at the bits of the mask: no carry crosses them.
	ends := o.CompareAddMask
	sum := (was &^ ends) + (o.CompareAdd &^ ends)
	return sum ^ (was^o.CompareAdd)&ends
}
