package link

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	rules "tapir/lab/host/fault"
	"tapir/nic/tap"
	"tapir/wire/frame"
	"tapir/wire/virtio"
)

// Impairment is what a bad cable does to the frames of one direction.
type Impairment = rules.Impairment

// overtakeWithin bounds how long a reordered segment waits to be overtaken.
const overtakeWithin = 2 * time.Millisecond

// cableFrames bounds the frames inside a cable, one way; more are lost.
const cableFrames = 8192

// Impaired is a tap.Queue seen through a bad cable. What happens is decided
// for each true segment of a super-frame; those that nothing happens to stay
// together. One seed gives one sequence of decisions for each direction.
type Impaired struct {
	inner   tap.Queue
	holder  tap.Buffered // inner, if it is one; nil: it is not
	sleeper tap.Sleeper  // inner, if it is one; nil: it is not
	stuck   *frame.Frame // on its way to inner, which is full
	epoll   int          // readable when inner is, or a frame in the cable is due
	timer   int
	armed   time.Duration // when the timer fires; 0: not set
	start   time.Time
	in, out lane
	split   virtio.Splitter
	bounce  *frame.Frame // what is read from inner
	tracer  frame.Tracer // sees what enters, with its fate, and what leaves
	record  frame.Record // what the tracer sees now
	shown   uint64       // the true frames that the tracer has seen enter
	system  func() frame.Stamp
	rules   *rules.Engine
	struck  func(rules.Strike)
}

// Impair puts a bad cable in front of q (taken): in is what happens to the
// frames that Read returns, out to those of Write.
func Impair(q tap.Queue, in, out Impairment, seed uint64) (*Impaired, error) {
	c := &Impaired{inner: q, start: time.Now(), epoll: -1, timer: -1, system: timeOfDay}
	c.holder, _ = q.(tap.Buffered)
	c.sleeper, _ = q.(tap.Sleeper)
	c.in, c.out = newLane(in, seed, 0), newLane(out, seed, 1)
	c.bounce = frame.New(make([]byte, frame.DefaultHeadroom+mostRoom), nil)
	var err error
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		c.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	}
	for _, fd := range []int{q.Fd(), c.timer} {
		if err == nil {
			err = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		}
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("impaired cable: %w", err)
	}
	return c, nil
}

// Set changes what happens to frames from now on; use it on the thread that
// reads and writes.
func (c *Impaired) Set(in, out Impairment) { c.in.set(in); c.out.set(out) }

// Fd polls readable when Read may have something to do.
func (c *Impaired) Fd() int { return c.epoll }

// Name is the name of the queue behind the cable.
func (c *Impaired) Name() string { return c.inner.Name() }

// Vnet tells whether Write accepts offloads, and Read may return some.
func (c *Impaired) Vnet() bool { return c.inner.Vnet() }

// Faults counts what the cable has done so far in both directions.
func (c *Impaired) Faults() (in, out FaultCount) { return c.in.count, c.out.count }

// Delivered is how many octets left the cable so far, in both directions, and how late.
func (c *Impaired) Delivered() (octets uint64, l rules.Lateness) {
	l.Merge(&c.in.behind)
	l.Merge(&c.out.behind)
	return c.in.octets + c.out.octets, l
}

// Close closes the queue behind the cable, too. What is still inside is lost.
func (c *Impaired) Close() error {
	for _, fd := range []int{c.epoll, c.timer} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	for _, l := range []*lane{&c.in, &c.out} {
		if l.stay.seen != nil {
			l.stay.seen.Close()
		}
	}
	return c.inner.Close()
}

// Compensate has both directions tell PTP event messages how late they leave. A frame enters when
// seen says, at end 0 or 1 of the cable (taken; nil: when it is read).
func (c *Impaired) Compensate(seen [2]Seen) {
	c.in.stay, c.out.stay = residence{true, seen[0]}, residence{true, seen[1]}
}

// Read returns the next frame that has come through the cable.
func (c *Impaired) Read(f *frame.Frame) error {
	now := c.now()
	if err := c.fill(now); err != nil {
		return err
	}
	if err := c.drain(now); err != nil {
		return err
	}
	g := c.in.due(c.leaving(&c.in, now))
	if g == nil {
		c.arm(now)
		return tap.ErrAgain
	}
	defer c.in.free(g)
	c.arrives(&c.in, g)
	if g.Len() > f.Tailroom() {
		return tap.ErrOversize
	}
	f.Append(g.Bytes())
	f.Offload = g.Offload
	return nil
}

// fill takes one frame from the queue into the cable, or more until one is
// due.
func (c *Impaired) fill(now time.Duration) error {
	for !c.in.ready(now) {
		f := c.bounce
		f.Reset()
		err := c.inner.Read(f)
		if err == tap.ErrAgain {
			return nil
		}
		if err == nil {
			err = c.enter(&c.in, f, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Buffered implements tap.Buffered.
func (c *Impaired) Buffered() bool {
	return c.holder != nil && c.holder.Buffered() || c.in.ready(c.now())
}

// Ready implements tap.Sleeper.
func (c *Impaired) Ready(sleep, write bool) bool {
	switch {
	case c.in.ready(c.now()):
		return true
	case c.sleeper == nil:
		return write && c.stuck == nil
	}
	return c.sleeper.Ready(sleep, c.stuck != nil)
}

// Write sends f, borrowed, into the cable, unless the queue behind it is full.
func (c *Impaired) Write(f *frame.Frame) error {
	now := c.now()
	if err := c.drain(now); err != nil {
		return err
	}
	if c.stuck != nil {
		return tap.ErrAgain
	}
	if err := c.enter(&c.out, f, now); err != nil {
		return err
	}
	err := c.drain(now)
	c.arm(now)
	return err
}

// enter puts f into the lane l.
func (c *Impaired) enter(l *lane, f *frame.Frame, now time.Duration) error {
	var err error
	if l.stay.on {
		now = l.stay.entered(f, c.start, now)
	}
	transport := isTransport(f.Bytes())
	switch why := l.refuses(now); {
	case f.Len() > mostRoom:
		err = tap.ErrRefused
	case why != frame.DropNone:
		l.count.Frames++
		l.count.Refused++
		c.show(l, f.Bytes(), f.Offload, why, "")
	case !transport && !l.All && c.rules == nil:
		l.count.Frames++
		c.undisturbed(l, l.copyOf(f.Bytes(), f.Offload), 1, now)
	case f.GSO != frame.GSONone:
		err = c.enterSuper(l, f, now)
	default:
		l.count.Frames++
		err = c.enterSegment(l, f, transport, now)
	}
	if err != nil {
		return tap.ErrRefused
	}
	return nil
}

// undisturbed sends f (taken), which holds segs segments, down the lane.
func (c *Impaired) undisturbed(l *lane, f *frame.Frame, segs int, now time.Duration) {
	f.ID = c.show(l, f.Bytes(), f.Offload, frame.DropNone, "")
	l.pass(f, segs, now)
}

// judge decides on the true frame b.
func (c *Impaired) judge(l *lane, b []byte, transport bool, now time.Duration) (x fate) {
	if c.rules != nil {
		from := rules.A
		if l == &c.out {
			from = rules.B
		}
		x.rules = c.rules.Judge(from, b, frame.Time(now))
	}
	if x.drop() == frame.DropNone && (transport || l.All) {
		x.fault = l.strike(len(b), transport)
	}
	return x
}

// inject sends what rules inject, and tells of their strikes.
func (c *Impaired) inject(v *rules.Verdict, now time.Duration) {
	if v == nil {
		return
	}
	for _, i := range v.Inject {
		l := &c.in
		if i.From == rules.B {
			l = &c.out
		}
		f := l.copyOf(i.Frame, frame.Offload{})
		f.ID = c.show(l, f.Bytes(), frame.Offload{}, frame.DropNone, i.Note)
		l.pass(f, 1, now)
	}
	if c.struck != nil {
		for _, s := range v.Struck {
			c.struck(s)
		}
	}
}

// disturbed lets the true frame in f (taken) have what was decided.
func (c *Impaired) disturbed(l *lane, x fate, f *frame.Frame, now time.Duration) {
	if c.tracer != nil {
		f.ID = c.show(l, f.Bytes(), frame.Offload{}, x.drop(), x.String())
	}
	l.suffer(x, f, now)
	c.inject(x.rules, now)
}

// show tells the tracer what enters a lane, and returns the number of its first
// segment.
func (c *Impaired) show(l *lane, b []byte, off frame.Offload, why frame.DropReason, note string) (id uint64) {
	if c.tracer == nil {
		return 0
	}
	id = c.shown + 1
	c.shown = id
	if off.GSO != frame.GSONone { // as many numbers as it may need
		c.shown += uint64(len(b) / max(int(off.GSOSize), 1))
	}
	r := frame.Record{Port: l.enters, Dir: frame.Outbound, Data: b, Offload: off, ID: id, Drop: why}
	if note != "" {
		r.Notes = frame.Say(note)
	}
	c.trace(r)
	return id
}

// arrives tells the tracer what leaves a lane.
func (c *Impaired) arrives(l *lane, f *frame.Frame) {
	if c.tracer != nil {
		c.trace(frame.Record{Port: 1 - l.enters, Dir: frame.Inbound, Data: f.Bytes(), Offload: f.Offload, ID: f.ID})
	}
}

// trace shows r to the tracer, which borrows it.
func (c *Impaired) trace(r frame.Record) {
	c.record = r
	c.record.System = c.system()
	c.tracer.Trace(&c.record)
	c.record = frame.Record{}
}

// enterSegment puts a single frame into l. Its checksum is completed only if
// something happens to it.
func (c *Impaired) enterSegment(l *lane, f *frame.Frame, transport bool, now time.Duration) error {
	if x := c.judge(l, f.Bytes(), transport, now); x != (fate{}) {
		return c.split.Split(frame.Offload{NeedsCsum: f.NeedsCsum, CsumStart: f.CsumStart, CsumOffset: f.CsumOffset},
			f.Bytes(), func(seg []byte) { c.disturbed(l, x, l.copyOf(seg, frame.Offload{}), now) })
	}
	c.undisturbed(l, l.copyOf(f.Bytes(), f.Offload), 1, now)
	l.overtaken(now)
	return nil
}

// enterSuper puts the segments of a super-frame into l: runs of those that
// nothing happens to as super-frames, each of the others by itself, with its
// checksum.
func (c *Impaired) enterSuper(l *lane, f *frame.Frame, now time.Duration) error {
	n, err := c.split.Begin(f.Offload, f.Bytes())
	if err != nil {
		return err
	}
	defer c.split.End()
	l.count.Frames += uint64(n)
	run := 0 // segments in front of i that still are to leave
	leave := func(i int) {
		if run > 0 {
			g := l.empty(c.split.RunLen(i-run, run))
			g.Offload = c.split.PutRun(g.Bytes(), i-run, run)
			c.undisturbed(l, g, run, now)
			run = 0
		}
	}
	for i := range n {
		if l.full(run) {
			leave(i)
			l.count.Refused += uint64(n - i)
			break
		}
		x, g := c.judgePart(l, i, now)
		if x != (fate{}) {
			leave(i)
			c.disturbed(l, x, g, now)
			continue
		}
		run++
		if l.Jitter > 0 || l.freed() {
			leave(i + 1)
		}
		l.overtaken(now)
	}
	leave(n)
	return nil
}

// judgePart decides on segment i of the super-frame in hand, and returns it if
// something happens to it.
func (c *Impaired) judgePart(l *lane, i int, now time.Duration) (x fate, f *frame.Frame) {
	if c.rules == nil {
		if x.fault = l.strike(c.split.Len(i), true); x == (fate{}) {
			return x, nil
		}
	}
	f = l.empty(c.split.Len(i))
	c.split.Put(f.Bytes(), i)
	if c.rules != nil {
		if x = c.judge(l, f.Bytes(), true, now); x == (fate{}) {
			l.free(f)
			return x, nil
		}
	}
	return x, f
}

// drain writes what has come out of the outbound lane, until the queue is full.
func (c *Impaired) drain(now time.Duration) error {
	for {
		f := c.stuck
		if f == nil {
			if f = c.out.due(c.leaving(&c.out, now)); f == nil {
				return nil
			}
			c.arrives(&c.out, f)
		}
		err := c.inner.Write(f)
		if (err == tap.ErrAgain) != (c.stuck != nil) {
			c.wantRoom(err == tap.ErrAgain)
		}
		if c.stuck = f; err == tap.ErrAgain {
			return nil
		}
		c.stuck = nil
		c.out.free(f)
		if err != nil && err != tap.ErrRefused {
			return err
		}
	}
}

// wantRoom has the descriptor poll readable when the queue has room again, too, or no more. One
// that tells by itself is asked.
func (c *Impaired) wantRoom(yes bool) {
	if c.sleeper != nil {
		return
	}
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.inner.Fd())}
	if yes {
		e.Events |= unix.EPOLLOUT
	}
	_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_MOD, c.inner.Fd(), &e) // it is watched, and the arguments are good
}

// leaving is when a frame of the lane l leaves that is due now: just before it is written, if
// messages tell.
func (c *Impaired) leaving(l *lane, now time.Duration) time.Duration {
	if l.stay.on {
		return c.now()
	}
	return now
}

func (c *Impaired) now() time.Duration { return time.Since(c.start) }

func timeOfDay() frame.Stamp { return frame.Stamp(time.Now().UnixNano()) }

// arm sets the timer to the next frame that gets due, or stops it.
func (c *Impaired) arm(now time.Duration) {
	next := c.in.next()
	if c.stuck == nil {
		next = min(next, c.out.next())
	}
	var spec unix.ItimerSpec // the zero value stops it and clears what has fired
	switch {
	case next == never && c.armed == 0, c.armed > now && c.armed <= next:
		return
	case next == never:
		c.armed = 0
	default:
		c.armed = max(next, now+1)
		spec.Value = unix.NsecToTimespec(int64(c.armed - now))
	}
	unix.TimerfdSettime(c.timer, 0, &spec, nil)
}
