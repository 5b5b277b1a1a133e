package schedule

import (
	"slices"
	"testing"
)

// TestReady takes each entry once, in order.
func TestReady(t *testing.T) {
	var r Ready[int]
	var entries [3]Entry[int]
	for i := range entries {
		entries[i].Deadline.Owner = i
	}
	var got []int
	for _, i := range []int{1, 0, 1, 2, 2, 0} {
		r.Push(&entries[i])
	}
	for !r.Empty() {
		got = append(got, r.Pop())
		if len(got) == 2 {
			r.Push(&entries[1])
		}
	}
	if want := []int{1, 0, 2, 1}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}
