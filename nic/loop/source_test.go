package loop

import (
	"bytes"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/wire/frame"
)

func newPipe(t testing.TB) (r, w int) {
	t.Helper()
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

// What a source gives the engine leaves in the same iteration, before and
// after queues came and went.
func TestSource(t *testing.T) {
	w := prepare(t, 0)
	defer w.Close()
	r, in := newPipe(t)
	var served, lost int
	s := w.AddSource(r, func(frame.Time, bool) {
		b := make([]byte, 100)
		n, err := unix.Read(r, b)
		must(t, err)
		f := w.pool.Get(n)
		f.Append(b[:n])
		w.engine.queue = append(w.engine.queue, f)
		served++
	}, func() { lost++ })
	once := func() {
		t.Helper()
		must(t, w.sleep(0))
		_, _, err := w.iterate()
		must(t, err)
	}
	check := func(text string) {
		t.Helper()
		_, err := unix.Write(in, []byte(text))
		must(t, err)
		once()
		if got := w.far.receive(t); !bytes.Equal(got, []byte(text)) {
			t.Fatalf("got %q, want %q", got, text)
		}
	}
	check("first")
	near, _ := newCable(t)
	second := w.AddQueue(frame.Host, near, 1522)
	check("with a queue that came later")
	w.RemoveQueue(second)
	check("without it")
	if served != 3 {
		t.Errorf("served %d times, want 3", served)
	}
	w.RemoveSource(s)
	_, err := unix.Write(in, []byte("x"))
	must(t, err)
	once()
	if served != 3 || lost != 0 {
		t.Errorf("after its removal it was served %d times and lost %d times", served-3, lost)
	}
}

// A source wakes the loop, one that removes itself is not lost, one that is
// left at the end is.
func TestSourcesOfALoopThatRuns(t *testing.T) {
	w := prepare(t, 0)
	r, in := newPipe(t)
	kept, _ := newPipe(t)
	served, lost := make(chan bool, 1), make(chan string, 2)
	var s *Source
	s = w.AddSource(r, func(frame.Time, bool) { w.RemoveSource(s); served <- true }, func() { lost <- "removed" })
	w.AddSource(kept, func(frame.Time, bool) { t.Error("an empty pipe was served") }, func() { lost <- "kept" })
	w.run(t)
	_, err := unix.Write(in, []byte("x"))
	must(t, err)
	<-served
	w.stop()
	if got := <-lost; got != "kept" || len(lost) != 0 {
		t.Errorf("lost %q and %d more", got, len(lost))
	}
	w.AddSource(kept, func(frame.Time, bool) {}, func() { lost <- "late" })
	if len(lost) != 1 {
		t.Error("one that comes too late is not told")
	}
}

// An error is no end: a listener of seccomp has one when a signal comes while
// the kernel looks at it. Here a pipe that nobody reads has one.
func TestErrorOfASource(t *testing.T) {
	w := prepare(t, 0)
	defer w.Close()
	r, in := newPipe(t)
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Dup3(null, r, unix.O_CLOEXEC)) // the pipe's only reading end is gone
	must(t, unix.Close(null))
	w.AddSource(in, func(_ frame.Time, hungUp bool) { t.Errorf("served, hung up %v", hungUp) }, func() {})
	must(t, w.sleep(0))
	if got := w.fds[w.firstSource()].Revents; got != unix.POLLERR {
		t.Fatalf("events %#x", got)
	}
	_, _, err = w.iterate()
	must(t, err)
}

// A nap ends with an event, and one without does not outlast the deadline.
func TestNap(t *testing.T) {
	w := prepare(t, 0)
	defer w.Close()
	r, in := newPipe(t)
	w.AddSource(r, func(frame.Time, bool) {}, func() {})
	_, err := unix.Write(in, []byte("x"))
	must(t, err)
	w.policy.nap = true
	must(t, w.sleep(w.clock.now().Add(time.Hour)))
	if w.fds[w.firstSource()].Revents&unix.POLLIN == 0 {
		t.Error("the nap ended without the source")
	}
	unix.Read(r, make([]byte, 1))
	w.policy.nap = true
	deadline := w.clock.now().Add(2 * napFor)
	must(t, w.sleep(deadline))
	if now := w.clock.now(); now < deadline || w.policy.nap || w.fds[w.firstSource()].Revents != 0 {
		t.Errorf("%v after the deadline: nap %v", now.Sub(deadline), w.policy.nap)
	}
}

func TestSourceAllocatesNothing(t *testing.T) {
	w := prepare(t, 0)
	defer w.Close()
	r, in := newPipe(t)
	b := make([]byte, 8)
	w.AddSource(r, func(frame.Time, bool) { unix.Read(r, b) }, func() {})
	once := func() {
		unix.Write(in, b)
		must(t, w.sleep(0))
		if _, _, err := w.iterate(); err != nil {
			t.Fatal(err)
		}
	}
	once()
	if n := testing.AllocsPerRun(200, once); n != 0 {
		t.Errorf("%v allocations per iteration", n)
	}
}

// The timer that ends one sleep stays set for the next, and one that goes off
// early is set anew.
func TestTimerStaysSet(t *testing.T) {
	w := prepare(t, 0)
	defer w.Close()
	r, in := newPipe(t)
	w.AddSource(r, func(frame.Time, bool) {}, func() {})
	hour := w.clock.now().Add(time.Hour)
	for range 3 {
		_, err := unix.Write(in, []byte("x"))
		must(t, err)
		w.rested, w.policy.nap = true, false
		must(t, w.sleep(hour))
		if w.alarm != hour {
			t.Fatalf("the timer goes off at %v, not at %v", w.alarm, hour)
		}
	}
	unix.Read(r, make([]byte, 3))
	soon := w.clock.now().Add(10 * time.Millisecond)
	w.alarmAt(w.clock.now(), soon)
	late := soon.Add(10 * time.Millisecond)
	must(t, w.sleep(late))
	if now := w.clock.now(); now < late {
		t.Errorf("the sleep ended %v before its deadline", late.Sub(now))
	}
	w.alarmAt(w.clock.now(), w.clock.now().Add(10*time.Millisecond))
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		var left unix.ItimerSpec
		for end := time.Now().Add(30 * time.Second); left.Value.Sec < 60 && time.Now().Before(end); time.Sleep(time.Millisecond) {
			_ = unix.TimerfdGettime(w.timer, &left)
		}
		_, _ = unix.Write(in, []byte("x"))
	}()
	hour = w.clock.now().Add(time.Hour)
	must(t, w.sleep(hour))
	if <-woken; w.alarm != hour {
		t.Errorf("the timer was set to %v last, not to %v", w.alarm, hour)
	}
}

// Frames that come one at a time are read without a look for the next; those
// that are there when the loop looks reach the engine together.
func TestSparseFrames(t *testing.T) {
	w := prepare(t, 0)
	defer w.Close()
	for _, burst := range []int{1, 1, 4, 4} {
		for range burst {
			w.far.send(t, []byte("a frame"))
		}
		for got := 0; got < burst; {
			before := len(w.engine.batches)
			must(t, w.sleep(0))
			_, _, err := w.iterate()
			must(t, err)
			for _, n := range w.engine.batches[before:] {
				got += n
			}
		}
	}
	if n := len(w.engine.batches); w.engine.batches[n-1] != 4 {
		t.Errorf("of the last four frames the engine got %v", w.engine.batches)
	}
}

// What is due at the end of an iteration is done after the engine's frames have
// left, once, or after some of very many.
func TestAtEnd(t *testing.T) {
	for frames, want := range map[int]int64{1: 1, endAfter - 1: endAfter - 1, 20: endAfter} {
		w := prepare(t, 0)
		r, in := newPipe(t)
		var before []int64
		w.AddSource(r, func(frame.Time, bool) {
			unix.Read(r, make([]byte, 8))
			for range frames {
				f := w.pool.Get(60)
				f.Append(make([]byte, 60))
				w.engine.queue = append(w.engine.queue, f)
			}
			w.AtEnd(func() {
				left := int64(0)
				for b := make([]byte, 100); ; left++ {
					if _, err := unix.Read(w.far.fd, b); err != nil {
						break
					}
				}
				before = append(before, left)
			})
		}, func() {})
		_, err := unix.Write(in, []byte("x"))
		must(t, err)
		for range 2 {
			must(t, w.sleep(0))
			_, _, err = w.iterate()
			must(t, err)
		}
		if len(before) != 1 || before[0] != want {
			t.Errorf("%d frames: after %v of them", frames, before)
		}
		w.Close()
	}
}
