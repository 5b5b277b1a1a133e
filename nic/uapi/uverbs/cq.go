package uverbs

import (
	"syscall"

	"tapir/nic/al"
	"tapir/nic/ring"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/eventpipe"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// cq is a completion queue whose completions lie in a ring of the program's.
type cq struct {
	target
	v       *verbs.CQ
	ring    *ring.CompletionQueue
	channel *channel
	comp    eventpipe.Source // completion events
}

// Completion implements al.CompletionHandler.
func (q *cq) Completion(*verbs.CQ, frame.Time) {
	if q.channel == nil {
		return
	}
	n := eventpipe.Note{Of: &q.comp}
	native.PutUint64(n.Data[:], q.user)
	if q.channel.pipe.Add(n) {
		q.f.server.toTell(q.channel.pipe)
	}
}

func (q *cq) destroy() error {
	if err := q.v.Destroy(); err != nil {
		return err
	}
	if q.channel != nil {
		q.channel.pipe.Forget(&q.comp)
		q.channel.cqs--
	}
	q.to.Forget(&q.async)
	q.ring.Free()
	return nil
}

// eventsRead is what DESTROY_CQ answers: completion and asynchronous events read.
func (q *cq) eventsRead() []uint32 { return []uint32{q.comp.Read, q.async.Read} }

// newCQ is what both forms of CREATE_CQ ask for.
type newCQ struct {
	user            uint64
	entries, vector uint32
	channel         int32 // descriptor, -1: none
	pd              *pd   // that it belongs to; nil: none
}

// createCQ serves CREATE_CQ{response, user_handle, cqe, vector, channel} ->
// {handle, cqe} {ring}.
func createCQ(r *request) error {
	return r.createCQ(newCQ{r.in.u64(8), r.in.u32(16), r.in.u32(20), int32(r.in.u32(24)), nil})
}

// createCQOfPD serves CREATE_CQ_OF_PD, which is CREATE_CQ with a domain behind:
// {..., u32, pd, u32}.
func createCQOfPD(r *request, p *pd) error {
	return r.createCQ(newCQ{r.in.u64(8), r.in.u32(16), r.in.u32(20), int32(r.in.u32(24)), p})
}

// createCQEx serves the extended CREATE_CQ{user_handle, cqe, vector, channel,
// comp_mask, flags}; its answer goes on with {comp_mask, response_length}.
func createCQEx(r *request) error {
	switch {
	case r.in.u32(20) != 0 || r.in.u32(28) != 0:
		return syscall.EINVAL
	case r.in.u32(24) != 0: // time stamps, overrun
		return syscall.EOPNOTSUPP
	}
	return r.createCQ(newCQ{r.in.u64(0), r.in.u32(8), r.in.u32(12), int32(r.in.u32(16)), nil})
}

func (r *request) createCQ(want newCQ) error {
	f := r.f
	if err := r.wantsUHW(ringLen); err != nil {
		return err
	}
	q := &cq{target: r.target(want.user)}
	if want.channel >= 0 {
		ch, err := findChannel(f.channels, r.c.Process(), want.channel)
		if err != nil {
			return err
		}
		q.channel = ch
	}
	limits := f.ctx.Query()
	if want.entries == 0 || want.entries > uint32(limits.MaxCQE) || want.vector >= uint32(limits.CNQs) {
		return syscall.EINVAL
	}
	return r.create(q, func() error { return q.create(r, want) }, func(h uint32) (core, uhw []byte) {
		if q.channel != nil {
			q.channel.cqs++
		}
		al.Retarget(q.v, q)
		q.share(h)
		return abi.Octets(&abi.CreateCQ{Handle: h, Entries: uint32(q.v.Cap()),
			ResponseLength: length[abi.CreateCQ](r)}), place(q.ring)
	})
}

// create makes the ring in the program's file, then the queue.
func (q *cq) create(r *request, want newCQ) (err error) {
	if q.ring, err = q.f.arena.NewCompletionQueue(int(want.entries)); err != nil {
		return err
	}
	r.trace(StepDriver)
	make := q.f.ctx.CreateCQ
	if want.pd != nil {
		make = want.pd.CreateCQ
	}
	q.v, err = make(int(want.entries), int(want.vector), nil)
	if err == nil {
		err = q.v.SetSink(q.ring)
	}
	if err != nil {
		q.ring.Free()
	}
	return err
}

// share has the queue be armed by the doorbells' memory, if there is any.
func (q *cq) share(handle uint32) {
	if q.f.bells == nil {
		q.ring.ArmedBy(nil)
		return
	}
	q.ring.ArmedBy(q.f.bells.Notifies(handle, true))
}

// ringLen is struct mminfo, which tells a provider where to map a ring.
const ringLen = 16

// mapped is a ring in the program's file.
type mapped interface {
	Offset() uint64
	Size() uint32
}

func place(q mapped) []byte { return abi.Octets(&abi.Place{Offset: q.Offset(), Size: q.Size()}) }

// resizeCQ serves RESIZE_CQ{response, handle, cqe} -> {cqe, u32} {ring}.
func resizeCQ(r *request, q *cq) error {
	if err := r.wantsUHW(ringLen); err != nil {
		return err
	}
	entries := r.in.u32(12)
	if entries == 0 || entries > uint32(r.f.ctx.Query().MaxCQE) {
		return syscall.EINVAL
	}
	if err := q.v.Resize(int(entries)); err != nil {
		return err
	}
	return r.answer(words(uint32(q.v.Cap())), place(q.ring))
}

// reqNotifyCQ serves REQ_NOTIFY_CQ{handle, solicited_only}.
func reqNotifyCQ(r *request, q *cq) error {
	q.v.ReqNotify(r.in.u32(4) != 0)
	return nil
}

// wcLen is struct ib_uverbs_wc.
const wcLen = 48

// pollCQ serves POLL_CQ{response, handle, ne} -> {count, u32, completions}.
func pollCQ(r *request, q *cq) error {
	most, room := int(r.in.u32(12)), (r.outLen-8)/wcLen
	out := make([]byte, 8, 8+wcLen*min(most, room, q.v.Len()))
	n := uint32(0)
	for len(out) < cap(out) {
		slot := out[len(out) : len(out)+wcLen]
		if !q.ring.Fetch(slot) {
			break
		}
		out = out[:len(out)+wcLen]
		n++
	}
	native.PutUint32(out, n)
	return r.c.Write(r.answerAt, out)
}
