package frame

import "testing"

func TestQueue(t *testing.T) {
	var q Queue
	next, want := uint64(0), uint64(0)
	push := func(bound int) bool {
		f := New(make([]byte, 8), nil)
		f.ID = next
		if !q.Push(f, bound) {
			return false
		}
		next++
		return true
	}
	for round := range 100 { // the ring turns and grows at every offset
		for range round % 13 {
			push(64)
		}
		for range round % 11 {
			if f := q.Pop(); f != nil {
				if f.ID != want {
					t.Fatalf("frame %d, want %d", f.ID, want)
				}
				want++
			}
		}
		if q.Len() != int(next-want) {
			t.Fatalf("%d frames of %d", q.Len(), next-want)
		}
	}
	for push(64) {
	}
	if q.Len() != 64 || q.Discard() != 64 || q.Pop() != nil || q.Len() != 0 {
		t.Errorf("%d frames left", q.Len())
	}
	if push(0) {
		t.Error("a bound of 0 took a frame")
	}
}

// counting is a pool that counts what it gets back.
type counting struct{ released int }

func (*counting) Get(int) *Frame { return nil }
func (c *counting) Put(*Frame)   { c.released++ }

// Frames behind the first few are released, the others stay.
func TestQueueTruncate(t *testing.T) {
	var q Queue
	var pool counting
	for n := range 9 {
		f := New(make([]byte, 8), &pool)
		f.ID = uint64(n)
		q.Push(f, 9)
	}
	q.Pop().Release()
	q.Truncate(20)
	q.Truncate(3)
	if pool.released != 1+5 || q.Len() != 3 {
		t.Errorf("%d released, %d left", pool.released, q.Len())
	}
	for want := uint64(1); want <= 3; want++ {
		if f := q.Pop(); f == nil || f.ID != want {
			t.Errorf("%v instead of frame %d", f, want)
		}
	}
}
