package node

import (
	"context"
	"fmt"
	"sync"

	"tapir/nic/al"
	"tapir/wire/frame"
)

// maxEvents bounds the events that nobody has waited for.
const maxEvents = 1024

// Events keeps asynchronous events until someone waits for them, from any
// goroutine but the NIC's own: give it to OpenCA as the handler of a context,
// or to several. Of more than 1024 events that nobody fetches, the latest are
// lost.
//
// What it does not do, unlike ibv_get_async_event: keep the object of an event
// from being destroyed meanwhile.
type Events struct {
	mu   sync.Mutex
	list []al.Event
	lost int
	news chan struct{}
}

// NewEvents returns an empty queue of events.
func NewEvents() *Events { return &Events{news: make(chan struct{}, 1)} }

// AsyncEvent implements al.EventHandler.
func (e *Events) AsyncEvent(ev al.Event, _ frame.Time) {
	e.mu.Lock()
	if len(e.list) < maxEvents {
		e.list = append(e.list, ev)
	} else {
		e.lost++
	}
	e.mu.Unlock()
	e.wake()
}

func (e *Events) wake() {
	select {
	case e.news <- struct{}{}:
	default: // a waiter has not seen the last one
	}
}

// take returns the oldest event.
func (e *Events) take() (ev al.Event, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) == 0 {
		return ev, false
	}
	ev, e.list = e.list[0], e.list[1:]
	if len(e.list) > 0 {
		e.wake() // for others who wait
	}
	return ev, true
}

// Wait returns the oldest event as soon as there is one. ctx bounds the wait.
func (e *Events) Wait(ctx context.Context) (al.Event, error) {
	for {
		if ev, ok := e.take(); ok {
			return ev, nil
		}
		select {
		case <-e.news:
		case <-ctx.Done():
			return al.Event{}, fmt.Errorf("asynchronous events: %w", ctx.Err())
		}
	}
}

// Lost is the number of events that were lost.
func (e *Events) Lost() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost
}
