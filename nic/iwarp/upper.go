package iwarp

import (
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
	verbs.FaultBusy: rdmap.FaultAccess,
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
		(*conn)(u).fail(&rdmap.Error{Layer: rdmap.LayerRDMA, Type: rdmap.TypeCatastrophic, Code: rdmap.Unspecified})
		return rdmap.Work{}, false
	}
	return work(w), true
}

func work(w *verbs.SendWQE) rdmap.Work {
	out := rdmap.Work{Ref: w.Seq, Length: w.Length, STag: w.RKey, TO: w.RemoteAddr, Fence: w.Flags&verbs.Fence != 0}
	switch w.Opcode {
	case verbs.OpWrite:
		out.Op = rdmap.Write
	case verbs.OpRead, verbs.OpReadInv:
		out.Op = rdmap.ReadRequestOp
		if len(w.SGEs) > 0 {
			out.SinkSTag, out.SinkTO = w.SGEs[0].LKey, w.SGEs[0].Addr
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
	if r == nil || r.Place(payload, off) != nil {
		return rdmap.FaultLocal
	}
	return rdmap.FaultNone
}

// RecvDone implements rdmap.Upper.
func (u *upper) RecvDone(op rdmap.Opcode, n uint64, stag uint32) {
	done := verbs.RecvDone{ByteLen: uint32(n), Solicited: op.Solicited()}
	if op.Invalidates() {
		done.WithInv, done.Invalidated = true, stag
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
