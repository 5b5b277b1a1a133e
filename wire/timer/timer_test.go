package timer

import (
	"math/rand/v2"
	"testing"

	"tapir/wire/frame"
)

// TestTimers sets, moves and removes at random: entries come out in the order
// of their deadlines, and of their numbers where these are equal, never late.
func TestTimers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var timers Heap[int]
	due := map[int]frame.Time{} // what was asked for last
	entries := make([]Entry[int], 50)
	exact := make([]bool, len(entries))
	for i := range entries {
		entries[i] = Entry[int]{Owner: i, ID: uint64(i)}
	}
	for now := frame.Time(1); now < 5000; now++ {
		for range rnd.IntN(4) {
			i, at := rnd.IntN(len(entries)), now+frame.Time(rnd.IntN(40))
			if rnd.IntN(5) == 0 {
				at = frame.Never
			}
			if exact[i] = rnd.IntN(2) == 0; exact[i] {
				timers.Set(&entries[i], at)
			} else {
				timers.SetBy(&entries[i], at)
			}
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
				if exact[i] {
					t.Fatalf("at %d: %d comes before its time, %d", now, i, at)
				}
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
			timers.SetBy(&entries[i], due[i])
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
