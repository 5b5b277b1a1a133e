package uverbs

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/verbs"
)

// complete puts a completion into a CQ: a receive of qp that is flushed.
func (w *world) complete(qp *verbs.QP) {
	w.Helper()
	_, err := qp.PostRecv(verbs.RecvWR{ID: 1})
	ok(w.TB, err)
	w.settle()
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
		w.settle()
		if ev := body(w.read(asyncFD, asyncEventLen)); ev == nil || ev.u64(0) != c.element || ev.u32(8) != c.typ || ev.u32(12) != 0 {
			t.Errorf("%v: % x", c.ev.Type, ev)
		}
	}
	w.dev.Async(verbs.AsyncEvent{Type: verbs.EventQPAccessError, QP: w.dev.QPs()[0]}) // not read
	w.settle()
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

// However events are raised, read and taken back, a source is told to have had
// as many read as were, those of others come in their order, and none of a
// source that was forgotten comes.
func TestEventAccounting(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p, r, err := newEventPipe(compEventLen)
		ok(t, err)
		ok(t, unix.SetNonblock(r, true))
		if seed%2 == 0 { // a pipe of one page: events wait for room
			_, err := unix.FcntlInt(uintptr(r), unix.F_SETPIPE_SZ, 4096)
			ok(t, err)
		}
		model := newModel(t, p, r)
		for range 3000 {
			switch n := rng.IntN(100); {
			case n < 60:
				model.push(rng.IntN(8))
			case n < 95:
				model.read()
			case n < 97:
				p.settle()
			default:
				model.forget(rng.IntN(8))
			}
		}
		p.flush()
		for model.read() {
			p.flush()
		}
		for i := range 8 {
			model.forget(i)
		}
		p.close()
		_ = unix.Close(r)
	}
}

// model is what a program knows of the events that it is sent.
type model struct {
	testing.TB
	pipe    *eventPipe
	fd      int
	sources [8]*source
	names   [8]uint64
	pending []uint64 // names of the events not read
	got     map[uint64]uint32
	next    uint64
}

func newModel(t testing.TB, p *eventPipe, fd int) *model {
	m := &model{TB: t, pipe: p, fd: fd, got: map[uint64]uint32{}}
	for i := range m.sources {
		m.renew(i)
	}
	return m
}

func (m *model) renew(i int) {
	m.next++
	m.sources[i], m.names[i] = &source{}, m.next
}

func (m *model) push(i int) {
	n := note{of: m.sources[i]}
	native.PutUint64(n.data[:], m.names[i])
	before := len(m.pipe.notes) - m.pipe.inside
	m.pipe.push(n)
	waits := len(m.pipe.notes) - m.pipe.inside
	if waits > 0 && waits == before { // one with its equal
		return
	}
	m.pending = append(m.pending, m.names[i])
}

func (m *model) read() bool {
	var b [compEventLen]byte
	n, err := unix.Read(m.fd, b[:])
	if err == unix.EAGAIN {
		return false
	}
	name := native.Uint64(b[:])
	if err != nil || n != len(b) || len(m.pending) == 0 || name != m.pending[0] {
		m.Fatalf("read %d octets, %v: event %d, expected %v", n, err, name, m.pending)
	}
	m.pending = m.pending[1:]
	m.got[name]++
	return true
}

func (m *model) forget(i int) {
	m.pipe.forget(m.sources[i])
	if m.sources[i].read != m.got[m.names[i]] {
		m.Fatalf("%d events counted as read, %d were", m.sources[i].read, m.got[m.names[i]])
	}
	var kept []uint64
	for _, name := range m.pending {
		if name != m.names[i] {
			kept = append(kept, name)
		}
	}
	m.pending = kept
	m.renew(i)
}

// A channel ends without a word: nobody reads it any more.
func TestAbandonedChannels(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	f := w.file.(*File)
	ch := w.channel()
	cq := w.cq(1, 16, int32(ch))
	qp, _ := w.qp(2, w.pd(), cq)
	for range 100 {
		w.prog.CloseFiles()
		if w.channel(); len(f.channels) > 2+idleChannels {
			t.Fatalf("%d channels, one has a CQ and one is open", len(f.channels))
		}
	}
	w.prog.CloseFiles()
	if ch, err := f.findChannel(100, int32(ch)); err == nil {
		t.Errorf("a closed channel is found: %+v", ch)
	}
	w.arm(cq)
	w.must(26, toState(qp, verbs.Err), 0)
	w.complete(w.dev.QPs()[0]) // its event goes nowhere
	w.must(27, fields(qp, 0), 4)
	if gone := w.must(20, fields(cq, 0), 8); gone.u32(0) != 0 {
		t.Errorf("%d events were read by nobody", gone.u32(0))
	}
}
