package shm

import (
	"encoding/binary"
	"testing"

	"tapir/nic/tap"
	"tapir/wire/frame"
)

// Whatever the other end writes into a ring, its reader takes no more than it may, moves on
// within the ring, and either goes on or says that the ring is broken.
func FuzzRing(f *testing.F) {
	good := make([]byte, 96)
	binary.NativeEndian.PutUint32(good, 60)
	f.Add(good, uint64(96), uint64(0))
	wrap := make([]byte, 32)
	binary.NativeEndian.PutUint32(wrap, skip)
	f.Add(wrap, uint64(ringSize), uint64(ringSize-32))
	f.Add([]byte{1}, uint64(17), uint64(1<<40))
	ctl, data := make([]byte, control), make([]byte, ringSize)
	out := frame.New(make([]byte, frame.DefaultHeadroom+4096), nil)
	f.Fuzz(func(t *testing.T, b []byte, ahead, at uint64) {
		at &^= align - 1
		clear(data)
		var r ring
		r.attach(ctl, data)
		r.at, r.seen = at, at
		pos := at % ringSize
		n := copy(data[pos:], b)
		copy(data, b[n:])
		r.tail.Store(at + ahead)
		for range 8 {
			out.Reset()
			was := r.at
			switch err := r.get(out); err {
			case errBroken, tap.ErrAgain:
				return
			case nil:
				if out.Len() == 0 || out.Len() > longest {
					t.Fatalf("a frame of %d octets", out.Len())
				}
			}
			if moved := r.at - was; moved == 0 || moved > ringSize+uint64(longest) || r.at%align != 0 {
				t.Fatalf("from %d to %d", was, r.at)
			}
		}
	})
}
