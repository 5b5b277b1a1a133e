package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// cable is a queue over a socket pair: packets keep their borders, and a full
// socket answers EAGAIN as a TAP does.
type cable struct {
	fd     int
	vnet   bool
	closed bool
}

func newCable(t testing.TB) (a, b *cable) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	a, b = &cable{fd: fds[0]}, &cable{fd: fds[1]}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func (c *cable) Fd() int      { return c.fd }
func (c *cable) Name() string { return "cable" }
func (c *cable) Vnet() bool   { return c.vnet }

func (c *cable) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	return unix.Close(c.fd)
}

func (c *cable) Read(f *frame.Frame) error {
	n, err := unix.Read(c.fd, f.Extend(f.Tailroom()))
	if err != nil {
		f.Truncate(0)
		return tap.ErrAgain
	}
	f.Truncate(n)
	if n == 0 {
		return tap.ErrGone
	}
	return nil
}

func (c *cable) Write(f *frame.Frame) error {
	if _, err := unix.Write(c.fd, f.Bytes()); err == unix.EAGAIN {
		return tap.ErrAgain
	} else if err != nil {
		return tap.ErrRefused
	}
	return nil
}

func (c *cable) send(t testing.TB, b []byte) {
	t.Helper()
	_, err := unix.Write(c.fd, b)
	must(t, err)
}

// receive waits for one packet.
func (c *cable) receive(t testing.TB) []byte {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 60000); n != 1 {
		t.Fatalf("nothing within a minute: %v", err)
	}
	b := make([]byte, 70000)
	n, err := unix.Read(c.fd, b)
	must(t, err)
	return b[:n]
}

// echo sends every frame back, from Poll.
type echo struct {
	link     *Port
	queue    []*frame.Frame
	deadline func(now frame.Time) frame.Time
	polls    atomic.Int64
	batches  []int
	reported []sent
	again    int // how many times Dispatch asks for another round
	nextID   uint64
}

func (e *echo) Receive(_ frame.Port, frames []*frame.Frame, _ frame.Time) {
	e.queue = append(e.queue, frames...)
	e.batches = append(e.batches, len(frames))
}

func (e *echo) Dispatch(frame.Time) bool {
	e.again--
	return e.again >= 0
}

func (e *echo) Poll(now frame.Time) frame.Time {
	e.polls.Add(1)
	n := 0
	for n < len(e.queue) && e.link.Room() > 0 {
		e.nextID++
		e.queue[n].ID = e.nextID
		e.link.Transmit(e.queue[n])
		n++
	}
	e.queue = e.queue[:copy(e.queue, e.queue[n:])]
	if e.deadline != nil {
		return e.deadline(now)
	}
	return frame.Never
}

func (e *echo) TxDone(id uint64, at, _ frame.Time) bool {
	e.reported = append(e.reported, sent{id, at})
	return false
}

type world struct {
	*Loop
	engine *echo
	far    *cable
	err    chan error
	stop   func()
}

func prepare(t testing.TB, frames int) *world {
	t.Helper()
	l, err := New(Config{Frames: frames})
	must(t, err)
	near, far := newCable(t)
	w := &world{Loop: l, engine: &echo{}, far: far, err: make(chan error, 1)}
	w.engine.link = l.AddQueue(frame.Wire, near, 1522)
	l.SetEngine(w.engine)
	return w
}

func (w *world) run(t testing.TB) *world {
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = func() {
		cancel()
		if err := <-w.err; err != nil {
			t.Error(err)
		}
		w.stop = func() {}
	}
	go func() { w.err <- w.Run(ctx) }()
	t.Cleanup(func() { w.stop() })
	return w
}

func TestEcho(t *testing.T) {
	w := prepare(t, 0).run(t)
	for i := range 100 {
		want := []byte(fmt.Sprintf("frame %d", i))
		w.far.send(t, want)
		if got := w.far.receive(t); !bytes.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	must(t, w.DoWait(func(frame.Time) {}))
	w.stop()
	if len(w.engine.reported) != 100 {
		t.Fatalf("%d stamps", len(w.engine.reported))
	}
	last := frame.Time(0)
	for i, s := range w.engine.reported {
		if s.id != uint64(i+1) || s.at < last || s.at > w.Now() {
			t.Errorf("stamp %d: %+v after %d", i, s, last)
		}
		last = s.at
	}
	if w.pool.Lent() != 0 {
		t.Errorf("%d frames lost", w.pool.Lent())
	}
}

// An idle loop sleeps: it does not look around.
func TestSleeps(t *testing.T) {
	w := prepare(t, 0).run(t)
	must(t, w.DoWait(func(frame.Time) {}))
	before := w.engine.polls.Load()
	time.Sleep(50 * time.Millisecond)
	if n := w.engine.polls.Load() - before; n > 10 { // a timer or a signal may end a sleep
		t.Errorf("%d iterations in 50 ms of silence", n)
	}
}

func TestDeadline(t *testing.T) {
	w := prepare(t, 0)
	const period = 2 * time.Millisecond
	var fired []time.Duration
	var at frame.Time
	done := make(chan struct{})
	w.engine.deadline = func(now frame.Time) frame.Time {
		if at == 0 {
			at = now.Add(period)
		} else if now >= at {
			if fired = append(fired, now.Sub(at)); len(fired) == 20 {
				close(done)
			}
			at = now.Add(period)
		}
		if len(fired) >= 20 {
			return frame.Never
		}
		return at
	}
	w.run(t)
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("deadlines pass unnoticed")
	}
	w.stop()
	early := 0
	for _, late := range fired {
		if late < 0 {
			early++
		}
	}
	// A wake-up before the deadline costs one more iteration, not an error;
	// but the loop must not spin towards it.
	if n := w.engine.polls.Load(); early > 0 || n > 60 {
		t.Errorf("%d early, %d iterations for 20 deadlines", early, n)
	}
}

func TestDoFromManyGoroutines(t *testing.T) {
	w := prepare(t, 0).run(t)
	var sum int // only the loop's thread touches it
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 100 {
				if !w.Do(func(frame.Time) { sum++ }) {
					t.Error("refused")
				}
			}
		})
	}
	wait.Wait()
	got := 0
	must(t, w.DoWait(func(now frame.Time) {
		got = sum
		if now > w.Now() {
			t.Error("now lies in the future")
		}
	}))
	if got != 800 {
		t.Errorf("%d of 800 ran", got)
	}
}

func TestDoInsideDoRunsLater(t *testing.T) {
	w := prepare(t, 0).run(t)
	var order []int
	done := make(chan struct{})
	w.Do(func(frame.Time) {
		w.Do(func(frame.Time) { order = append(order, 2); close(done) })
		order = append(order, 1)
	})
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the inner function never ran")
	}
	if len(order) != 2 || order[0] != 1 {
		t.Errorf("order %v", order)
	}
}

func TestAfterTheEnd(t *testing.T) {
	w := prepare(t, 0).run(t)
	w.stop()
	if w.Do(func(frame.Time) { t.Error("ran") }) {
		t.Error("Do accepts work")
	}
	if err := w.DoWait(func(frame.Time) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("DoWait: %v", err)
	}
	w.Close() // harmless
}

func TestCloseWithoutRun(t *testing.T) {
	w := prepare(t, 0)
	near := w.ports[0].queue.(*cable)
	w.Close()
	if !near.closed || w.Do(func(frame.Time) {}) {
		t.Error("Close left something open")
	}
}

// While the queue is full its frames wait, nothing else is sent, and the
// loop sleeps; afterwards everything arrives in order.
func TestQueueFull(t *testing.T) {
	w := prepare(t, 0)
	const count, size = 2000, 1500
	rooms := make(chan int, 1)
	w.run(t)
	w.Do(func(frame.Time) {
		for i := range count {
			f := w.pool.Get(size)
			b := f.Extend(size)
			b[0], b[1] = byte(i>>8), byte(i)
			w.engine.queue = append(w.engine.queue, f)
		}
	})
	must(t, w.DoWait(func(frame.Time) {})) // the burst has met the full queue
	must(t, w.DoWait(func(frame.Time) { rooms <- w.engine.link.Room() }))
	if room := <-rooms; room != 0 {
		t.Errorf("room for %d frames in a full queue", room)
	}
	before := w.engine.polls.Load()
	time.Sleep(30 * time.Millisecond)
	if n := w.engine.polls.Load() - before; n > 10 { // one may have been under way, and a signal may end a sleep
		t.Errorf("%d iterations while the queue is full", n)
	}
	for i := range count {
		b := w.far.receive(t)
		if got := int(b[0])<<8 | int(b[1]); got != i || len(b) != size {
			t.Fatalf("frame %d arrives as %d, %d octets", got, i, len(b))
		}
	}
	w.stop()
	if d := w.engine.link.Drops(); d.Total() != 0 || w.pool.Lent() != 0 {
		t.Errorf("drops %v, lent %d", d, w.pool.Lent())
	}
}

// The engine, which may wait for their stamps, is told of frames that are lost.
func TestLostFramesAreCounted(t *testing.T) {
	w := prepare(t, 0)
	transmit := func(id uint64) {
		f := w.pool.Get(60)
		f.ID = id
		w.engine.link.Transmit(f)
	}
	w.far.Close()
	transmit(1000) // refused
	w.engine.link.budget = 0
	for i := range uint64(backlog + 3) {
		transmit(i)
	}
	if d := w.engine.link.Drops(); d[drop.Link] != 1 || d[drop.TxQueue] != 3 || w.pool.Lent() != backlog {
		t.Errorf("drops %v, lent %d", d, w.pool.Lent())
	}
	w.report()
	const never = frame.Never
	if want := []sent{{1000, never}, {backlog, never}, {backlog + 1, never}, {backlog + 2, never}}; !slices.Equal(w.engine.reported, want) {
		t.Errorf("reported %v, want %v", w.engine.reported, want)
	}
	w.Close()
	if w.pool.Lent() != 0 {
		t.Errorf("%d frames lost", w.pool.Lent())
	}
}

// Large frames are handed over before they leave the cache.
func TestLargeFramesComeInParts(t *testing.T) {
	w := prepare(t, 0)
	w.engine.link.SetMaxFrame(20_000)
	for range 8 {
		w.far.send(t, make([]byte, 20_000))
	}
	w.run(t)
	for range 8 {
		w.far.receive(t)
	}
	w.stop()
	for _, n := range w.engine.batches {
		if (n-1)*20_000 >= rxPart {
			t.Errorf("%d frames of 20,000 octets at once", n)
		}
	}
}

// Batches are bounded, and what is left is read without another wake-up.
func TestBatchIsBounded(t *testing.T) {
	w := prepare(t, 0)
	for range 100 {
		w.far.send(t, make([]byte, 60))
	}
	w.run(t)
	for range 100 {
		w.far.receive(t)
	}
	w.stop()
	for _, n := range w.engine.batches {
		if n > rxFrames {
			t.Errorf("a batch of %d", n)
		}
	}
}

// Without buffers the frames stay with the kernel, and the loop does not
// spin.
func TestPoolExhausted(t *testing.T) {
	w := prepare(t, 1).run(t)
	var held *frame.Frame
	must(t, w.DoWait(func(frame.Time) { held = w.pool.Get(60) }))
	w.far.send(t, []byte("patience"))
	before, begun := w.engine.polls.Load(), time.Now()
	time.Sleep(20 * time.Millisecond)
	if n, ms := w.engine.polls.Load()-before, time.Since(begun).Milliseconds(); int64(n) > 3*(ms+1) {
		t.Errorf("%d iterations in %d ms without buffers", n, ms)
	}
	must(t, w.DoWait(func(frame.Time) { held.Release() }))
	if got := w.far.receive(t); string(got) != "patience" {
		t.Errorf("got %q", got)
	}
	w.stop()
	if w.engine.link.Drops()[drop.NoBuffer] == 0 {
		t.Error("not counted")
	}
}

func TestQueueGone(t *testing.T) {
	w := prepare(t, 0)
	done := make(chan error)
	go func() { done <- w.Run(context.Background()) }()
	w.far.Close()
	if err := <-done; !errors.Is(err, tap.ErrGone) || err.Error() != "cable: the TAP was removed" {
		t.Errorf("Run ended with %v", err)
	}
}

func TestDispatchRounds(t *testing.T) {
	w := prepare(t, 0)
	w.engine.again = 100
	w.run(t)
	must(t, w.DoWait(func(frame.Time) {}))
	deadline := time.Now().Add(20 * time.Second)
	for again := 1; again > 0; {
		must(t, w.DoWait(func(frame.Time) { again = w.engine.again }))
		if time.Now().After(deadline) {
			t.Fatalf("%d rounds still wanted", again)
		}
	}
}

// A short frame out of a large buffer moves into a small one.
func TestShortFramesLeaveLargeBuffers(t *testing.T) {
	w := prepare(t, 0)
	w.ports[0].readSize = superFrame
	w.far.send(t, make([]byte, 100))
	w.fds[1].Revents = unix.POLLIN
	_, _, err := w.iterate()
	must(t, err)
	if got := w.far.receive(t); len(got) != 100 {
		t.Errorf("%d octets", len(got))
	}
	w.pool.Trim(0)
	if m := w.pool.Memory(); m != 0 {
		t.Errorf("%d octets still lent", m)
	}
	w.Close()
}

func iteration(t testing.TB) (w *world, once func()) {
	w = prepare(t, 0)
	packet, back := make([]byte, 1514), make([]byte, 2048)
	return w, func() {
		unix.Write(w.far.fd, packet)
		if err := w.sleep(frame.Time(0)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.iterate(); err != nil {
			t.Fatal(err)
		}
		w.engine.batches, w.engine.reported = w.engine.batches[:0], w.engine.reported[:0]
		if n, err := unix.Read(w.far.fd, back); n != len(packet) {
			t.Fatalf("%d octets came back: %v", n, err)
		}
	}
}

func TestIterationAllocatesNothing(t *testing.T) {
	w, once := iteration(t)
	defer w.Close()
	once()
	if n := testing.AllocsPerRun(200, once); n != 0 {
		t.Errorf("%v allocations per iteration", n)
	}
}

func BenchmarkIteration(b *testing.B) {
	w, once := iteration(b)
	defer w.Close()
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}

// A loop that was busy gives its buffers back when it has rested.
func TestRestGivesBuffersBack(t *testing.T) {
	w := prepare(t, 0)
	for range 20 {
		w.far.send(t, make([]byte, 60))
	}
	most := 0
	w.engine.deadline = func(frame.Time) frame.Time {
		most = max(most, w.pool.Memory())
		return frame.Never
	}
	w.run(t)
	for range 20 {
		w.far.receive(t)
	}
	before, after := 0, 0
	for range 10 { // each look wakes it
		time.Sleep(idleAfter + 200*time.Millisecond)
		must(t, w.DoWait(func(frame.Time) { before, after = most, w.pool.Memory() }))
		if after <= before/10 {
			break
		}
	}
	if before < 20*1522 || after > before/10 {
		t.Errorf("%d octets while busy, %d afterwards", before, after)
	}
}

func TestDoWaitOnTheLoopItself(t *testing.T) {
	w := prepare(t, 0).run(t)
	var inner error
	must(t, w.DoWait(func(frame.Time) { inner = w.DoWait(func(frame.Time) { t.Error("ran") }) }))
	if !errors.Is(inner, ErrInCallback) {
		t.Error(inner)
	}
}

// A loop that is stalled beyond the engine's deadline reads all that has arrived before it
// polls: an acknowledgement in the queue stops the timer that would send again. It holds for
// more frames than a batch has, and for a stall before and after the loop has looked.
func TestTimersFireAfterFrames(t *testing.T) {
	const sent = 3 * rxFrames
	w := prepare(t, 0)
	var due frame.Time
	seen, atTimer := 0, make(chan int, 1)
	w.engine.deadline = func(now frame.Time) frame.Time {
		seen = 0
		for _, n := range w.engine.batches {
			seen += n
		}
		if due == 0 || now < due {
			return max(due, 1)
		}
		due = frame.Never
		atTimer <- seen
		return frame.Never
	}
	w.run(t)
	for range 3 {
		must(t, w.DoWait(func(now frame.Time) {
			w.engine.batches = nil
			due = now.Add(2 * time.Millisecond)
			w.due = due // as Poll has returned it
			for i := range sent {
				w.far.send(t, []byte(fmt.Sprintf("frame %d", i)))
			}
			for w.Now() < due.Add(5*late) { // the thread is busy, or has no processor
				time.Sleep(time.Millisecond)
			}
		}))
		if n := <-atTimer; n != sent {
			t.Errorf("%d of %d frames before the timer", n, sent)
		}
		for range sent {
			w.far.receive(t)
		}
	}
}

// No look of a busy loop takes the mailbox's event and leaves the mail.
func TestMailOfBusyLoop(t *testing.T) {
	w := prepare(t, 0)
	w.engine.deadline = func(now frame.Time) frame.Time { return now.Add(-2 * late) } // it is always late
	w.run(t)
	for i := range 2000 {
		if i%2 == 0 {
			w.far.send(t, []byte("frame"))
		}
		must(t, w.DoWait(func(frame.Time) {
			if i%500 == 499 {
				w.engine.deadline = nil
			}
		}))
		if i%2 == 0 {
			w.far.receive(t)
		}
	}
}
