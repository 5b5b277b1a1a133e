package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tapir/wire/frame"
)

// TestTimers sets, moves and removes at random: entries come out in the order
// of their deadlines, and of their numbers where these are equal, never late.
func TestTimers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var timers Timers[int]
	due := map[int]frame.Time{} // what was asked for last
	entries := make([]Entry[int], 50)
	for i := range entries {
		entries[i] = Entry[int]{Owner: i, ID: uint64(i)}
	}
	for now := frame.Time(1); now < 5000; now++ {
		for range rnd.IntN(4) {
			i, at := rnd.IntN(len(entries)), now+frame.Time(rnd.IntN(40))
			if rnd.IntN(5) == 0 {
				at = frame.Never
			}
			timers.Set(&entries[i], at)
			if due[i] = at; at == frame.Never {
				delete(due, i)
			}
		}
		var early []int
		for last := -1; ; {
			i, ok := timers.Pop(now)
			if !ok {
				break
			}
			if at, asked := due[i]; asked && at > now {
				early = append(early, i)
				continue
			}
			if due[i] == now && i < last {
				t.Fatalf("at %d: %d comes before %d", now, last, i)
			} else if due[i] == now {
				last = i
			}
			delete(due, i)
		}
		for _, i := range early { // a deadline that was moved back
			timers.Set(&entries[i], due[i])
		}
		for i, at := range due {
			if at <= now {
				t.Fatalf("at %d: %d is due since %d", now, i, at)
			}
			if timers.Next() > at {
				t.Fatalf("at %d: the next is at %d, but %d is due at %d", now, timers.Next(), i, at)
			}
		}
	}
	for i := range entries {
		timers.Remove(&entries[i])
	}
	if timers.Len() != 0 || timers.Next() != frame.Never {
		t.Fatalf("%d left", timers.Len())
	}
}

// TestReady takes each entry once, in order.
func TestReady(t *testing.T) {
	var r Ready[int]
	entries := []Entry[int]{{Owner: 0}, {Owner: 1}, {Owner: 2}}
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
