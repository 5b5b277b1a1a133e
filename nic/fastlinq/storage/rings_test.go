package storage

import (
	"slices"
	"testing"
)

// The firmware takes the queues of the function in one order, and nothing else for them.
//
// IS-04
func TestQueueList(t *testing.T) {
	sizes := &Params{Queues: 2, CQEntries: 32, RQEntries: 16, CmdQEntries: 8}
	m := new(Memory)
	q, err := NewQueues[int](m, sizes, 2, "num_queues", func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	right := m.List(q.Global)
	swap := func(i, k int) []uint64 {
		l := slices.Clone(right)
		l[i], l[k] = l[k], l[i]
		return l
	}
	other := swap(0, 0)
	other[4] = m.Put(NewRing(RQ, 99))
	for name, c := range map[string]struct {
		list []uint64
		want bool
	}{
		"in order": {right, true}, "RQ before CQ": {swap(0, 1), false}, "CmdQ before RQ": {swap(4, 5), false},
		"by kind":          {[]uint64{right[0], right[3], right[1], right[4], right[2], right[5]}, false},
		"queues exchanged": {swap(0, 3), true}, "too short": {right[:5], false}, "another size": {other, false},
		"no queue": {append(right[:5:5], 12345), false},
	} {
		if got := m.TakeQueues(m.Put(c.list), sizes); got != c.want {
			t.Errorf("%s: taken %v, want %v", name, got, c.want)
		}
	}
	if m.TakeQueues(right[0], sizes) {
		t.Error("a queue in the place of the list is taken")
	}
}

// A ring keeps what is in it while its memory grows, and has no room beyond its size.
func TestRing(t *testing.T) {
	r, put, got := NewRing(SQ, 100), uint64(0), uint64(0)
	for round := range 50 {
		for range 7 * (round%20 + 1) {
			if full := r.Used() == 100; r.Produce(put) == full {
				t.Fatalf("room for element %d of %d: %v", r.Used(), r.Size, !full)
			} else if !full {
				put++
			}
		}
		for range r.Used() / 2 {
			if v := r.Consume(); v != got {
				t.Fatalf("element %d, want %d", v, got)
			}
			got++
		}
	}
	if r.Peak != 100 || r.Clear() == 0 || r.Used() != 0 {
		t.Errorf("at most %d, %d left", r.Peak, r.Used())
	}
}
