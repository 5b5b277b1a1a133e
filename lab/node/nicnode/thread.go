package nicnode

import (
	"sync"

	"tapir/wire/frame"
)

// thread runs functions one after the other on the NIC's loop and, once that
// has ended, on goroutines as needed: whoever holds objects of a NIC that is
// gone must still be able to give them back. Nothing handed to it is lost.
type thread struct {
	n       *Node
	mu      sync.Mutex
	mail    []func(now frame.Time)
	ended   bool // the loop
	running bool // someone empties the mail after that
}

// do hands fn over and returns at once.
func (t *thread) do(fn func(now frame.Time)) {
	t.mu.Lock()
	t.mail = append(t.mail, fn)
	kick := t.ended && !t.running
	t.running = t.running || kick
	ended := t.ended
	t.mu.Unlock()
	switch {
	case !ended:
		t.n.Loop.Do(func(frame.Time) { t.drain() }) // if it has just ended, takeOver follows
	case kick:
		go t.finish()
	}
}

// wait is do, and returns when fn has run.
func (t *thread) wait(fn func(now frame.Time)) {
	ran := make(chan struct{})
	t.do(func(now frame.Time) { fn(now); close(ran) })
	<-ran
}

// drain runs what was handed over before the call.
func (t *thread) drain() bool {
	t.mu.Lock()
	mail := t.mail
	t.mail = nil
	t.mu.Unlock()
	for _, fn := range mail {
		fn(t.n.Loop.Now())
	}
	return len(mail) > 0
}

// takeOver makes the caller the NIC's thread, after the end of the loop.
func (t *thread) takeOver() {
	t.mu.Lock()
	t.ended, t.running = true, true
	t.mu.Unlock()
}

// turn is one iteration without a loop; nothing reaches the wire any more.
func (t *thread) turn() (busy bool) {
	defer t.n.card.alone()()
	busy = t.drain()
	d := t.n.Device
	if d.Dispatch(t.n.Loop.Now()) {
		busy = true
	}
	d.Poll(t.n.Loop.Now())
	return busy
}

// finish turns until nothing is left to do, and gives the thread up.
func (t *thread) finish() {
	for {
		for t.turn() {
		}
		t.mu.Lock()
		if len(t.mail) == 0 {
			t.running = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
	}
}
