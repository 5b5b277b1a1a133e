package roce

import (
	"fmt"

	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/ib"
)

// ownQKey is the bit of a request's Q_Key that stands for the queue pair's own.
const ownQKey = 1 << 31

// datagram takes a packet to a queue pair of type UD, a multicast group or queue pair 1.
func (e *Engine) datagram(p *packet, now frame.Time) frame.DropReason {
	switch p.DestQP {
	case ib.QP1:
		return e.management(p, now)
	case ib.QPMulticast:
		group := e.dev.Group(p.dst)
		if len(group) == 0 {
			return e.drop(nicdrop.DestQP)
		}
		for _, v := range group {
			e.deliver(v, p)
		}
		return frame.DropNone
	}
	v := e.dev.QPByNumber(p.DestQP)
	if v == nil || v.Type() != qpattr.UD {
		return e.drop(nicdrop.DestQP)
	}
	if p.v1 { // the internet layer has checked the address of a packet of v2
		if _, why := e.indexOf(p); why != frame.DropNone {
			return e.drop(why)
		}
	}
	return e.deliver(v, p)
}

// deliver gives a datagram to a queue pair. Section 9.8.2: what does not fit is dropped.
func (e *Engine) deliver(v *verbs.QP, p *packet) frame.DropReason {
	q, a := v.Endpoint().(*qp), v.Attr()
	s := v.State()
	switch {
	case s < verbs.RTR || s == verbs.Err:
		return e.drop(nicdrop.DestQP)
	case !verbs.PKeysMatch(q.pkey(), p.PKey):
		e.dev.CountBadPKey()
		return e.drop(nicdrop.PKey)
	case p.DETH.QKey != a.QKey:
		e.stats.BadQKeys++
		return e.drop(nicdrop.PKey)
	}
	if e.env.Notes.On {
		q.noteOther(&p.Packet)
	}
	w, fault := v.NextRecv()
	if w == nil {
		return e.drop(nicdrop.Refused)
	}
	q.count.PacketsIn++
	done := verbs.RecvDone{
		ByteLen: uint32(ib.GRHLen + len(p.Payload)), GRH: true, SrcQP: p.DETH.SrcQP, Solicited: p.Solicited,
		PKeyIndex: a.PKeyIndex, SL: p.sl,
	}
	if done.WithImm = p.Opcode == ib.UDSendOnlyImm; done.WithImm {
		done.Imm = uint64(p.Imm)
	}
	e.flushWrites()
	e.dev.BatchWrites(false)
	switch {
	case fault != verbs.FaultNone:
		done.Status = verbs.StatusLocalProtection
	case uint64(done.ByteLen) > w.Length:
		done.Status = verbs.StatusLocalLength
	case w.Place(p.grh[:], 0) != nil || len(p.Payload) > 0 && w.Place(p.Payload, ib.GRHLen) != nil:
		done.Status = verbs.StatusLocalProtection
	}
	v.FinishRecv(done)
	if done.Status == verbs.StatusLocalProtection {
		q.fail()
	}
	return frame.DropNone
}

// sendDatagrams sends requests of a UD queue pair.
func (q *qp) sendDatagrams(t *turn, now frame.Time) (more bool) {
	r := &q.req
	for !r.draining && !r.halted {
		if t.over(q.e) {
			return true
		}
		w := q.v.NextSend()
		if w == nil {
			break
		}
		if q.e.starved {
			return true
		}
		status, sent := q.sendDatagram(w, t, now)
		if !sent && status == verbs.StatusSuccess {
			return true // no frame: again later
		}
		q.v.BeginSend()
		q.v.FinishSend(w.Seq, status)
		if status != verbs.StatusSuccess {
			q.v.Transition(verbs.SQE)
			return false
		}
	}
	q.endOfTurn(now)
	return false
}

// sendDatagram sends one request.
func (q *qp) sendDatagram(w *verbs.SendWQE, t *turn, now frame.Time) (status verbs.Status, sent bool) {
	a := q.v.Attr()
	switch {
	case !w.AH.Alive():
		return verbs.StatusLocalQPOp, false
	case w.Length > uint64(q.e.env.MTU()):
		return verbs.StatusLocalLength, false
	case q.v.Resolve(w) != verbs.FaultNone:
		return verbs.StatusLocalProtection, false
	}
	path := w.AH.Path()
	entry, ok := q.e.gid(path.SGIDIndex)
	if !ok {
		return verbs.StatusLocalQPOp, false
	}
	q.route.set(path, entry, q.v.QPN(), w.RemoteQPN)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, MigReq: true, PKey: q.pkey(), DestQP: w.RemoteQPN,
		PSN: q.req.max, Solicited: w.Flags&verbs.Solicited != 0}}
	p.DETH = ib.DETH{QKey: w.RemoteQKey, SrcQP: q.v.QPN()}
	if w.RemoteQKey&ownQKey != 0 {
		p.DETH.QKey = a.QKey
	}
	if w.Opcode == verbs.OpSendImm {
		p.Opcode, p.Imm = ib.UDSendOnlyImm, uint32(w.Imm)
	}
	var out writer
	n := int(w.Length)
	if !q.e.begin(&out, &q.route, p.HeaderLen()+n+int(ib.PadOf(n))+ib.ICRCLen, 0) {
		return verbs.StatusSuccess, false
	}
	if b := out.packet(&p, n); n > 0 && w.Fetch(b, 0) != nil {
		out.f.Release()
		return verbs.StatusLocalProtection, false
	}
	out.seal(&p, n, nil)
	q.count.PacketsOut++
	if q.e.env.Notes.On {
		q.noteOther(&p)
	}
	q.e.end(&out, n, now)
	q.req.max = add(q.req.max, 1)
	q.req.una, q.req.cursor, q.req.high = q.req.max, q.req.max, q.req.max
	t.frames--
	t.octets -= n
	return verbs.StatusSuccess, true
}

// SetGSI has g receive the datagrams of queue pair 1; nil: they are dropped.
func (e *Engine) SetGSI(g GSI) { e.gsi = g }

// mad is a datagram of queue pair 1 that waits to be sent.
type mad struct {
	path      qpattr.Path
	dest      uint32
	pkeyIndex uint16 // of the port's partition key
	payload   []byte
}

// SendMAD has queue pair 1 send payload, which is copied, to queue pair dest (mostly 1) on a
// path, with the partition key of that index. It leaves at the next Poll. An error says that the local GID
// or the key does not exist or too many wait.
func (e *Engine) SendMAD(path *qpattr.Path, dest uint32, pkeyIndex uint16, payload []byte) error {
	if _, ok := e.gid(path.SGIDIndex); !ok {
		return fmt.Errorf("GID index %d is empty: %w", path.SGIDIndex, verbs.ErrInvalid)
	}
	if !e.dev.HasPKey(pkeyIndex) {
		return fmt.Errorf("P_Key index %d is empty: %w", pkeyIndex, verbs.ErrInvalid)
	}
	if len(e.mads) >= maxMADs {
		return fmt.Errorf("%d management datagrams wait: %w", len(e.mads), verbs.ErrQueueFull)
	}
	e.mads = append(e.mads, mad{*path, dest, pkeyIndex, append([]byte(nil), payload...)})
	return nil
}

// sendMADs sends what queue pair 1 has, and returns what is left of the frames.
func (e *Engine) sendMADs(budget int, now frame.Time) int {
	sent := 0
	for ; sent < len(e.mads) && budget > 0 && e.env.Out.Room() > 0; sent++ {
		m := &e.mads[sent]
		entry, ok := e.gid(m.path.SGIDIndex)
		if !ok {
			continue // the address has gone meanwhile
		}
		var r route
		r.set(&m.path, entry, ib.QP1, m.dest)
		pkey := e.dev.PKeys()[m.pkeyIndex]
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, MigReq: true, PKey: pkey, DestQP: m.dest}}
		p.DETH = ib.DETH{QKey: ib.QKeyQP1, SrcQP: ib.QP1}
		var out writer
		n := len(m.payload)
		if !e.begin(&out, &r, p.HeaderLen()+n+int(ib.PadOf(n))+ib.ICRCLen, 0) {
			break
		}
		copy(out.packet(&p, n), m.payload)
		out.seal(&p, n, nil)
		if e.env.Notes.On {
			e.env.Notes.Addf("QP 1 MAD to QP %d", m.dest)
		}
		e.end(&out, n, now)
		budget--
	}
	if sent > 0 && sent == len(e.mads) {
		e.mads = nil // many at once are rare
		return budget
	}
	e.mads = e.mads[:copy(e.mads, e.mads[sent:])]
	return budget
}

// management takes a datagram to queue pair 1, whose partition may be any of the port's
// (section 10.9.8).
func (e *Engine) management(p *packet, now frame.Time) frame.DropReason {
	switch {
	case e.gsi == nil:
		return e.drop(nicdrop.DestQP)
	case p.DETH.QKey != ib.QKeyQP1:
		e.stats.BadQKeys++
		return e.drop(nicdrop.PKey)
	}
	pkeyIndex, ok := e.dev.MatchPKey(p.PKey)
	if !ok {
		e.dev.CountBadPKey()
		return e.drop(nicdrop.PKey)
	}
	index, why := e.indexOf(p)
	if why != frame.DropNone {
		return e.drop(why)
	}
	e.gsi.Datagram(&Datagram{
		From: qpattr.Path{DGID: p.src, SGIDIndex: index, TClass: p.class, FlowLabel: p.flow, SL: p.sl},
		To:   p.dst, SrcQP: p.DETH.SrcQP, PKeyIndex: pkeyIndex, Payload: p.Payload,
	}, now)
	return frame.DropNone
}

// indexOf is the index of the local GID that a packet is addressed to. That of another VLAN
// is none of this one.
func (e *Engine) indexOf(p *packet) (index uint8, why frame.DropReason) {
	why = nicdrop.Peer
	for i, g := range e.dev.GIDs() {
		if g != p.dst || p.v1 != (e.dev.GIDType(i) == verbs.RoCEv1) {
			continue
		}
		if e.dev.GIDEntry(i).VLAN == p.vlan {
			return uint8(i), frame.DropNone
		}
		why = drop.WrongVLAN
	}
	return 0, why
}
