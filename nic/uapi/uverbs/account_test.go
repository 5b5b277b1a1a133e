package uverbs

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tapir/nic/verbs"
)

func okay(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// objects is a program with objects that have events, each of which it has read
// so many: the answer to destroying one must say so, since libibverbs waits
// until as many were acknowledged.
type objects struct {
	*world
	pd       uint32
	channels []int
	cqs      []*owned
	qps      []*owned
	srqs     []*owned
	user     uint64
	alive    map[uint64]*owned // by the program's name
}

// owned is an object, its events that were read, and those that have to come.
type owned struct {
	handle, number uint32
	user           uint64
	channel        int    // of a CQ; -1: none
	cq             *owned // of a QP
	comp, async    uint32 // read
	armed          bool
	due            int // completion events not read
	dueAsync       int
}

func (o *objects) name() uint64 {
	o.user++
	return o.user << 20
}

func (o *objects) note(list *[]*owned, made *owned) {
	*list = append(*list, made)
	o.alive[made.user] = made
}

func (o *objects) forget(list *[]*owned, gone *owned) {
	*list = slices.DeleteFunc(*list, func(x *owned) bool { return x == gone })
	delete(o.alive, gone.user)
}

// readComp reads an event from a channel, which must be due.
func (o *objects) readComp(t *rapid.T, ch int) bool {
	ev := body(o.read(ch, compEventLen))
	if ev == nil {
		for _, q := range o.cqs {
			if q.channel == ch && q.due > 0 {
				t.Fatalf("%d events of CQ %d do not come", q.due, q.handle)
			}
		}
		return false
	}
	q := o.alive[ev.u64(0)]
	if q == nil || q.channel != ch || q.due == 0 {
		t.Fatalf("event of %#x, which is %+v", ev.u64(0), q)
	}
	q.due--
	q.comp++
	return true
}

func (o *objects) readAsync(t *rapid.T) bool {
	ev := body(o.read(asyncFD, asyncEventLen))
	if ev == nil {
		for _, x := range o.alive {
			if x.dueAsync > 0 {
				t.Fatalf("%d events of object %d do not come", x.dueAsync, x.handle)
			}
		}
		return false
	}
	x := o.alive[ev.u64(0)]
	if x == nil || x.dueAsync == 0 {
		t.Fatalf("event of %#x, which is %+v", ev.u64(0), x)
	}
	x.dueAsync--
	x.async++
	return true
}

// completes has a queue pair in error complete a receive.
func (o *objects) completes(t *rapid.T, q *owned) {
	_, err := o.server.QP(o.prog.PID, q.number).PostRecv(verbs.RecvWR{ID: q.user})
	okay(t, err)
	o.countRead()
	o.must(21, fields(q.cq.handle, 64), 8+64*wcLen) // the CQ does not overflow
	if cq := q.cq; cq.armed {
		cq.armed = false
		if cq.channel >= 0 {
			cq.due++
		}
	}
}

// behind is what stands behind a handle.
func behind[T object](t *rapid.T, o *objects, handle uint32) T {
	v, err := lookup[T](o.file.(*File), handle)
	okay(t, err)
	return v
}

// raise raises an event, which comes when the handlers have run.
func (o *objects) raise(t *rapid.T) {
	var ev verbs.AsyncEvent
	var of *owned
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		if of = pick(t, o.qps); of != nil {
			ev = verbs.AsyncEvent{Type: verbs.EventQPFatal, QP: behind[*qp](t, o, of.handle).v}
		}
	case 1:
		if of = pick(t, o.cqs); of != nil {
			ev = verbs.AsyncEvent{Type: verbs.EventCQError, CQ: behind[*cq](t, o, of.handle).v}
		}
	case 2:
		if of = pick(t, o.srqs); of != nil {
			ev = verbs.AsyncEvent{Type: verbs.EventSRQLimit, SRQ: behind[*srq](t, o, of.handle).v}
		}
	}
	if of != nil {
		of.dueAsync++
		o.dev.Async(ev)
	}
}

func pick(t *rapid.T, list []*owned) *owned {
	if len(list) == 0 {
		return nil
	}
	return rapid.SampledFrom(list).Draw(t, "object")
}

// create makes an object of some kind.
func (o *objects) create(t *rapid.T) {
	user := o.name()
	switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
	case kind == 0:
		ch := rapid.SampledFrom([]int{-1, o.channels[0], o.channels[1]}).Draw(t, "channel")
		o.note(&o.cqs, &owned{handle: o.cq(user, 64, int32(ch)), user: user, channel: ch})
	case kind == 1:
		o.note(&o.srqs, &owned{handle: o.must(32, fields(user, o.pd, 10, 2, 0), srqAnswerLen+srqUHWLen).u32(0), user: user})
	case len(o.cqs) > 0:
		cq := pick(t, o.cqs)
		h, num := o.qp(user, o.pd, cq.handle)
		o.must(26, toState(h, verbs.Err), 0)
		o.note(&o.qps, &owned{handle: h, number: num, user: user, cq: cq})
	}
}

// destroy ends an object and compares the counts.
func (o *objects) destroy(t *rapid.T) {
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		q := pick(t, o.cqs)
		if q == nil || slices.ContainsFunc(o.qps, func(x *owned) bool { return x.cq == q }) {
			return // in use
		}
		if gone := o.must(20, fields(q.handle, 0), 8); gone.u32(0) != q.comp || gone.u32(4) != q.async {
			t.Fatalf("CQ: %d completion and %d other events, read were %d and %d", gone.u32(0), gone.u32(4), q.comp, q.async)
		}
		o.forget(&o.cqs, q)
	case 1:
		o.destroyOne(t, 27, &o.qps)
	case 2:
		o.destroyOne(t, 35, &o.srqs)
	}
}

func (o *objects) destroyOne(t *rapid.T, command int, list *[]*owned) {
	x := pick(t, *list)
	if x == nil {
		return
	}
	if gone := o.must(command, fields(x.handle, 0), 4); gone.u32(0) != x.async {
		t.Fatalf("%d events, read were %d", gone.u32(0), x.async)
	}
	o.forget(list, x)
}

// Destroying a queue never makes libibverbs wait for an event that it will not
// get: whatever the program does, the answer counts the events that it has read,
// and all that are due come, none of them after the end.
func TestDestroyCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, verbs.Limits{})
		defer w.prog.CloseFiles()
		o := &objects{world: w, pd: w.pd(), channels: []int{w.channel(), w.channel()}, alive: map[uint64]*owned{}}
		rt.Repeat(map[string]func(*rapid.T){
			"create":  o.create,
			"destroy": o.destroy,
			"raise":   o.raise,
			"arm": func(t *rapid.T) {
				if q := pick(t, o.cqs); q != nil {
					o.countRead() // completions of before cause no event
					o.arm(q.handle)
					q.armed = true
				}
			},
			"complete": func(t *rapid.T) {
				if q := pick(t, o.qps); q != nil {
					o.completes(t, q)
				}
			},
			"read": func(t *rapid.T) {
				o.countRead()
				for range rapid.IntRange(1, 5).Draw(t, "events") {
					o.readComp(t, rapid.SampledFrom(o.channels).Draw(t, "channel"))
					o.readAsync(t)
				}
			},
		})
		o.countRead()
		for o.readAsync(rt) || o.readComp(rt, o.channels[0]) || o.readComp(rt, o.channels[1]) {
		}
		for len(o.alive) > 0 {
			o.destroy(rt)
		}
	})
}
