package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"tapir/nic/al"
)

// Events come in order, each to one of those who wait; beyond the bound they
// are lost and counted.
func TestEvents(t *testing.T) {
	e := NewEvents()
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := e.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	var wg sync.WaitGroup
	got := make(chan uint8, 30)
	for range 3 {
		wg.Go(func() {
			for range 10 {
				ev, err := e.Wait(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- ev.Port
			}
		})
	}
	for i := range 30 {
		e.AsyncEvent(al.Event{Port: uint8(i)}, 0)
	}
	wg.Wait()
	seen := map[uint8]bool{}
	for range 30 {
		seen[<-got] = true
	}
	if len(seen) != 30 {
		t.Errorf("%d events of 30", len(seen))
	}
	for i := range maxEvents + 5 {
		e.AsyncEvent(al.Event{Port: uint8(i)}, 0)
	}
	if e.Lost() != 5 {
		t.Errorf("%d lost", e.Lost())
	}
	for i := range maxEvents {
		if ev, err := e.Wait(t.Context()); err != nil || ev.Port != uint8(i) {
			t.Fatalf("event %d: %+v, %v", i, ev, err)
		}
	}
}
