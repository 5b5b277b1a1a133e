package link

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/virtio"
)

// Impairment is what a bad cable does to the TCP segments of one direction.
// Other frames only take the delay: address resolution has no checksum and
// would drown what is to be seen. Chances are in parts per million.
type Impairment struct {
	Loss      int           // the segment vanishes
	Duplicate int           // it arrives twice
	Corrupt   int           // one bit behind the Ethernet header is flipped
	Reorder   int           // 1 to Depth later segments overtake it
	Depth     int           // default 1
	Delay     time.Duration // of everything
	Jitter    time.Duration // added to Delay, from 0 to this much; the order stays
}

// overtakeWithin bounds how long a reordered segment waits to be overtaken.
const overtakeWithin = 2 * time.Millisecond

// cableFrames bounds the frames inside a cable, one way; more are lost.
const cableFrames = 8192

// Impaired is a tap.Queue seen through a bad cable. What happens is decided
// for each true segment of a super-frame; those that nothing happens to stay
// together. One seed gives one sequence of decisions for each direction.
type Impaired struct {
	inner   tap.Queue
	epoll   int // readable when inner is, or a frame in the cable is due
	timer   int
	armed   time.Duration // when the timer fires; 0: not set
	start   time.Time
	in, out lane
	split   virtio.Splitter
	bounce  *frame.Frame // what is read from inner
}

// Impair puts a bad cable in front of q (taken): in is what happens to the
// frames that Read returns, out to those of Write.
func Impair(q tap.Queue, in, out Impairment, seed uint64) (*Impaired, error) {
	c := &Impaired{inner: q, start: time.Now(), epoll: -1, timer: -1}
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

// Fd polls readable when Read may have something to do.
func (c *Impaired) Fd() int { return c.epoll }

// Name is the name of the queue behind the cable.
func (c *Impaired) Name() string { return c.inner.Name() }

// Vnet tells whether Write accepts offloads, and Read may return some.
func (c *Impaired) Vnet() bool { return c.inner.Vnet() }

// Faults counts what the cable has done so far in both directions.
func (c *Impaired) Faults() (in, out FaultCount) { return c.in.count, c.out.count }

// Close closes the queue behind the cable, too. What is still inside is lost.
func (c *Impaired) Close() error {
	for _, fd := range []int{c.epoll, c.timer} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return c.inner.Close()
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
	g := c.in.due(now)
	if g == nil {
		c.arm(now)
		return tap.ErrAgain
	}
	defer c.in.free(g)
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

// Write sends f, borrowed, into the cable.
func (c *Impaired) Write(f *frame.Frame) error {
	now := c.now()
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
	switch {
	case f.Len() > mostRoom:
		err = tap.ErrRefused
	case !isTCP(f.Bytes()):
		if !l.full(0) {
			l.pass(l.copyOf(f.Bytes(), f.Offload), 1, now)
		}
	case f.GSO != frame.GSONone:
		err = c.enterSuper(l, f, now)
	case !l.full(0):
		err = c.enterSegment(l, f, now)
	}
	if err != nil {
		return tap.ErrRefused
	}
	return nil
}

// enterSegment puts a single segment into l. Its checksum is completed only if
// something happens to it.
func (c *Impaired) enterSegment(l *lane, f *frame.Frame, now time.Duration) error {
	if x := l.strike(f.Len()); x != (fault{}) {
		return c.split.Split(frame.Offload{NeedsCsum: f.NeedsCsum, CsumStart: f.CsumStart, CsumOffset: f.CsumOffset}, f.Bytes(),
			func(seg []byte) { l.suffer(x, l.copyOf(seg, frame.Offload{}), now) })
	}
	l.pass(l.copyOf(f.Bytes(), f.Offload), 1, now)
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
	run := 0 // segments in front of i that still are to leave
	leave := func(i int) {
		if run > 0 {
			g := l.empty(c.split.RunLen(i-run, run))
			g.Offload = c.split.PutRun(g.Bytes(), i-run, run)
			l.pass(g, run, now)
			run = 0
		}
	}
	for i := range n {
		if l.full(run) {
			leave(i)
			break
		}
		if x := l.strike(c.split.Len(i)); x != (fault{}) {
			leave(i)
			g := l.empty(c.split.Len(i))
			c.split.Put(g.Bytes(), i)
			l.suffer(x, g, now)
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

// drain writes what has come out of the outbound lane. A frame that the queue
// does not take at once is lost, as on a cable.
func (c *Impaired) drain(now time.Duration) error {
	for f := c.out.due(now); f != nil; f = c.out.due(now) {
		err := c.inner.Write(f)
		c.out.free(f)
		if err != nil && err != tap.ErrAgain && err != tap.ErrRefused {
			return err
		}
	}
	return nil
}

func (c *Impaired) now() time.Duration { return time.Since(c.start) }

// arm sets the timer to the next frame that gets due, or stops it.
func (c *Impaired) arm(now time.Duration) {
	next := min(c.in.next(), c.out.next())
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

// FaultCount counts the segments that a cable saw and disturbed.
type FaultCount struct{ Segments, Lost, Duplicated, Corrupted, Reordered uint64 }

// lane is one direction of a cable.
type lane struct {
	Impairment
	rng   *rand.Rand
	queue []transit // in order of arrival; first is at head
	head  int
	held  []transit // reordered, waiting to be overtaken
	last  time.Duration
	segs  int // in queue
	spare [roomKinds][]*frame.Frame
	count FaultCount
}

type transit struct {
	f    *frame.Frame
	segs int
	at   time.Duration // of arrival, or when the wait to be overtaken ends
	left int           // frames that are still to overtake
}

const never = time.Duration(1<<63 - 1)

func newLane(i Impairment, seed, side uint64) lane {
	i.Depth = max(i.Depth, 1)
	return lane{Impairment: i, rng: rand.New(rand.NewPCG(seed, side))}
}

func (l *lane) chance(ppm int) bool { return ppm > 0 && l.rng.IntN(1_000_000) < ppm }

// full tells that the cable holds no more frames, with more on their way in.
func (l *lane) full(more int) bool { return l.segs+more >= cableFrames }

// fault is what happens to one segment; the zero value means nothing.
type fault struct {
	lost, twice bool
	octet       int   // of the frame in which a bit is flipped
	flip        uint8 // that bit; 0: none
	later       int   // segments that overtake it
}

// strike decides what happens to one segment in a frame of n octets.
func (l *lane) strike(n int) (x fault) {
	l.count.Segments++
	if x.lost = l.chance(l.Loss); x.lost {
		l.count.Lost++
		return x
	}
	if l.chance(l.Corrupt) {
		l.count.Corrupted++
		x.octet, x.flip = ethernet+l.rng.IntN(n-ethernet), 1<<l.rng.IntN(8)
	}
	if x.twice = l.chance(l.Duplicate); x.twice {
		l.count.Duplicated++
	}
	if l.chance(l.Reorder) {
		l.count.Reordered++
		x.later = 1 + l.rng.IntN(l.Depth)
	}
	return x
}

// suffer lets the segment in f (taken) have what was decided.
func (l *lane) suffer(x fault, f *frame.Frame, now time.Duration) {
	if x.lost {
		l.free(f)
		return
	}
	if x.flip != 0 {
		f.Bytes()[x.octet] ^= x.flip
	}
	if x.twice {
		l.pass(l.copyOf(f.Bytes(), frame.Offload{}), 1, now)
	}
	if x.later > 0 {
		l.held = append(l.held, transit{f, 1, now + overtakeWithin, x.later})
		return
	}
	l.pass(f, 1, now)
	l.overtaken(now)
}

// freed tells that one of those held back goes on after one more segment.
func (l *lane) freed() bool {
	return slices.ContainsFunc(l.held, func(h transit) bool { return h.left <= 1 })
}

// overtaken counts one more frame for those that are held back.
func (l *lane) overtaken(now time.Duration) {
	kept := l.held[:0]
	for _, h := range l.held {
		if h.left--; h.left <= 0 {
			l.pass(h.f, 1, now)
		} else {
			kept = append(kept, h)
		}
	}
	l.held = kept
}

// pass sends f (taken), which holds segs segments, down the lane.
func (l *lane) pass(f *frame.Frame, segs int, now time.Duration) {
	at := now + l.Delay
	if l.Jitter > 0 {
		at += time.Duration(l.rng.Int64N(int64(l.Jitter)))
	}
	l.last = max(l.last, at)
	l.queue = append(l.queue, transit{f: f, segs: segs, at: l.last})
	l.segs += segs
}

// due returns the next frame that has arrived, nil if there is none.
func (l *lane) due(now time.Duration) *frame.Frame {
	if !l.ready(now) {
		return nil
	}
	f := l.queue[l.head].f
	l.segs -= l.queue[l.head].segs
	l.queue[l.head] = transit{}
	if l.head++; l.head == len(l.queue) {
		l.queue, l.head = l.queue[:0], 0
	} else if l.head >= 1024 {
		l.queue = l.queue[:copy(l.queue, l.queue[l.head:])]
		l.head = 0
	}
	return f
}

// ready tells whether a frame has arrived; those that waited in vain to be
// overtaken go on.
func (l *lane) ready(now time.Duration) bool {
	for len(l.held) > 0 && l.held[0].at <= now {
		l.pass(l.held[0].f, 1, now)
		l.held = append(l.held[:0], l.held[1:]...)
	}
	return l.head < len(l.queue) && l.queue[l.head].at <= now
}

func (l *lane) next() time.Duration {
	at := never
	if l.head < len(l.queue) {
		at = l.queue[l.head].at
	}
	if len(l.held) > 0 {
		at = min(at, l.held[0].at)
	}
	return at
}

// Buffers have room for leastRoom octets, or twice, four times ... as many,
// mostRoom at most.
const (
	roomKinds = 6
	leastRoom = 66 << 5
	mostRoom  = leastRoom << (roomKinds - 1)
)

// roomKind is the kind of buffer in which n octets fit.
func roomKind(n int) (kind int) {
	for leastRoom<<kind < n {
		kind++
	}
	return kind
}

// empty returns a frame of n octets, at most mostRoom, of any content.
func (l *lane) empty(n int) *frame.Frame {
	kind := roomKind(n)
	var f *frame.Frame
	if spare := l.spare[kind]; len(spare) > 0 {
		f, l.spare[kind] = spare[len(spare)-1], spare[:len(spare)-1]
		f.Reset()
	} else {
		f = frame.New(make([]byte, frame.DefaultHeadroom+leastRoom<<kind), nil)
	}
	f.Extend(n)
	return f
}

func (l *lane) copyOf(b []byte, off frame.Offload) *frame.Frame {
	f := l.empty(len(b))
	copy(f.Bytes(), b)
	f.Offload = off
	return f
}

// free keeps the buffer of f for the next frame.
func (l *lane) free(f *frame.Frame) {
	kind := roomKind(f.Cap() - frame.DefaultHeadroom)
	if len(l.spare[kind]) < 256 {
		l.spare[kind] = append(l.spare[kind], f)
	}
}

const ethernet = 14

// isTCP tells whether an Ethernet frame holds a TCP segment.
func isTCP(b []byte) bool {
	h, n, err := ether.Parse(b)
	if err != nil || len(b) <= n+ip.HeaderLen4 {
		return false
	}
	switch h.Type {
	case ether.TypeIPv4:
		return b[n+9] == ip.ProtoTCP
	case ether.TypeIPv6:
		return b[n+6] == ip.ProtoTCP
	}
	return false
}
