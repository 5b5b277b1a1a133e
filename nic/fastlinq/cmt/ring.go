package cmt

import (
	"sync/atomic"

	"tapir/wire/frame"
)

// RingFrames is how many frames a ring holds.
const RingFrames = 256

// cacheLine keeps apart what two threads write.
const cacheLine = 64

// Ring passes frames from one thread, the producer, to another, the consumer.
//
// A buffer belongs to the pool of its own thread: frames in the ring are lent.
// The consumer copies each into a frame of its own pool, and the producer
// releases, when it uses the ring next, what was copied. So neither pool sees
// the other's buffers, and no frame has two owners.
type Ring struct {
	slots [RingFrames]*frame.Frame

	_    [cacheLine]byte
	tail atomic.Uint32 // frames ever pushed; the producer writes it
	full atomic.Bool   // the producer waits for room

	_    [cacheLine]byte
	head atomic.Uint32 // frames ever taken; the consumer writes it
	_    [cacheLine]byte

	// The producer's.
	freed  uint32 // frames ever released
	rung   uint32 // frames that the consumer was told of
	pushed RingStats

	// wake rings the consumer's bell, room the producer's; nil: they run on one
	// thread.
	wake, room func()
}

// RingStats count what a producer has done.
type RingStats struct {
	Frames  uint64
	Refused uint64 // the ring was full
	Batches uint64
}

// Bells sets who is rung: wake when frames have come for the consumer, room when
// there is room again for the producer. It comes before the first frame.
func (r *Ring) Bells(wake, room func()) { r.wake, r.room = wake, room }

// Push takes f unless the ring is full; then it stays the caller's, and the
// producer is rung once there is room.
func (r *Ring) Push(f *frame.Frame) bool {
	if r.Room() == 0 {
		r.pushed.Refused++
		return false
	}
	t := r.tail.Load()
	r.slots[t%RingFrames] = f
	r.tail.Store(t + 1)
	r.pushed.Frames++
	return true
}

// Room is how many frames more the ring takes; at 0 the producer is rung once
// there is room.
func (r *Ring) Room() int {
	n := r.free()
	if n > 0 {
		return n
	}
	r.full.Store(true)
	return r.free() // what was taken meanwhile rings nobody
}

func (r *Ring) free() int {
	r.Reclaim()
	return RingFrames - int(r.tail.Load()-r.freed)
}

// Transmit implements frame.Link: it takes f.
func (r *Ring) Transmit(f *frame.Frame) {
	if !r.Push(f) {
		panic("cmt: a frame for a ring without room")
	}
}

// Reclaim releases the frames that were copied.
func (r *Ring) Reclaim() {
	for head := r.head.Load(); r.freed != head; r.freed++ {
		slot := &r.slots[r.freed%RingFrames]
		(*slot).Release()
		*slot = nil
	}
}

// Flush ends a batch: the consumer is told of it.
func (r *Ring) Flush() {
	r.Reclaim()
	t := r.tail.Load()
	if t == r.rung {
		return
	}
	r.rung = t
	r.pushed.Batches++
	if r.wake != nil {
		r.wake()
	}
}

// Stats are the counts of the producer.
func (r *Ring) Stats() RingStats { return r.pushed }

// Take returns a copy of the oldest frame, from the consumer's pool, and nil
// without one, or, with more, for a frame that the pool had no buffer for: it is
// lost.
func (r *Ring) Take(pool frame.Pool) (f *frame.Frame, more bool) {
	h := r.head.Load()
	if h == r.tail.Load() {
		return nil, false
	}
	from := r.slots[h%RingFrames]
	if f = pool.Get(from.Len()); f != nil {
		f.Append(from.Bytes())
		f.Offload, f.ID, f.Stamp, f.Seen, f.Queue = from.Offload, from.ID, from.Stamp, from.Seen, from.Queue
	}
	r.head.Store(h + 1)
	return f, true
}

// Taken ends a batch of Takes: a producer that waits for room is rung.
func (r *Ring) Taken() {
	if r.full.Load() && r.full.CompareAndSwap(true, false) && r.room != nil {
		r.room()
	}
}

// Len is the number of frames that wait for the consumer.
func (r *Ring) Len() int { return int(r.tail.Load() - r.head.Load()) }
