// Package loop is the real-time world of one NIC: one event loop on one
// operating-system thread that moves frames between TAP queues and an engine.
//
// One iteration, in this order:
//
//  1. Read a bounded batch of frames from each ready queue into the engine, and
//     serve the ready sources.
//  2. Run what Do left in the mailbox. If the engine's deadline has long passed, read
//     what the wire has brought meanwhile: a timer fires after the frame that stops it.
//  3. Dispatch: the engine's queued handlers; then serve the bells that were rung.
//  4. Poll: the engine sends; frames go to the TAP at once, while hot.
//  5. Report when sent frames left, and run what AtEnd left.
//  6. Sleep until a queue is ready, the engine's deadline or the next Do;
//     or go on at once if anything is left to do. After bulk traffic look for
//     more for some microseconds first.
package loop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/buf"
	"tapir/nic/sched"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// Engine is the state machine that a loop drives. All calls come from the
// loop's thread.
type Engine interface {
	// Receive takes the frames of a batch. It never transmits.
	Receive(port frame.Port, frames []*frame.Frame, now frame.Time)
	// Dispatch runs queued handlers; true means that more may be queued.
	Dispatch(now frame.Time) bool
	// Poll sends what there is to send and returns the next deadline.
	Poll(now frame.Time) frame.Time
	// TxDone reports when the frame of the wire, or of a port that reports, that
	// carried id left: the time of the write, or of the sighting on a port that
	// is observed; Never if that was missed or the frame was lost. True asks for
	// another Poll.
	TxDone(id uint64, at, now frame.Time) (again bool)
}

// Bounds of one iteration.
const (
	rxFrames  = 32        // frames read from a queue
	rxOctets  = 256 << 10 // octets read from a queue
	rxPart    = 32 << 10  // octets that the engine gets at a time, still in the cache
	txFrames  = 64        // frames sent through a link
	endAfter  = 4         // frames sent through a link before what is due at the end is done
	maxRounds = 8         // Dispatch and Poll, while there is more to do at once
	// A loop that is so late for the engine's deadline reads at most so many batches of the
	// wire more before the engine's timers: what an engine surely has room for.
	late       = time.Millisecond
	maxCatchUp = 3
)

// idleAfter is how long a loop rests before it gives its buffers back.
const idleAfter = time.Second

// bufferWait is how long a port rests when the pool had no buffer for it.
const bufferWait = time.Millisecond

// ErrClosed says that the loop has ended.
var ErrClosed = errors.New("loop: the event loop has ended")

// ErrInCallback says that a call would wait for the thread it runs on.
var ErrInCallback = errors.New("loop: a blocking call from within a handler; use Do")

// Config holds a loop's choices; the zero value is good.
type Config struct {
	// Frames is the most frames lent at a time, in queues and engine together
	// (default 4096).
	Frames int
}

// Loop runs one engine. Do, DoWait and Close may be called from any
// goroutine; everything else belongs to the thread that runs Run, or comes
// before it.
type Loop struct {
	engine   Engine
	pool     *buf.Pool
	clock    clock
	realtime realtime
	ports    []*Port
	sleepers []*Port // whose queue is a tap.Sleeper
	sources  []*Source
	policy   waitPolicy
	lingerer lingerer
	waiter   // the mailbox's event descriptor, then one per port, then one per source
	bells    bells
	teller   teller
	done     []sent // frames sent or lost, not yet reported
	atEnd    []func()
	rested   bool       // buffers are given back
	due      frame.Time // the engine's deadline
	active   []*Port    // those whose frames came last
	// What no port is or has is asked of none, so that idle ports cost nothing.
	more   bool   // one has more to read
	unread []bool // by port: it has
	uneven bool   // one waits for more than frames, or not for them
	spent  bool   // one has used up its budget
	broken bool   // one has failed
	round  uint32 // the number of the Poll, by which budgets are renewed

	thread  atomic.Int64 // that Run occupies
	event   int          // eventfd that wakes the loop
	mu      sync.Mutex
	mail    []func(now frame.Time)
	spare   []func(now frame.Time) // the emptied slice of the last iteration
	open    bool
	woken   bool
	stopped chan struct{}
}

type sent struct {
	id uint64
	at frame.Time
}

// New returns a loop without engine and queues; it holds three descriptors until
// Run returns or Close is called.
func New(cfg Config) (*Loop, error) {
	if cfg.Frames <= 0 {
		cfg.Frames = 4096
	}
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("event loop: eventfd: %w", err)
	}
	l := &Loop{
		pool:    buf.NewPool(cfg.Frames, 0),
		clock:   newClock(),
		event:   event,
		open:    true,
		due:     frame.Never,
		done:    make([]sent, 0, 2*txFrames),
		stopped: make(chan struct{}),
	}
	if l.waiter, err = newWaiter(); err == nil {
		err = l.add(0, event, unix.EPOLLIN|unix.EPOLLET)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Pool is the pool of the loop's world, for its engine.
func (l *Loop) Pool() frame.Pool { return l.pool }

// Clock is a hardware clock that starts at the system's time of day and runs
// with the monotonic clock; it never steps.
func (l *Loop) Clock() frame.Clock { return l.clock }

// Now is the loop's monotonic time.
func (l *Loop) Now() frame.Time { return l.clock.now() }

// AddQueue attaches q (taken; closed when Run returns) as the engine's port
// and returns the link through which the engine sends on it. maxFrame is the
// length in octets of the longest frame without segmentation offload. Call it
// before Run, or from a function that Do runs.
func (l *Loop) AddQueue(port frame.Port, q tap.Queue, maxFrame int) *Port {
	p := newPort(l, port, q)
	if p.sleeper != nil {
		l.sleepers = append(l.sleepers, p)
	}
	p.SetMaxFrame(maxFrame)
	if err := l.add(l.firstSource(), q.Fd(), unix.EPOLLIN); err != nil {
		p.fail(err)
		l.fds = slices.Insert(l.fds, l.firstSource(), unix.PollFd{Fd: -1})
	}
	p.at = len(l.ports)
	l.ports, l.unread = append(l.ports, p), append(l.unread, false)
	return p
}

// RemoveQueue closes the queue of p and drops what waits for it. Call it from a
// function that Do runs or that OnLoss was given, or from the engine's Dispatch
// or Poll.
func (l *Loop) RemoveQueue(p *Port) {
	i := slices.Index(l.ports, p)
	if i < 0 {
		return
	}
	l.ports, l.unread = slices.Delete(l.ports, i, i+1), slices.Delete(l.unread, i, i+1)
	for _, after := range l.ports[i:] {
		after.at--
	}
	l.active = slices.DeleteFunc(l.active, func(a *Port) bool { return a == p })
	l.sleepers = slices.DeleteFunc(l.sleepers, func(a *Port) bool { return a == p })
	l.remove(i + 1)
	p.end()
}

// SetEngine names the engine. Call it before Run.
func (l *Loop) SetEngine(e Engine) { l.engine = e }

// Do queues fn (taken) to run on the loop's thread in its next iteration.
// False means that the loop has ended and fn will not run.
func (l *Loop) Do(fn func(now frame.Time)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return false
	}
	l.mail = append(l.mail, fn)
	l.wake()
	return true
}

// Wake has the loop iterate once more. Any thread may call it, after the end too.
func (l *Loop) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.wake()
	}
}

// DoWait runs fn on the loop's thread and returns after it; ErrClosed if the
// loop ended before, ErrInCallback if called on the loop's thread.
func (l *Loop) DoWait(fn func(now frame.Time)) error {
	if l.thread.Load() == int64(unix.Gettid()) {
		return ErrInCallback
	}
	ran := make(chan struct{})
	if !l.Do(func(now frame.Time) { defer close(ran); fn(now) }) {
		return ErrClosed
	}
	select {
	case <-ran:
		return nil
	case <-l.stopped:
		select {
		case <-ran:
			return nil
		default:
			return ErrClosed
		}
	}
}

// wake signals the event descriptor once per sleep; l.mu is held.
func (l *Loop) wake() {
	if l.woken {
		return
	}
	l.woken = true
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(l.event, one[:]) // can only fail after 2^64-2 writes
}

// Run drives the engine until ctx ends or a queue fails for good, then closes
// the queues. It returns nil in the first case. It occupies the calling
// goroutine's thread.
func (l *Loop) Run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer sched.Short()()
	l.thread.Store(int64(unix.Gettid()))
	defer l.thread.Store(0)
	defer l.Close()
	defer l.tell()
	stop := context.AfterFunc(ctx, func() { l.Do(func(frame.Time) {}) })
	defer stop()
	for ctx.Err() == nil {
		deadline, more, err := l.iterate()
		if err != nil {
			return err
		}
		if more {
			deadline = 0
		}
		if err := l.sleep(deadline); err != nil {
			return err
		}
	}
	return nil
}

// Close releases a loop that was never run.
func (l *Loop) Close() {
	l.mu.Lock()
	if !l.open {
		l.mu.Unlock()
		return
	}
	l.open = false
	l.mail = nil
	unix.Close(l.event)
	l.waiter.close()
	l.mu.Unlock()
	for _, p := range l.ports {
		p.end()
	}
	l.loseSources()
	close(l.stopped)
}

// iterate is steps 1 to 5. more tells that the loop must not sleep.
func (l *Loop) iterate() (deadline frame.Time, more bool, err error) {
	frames, err := l.readPorts(false)
	if err != nil {
		return 0, false, err
	}
	l.serveSources()
	l.runMail()
	caught, err := l.catchUp()
	if err != nil {
		return 0, false, err
	}
	deadline, again, err := l.drive(frames || caught)
	l.end()
	return deadline, l.more || again, err
}

// readPorts reads a batch from each port, or from those of the wire only, that has
// something.
func (l *Loop) readPorts(wire bool) (frames bool, err error) {
	l.more = false
	for i, p := range l.ports {
		ready, unread := l.fds[i+1].Revents, l.unread[i]
		if ready == 0 && !unread {
			continue
		}
		if wire && p.port != frame.Wire {
			l.more = l.more || unread
			continue
		}
		if ready&unix.POLLOUT != 0 || p.sleeper != nil && p.n > 0 {
			p.flush()
		}
		if !p.held && (ready&(unix.POLLIN|unix.POLLERR|unix.POLLHUP) != 0 || unread) {
			if !frames {
				l.active = l.active[:0]
			}
			l.active = append(l.active, p)
			if err := p.receive(); err != nil {
				p.fail(err)
			}
			frames = true
			l.more = l.more || l.unread[i]
		}
	}
	return frames, l.failed()
}

// drive is steps 3 to 5. The bells are served between handlers, which tell programs of
// what the frames have brought, and the engine's turn to send.
func (l *Loop) drive(frames bool) (deadline frame.Time, more bool, err error) {
	for round := 0; ; round++ {
		again := l.engine.Dispatch(l.clock.now())
		if round == 0 {
			l.tell()
			l.serveBells(frames)
		}
		l.refill()
		now := l.clock.now()
		deadline = l.engine.Poll(now)
		l.due = deadline
		again = l.report() || again
		if !again && deadline > now && !l.starved() {
			return deadline, false, l.failed()
		}
		if round == maxRounds {
			return deadline, true, l.failed()
		}
	}
}

// AtEnd has fn, which must not use the engine, run at the end of this iteration,
// or before if the engine sends a lot. Call it from a source or a function that
// Do runs: who wakes another process then has done its own work before.
func (l *Loop) AtEnd(fn func()) { l.atEnd = append(l.atEnd, fn) }

func (l *Loop) end() {
	for i, fn := range l.atEnd {
		fn()
		l.atEnd[i] = nil
	}
	l.atEnd = l.atEnd[:0]
}

// runMail runs what was queued before the call; what it queues itself waits
// for the next iteration.
func (l *Loop) runMail() {
	l.mu.Lock()
	mail := l.mail
	l.mail = l.spare[:0]
	l.mu.Unlock()
	for i, fn := range mail {
		fn(l.clock.now())
		mail[i] = nil
	}
	l.spare = mail
}

// refill renews the budgets of all ports, each when it is next asked.
func (l *Loop) refill() {
	l.round++
	l.spent = false
}

// starved tells that the engine used up a link that could take more.
func (l *Loop) starved() bool {
	return l.spent && slices.ContainsFunc(l.ports, func(p *Port) bool { return p.left() == 0 && p.n == 0 })
}

func (l *Loop) report() (again bool) {
	now := l.clock.now()
	for _, s := range l.done {
		again = l.engine.TxDone(s.id, s.at, now) || again
	}
	l.done = l.done[:0]
	return again
}

// failed is why the loop has to end. A queue that it can do without is removed
// instead.
func (l *Loop) failed() error {
	for i := 0; l.broken && i < len(l.ports); i++ {
		p := l.ports[i]
		switch {
		case p.err == nil:
			continue
		case p.lost == nil:
			return fmt.Errorf("%s: %w", p.queue.Name(), p.err)
		}
		l.RemoveQueue(p)
		p.lost(p.err)
		i = -1 // it may have removed others
	}
	l.broken = false
	return nil
}

// sleep waits for a queue, the mailbox or the deadline. A past deadline only
// looks.
func (l *Loop) sleep(deadline frame.Time) error {
	now := l.clock.now()
	clearEvents(l.fds)
	if deadline > now && l.tellBeforeSleep(now) {
		l.rested = false
		return nil
	}
	if deadline > now && l.policy.spins(now, l.memory() != nil) && len(l.sources) == 0 && !l.waits() {
		if l.spin(now, deadline) {
			l.rested = false
			return nil
		}
		now = l.clock.now()
	}
	if deadline > now && l.lingers(now) {
		if l.linger(now, deadline) {
			l.rested = false
			return nil
		}
		now = l.clock.now()
	}
	if l.readyNow(deadline > now) {
		deadline = 0
	}
	deadline, err := l.wantAll(now, deadline)
	if err != nil {
		return err
	}
	if deadline > now && !l.bells.sleepNear() {
		deadline = 0
	}
	n, slept, err := l.await(now, deadline)
	if err != nil {
		return err
	}
	if deadline > now {
		l.bells.slept()
	}
	l.policy.slept(slept, n > 0)
	if slept < noSleep {
		l.mayBeMore()
	}
	if n > 0 {
		l.rested = false
	}
	if l.fds[0].Revents != 0 {
		l.drain()
	}
	return nil
}

// wantAll says what each port waits for, and returns the deadline, or before it when to
// look for buffers.
func (l *Loop) wantAll(now, deadline frame.Time) (frame.Time, error) {
	if !l.uneven {
		return deadline, nil
	}
	l.uneven = false
	for i, p := range l.ports {
		events := int16(unix.POLLIN)
		if p.unbuffered {
			p.unbuffered = false
			events = 0
			deadline = min(deadline, now.Add(bufferWait))
		}
		if p.held {
			events = 0
		}
		if p.n > 0 || p.stuck {
			events |= unix.POLLOUT
		}
		if err := l.want(i+1, events); err != nil {
			return 0, err
		}
		l.uneven = l.uneven || events != unix.POLLIN
	}
	return deadline, nil
}

// readyNow asks the queues that tell by themselves whether there is work.
func (l *Loop) readyNow(sleep bool) (ready bool) {
	for _, p := range l.sleepers {
		if p.unbuffered || p.held && p.n == 0 {
			continue // it has nothing to do
		}
		if p.sleeper.Ready(sleep, p.n > 0) {
			l.unread[p.at], l.more, ready = true, true, true
		}
	}
	return ready
}

// mayBeMore is called after a sleep that ended at once: more frames may have been
// there when one was read.
func (l *Loop) mayBeMore() {
	for i, p := range l.ports {
		if l.fds[i+1].Revents&unix.POLLIN != 0 {
			p.single = false
		}
	}
}

// waits tells that a port waits for more than frames.
func (l *Loop) waits() bool {
	return l.uneven && slices.ContainsFunc(l.ports, func(p *Port) bool { return p.n > 0 || p.stuck || p.unbuffered })
}

// called tells that the mailbox has something, and resets its descriptor.
func (l *Loop) called() bool {
	l.mu.Lock()
	woken := l.woken
	l.mu.Unlock()
	if woken {
		l.drain()
	}
	return woken
}

// drain lets the next Do wake the loop, before the mailbox is emptied, so that
// none is missed. The event descriptor tells of each write: nobody reads it.
func (l *Loop) drain() {
	l.mu.Lock()
	l.woken = false
	l.mu.Unlock()
}
