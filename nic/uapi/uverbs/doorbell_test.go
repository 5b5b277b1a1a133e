package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/ipc"
	"tapir/nic/verbs"
)

// page is the program's side of its doorbells: their memory, as the library knows it.
type page []byte

// Where what lies in it.
const (
	pagePosts    = 528
	pageNotifies = pagePosts + doorbell.Max/8
	pageArmed    = pageNotifies + doorbell.Max/8
)

// share gives the program doorbells.
func (w *world) share() page {
	w.Helper()
	b, memory, err := doorbell.New()
	ok(w.TB, err)
	mem, err := ipc.Map(memory, pageArmed+4*doorbell.Max)
	ok(w.TB, err)
	f := w.file.(*File)
	f.SetBells(b)
	w.Cleanup(func() {
		f.SetBells(nil)
		b.End()
		_ = unix.Close(memory)
		_ = unix.Munmap(mem)
	})
	return mem
}

func (p page) has(at int, n uint32) bool { return n < doorbell.Max && p[at+int(n/8)]>>(n%8)&1 == 1 }

// arm arms a completion queue for the completions of what; false: it may not.
func (p page) arm(n, what uint32) bool {
	if !p.has(pageNotifies, n) {
		return false
	}
	native.PutUint32(p[pageArmed+4*n:], what)
	return true
}

// A queue pair may be rung for from its first post by command until it is moved or
// destroyed. What is rung for goes the way of the command.
func TestDoorbells(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd, cq := w.pd(), w.cq(1, 16, -1)
	bells := w.share()
	qp, _ := w.qp(2, pd, cq)
	f, v := w.file.(*File), w.dev.QPs()[0]
	may := func(want bool) {
		t.Helper()
		if got := bells.has(pagePosts, qp); got != want {
			t.Errorf("%v: may be rung for: %v", v.State(), got)
		}
	}
	may(false)
	w.must(26, toState(qp, verbs.Init), 0)
	v.Transition(verbs.RTS)
	w.must(28, fields(qp, 0, 0, sendWRLen), 4)
	may(true)
	before := w.null.posted
	f.Rung(int(qp))
	if w.null.posted == before {
		t.Error("a doorbell does not reach the transport")
	}
	for _, h := range []int{int(pd), int(cq), 999, doorbell.Max} { // what is no queue pair
		f.Rung(h)
	}
	w.must(26, toState(qp, verbs.Err), 0)
	may(false)
	w.must(28, fields(qp, 0, 0, sendWRLen), 4) // flushes, and is not for the doorbell
	may(false)
	w.must(27, fields(qp, 0), 4)
	may(false)
	f.Rung(int(qp))
}

// A completion queue is armed in memory, whether it is older than the doorbells or
// not, and by the command still.
func TestArmedInMemory(t *testing.T) {
	w := newWorld(t, verbs.Limits{})
	pd, ch := w.pd(), w.channel()
	older := w.cq(1, 64, int32(ch))
	bells := w.share()
	newer := w.cq(2, 64, int32(ch))
	for i, cq := range []uint32{older, newer} {
		qp, _ := w.qp(7, pd, cq)
		w.must(26, toState(qp, verbs.Err), 0)
		v := w.dev.QPs()[0]
		event := func(user uint64) {
			t.Helper()
			w.complete(v)
			ev := body(w.read(ch, compEventLen))
			if (ev != nil) != (user != 0) || ev != nil && ev.u64(0) != user {
				t.Errorf("queue %d: event % x, want of %d", i, ev, user)
			}
		}
		event(0)
		if !bells.arm(cq, 2) {
			t.Fatal("cannot be armed")
		}
		event(uint64(i + 1))
		event(0)
		if bells.arm(cq, 1); i == 0 { // what fails counts as solicited
			event(1)
		} else {
			event(2)
		}
		w.arm(cq)
		event(uint64(i + 1))
		w.must(27, fields(qp, 0), 4)
		w.must(20, fields(cq, 0), 8)
		if bells.arm(cq, 2) {
			t.Error("a queue that is gone can be armed")
		}
	}
	if bells.arm(doorbell.Max, 2) || bells.arm(pd, 2) {
		t.Error("what is no queue can be armed")
	}
}
