package cmt

import (
	"encoding/binary"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/wire/frame"
)

func numbered(pool frame.Pool, n uint64) *frame.Frame {
	f := pool.Get(8)
	binary.BigEndian.PutUint64(f.Extend(8), n)
	f.ID, f.Queue, f.NeedsCsum = n, uint16(n), n%2 == 0
	return f
}

// A ring that is full takes no more, and rings once there is room.
func TestRingIsBounded(t *testing.T) {
	a, b := buf.NewPool(1000, 2048), buf.NewPool(1000, 2048)
	var r Ring
	wakes, rooms := 0, 0
	r.Bells(func() { wakes++ }, func() { rooms++ })
	for n := range uint64(RingFrames) {
		if !r.Push(numbered(a, n)) {
			t.Fatalf("frame %d", n)
		}
	}
	f := numbered(a, 999)
	if r.Push(f) || r.Len() != RingFrames || r.Room() != 0 {
		t.Fatal("one more than the ring holds")
	}
	f.Release()
	r.Flush()
	r.Flush()
	if wakes != 1 || r.Stats() != (RingStats{Frames: RingFrames, Refused: 1, Batches: 1}) {
		t.Errorf("%d wakes, %+v", wakes, r.Stats())
	}
	for n := range uint64(10) {
		f, _ := r.Take(b)
		if f.ID != n || f.Queue != uint16(n) || f.NeedsCsum != (n%2 == 0) || binary.BigEndian.Uint64(f.Bytes()) != n {
			t.Fatalf("frame %d is %d", n, f.ID)
		}
		f.Release()
	}
	r.Taken()
	r.Taken()
	if rooms != 1 || r.Room() != 10 || a.Lent() != RingFrames-10 {
		t.Errorf("rang %d times, room %d, %d lent", rooms, r.Room(), a.Lent())
	}
	for f, _ := r.Take(b); f != nil; f, _ = r.Take(b) {
		f.Release()
	}
	r.Reclaim()
	if a.Lent() != 0 || b.Lent() != 0 {
		t.Errorf("%d and %d lent", a.Lent(), b.Lent())
	}
}

// Without a buffer of its own the consumer loses the frame, and is told.
func TestRingWithoutBuffers(t *testing.T) {
	a, b := buf.NewPool(10, 2048), buf.NewPool(1, 2048)
	var r Ring
	r.Push(numbered(a, 1))
	r.Push(numbered(a, 2))
	f, _ := r.Take(b)
	if g, more := r.Take(b); g != nil || !more {
		t.Error("a frame out of an empty pool")
	}
	if g, more := r.Take(b); g != nil || more {
		t.Error("a third frame")
	}
	f.Release()
	r.Reclaim()
	if n := testing.AllocsPerRun(100, func() {
		r.Push(numbered(a, 1))
		f, _ := r.Take(b)
		f.Release()
		r.Flush()
	}); n != 0 {
		t.Errorf("%v allocations per frame", n)
	}
}

// Two threads: every frame arrives once, in order, and every wake-up that is
// needed comes.
func TestRingBetweenThreads(t *testing.T) {
	const frames = 200_000
	var r Ring
	wake, room := make(chan struct{}, 1), make(chan struct{}, 1)
	ring := func(c chan struct{}) func() {
		return func() {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	r.Bells(ring(wake), ring(room))
	pool := buf.NewPool(RingFrames+1, 2048)
	patience := time.After(time.Minute)
	go func() {
		for n := range uint64(frames) {
			for r.Room() == 0 {
				<-room
			}
			r.Push(numbered(pool, n))
			if n%7 == 0 || n == frames-1 || r.Room() == 0 {
				r.Flush()
			}
		}
	}()
	mine := buf.NewPool(1, 2048)
	for want := uint64(0); want < frames; {
		f, _ := r.Take(mine)
		if f == nil {
			r.Taken()
			if r.Len() == 0 {
				select {
				case <-wake:
				case <-patience:
					t.Fatalf("nobody wakes the consumer at frame %d", want)
				}
			}
			continue
		}
		if f.ID != want {
			t.Fatalf("frame %d instead of %d", f.ID, want)
		}
		f.Release()
		want++
	}
}
