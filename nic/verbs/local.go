package verbs

import "fmt"

// localWork is what a local operation needs in the send queue. A slot gets
// one when it is first used for such an operation and keeps it.
type localWork struct {
	reg   FastReg
	bind  Bind
	pages []uint64
}

// copyLocal copies the operands of wr, if it is a local operation, to w.
func (w *SendWQE) copyLocal(wr *SendWR) {
	if wr.Opcode != OpRegMR && wr.Opcode != OpBindMW {
		return
	}
	if w.local == nil {
		w.local = &localWork{}
	}
	l := w.local
	if wr.Opcode == OpBindMW {
		l.bind = *wr.Bind
		w.Bind = &l.bind
		return
	}
	l.reg = *wr.Reg
	l.pages = append(l.pages[:0], wr.Reg.Pages.Pages...)
	l.reg.Pages.Pages = l.pages
	w.Reg = &l.reg
}

// check refuses what can never be registered, when it is posted.
func (r *FastReg) check(q *QP) error {
	switch {
	case r == nil || r.MR == nil || r.MR.pd.dev != q.dev:
		return fmt.Errorf("no region of this device: %w", ErrInvalid)
	case r.MR.maxPages == 0:
		return fmt.Errorf("MR %d was registered by verb: %w", r.MR.num, ErrInvalid)
	case r.Access&ZeroBased != 0 && r.IOVA != 0:
		return fmt.Errorf("zero-based at %#x: %w", r.IOVA, ErrInvalid)
	case r.IOVA+r.Pages.Length < r.IOVA:
		return fmt.Errorf("addresses wrap: %w", ErrInvalid)
	}
	if err := r.Access.check(); err != nil {
		return err
	}
	return r.Pages.check(r.MR.maxPages)
}

// execute does a local operation whose turn in the send queue has come.
func (q *QP) execute(w *SendWQE) bool {
	switch w.Opcode {
	case OpRegMR:
		return w.Reg.register(q)
	case OpBindMW:
		if !w.Bind.mayBind(q) {
			return false
		}
		w.Bind.MW.bind(q, w.Bind, w.Bind.MW.stag&^0xff|uint32(w.Bind.Key))
		return true
	}
	return q.invalidate(w.Invalidate)
}

// register fills a region that is invalid.
func (r *FastReg) register(q *QP) bool {
	m := r.MR
	if m.dead || m.valid || m.pd != q.pd {
		return false
	}
	if m.pages == nil {
		m.pages = &pageMemory{}
	}
	m.pages.set(&r.Pages)
	m.stag = m.stag&^0xff | uint32(r.Key)
	m.via = q
	m.set(m.pages, r.IOVA, r.Access)
	return true
}

// invalidate is a local invalidation: of a region that is not shared and has
// no windows, or of a type 2 window bound through q. An STag that is invalid
// already is an error, as in the RDMA verbs specification.
func (q *QP) invalidate(stag uint32) bool {
	r := q.dev.Lookup(stag)
	switch {
	case r == nil || !r.reaches(q):
		return false
	case r.window != nil:
		return r.window.invalidate()
	}
	return !r.mr.shared && r.mr.Invalidate() == nil
}

func (w *MW) invalidate() bool {
	if w.kind == MWType1 {
		return false
	}
	w.unbind()
	return true
}

// InvalidateRemote invalidates stag on the peer's behalf, if the peer may use
// it at all and no other stream may (RFC 5040 section 8.1.1): a type 2
// window bound through this queue pair, a region fast-registered through it,
// or one registered by verb in a protection domain with one queue pair.
func (q *QP) InvalidateRemote(stag uint32) Fault {
	r := q.dev.Lookup(stag)
	switch {
	case r == nil:
		return FaultSTag
	case !r.reaches(q):
		return FaultPD
	case r.access&remoteAccess == 0:
		return FaultAccess
	case r.window != nil:
		if !r.window.invalidate() {
			return FaultAccess
		}
		return FaultNone
	case r.mr.shared || r.mr.via != nil && r.mr.via != q || r.mr.via == nil && q.pd.qps > 1:
		return FaultAccess
	case r.mr.Invalidate() != nil:
		return FaultBusy
	}
	return FaultNone
}

// failLocal moves the queue pair to Err because one of its own requests
// failed. It runs outside the transport's calls.
func (q *QP) failLocal() {
	q.sq.halted = true
	q.dev.Defer(q.failHalted)
}
