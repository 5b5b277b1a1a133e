package trap

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// repeats is what a listener knows, before Linux 5.19, of calls that a signal
// interrupts while they are served: the kernel makes them again. All is by
// thread.
type repeats struct {
	mu     sync.Mutex
	latest map[uint32]uint64      // the call that was received last
	begun  map[uint32]*begun      // that is carried out
	done   map[uint32]undelivered // whose answer found it interrupted
}

// begun is a call that is being carried out, made as n, and again as now.
type begun struct {
	n   Notification
	now uint64
}

// undelivered is the answer to a call that was interrupted.
type undelivered struct {
	n Notification
	r response
}

func newRepeats() repeats {
	return repeats{latest: map[uint32]uint64{}, begun: map[uint32]*begun{}, done: map[uint32]undelivered{}}
}

// again tells whether a call may be another one, made again.
func (n *Notification) again(before *Notification) bool {
	return n.Nr == before.Nr && n.IP == before.IP && n.Args == before.Args
}

// repeated tells whether a call that was received is one made again: its answer
// was there, or is due.
func (l *Listener) repeated(c *Call) bool {
	if !l.terms.Repeats {
		return false
	}
	l.repeats.mu.Lock()
	defer l.repeats.mu.Unlock()
	pid := c.n.PID
	l.repeats.latest[pid] = c.n.ID
	if u, ok := l.repeats.done[pid]; ok && c.n.again(&u.n) {
		if l.answer(c.n.ID, u.r) == nil { // else it is interrupted once more
			delete(l.repeats.done, pid)
		}
		return true
	}
	if b := l.repeats.begun[pid]; b != nil && c.n.again(&b.n) {
		b.now = c.n.ID
		return true
	}
	return false
}

// sendRepeated is send where calls are made again.
func (l *Listener) sendRepeated(c *Call, r response) {
	l.repeats.mu.Lock()
	defer l.repeats.mu.Unlock()
	err := l.answer(l.leave(c), r)
	if errors.Is(err, unix.ENOENT) && r.flags == 0 && r.errno != -int32(errRestart) && r.errno != -int32(unix.ESRCH) {
		l.repeats.done[c.n.PID] = undelivered{c.n, r}
	}
}

// leave ends the carrying out of a call and returns the id that it has now.
// l.repeats.mu is held.
func (l *Listener) leave(c *Call) uint64 {
	b := l.repeats.begun[c.n.PID]
	if b == nil || b.n.ID != c.n.ID {
		return c.n.ID
	}
	delete(l.repeats.begun, c.n.PID)
	return b.now
}

// present is the id that a call has now.
func (l *Listener) present(c *Call) uint64 {
	if l.terms.Repeats {
		l.repeats.mu.Lock()
		defer l.repeats.mu.Unlock()
		if b := l.repeats.begun[c.n.PID]; b != nil && b.n.ID == c.n.ID {
			return b.now
		}
	}
	return c.n.ID
}

// gone tells whether a call that has this id no more is interrupted, or its
// thread gone. Then it cannot be carried out: made again, it is another.
func (l *Listener) gone(c *Call, id uint64) bool {
	if !l.terms.Repeats {
		return true
	}
	l.repeats.mu.Lock()
	defer l.repeats.mu.Unlock()
	b := l.repeats.begun[c.n.PID]
	if b != nil && b.n.ID == c.n.ID && b.now != id {
		return false // it was made again
	}
	l.leave(c)
	return true
}

// Begin says that the call is carried out from now on, which must be said where
// that is another thread's work than the receiving of calls: if it is made
// again meanwhile, it ends with this one's answer. False: it was made again
// before, and is served there.
func (c *Call) Begin() bool {
	l := c.l
	if !l.terms.Repeats || c.conn != nil {
		return true
	}
	l.repeats.mu.Lock()
	defer l.repeats.mu.Unlock()
	if l.repeats.latest[c.n.PID] != c.n.ID {
		return false
	}
	l.repeats.begun[c.n.PID] = &begun{c.n, c.n.ID}
	return true
}

// Wait says that the call that has begun waits: made again, it is another.
func (c *Call) Wait() {
	l := c.l
	if !l.terms.Repeats || c.conn != nil {
		return
	}
	l.repeats.mu.Lock()
	defer l.repeats.mu.Unlock()
	c.n.ID = l.leave(c)
}
