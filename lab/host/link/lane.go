package link

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	rules "tapir/lab/host/fault"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/headers"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// FaultCount counts true frames: all that came; the segments whose fate was
// drawn; what became of those; and super-frames or frames that found the cable
// full or down.
type FaultCount struct{ Frames, Segments, Lost, Duplicated, Corrupted, Reordered, Refused uint64 }

// lane is one direction of a cable.
type lane struct {
	Impairment
	enters frame.Port // the end of the cable at which frames enter
	rng    *rand.Rand
	queue  []transit // in order of arrival; first is at head
	head   int
	held   []transit // reordered, waiting to be overtaken
	late   []transit // delayed by a rule, by time
	last   time.Duration
	busy   time.Duration // until then, at Rate, earlier frames are being sent
	segs   int           // in queue
	spare  [roomKinds][]*frame.Frame
	pool   frame.Pool // lends the frames instead of spare; nil: none
	count  FaultCount
	stay   residence
	octets uint64         // of frames that left
	behind rules.Lateness // of those, how far behind their time
}

type transit struct {
	f    *frame.Frame
	segs int
	at   time.Duration // of arrival, or when the wait to be overtaken ends
	left int           // frames that are still to overtake
}

const never = time.Duration(1<<63 - 1)

func newLane(i Impairment, seed, side uint64) lane {
	l := lane{enters: frame.Port(side), rng: rand.New(rand.NewPCG(seed, side))}
	l.set(i)
	return l
}

func (l *lane) set(i Impairment) {
	i.Depth = max(i.Depth, 1)
	if i.Queue == 0 {
		i.Queue = defaultQueue
	}
	l.Impairment = i
}

// defaultQueue is how many octets wait for their turn.
const defaultQueue = 256 << 10

// refuses tells why no frame enters the lane now; DropNone if one does.
func (l *lane) refuses(now time.Duration) frame.DropReason {
	switch {
	case l.Down:
		return drop.Link
	case l.full(0), l.Rate > 0 && l.busy > now && int64(l.busy-now) > l.takes(l.Queue):
		return drop.TxQueue
	}
	return frame.DropNone
}

// takes is how many nanoseconds so many octets take at Rate.
func (l *lane) takes(octets int) int64 { return int64(float64(octets) * 8e9 / float64(l.Rate)) }

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

// fate is all that is decided for one segment.
type fate struct {
	fault
	rules *rules.Verdict // of those that strike exact things; nil: none does
}

func (x fate) drop() frame.DropReason {
	if x.lost || x.rules != nil && x.rules.Drop {
		return drop.Fault
	}
	return frame.DropNone
}

// String says what happens, for people.
func (x fate) String() string {
	var all []string
	if x.rules != nil {
		all = append(all, x.rules.Note())
	}
	if x.lost {
		all = append(all, "lost on the link")
	}
	if x.flip != 0 {
		all = append(all, fmt.Sprintf("corrupted on the link: octet %d is xored with 0x%02x", x.octet, x.flip))
	}
	if x.twice {
		all = append(all, "duplicated on the link")
	}
	if x.later > 0 {
		all = append(all, fmt.Sprintf("reordered on the link: overtaken by up to %d", x.later))
	}
	return strings.Join(all, "; ")
}

// strike decides what happens to one segment in a frame of n octets.
func (l *lane) strike(n int, transport bool) (x fault) {
	l.count.Segments++
	if x.lost = l.chance(l.Loss); x.lost {
		l.count.Lost++
		return x
	}
	if transport && l.chance(l.Corrupt) {
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
func (l *lane) suffer(x fate, f *frame.Frame, now time.Duration) {
	if x.drop() != frame.DropNone {
		l.free(f)
		return
	}
	within, behind, copies := overtakeWithin, x.later, 0
	if x.flip != 0 {
		f.Bytes()[x.octet] ^= x.flip
	}
	if x.twice {
		copies++
	}
	if v := x.rules; v != nil {
		v.Apply(f.Bytes())
		copies += v.Copies
		if v.Behind > 0 {
			within, behind = rules.BehindWithin, v.Behind
		}
		if v.Delay > 0 {
			for ; copies > 0; copies-- {
				l.delay(l.twin(f), now+v.Delay)
			}
			l.delay(f, now+v.Delay)
			return
		}
	}
	for ; copies > 0; copies-- {
		l.pass(l.twin(f), 1, now)
	}
	if behind > 0 {
		l.held = append(l.held, transit{f, 1, now + within, behind})
		return
	}
	l.pass(f, 1, now)
	l.overtaken(now)
}

// twin is the true frame f once more.
func (l *lane) twin(f *frame.Frame) *frame.Frame {
	twin := l.copyOf(f.Bytes(), frame.Offload{})
	twin.ID = f.ID
	return twin
}

// delay lets f (taken) enter the lane only then; others do not wait for it.
func (l *lane) delay(f *frame.Frame, at time.Duration) {
	i := len(l.late)
	for i > 0 && l.late[i-1].at > at {
		i--
	}
	l.late = slices.Insert(l.late, i, transit{f: f, segs: 1, at: at})
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
	at := now
	if l.Rate > 0 {
		l.busy = max(l.busy, now) + time.Duration(l.takes(f.Len()))
		at = l.busy
	}
	at += l.Delay
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
	l.octets += uint64(f.Len())
	late := now - l.queue[l.head].at
	l.behind.Add(late)
	if l.stay.on {
		l.stay.correct(f, late)
	}
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
	for len(l.late) > 0 && l.late[0].at <= now {
		l.pass(l.late[0].f, 1, now)
		l.late = slices.Delete(l.late, 0, 1)
	}
	if len(l.held) > 0 {
		l.held = slices.DeleteFunc(l.held, func(h transit) bool {
			over := h.at <= now
			if over {
				l.pass(h.f, 1, now)
			}
			return over
		})
	}
	return l.head < len(l.queue) && l.queue[l.head].at <= now
}

func (l *lane) next() time.Duration {
	at := never
	if l.head < len(l.queue) {
		at = l.queue[l.head].at
	}
	if len(l.late) > 0 {
		at = min(at, l.late[0].at)
	}
	for _, h := range l.held {
		at = min(at, h.at)
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
	if l.pool != nil {
		f := l.pool.Get(n)
		f.Extend(n)
		return f
	}
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
	if l.pool != nil {
		f.Release()
		return
	}
	kind := roomKind(f.Cap() - frame.DefaultHeadroom)
	if len(l.spare[kind]) < 256 {
		l.spare[kind] = append(l.spare[kind], f)
	}
}

const ethernet = 14

// isTransport tells whether an Ethernet frame holds a TCP segment or a RoCE packet: what a
// transport with checksums of its own carries, and sends again.
func isTransport(b []byte) bool {
	var v headers.View
	if !v.Parse(b) {
		return false
	}
	if v.Type == ib.EtherType {
		return true
	}
	v.ParseNetwork()
	return v.Proto == ip.ProtoTCP || v.Proto == ip.ProtoUDP && len(b) >= v.L4+udp.HeaderLen &&
		binary.BigEndian.Uint16(b[v.L4+2:]) == ib.UDPPort
}
