package iwarp

import (
	"encoding/binary"

	"tapir/nic/verbs"
	"tapir/rdmap"
)

// upper is the connection as RDMAP sees it: queues and memory of its queue
// pair.
type upper conn

var faults = [...]rdmap.Fault{
	verbs.FaultNone: rdmap.FaultNone, verbs.FaultSTag: rdmap.FaultSTag,
	verbs.FaultBounds: rdmap.FaultBounds, verbs.FaultAccess: rdmap.FaultAccess,
	verbs.FaultPD: rdmap.FaultPD, verbs.FaultWrap: rdmap.FaultWrap,
	verbs.FaultBusy: rdmap.FaultAccess, verbs.FaultAlign: rdmap.FaultAlign,
	verbs.FaultMalformed: rdmap.FaultLocal,
}

// NextWork implements rdmap.Upper. A request whose memory cannot be used
// fails here, before anything of it is sent.
func (u *upper) NextWork() (rdmap.Work, bool) {
	if u.qp == nil {
		return rdmap.Work{}, false
	}
	w := u.qp.NextSend()
	if w == nil {
		return rdmap.Work{}, false
	}
	if f := u.qp.Resolve(w); f != verbs.FaultNone {
		u.qp.BeginSend()
		u.qp.FinishSend(w.Seq, verbs.StatusLocalProtection)
		(*conn)(u).localAccess()
		return rdmap.Work{}, false
	}
	return work(w), true
}

func work(w *verbs.SendWQE) rdmap.Work {
	out := rdmap.Work{Ref: w.Seq, Length: w.Length, STag: w.RKey, TO: w.RemoteAddr, Fence: w.Flags&verbs.Fence != 0}
	switch w.Opcode {
	case verbs.OpWrite:
		out.Op = rdmap.Write
	case verbs.OpWriteImm:
		out.Op, out.Then = rdmap.Write, rdmap.ImmediateOpcode(w.Flags&verbs.Solicited != 0)
		binary.BigEndian.PutUint64(out.Imm[:], w.Imm)
	case verbs.OpSendImm:
		out.Op = rdmap.ImmediateOpcode(w.Flags&verbs.Solicited != 0)
		binary.BigEndian.PutUint64(out.Imm[:], w.Imm)
	case verbs.OpCompSwap, verbs.OpMaskedCompSwap, verbs.OpFetchAdd, verbs.OpMaskedFetchAdd, verbs.OpSwap:
		out.Op, out.Atomic = rdmap.AtomicRequestOp, atomic(w)
	case verbs.OpRead, verbs.OpReadInv:
		out.Op = rdmap.ReadRequestOp
		if len(w.SGEs) > 0 {
			out.SinkSTag, out.SinkTO = w.SGEs[0].LKey, w.SGEs[0].Addr
			if out.SinkTO+w.Length < out.SinkTO { // only of several elements: where they lie is nothing to the peer
				out.SinkTO = 0
			}
		}
	default:
		inv := w.Opcode == verbs.OpSendInv
		out.Op = rdmap.SendOpcode(w.Flags&verbs.Solicited != 0, inv)
		if inv {
			out.Invalidate = w.Invalidate
		}
	}
	return out
}

// atomic is the operation of w, fields that it has no use for set as RFC 7306
// section 5.2.1 demands.
func atomic(w *verbs.SendWQE) rdmap.AtomicRequest {
	v := &w.Atomic
	switch w.Opcode {
	case verbs.OpCompSwap, verbs.OpMaskedCompSwap:
		return rdmap.AtomicRequest{Op: rdmap.CmpSwap, Data: v.Swap, Mask: v.SwapMask,
			Compare: v.CompareAdd, CompareMask: v.CompareAddMask}
	case verbs.OpSwap:
		return rdmap.AtomicRequest{Op: rdmap.Swap, Data: v.Swap, Mask: ^uint64(0), CompareMask: ^uint64(0)}
	}
	return rdmap.AtomicRequest{Op: rdmap.FetchAdd, Data: v.CompareAdd, Mask: v.CompareAddMask, CompareMask: ^uint64(0)}
}

// BeginWork implements rdmap.Upper.
func (u *upper) BeginWork() { u.qp.BeginSend() }

// PlaceWrite implements rdmap.Upper.
func (u *upper) PlaceWrite(stag uint32, to, n, off uint64, payload []byte) rdmap.Fault {
	r, f := u.qp.CheckRemote(stag, to, n, verbs.RemoteWrite)
	if f == verbs.FaultNone && r.Place(payload, to+off) != nil {
		return rdmap.FaultLocal
	}
	return faults[f]
}

// CheckRead implements rdmap.Upper.
func (u *upper) CheckRead(stag uint32, to, n uint64) rdmap.Fault {
	_, f := u.qp.CheckRemote(stag, to, n, verbs.RemoteRead)
	return faults[f]
}

// NextRecv implements rdmap.Upper.
func (u *upper) NextRecv() (room uint64, f rdmap.Fault, ok bool) {
	r, fault := u.qp.NextRecv()
	if r == nil {
		return 0, rdmap.FaultNone, false
	}
	u.recvID = r.ID
	if fault != verbs.FaultNone {
		u.qp.FinishRecv(verbs.RecvDone{Status: verbs.StatusLocalProtection})
	}
	return r.Length, faults[fault], true
}

// PlaceRecv implements rdmap.Upper.
func (u *upper) PlaceRecv(payload []byte, off uint64) rdmap.Fault {
	r := u.qp.CurrentRecv()
	if r == nil {
		return rdmap.FaultLocal
	}
	if r.Place(payload, off) != nil {
		u.qp.FinishRecv(verbs.RecvDone{Status: verbs.StatusLocalProtection})
		return rdmap.FaultLocal
	}
	return rdmap.FaultNone
}

// RecvDone implements rdmap.Upper.
func (u *upper) RecvDone(r rdmap.Received) {
	done := verbs.RecvDone{ByteLen: uint32(r.Length), Solicited: r.Op.Solicited()}
	switch {
	case r.Op.Invalidates():
		done.WithInv, done.Invalidated = true, r.Invalidated
	case r.Op.IsImmediate():
		done.WithImm, done.Imm, done.Write = true, binary.BigEndian.Uint64(r.Imm[:]), r.AfterWrite
	}
	u.qp.FinishRecv(done)
}

// Invalidate implements rdmap.Upper.
func (u *upper) Invalidate(stag uint32) rdmap.Fault {
	return faults[u.qp.InvalidateRemote(stag)]
}

// PlaceRead implements rdmap.Upper.
func (u *upper) PlaceRead(ref uint64, payload []byte, off uint64) rdmap.Fault {
	if ref == rdmap.NoRef {
		return rdmap.FaultBounds
	}
	w := u.qp.SendWQE(ref)
	if w == nil || !w.Valid() || w.Place(payload, off) != nil {
		return rdmap.FaultLocal
	}
	return rdmap.FaultNone
}

// ReadDone implements rdmap.Upper. An ORD slot is free: waiting Reads go on.
func (u *upper) ReadDone(ref uint64) {
	u.qp.FinishSend(ref, verbs.StatusSuccess)
	u.tcp.Kick()
}

// Atomic implements rdmap.Upper. The NIC has one thread, so that nothing of it
// comes between loading and storing.
func (u *upper) Atomic(req *rdmap.AtomicRequest) (original uint64, f rdmap.Fault) {
	r, fault := u.qp.CheckAtomic(req.STag, req.TO)
	if fault != verbs.FaultNone {
		return 0, faults[fault]
	}
	original, err := r.Load(req.TO)
	if err != nil {
		return 0, rdmap.FaultLocal
	}
	if stored, _ := req.Apply(original); stored != original && r.Store(req.TO, stored) != nil {
		return 0, rdmap.FaultLocal
	}
	return original, rdmap.FaultNone
}

// AtomicDone implements rdmap.Upper.
func (u *upper) AtomicDone(ref, original uint64) rdmap.Fault {
	w := u.qp.SendWQE(ref)
	if w == nil || !w.Valid() || w.PlaceOriginal(original) != nil {
		u.qp.FinishSend(ref, verbs.StatusLocalProtection)
		return rdmap.FaultLocal
	}
	u.ReadDone(ref)
	return rdmap.FaultNone
}
