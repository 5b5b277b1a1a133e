package nvme

import (
	"fmt"
	"slices"

	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	wire "tapir/wire/nvme"
)

// hostQueue is one of the queues of an association.
type hostQueue struct {
	h       *Host
	id      *cm.ID
	qp      *verbs.QP
	cq      *verbs.CQ
	mr      *verbs.MR // of memory
	memory  []byte    // completions, then capsules with data
	qid     uint16
	entries int
	slots   []hostSlot
	waiting []*Request
	up      bool
	ending  bool
	gone    bool
	wcs     [32]verbs.WC
	// What is being posted.
	cmd   wire.Command
	sge   [1]verbs.SGE
	wrs   [3]verbs.SendWR
	recv  [1]verbs.RecvWR
	reg   verbs.FastReg
	pages [1]uint64
}

// hostSlot is a command outstanding; its number is the command's identifier.
type hostSlot struct {
	r     *Request
	mr    *verbs.MR // of the data
	key   uint8     // of the STag's next registration
	valid bool      // it has to be invalidated before
}

// capsuleLen is the longest capsule that a host sends.
const capsuleLen = wire.SQELen + ioData

// dial connects a queue.
func (h *Host) dial(qid uint16, entries int, now frame.Time) (q *hostQueue, err error) {
	q = &hostQueue{h: h, qid: qid, entries: entries}
	if err = q.make(); err != nil {
		q.gone = true
		h.cfg.Device.CA().Verbs().Defer(func(frame.Time) { q.free() })
		return nil, err
	}
	q.id = h.cfg.Device.CM().NewID(q.event, q)
	r := wire.Request{QID: qid, HRQSize: uint16(entries), HSQSize: uint16(entries - 1), CntlID: h.cntlid}
	if err = q.id.Connect(h.cfg.Remote, cm.Params{QP: q.qp, PrivateData: r.Append(nil), AckTimeout: ackTimeout},
		now); err != nil {
		h.cfg.Device.CA().Verbs().Defer(func(frame.Time) { q.destroy() })
		return nil, err
	}
	return q, nil
}

// make makes the objects.
func (q *hostQueue) make() (err error) {
	ctx, pd, n := q.h.cfg.Context, q.h.pd, q.entries
	q.memory = make([]byte, n*(wire.CQELen+capsuleLen))
	q.slots = make([]hostSlot, n-1)
	sends := 4 * n
	if q.cq, err = ctx.CreateCQ(n+sends+2, 0, q.completions); err != nil {
		return err
	}
	if q.mr, err = pd.RegMR(q.memory, verbs.LocalWrite); err != nil {
		return err
	}
	if q.qp, err = pd.CreateQP(verbs.QPConfig{SendCQ: q.cq, RecvCQ: q.cq, MaxSend: sends, MaxRecv: n + 1,
		MaxInline: wire.SQELen, Context: q, Describe: describer(q.qid, true)}); err != nil {
		return err
	}
	if err = q.qp.Modify(verbs.Init); err != nil {
		return err
	}
	for i := range q.slots {
		if q.slots[i].mr, err = pd.AllocMR(1); err != nil {
			return err
		}
	}
	for i := range n {
		if err = q.receive(i); err != nil {
			return err
		}
	}
	q.cq.ReqNotify(false)
	return nil
}

// free destroys the objects, outside of callbacks.
func (q *hostQueue) free() {
	if q.qp != nil {
		_ = q.qp.Destroy()
	}
	for i := range q.slots {
		if m := q.slots[i].mr; m != nil {
			_ = m.Dereg()
		}
	}
	if q.mr != nil {
		_ = q.mr.Dereg()
	}
	if q.cq != nil {
		_ = q.cq.Destroy()
	}
}

// destroy is the end of a queue that is closed.
func (q *hostQueue) destroy() {
	if q.gone {
		return
	}
	q.gone = true
	_ = q.id.Destroy()
	q.free()
}

// bury is the end of a queue whose connection may not be closed yet.
func (q *hostQueue) bury(now frame.Time) {
	id, dev := q.id, q.h.cfg.Device.CA().Verbs()
	q.destroy()
	if s := id.State(); s != cm.Closed && s != cm.Idle {
		id.SetHandler(func(ev cm.Event, _ frame.Time) {
			if ev.Type == cm.ClosedEvent {
				dev.Defer(func(frame.Time) { _ = id.Destroy() })
			}
		})
	}
	q.h.settle(now)
}

// receive posts the receive of a completion.
func (q *hostQueue) receive(i int) error {
	q.sge[0] = verbs.SGE{Addr: q.mr.Addr() + uint64(i*wire.CQELen), Length: wire.CQELen, LKey: q.mr.LKey()}
	q.recv[0] = verbs.RecvWR{ID: uint64(i), SGEs: q.sge[:]}
	_, err := q.qp.PostRecv(q.recv[:]...)
	return err
}

// event takes what the connection manager says.
func (q *hostQueue) event(ev cm.Event, now frame.Time) {
	switch ev.Type {
	case cm.ActiveComplete:
		if n, err := wire.ParseReply(ev.PrivateData); err == nil && n > 0 && int(n) < len(q.slots) {
			q.h.end(fmt.Errorf("the controller takes %d commands at a time, not %d", n, len(q.slots)), now)
			return
		}
		q.up = true
		q.h.connected(q, now)
	case cm.Rejected:
		err := ev.Err
		if why := wire.ParseReject(ev.PrivateData); why != 0 {
			err = fmt.Errorf("connection refused: %v", why)
		}
		q.h.end(err, now)
	case cm.Disconnected:
		err := ev.Err
		if err == nil {
			err = ErrLost
		}
		q.h.end(err, now)
	case cm.ClosedEvent:
		q.h.cfg.Device.CA().Verbs().Defer(func(now frame.Time) {
			q.destroy()
			q.h.end(ErrLost, now)
			q.h.settle(now)
		})
	default:
		q.h.end(ev.Err, now)
	}
}

// end disconnects, and ends the commands.
func (q *hostQueue) end(abortive bool, now frame.Time) {
	if q.ending {
		return
	}
	q.ending = true
	if s := q.id.State(); s != cm.Closed && s != cm.Idle {
		_ = q.id.Disconnect(abortive, now) // it may have ended by itself
	}
	if abortive { // the peer's answer to the end may take long
		q.h.cfg.Device.CA().Verbs().Defer(q.bury)
	}
	list := q.waiting
	q.waiting = nil
	for i := range q.slots {
		if r := q.slots[i].r; r != nil {
			q.slots[i].r = nil
			list = append(list, r)
		}
	}
	for _, r := range list {
		r.Done(r, ErrLost, now)
	}
}

// submit sends a command when there is room.
func (q *hostQueue) submit(r *Request, now frame.Time) {
	i := slices.IndexFunc(q.slots, func(s hostSlot) bool { return s.r == nil })
	switch {
	case q.ending:
		r.Done(r, ErrLost, now)
	case i < 0 || !q.up:
		q.waiting = append(q.waiting, r)
	default:
		q.send(i, r, now)
	}
}

// send sends a command: data to the controller that fits goes in the capsule, for other data the
// memory is registered.
func (q *hostQueue) send(i int, r *Request, now frame.Time) {
	s := &q.slots[i]
	s.r = r
	c := &q.cmd
	*c = r.Cmd
	c.Set(c.Opcode(), uint16(i))
	copy(c[4:24], r.Cmd[4:24])
	copy(c[40:], r.Cmd[40:])
	send := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend}
	wrs := q.wrs[:0]
	inCapsule := q.h.info.CapsuleLen - wire.SQELen
	if q.qid == 0 {
		inCapsule = 0
	}
	switch n := len(r.Data); {
	case n == 0:
		c.SetSGL(wire.SGL{Kind: wire.Keyed})
	case r.Write && n <= min(inCapsule, ioData):
		c.SetSGL(wire.SGL{Kind: wire.InCapsule, Length: uint32(n)})
		at := q.entries*wire.CQELen + i*capsuleLen
		copy(q.memory[at:], c[:])
		copy(q.memory[at+wire.SQELen:], r.Data)
		q.sge[0] = verbs.SGE{Addr: q.mr.Addr() + uint64(at), Length: uint32(wire.SQELen + n), LKey: q.mr.LKey()}
		send.SGEs = q.sge[:]
	default:
		wrs = q.register(s, i, wrs)
	}
	if send.SGEs == nil {
		send.Flags, send.Inline = verbs.Inline, c[:]
	}
	if _, err := q.qp.PostSend(append(wrs, send)...); err != nil {
		q.h.end(err, now)
	}
}

// register makes the data of a command memory that the controller may use.
func (q *hostQueue) register(s *hostSlot, i int, wrs []verbs.SendWR) []verbs.SendWR {
	if s.valid {
		wrs = append(wrs, verbs.SendWR{ID: uint64(i), Opcode: verbs.OpLocalInv, Invalidate: s.mr.RKey()})
	}
	data, access := s.r.Data, verbs.LocalWrite|verbs.RemoteWrite
	if s.r.Write {
		access = verbs.RemoteRead
	}
	page := uint64(4096)
	for page < uint64(len(data)) {
		page *= 2
	}
	s.key, s.valid = s.key+1, true
	addr := uint64(i+1) << 32
	q.reg = verbs.FastReg{MR: s.mr, Key: s.key, Access: access, IOVA: addr, Pages: verbs.PageList{
		Space: verbs.Bytes(data), Pages: q.pages[:], PageSize: page, Length: uint64(len(data))}}
	wrs = append(wrs, verbs.SendWR{ID: uint64(i), Opcode: verbs.OpRegMR, Reg: &q.reg})
	q.cmd.SetSGL(wire.SGL{Kind: wire.KeyedInvalidate, Address: addr, Length: uint32(len(data)),
		Key: s.mr.RKey()&^0xff | uint32(s.key)})
	return wrs
}

// completions is the handler of the completion queue.
func (q *hostQueue) completions(cq *verbs.CQ, now frame.Time) {
	for {
		n := cq.Poll(q.wcs[:])
		for i := range q.wcs[:n] {
			q.completion(&q.wcs[i], now)
		}
		if n == 0 && !cq.ReqNotify(false) {
			return
		}
	}
}

// completion takes one.
func (q *hostQueue) completion(wc *verbs.WC, now frame.Time) {
	switch {
	case q.ending:
	case wc.Status == verbs.StatusFlushed: // the event of the connection that follows says why
	case wc.Status != verbs.StatusSuccess:
		q.h.end(fmt.Errorf("%v: %v", wc.Opcode, wc.Status), now)
	case wc.Opcode == verbs.WCRecv:
		q.answer(int(wc.ID), wc, now)
	}
}

// answer takes the end of a command.
func (q *hostQueue) answer(at int, wc *verbs.WC, now frame.Time) {
	c, err := wire.ParseCompletion(q.memory[at*wire.CQELen:][:min(int(wc.ByteLen), wire.CQELen)])
	if err != nil || int(c.ID) >= len(q.slots) || q.slots[c.ID].r == nil {
		q.h.end(fmt.Errorf("the controller completes command %d, which it does not have", c.ID), now)
		return
	}
	if err := q.receive(at); err != nil {
		q.h.end(err, now)
		return
	}
	s := &q.slots[c.ID]
	r := s.r
	s.r = nil
	if wc.WithInv && wc.Invalidated == s.mr.RKey() {
		s.valid = false
	}
	r.Result = c.Result
	if c.Status == wire.Success {
		r.Done(r, nil, now)
	} else {
		r.Done(r, c.Status, now)
	}
	if len(q.waiting) > 0 && !q.ending {
		next := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.submit(next, now)
	}
}
