package ring

import (
	"fmt"
	"sync/atomic"

	"tapir/nic/verbs"
)

// queue is a ring that an arena holds.
type queue struct {
	arena *Arena
	piece piece
}

// Offset is where the program maps the ring in the arena's file, Size the
// octets that it maps there (struct mminfo).
func (q *queue) Offset() uint64 { return q.piece.off }

// Size is the length that goes with Offset.
func (q *queue) Size() uint32 { return q.piece.size }

// make allocates a ring of shape l and returns the side whose own index is at
// own.
func (q *queue) make(a *Arena, l layout, own, other int) (half, error) {
	p, err := a.alloc(l.size())
	if err != nil {
		return half{}, err
	}
	q.arena, q.piece = a, p
	l.format(p.mem)
	return l.half(p.mem, own, other), nil
}

// SendQueue is the device half of a send queue.
type SendQueue struct {
	queue
	ring      consumer
	device    *verbs.Device
	datagrams bool // the queue pair is of type UD
	maxSGE    int
	maxInline int
	raw       [sendData]byte // the request in hand
	data      []byte         // its elements or inline data
	sges      []verbs.SGE
	bind      verbs.Bind
}

// NewSendQueue makes the ring of a send queue of device d.
func (a *Arena) NewSendQueue(d *verbs.Device, maxWR, maxSGE, maxInline int) (*SendQueue, error) {
	s := &SendQueue{
		device: d, maxSGE: maxSGE, maxInline: maxInline,
		data: make([]byte, max(maxSGE*sgeLen, maxInline)), sges: make([]verbs.SGE, 0, maxSGE),
	}
	h, err := s.make(a, sendLayout(maxWR, maxSGE, maxInline), offConsumer, offProducer)
	if err != nil {
		return nil, fmt.Errorf("send queue: %w", err)
	}
	s.ring.half = h
	return s, nil
}

// Datagrams says that the requests are those of a queue pair of type UD.
func (s *SendQueue) Datagrams() { s.datagrams = true }

// Free gives the ring back: nothing is read from it any more.
func (s *SendQueue) Free() {
	s.ring.mem = nil
	s.arena.free(&s.piece)
}

// Len implements verbs.SendSource.
func (s *SendQueue) Len() int { return s.ring.filled() }

// Next implements verbs.SendSource.
func (s *SendQueue) Next(wr *verbs.SendWR) (verbs.Status, bool) {
	e := s.ring.next()
	if e == nil {
		return verbs.StatusSuccess, false
	}
	copy(s.raw[:], e)
	*wr = verbs.SendWR{ID: host.Uint64(s.raw[sendID:])}
	status := s.decode(wr, e[sendData:])
	s.ring.advance()
	return status, true
}

// decode reads the rest of the request in hand, data being the end of its
// element in the ring.
func (s *SendQueue) decode(wr *verbs.SendWR, data []byte) verbs.Status {
	r := &s.raw
	code, flags, imm := host.Uint32(r[sendOpcode:]), host.Uint32(r[sendFlags:]), r[sendImm:sendImm+4]
	if code >= uint32(len(opcodes)) || !opcodes[code].known {
		return verbs.StatusLocalQPOp
	}
	wr.Opcode, wr.Flags = opcodes[code].op, Flags(flags)
	if wr.Opcode.Local() || wr.Opcode == verbs.OpSendImm && host.Uint32(r[sendLength:]) == 0 {
		wr.Flags &^= verbs.Inline // of nothing
	}
	switch wr.Opcode {
	case verbs.OpBindMW:
		wr.Bind = &s.bind
		if !getBind(wr.Bind, r[:], s.device) {
			return verbs.StatusMWBind
		}
		return verbs.StatusSuccess
	case verbs.OpLocalInv:
		wr.Invalidate = host.Uint32(imm)
		return verbs.StatusSuccess
	case verbs.OpSendInv:
		wr.Invalidate = host.Uint32(imm)
	case verbs.OpSendImm, verbs.OpWriteImm:
		wr.Imm = getImm(imm)
	}
	s.target(wr)
	return s.payload(wr, data)
}

// target reads what the request does at the peer.
func (s *SendQueue) target(wr *verbs.SendWR) {
	r := &s.raw
	wr.RemoteSRQ = host.Uint32(r[sendXRCSRQ:])
	switch {
	case s.datagrams:
		wr.AH = verbs.AHOf(s.device, host.Uint32(r[sendAH:]))
		wr.RemoteQPN, wr.RemoteQKey = host.Uint32(r[sendRemoteQPN:]), host.Uint32(r[sendQKey:])
	case wr.Opcode.Atomic():
		wr.RemoteAddr, wr.RKey = host.Uint64(r[sendAddr:]), host.Uint32(r[sendAtomicRKey:])
		wr.Atomic = verbs.Operands{CompareAdd: host.Uint64(r[sendCompareAdd:]), Swap: host.Uint64(r[sendSwap:])}
	case wr.Opcode.Reads(), wr.Opcode == verbs.OpWrite, wr.Opcode == verbs.OpWriteImm:
		wr.RemoteAddr, wr.RKey = host.Uint64(r[sendAddr:]), host.Uint32(r[sendRKey:])
	}
}

// payload reads elements or inline data.
func (s *SendQueue) payload(wr *verbs.SendWR, data []byte) verbs.Status {
	length, n := host.Uint32(s.raw[sendLength:]), host.Uint32(s.raw[sendDMASGE:])
	if wr.Opcode == verbs.OpSendImm && length == 0 {
		return verbs.StatusSuccess
	}
	inline := wr.Flags&verbs.Inline != 0
	if !inline && n == 0 && length > 0 {
		// ibv_wr_set_inline_data of librxe does not set the flag, and its
		// caller need not.
		inline = true
		wr.Flags |= verbs.Inline
	}
	switch {
	case inline && length > uint32(s.maxInline), !inline && n > uint32(s.maxSGE):
		return verbs.StatusLocalQPOp
	case inline:
		wr.Inline = s.data[:copy(s.data[:length], data)]
		return verbs.StatusSuccess
	}
	copy(s.data, data[:n*sgeLen])
	s.sges = getSGEs(s.sges[:0], s.data, int(n))
	if wr.Opcode.Atomic() && n == 1 {
		s.sges[0].Length = min(s.sges[0].Length, verbs.AtomicLen)
	}
	wr.SGEs = s.sges
	return verbs.StatusSuccess
}

// RecvQueue is the device half of a receive queue or SRQ.
type RecvQueue struct {
	queue
	ring   consumer
	maxSGE int
	raw    [recvData]byte // the request in hand
	data   []byte         // its elements
	sges   []verbs.SGE
}

// NewRecvQueue makes the ring of a receive queue or SRQ.
func (a *Arena) NewRecvQueue(maxWR, maxSGE int) (*RecvQueue, error) {
	r := &RecvQueue{maxSGE: maxSGE, data: make([]byte, maxSGE*sgeLen), sges: make([]verbs.SGE, 0, maxSGE)}
	h, err := r.make(a, recvLayout(maxWR, maxSGE), offConsumer, offProducer)
	if err != nil {
		return nil, fmt.Errorf("receive queue: %w", err)
	}
	r.ring.half = h
	return r, nil
}

// Free gives the ring back: nothing is read from it any more.
func (r *RecvQueue) Free() {
	r.ring.mem = nil
	r.arena.free(&r.piece)
}

// Len implements verbs.RecvSource.
func (r *RecvQueue) Len() int { return r.ring.filled() }

// Next implements verbs.RecvSource.
func (r *RecvQueue) Next(wr *verbs.RecvWR) (verbs.Status, bool) {
	e := r.ring.next()
	if e == nil {
		return verbs.StatusSuccess, false
	}
	copy(r.raw[:], e)
	*wr = verbs.RecvWR{ID: host.Uint64(r.raw[recvID:])}
	status := verbs.StatusSuccess
	if n := host.Uint32(r.raw[recvDMASGE:]); n > uint32(r.maxSGE) {
		status = verbs.StatusLocalQPOp
	} else {
		copy(r.data, e[recvData:][:n*sgeLen])
		r.sges = getSGEs(r.sges[:0], r.data, int(n))
		wr.SGEs = r.sges
	}
	r.ring.advance()
	return status, true
}

// Resize implements verbs.RecvSource: a new ring takes the place of the old
// one, with what waits there. The program must not post meanwhile, and maps
// Offset and Size again.
func (r *RecvQueue) Resize(maxWR int) error {
	next, err := r.arena.NewRecvQueue(maxWR, r.maxSGE)
	if err != nil {
		return err
	}
	to := producer{recvLayout(maxWR, r.maxSGE).half(next.piece.mem, offProducer, offConsumer)}
	if err := r.ring.moveTo(&to); err != nil {
		next.Free()
		return err
	}
	r.arena.free(&r.piece)
	r.queue, r.ring = next.queue, next.ring
	return nil
}

// CompletionQueue is the device half of a completion queue.
type CompletionQueue struct {
	queue
	ring producer
	by   *atomic.Uint32 // what the program waits for; nil: the ring's own word says it
	cqe  [cqeLen]byte
}

// NewCompletionQueue makes the ring of a completion queue.
func (a *Arena) NewCompletionQueue(entries int) (*CompletionQueue, error) {
	c := &CompletionQueue{}
	h, err := c.make(a, cqLayout(entries), offProducer, offConsumer)
	if err != nil {
		return nil, fmt.Errorf("completion queue: %w", err)
	}
	c.ring.half = h
	return c, nil
}

// Free gives the ring back: nothing is written to it any more.
func (c *CompletionQueue) Free() {
	c.ring.mem = nil
	c.arena.free(&c.piece)
}

// Cap implements verbs.Sink: mostly more than was asked for.
func (c *CompletionQueue) Cap() int { return c.ring.cap() }

// Len implements verbs.Sink.
func (c *CompletionQueue) Len() int { return c.ring.filled() }

// Push implements verbs.Sink.
func (c *CompletionQueue) Push(wc *verbs.WC) {
	e := c.ring.room()
	if e == nil {
		return
	}
	putCQE(&c.cqe, wc)
	copy(e, c.cqe[:])
	c.ring.advance()
}

// ArmedBy has the queue look at w, not at the word of its ring, for what the program
// waits for: 0 nothing, 1 the next completion that is solicited or failed, 2 the
// next. With nil the ring's word says it again.
func (c *CompletionQueue) ArmedBy(w *atomic.Uint32) { c.by = w }

// Awaited implements verbs.Sink. A program that sleeps on the word is woken at
// once; another word that it has put there meanwhile is not lost.
func (c *CompletionQueue) Awaited(solicited bool) (asked, told bool) {
	if c.ring.mem == nil {
		return false, false
	}
	w := c.by
	if w == nil {
		w = word(c.ring.mem, offArmed)
	}
	switch w.Load() {
	case armedNot:
		return false, false
	case armedSolicited:
		if !solicited {
			return false, false
		}
	}
	if w.Swap(armedNot) == armedAsleep {
		wake(w)
		return false, true
	}
	return true, false
}

// Resize implements verbs.Sink: a new ring takes the place of the old one,
// with what the program has not fetched. It must not poll meanwhile, and maps
// Offset and Size again.
func (c *CompletionQueue) Resize(entries int) error {
	next, err := c.arena.NewCompletionQueue(entries)
	if err != nil {
		return err
	}
	word(next.ring.mem, offArmed).Store(word(c.ring.mem, offArmed).Load())
	from := consumer{c.ring.half}
	from.own, from.other, from.index = c.ring.other, c.ring.own, c.ring.other.Load()&c.ring.mask
	if err := from.moveTo(&next.ring); err != nil {
		next.Free()
		return err
	}
	c.arena.free(&c.piece)
	c.queue, c.ring = next.queue, next.ring
	return nil
}
