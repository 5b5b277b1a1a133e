package loop

import (
	"context"
	"testing"

	"tapir/wire/frame"
)

// What handlers have found is told in the next turn of the loop, or before it sleeps if
// there is no other; a frame that others send while it yields comes first.
func TestTell(t *testing.T) {
	w := prepare(t, 0)
	defer w.Close()
	told := 0
	tell := func() { told++ }
	sleep := func() bool {
		defer func() { w.policy.spinAgain = 0 }() // others may have used the processor
		return w.tellBeforeSleep(w.Now())
	}
	iterate := func() {
		t.Helper()
		_, _, err := w.iterate()
		must(t, err)
	}
	w.far.send(t, []byte("frame"))
	must(t, w.sleep(0))
	iterate() // it looks at this port from now on
	if sleep() || told != 0 {
		t.Fatal("there was nothing to tell")
	}
	w.Tell(tell)
	iterate()
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
	w.Tell(tell)
	w.far.send(t, []byte("reply"))
	if !sleep() || told != 1 || w.teller.skip != 0 {
		t.Errorf("told %d times, the reply is there", told)
	}
	iterate()
	if told != 2 {
		t.Errorf("told %d times, want twice", told)
	}
	for skip := 1; skip <= 4; skip *= 2 { // in vain
		w.Tell(tell)
		if before := told; sleep() || told != before+1 || w.teller.skip != skip {
			t.Errorf("told %d times, %d sleeps without a look, want %d", told-before, w.teller.skip, skip)
		}
		for range skip {
			w.Tell(tell)
			w.far.send(t, []byte("frame")) // nobody looks for it
			if sleep() {
				t.Error("the loop waits for nobody now")
			}
			must(t, w.sleep(0))
			iterate()
		}
	}
	w.policy.spinAgain = frame.Never // others have used up the processor
	w.Tell(tell)
	w.far.send(t, []byte("frame"))
	if before := told; sleep() || told != before+1 {
		t.Error("not told at once")
	}
}

// A loop that ends tells what is left.
func TestTellAtTheEnd(t *testing.T) {
	w := prepare(t, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	told := false
	w.Tell(func() { told = true })
	must(t, w.Run(ended))
	if !told {
		t.Error("not told")
	}
}
