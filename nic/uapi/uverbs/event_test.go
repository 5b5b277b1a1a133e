package uverbs

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/eventpipe"
	"tapir/nic/verbs"
)

// complete puts a completion into a CQ: a receive of qp that is flushed.
func (w *world) complete(qp *verbs.QP) {
	w.Helper()
	_, err := qp.PostRecv(verbs.RecvWR{ID: 1})
	ok(w.TB, err)
	w.countRead()
}

func (c *client) arm(cq uint32) { c.must(23, fields(cq, 0), 0) }

func TestCompletionEvents(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd, ch := w.pd(), w.channel()
	cq := w.cq(0x1234_5678_9abc, 64, int32(ch))
	qp, _ := w.qp(2, pd, cq)
	w.must(26, toState(qp, verbs.Err), 0)
	v := w.dev.QPs()[0]
	w.complete(v)
	if ev := w.read(ch, compEventLen); ev != nil {
		t.Errorf("event % x of a queue that was not armed", ev)
	}
	w.arm(cq)
	w.complete(v)
	w.complete(v)
	ev := body(w.read(ch, compEventLen))
	if ev.u64(0) != 0x1234_5678_9abc {
		t.Errorf("event % x", ev)
	}
	if ev := w.read(ch, compEventLen); ev != nil {
		t.Errorf("second event % x", ev)
	}
	w.must(21, fields(cq, 100), 8+100*wcLen)
	got := body(w.mem)
	if got.u32(0) != 3 || got.u64(8) != 1 || got.u32(16) != uint32(verbs.StatusFlushed) || got.u32(36) != v.Num() {
		t.Errorf("poll: % x", got[:64])
	}
	w.must(27, fields(qp, 0), 4)
	if gone := w.must(20, fields(cq, 0), 8); gone.u32(0) != 1 || gone.u32(4) != 0 {
		t.Errorf("destroy tells of % x events", gone)
	}
}

func TestAsyncEvents(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd, cq := w.pd(), w.cq(7, 64, -1)
	qp, _ := w.qp(0xabcd, pd, cq)
	in := fields(uint64(0xef), pd, 10, 2, 0)
	srq := w.must(32, in, srqAnswerLen+srqUHWLen).u32(0)
	for _, c := range []struct {
		ev      verbs.AsyncEvent
		element uint64
		typ     uint32
	}{
		{verbs.AsyncEvent{Type: verbs.EventQPFatal, QP: w.dev.QPs()[0]}, 0xabcd, 1},
		{verbs.AsyncEvent{Type: verbs.EventCQError, CQ: w.dev.CQs()[0]}, 7, 0},
		{verbs.AsyncEvent{Type: verbs.EventPortError, Port: 1}, 1, 10},
	} {
		w.dev.Async(c.ev)
		w.countRead()
		if ev := body(w.read(asyncFD, asyncEventLen)); ev == nil || ev.u64(0) != c.element || ev.u32(8) != c.typ || ev.u32(12) != 0 {
			t.Errorf("%v: % x", c.ev.Type, ev)
		}
	}
	w.dev.Async(verbs.AsyncEvent{Type: verbs.EventQPAccessError, QP: w.dev.QPs()[0]}) // not read
	w.countRead()
	if gone := w.must(27, fields(qp, 0), 4); gone.u32(0) != 1 {
		t.Errorf("%d events of the QP", gone.u32(0))
	}
	if ev := w.read(asyncFD, asyncEventLen); ev != nil {
		t.Errorf("event % x of a destroyed QP", ev)
	}
	if gone := w.must(35, fields(srq, 0), 4); gone.u32(0) != 0 {
		t.Errorf("%d events of the SRQ", gone.u32(0))
	}
	if gone := w.must(20, fields(cq, 0), 8); gone.u32(0) != 0 || gone.u32(4) != 1 {
		t.Errorf("events of the CQ % x", gone)
	}
}

// A channel ends without a word: nobody reads it any more.
func TestAbandonedChannels(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	f := w.file.(*File)
	ch := w.channel()
	cq := w.cq(1, 16, int32(ch))
	qp, _ := w.qp(2, w.pd(), cq)
	w.arm(cq)
	w.must(26, toState(qp, verbs.Err), 0)
	w.complete(w.dev.QPs()[0])
	if w.read(ch, compEventLen) == nil {
		t.Error("no event")
	}
	for range 100 {
		w.prog.CloseFiles()
		if w.channel(); len(f.channels) > 2+idleChannels {
			t.Fatalf("%d channels, one has a CQ and one is open", len(f.channels))
		}
	}
	if f.channels[0].pipe.FD() >= 0 {
		t.Error("a channel that nobody reads has a descriptor")
	}
	w.prog.CloseFiles()
	if ch, err := findChannel(f.channels, 100, int32(ch)); err == nil {
		t.Errorf("a closed channel is found: %+v", ch)
	}
	w.arm(cq)
	w.complete(w.dev.QPs()[0]) // its event goes nowhere
	w.must(27, fields(qp, 0), 4)
	if gone := w.must(20, fields(cq, 0), 8); gone.u32(0) != 1 {
		t.Errorf("%d events were read, one was", gone.u32(0))
	}
}

// Completion events are written when the thread says so, those of a channel at once; where
// the pipe has not room for all of them, as many as there is room for.
func TestToldTogether(t *testing.T) {
	var tell func()
	s := &Server{}
	s.TellBy(func(fn func()) { tell = fn })
	var source eventpipe.Source
	pipes := make([]*eventpipe.Pipe, 2)
	ends := make([]int, 2)
	for i := range pipes {
		p, end, err := eventpipe.New(compEventLen)
		ok(t, err)
		ok(t, unix.SetNonblock(end, true))
		_, err = unix.FcntlInt(uintptr(end), unix.F_SETPIPE_SZ, 4096)
		ok(t, err)
		defer unix.Close(end)
		defer p.Close()
		pipes[i], ends[i] = p, end
	}
	event := func(i int, user uint64) {
		n := eventpipe.Note{Of: &source}
		native.PutUint64(n.Data[:], user)
		if !pipes[i].Add(n) {
			t.Fatal("the pipe is closed")
		}
		s.toTell(pipes[i])
	}
	read := func(i int) (users []uint64) {
		var buf [8192]byte
		n, _ := unix.Read(ends[i], buf[:])
		for at := 0; at+8 <= n; at += 8 {
			users = append(users, native.Uint64(buf[at:]))
		}
		return users
	}
	event(0, 1)
	event(1, 2)
	event(0, 3)
	if got := read(0); got != nil || !slices.Equal(s.untold, pipes) {
		t.Fatalf("%v was told at once, %d channels wait", got, len(s.untold))
	}
	tell()
	if a, b := read(0), read(1); !slices.Equal(a, []uint64{1, 3}) || !slices.Equal(b, []uint64{2}) || len(s.untold) != 0 {
		t.Errorf("told %v and %v, %d channels wait", a, b, len(s.untold))
	}
	const room = 4096 / compEventLen
	for i := range room + 2 {
		event(0, uint64(i))
		if i < room-1 {
			tell()
		}
	}
	tell()
	if got := read(0); len(got) != room || got[room-1] != room-1 {
		t.Errorf("%d events in a pipe for %d", len(got), room)
	}
	pipes[0].Flush()
	if got := read(0); !slices.Equal(got, []uint64{room, room + 1}) {
		t.Errorf("the rest is %v", got)
	}
}
