package nvme

import (
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	wire "tapir/wire/nvme"
)

// Octets of data in a capsule, of the admin queue and of others.
const (
	adminData = wire.ConnectLen
	ioData    = 4096
)

// queue is a connection of a host: a submission queue and its completion queue.
type queue struct {
	p       *port
	id      *cm.ID
	qp      *verbs.QP
	cq      *verbs.CQ
	mr      *verbs.MR
	memory  []byte // capsules that are received
	capsule int    // octets of one
	entries int
	qid     uint16
	c       *controller // nil before Connect
	noFlow  bool
	head    uint16
	slots   []slot
	sent    []*buffer // that a Send which was signalled frees, in order
	busy    int       // commands in the works
	timer   func()
	ending  bool // nothing more is begun
	dead    bool // its queue pair is gone
	wcs     [32]verbs.WC
	// What is being posted.
	cqe  [wire.CQELen]byte
	sge  [1]verbs.SGE
	wrs  [2]verbs.SendWR
	recv [1]verbs.RecvWR
}

// slot is a command in the works. Its place in the queue is that of the capsule.
type slot struct {
	q      *queue
	index  int
	cmd    wire.Command
	sgl    wire.SGL
	octets int
	dir    transfer
	data   []byte
	buf    *buffer // of data; nil: it is in the capsule, or there is none
	result uint64
	got    int // octets of the capsule
}

// Kinds of work requests, in the low bits of their ID.
const (
	idRecv = iota
	idRead
	idSent  // a Send that frees a buffer
	idQuiet // what is not signalled
)

// newQueue makes a queue for a connection.
func (p *port) newQueue(qid uint16, entries int) (q *queue, err error) {
	q = &queue{p: p, qid: qid, entries: entries, capsule: wire.SQELen + ioData, timer: func() {}}
	if qid == 0 {
		q.capsule = wire.SQELen + adminData
	}
	q.memory = make([]byte, entries*q.capsule)
	q.slots = make([]slot, entries)
	sends := 4 * entries
	if q.cq, err = p.ctx.CreateCQ(entries+sends+2, 0, q.completions); err != nil {
		return nil, err
	}
	if q.mr, err = p.pd.RegMR(q.memory, verbs.LocalWrite); err == nil {
		q.qp, err = p.pd.CreateQP(verbs.QPConfig{SendCQ: q.cq, RecvCQ: q.cq, MaxSend: sends, MaxRecv: entries + 1,
			MaxInline: wire.CQELen, Context: q, Describe: describer(qid, false)})
	}
	if err == nil {
		err = q.qp.Modify(verbs.Init)
	}
	for i := range q.slots {
		q.slots[i].q, q.slots[i].index = q, i
		if err == nil {
			err = q.receive(i)
		}
	}
	if err != nil {
		p.dev.CA().Verbs().Defer(func(frame.Time) { q.free() })
		return nil, err
	}
	q.cq.ReqNotify(false)
	return q, nil
}

// describer says in captures what the Sends of a queue are, of the host's or the controller's side.
func describer(qid uint16, host bool) func(b, message []byte, sent bool) []byte {
	return func(b, message []byte, sent bool) []byte {
		return wire.DescribeCapsule(b, message, qid == 0, sent == host)
	}
}

// free destroys the objects.
func (q *queue) free() {
	if q.p.gone { // with the device
		return
	}
	if q.qp != nil {
		_ = q.qp.Destroy()
	}
	if q.mr != nil {
		_ = q.mr.Dereg()
	}
	_ = q.cq.Destroy()
}

// receive posts the receive of a slot.
func (q *queue) receive(i int) error {
	q.sge[0] = verbs.SGE{Addr: q.mr.Addr() + uint64(i*q.capsule), Length: uint32(q.capsule), LKey: q.mr.LKey()}
	q.recv[0] = verbs.RecvWR{ID: uint64(i)<<2 | idRecv, SGEs: q.sge[:]}
	_, err := q.qp.PostRecv(q.recv[:]...)
	return err
}

// expire ends a queue that sends no Connect.
func (q *queue) expire(now frame.Time) {
	if q.c == nil && !q.ending {
		q.p.t.stats[ConnectTimeout]++
		q.disconnect(true, now)
	}
}

// disconnect ends the connection, and with the admin queue the controller.
func (q *queue) disconnect(abortive bool, now frame.Time) {
	first := !q.ending
	q.ending = true
	if s := q.id.State(); s != cm.Closed && s != cm.Idle {
		_ = q.id.Disconnect(abortive, now) // it may have ended by itself
	}
	if abortive && !q.dead { // the peer's answer to the end may take long
		q.p.dev.CA().Verbs().Defer(q.destroy)
	}
	if c := q.c; c != nil && first {
		c.left(q, abortive, now)
	}
}

// destroy is the end of a queue whose connection is closed.
func (q *queue) destroy(now frame.Time) {
	q.disconnect(true, now)
	q.timer()
	if q.dead {
		return
	}
	q.dead = true
	p := q.p
	for i, other := range p.queues {
		if other == q {
			p.queues = append(p.queues[:i], p.queues[i+1:]...)
			break
		}
	}
	q.free()
	for _, b := range q.sent {
		p.release(b, now)
	}
	q.sent = nil
	for i := range q.slots { // those of which a thread has the data release it themselves
		if s := &q.slots[i]; s.buf != nil && s.dir == fromHost && s.data == nil {
			s.drop(now)
		}
	}
	if p.leaving && len(p.queues) == 0 {
		p.leave(now)
	}
}

// drop gives up the buffer of a slot.
func (s *slot) drop(now frame.Time) {
	b := s.buf
	s.buf, s.data = nil, nil
	s.q.p.release(b, now)
}

// completions is the handler of the completion queue.
func (q *queue) completions(cq *verbs.CQ, now frame.Time) {
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
func (q *queue) completion(wc *verbs.WC, now frame.Time) {
	kind, ok := wc.ID&3, wc.Status == verbs.StatusSuccess
	if kind == idSent && len(q.sent) > 0 {
		b := q.sent[0]
		q.sent = q.sent[1:]
		q.p.release(b, now)
	}
	if !ok && wc.Status != verbs.StatusFlushed { // which the event of the connection explains
		q.p.t.stats[RemoteAccess]++
		q.disconnect(true, now)
	}
	s := &q.slots[min(int(wc.ID>>2), len(q.slots)-1)]
	switch {
	case kind == idRead && (!ok || q.ending):
		s.drop(now)
	case kind == idRead:
		s.data = s.buf.data[:s.octets]
		s.execute(now)
	case kind == idRecv && ok && !q.ending:
		q.command(s, int(wc.ByteLen), now)
	}
}

// command takes a capsule.
func (q *queue) command(s *slot, got int, now frame.Time) {
	if got < wire.SQELen {
		q.p.t.stats[Malformed]++
		q.disconnect(true, now)
		return
	}
	q.busy++
	copy(s.cmd[:], q.memory[s.index*q.capsule:])
	s.sgl, s.got, s.result, s.data, s.buf = s.cmd.SGL(), got, 0, nil, nil
	if q.c != nil {
		q.c.heard = now
	}
	st := wire.Status(wire.Success)
	if s.cmd.Fused() || !s.cmd.HasSGL() {
		st = wire.InvalidField | wire.DNR
	} else {
		s.octets, s.dir, st = q.prepare(s)
	}
	if st == wire.Success {
		st = s.find()
	}
	if st != wire.Success {
		s.dir = none
		s.end(st, now)
		return
	}
	if s.octets == 0 || s.data != nil {
		s.execute(now)
		return
	}
	p := q.p
	if len(p.waiting) == 0 {
		s.buf = p.pool.get(s.octets)
	}
	if s.buf == nil {
		p.t.stats[Waited]++
		p.waiting = append(p.waiting, s)
		return
	}
	s.move(now)
}

// find checks the SGL against what the command moves, and finds the data in the capsule.
func (s *slot) find() wire.Status {
	g := &s.sgl
	wrong := int64(g.Length) != int64(s.octets)
	if s.cmd.Opcode() == wire.DSM { // hosts have memory for all ranges there could be
		wrong = int64(g.Length) < int64(s.octets)
	}
	switch {
	case s.octets == 0:
		return wire.Success
	case g.Kind == wire.Keyed || g.Kind == wire.KeyedInvalidate:
		if wrong {
			return wire.SGLLengthInvalid | wire.DNR
		}
		return wire.Success
	case g.Kind != wire.InCapsule || s.dir != fromHost:
		return wire.SGLTypeInvalid | wire.DNR
	case wrong:
		return wire.SGLLengthInvalid | wire.DNR
	}
	have := uint64(s.got - wire.SQELen)
	if g.Address > have || uint64(g.Length) > have-g.Address {
		return wire.SGLOffsetInvalid | wire.DNR
	}
	s.q.p.t.stats[InCapsule]++
	at := s.index*s.q.capsule + wire.SQELen + int(g.Address)
	s.data = s.q.memory[at : at+s.octets]
	return wire.Success
}

// move fetches the data of a command that has a buffer, or has the command done.
func (s *slot) move(now frame.Time) {
	if s.dir == toHost {
		s.data = s.buf.data[:s.octets]
		s.execute(now)
		return
	}
	q := s.q
	q.sge[0] = s.buf.sge(s.octets)
	q.post(now, append(q.wrs[:0], verbs.SendWR{ID: uint64(s.index)<<2 | idRead, Opcode: verbs.OpRead,
		Flags: verbs.Signaled, SGEs: q.sge[:], RemoteAddr: s.sgl.Address, RKey: s.sgl.Key}))
}

// post posts requests; what cannot be posted ends the queue.
func (q *queue) post(now frame.Time, wrs []verbs.SendWR) {
	if _, err := q.qp.PostSend(wrs...); err != nil {
		q.disconnect(true, now)
	}
}

// end answers a command: with its data, unless it has failed, and a completion.
func (s *slot) end(st wire.Status, now frame.Time) {
	q := s.q
	q.busy--
	q.p.t.stats.refused(st)
	if q.dead || q.ending {
		s.drop(now)
		return
	}
	if q.head++; int(q.head) == q.entries {
		q.head = 0
	}
	cqe := wire.Completion{Result: s.result, SQHead: q.head, SQID: q.qid, ID: s.cmd.ID(), Status: st}
	if q.noFlow {
		cqe.SQHead = 0
	}
	send := verbs.SendWR{ID: idQuiet, Opcode: verbs.OpSend, Flags: verbs.Inline | verbs.Solicited,
		Inline: cqe.Append(q.cqe[:0])}
	if s.sgl.Kind == wire.KeyedInvalidate {
		q.p.t.stats[Invalidations]++
		send.Opcode, send.Invalidate = verbs.OpSendInv, s.sgl.Key
	}
	if q.receive(s.index) != nil {
		s.drop(now)
		q.disconnect(true, now)
		return
	}
	wrs := q.wrs[:0]
	if b := s.buf; b != nil {
		send.ID, send.Flags = idSent, send.Flags|verbs.Signaled
		q.sent = append(q.sent, b)
		if s.dir == toHost && st == wire.Success {
			q.sge[0] = b.sge(s.octets)
			wrs = append(wrs, verbs.SendWR{ID: idQuiet, Opcode: verbs.OpWrite, SGEs: q.sge[:],
				RemoteAddr: s.sgl.Address, RKey: s.sgl.Key})
		}
	}
	s.buf, s.data = nil, nil
	q.post(now, append(wrs, send))
}
