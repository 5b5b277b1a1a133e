package ring

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"tapir/nic/verbs"
)

// within bounds what never takes that long.
const within = time.Minute

// However a program's going to sleep, its waking up by a signal or after a time
// and the device's completions meet, no completion is slept through.
func TestSleep(t *testing.T) {
	// Who sleeps keeps his processor of Go's, so the device has another, as it has
	// another process in truth.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	f := newFixture(t)
	const total = 30000
	told, room, end := make(chan struct{}, total), make(chan struct{}, fixtureCQE/2), make(chan struct{})
	defer close(end)
	var woke, notified int
	go func() {
		for n := range total {
			select {
			case room <- struct{}{}:
			case <-end:
				return
			}
			for range rand.IntN(200) {
				f.comp.Len()
			}
			f.comp.Push(&verbs.WC{ID: uint64(n)})
			if asked, _ := f.comp.Awaited(false); asked {
				told <- struct{}{}
			}
		}
	}()
	list := make([]Completion, 1)
	for n := uint64(0); n < total; {
		if f.poll.Poll(list) == 0 {
			f.poll.ArmAsleep()
			if f.poll.Poll(list) == 0 {
				most := within
				if n%3 == 0 {
					most = time.Duration(rand.IntN(3)) * time.Microsecond
				}
				if f.poll.Sleep(most) {
					woke++
					continue
				}
				notified++
				select {
				case <-told:
				case <-time.After(within):
					t.Fatalf("completion %d of %d: neither woken nor notified", n, total)
				}
				continue
			}
		}
		if list[0].ID != n {
			t.Fatalf("completion %d instead of %d", list[0].ID, n)
		}
		n++
		<-room
	}
	if woke == 0 || notified == 0 {
		t.Errorf("woken %d times, notified %d times: both ways were to be tried", woke, notified)
	}
}

// A program that sleeps is woken and not notified; one that has given up is
// notified.
func TestArmAsleep(t *testing.T) {
	f := newFixture(t)
	f.poll.ArmAsleep()
	f.comp.Push(&verbs.WC{ID: 1})
	if asked, told := f.comp.Awaited(false); asked || !told {
		t.Errorf("of a sleeper: asked %v, told %v", asked, told)
	}
	if asked, told := f.comp.Awaited(false); asked || told {
		t.Errorf("again: asked %v, told %v", asked, told)
	}
	if !f.poll.Sleep(within) {
		t.Error("slept although there was a completion")
	}
	f.poll.ArmAsleep()
	if f.poll.Sleep(0) {
		t.Error("woken by nobody")
	}
	if asked, told := f.comp.Awaited(false); !asked || told {
		t.Errorf("of one that has given up: asked %v, told %v", asked, told)
	}
}

// Who arms a completion queue is told of one completion: any, or one that is
// solicited, whichever was asked for more widely.
func TestArm(t *testing.T) {
	f := newFixture(t)
	told := func(solicited bool) bool {
		f.comp.Push(&verbs.WC{ID: 1, Solicited: solicited})
		asked, _ := f.comp.Awaited(solicited)
		return asked
	}
	for _, c := range []struct {
		arms       []bool // solicited only
		any, other bool   // told of a completion that is not solicited, and of a solicited one behind it
	}{
		{nil, false, false}, {[]bool{false}, true, false}, {[]bool{true}, false, true},
		{[]bool{true, false}, true, false}, {[]bool{false, true}, true, false},
	} {
		for _, solicited := range c.arms {
			f.poll.Arm(solicited)
		}
		if any, other := told(false), told(true); any != c.any || other != c.other {
			t.Errorf("armed %v: told of the first completion %v, of the solicited one %v", c.arms, any, other)
		}
	}
	f.poll.Arm(false)
	if err := f.comp.Resize(2 * fixtureCQE); err != nil {
		t.Fatal(err)
	}
	if !told(false) {
		t.Error("a queue that was resized forgot that its program waits")
	}
}
