package hw

import (
	"fmt"
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// The windows of a function.
const (
	Windows     = 12
	Allocatable = 8 // the others are EDIAG, USER_SPACE, MAIN and DPC
)

// A caller that finds no window waits.
const (
	acquireEvery = time.Millisecond
	acquireTries = 1000
)

// PTT is a window that was lent: a right to it, which ends with Release.
type PTT struct {
	bar    *BAR
	window int
	turn   uint32 // of the window, to tell this right from the next
	flow   string
}

// window is a movable window of BAR0.
type window struct {
	base  uint32
	turn  uint32
	lent  bool
	claim string // the operation that has it to itself
}

// waiter is somebody who waits for a window.
type waiter struct {
	at    frame.Time // of the next try
	tries int
	fail  status.Code
	flow  string
	got   func(*PTT, error)
}

// Access is one access to the chip, for a trace.
type Access struct {
	Kind  string // rd, wr, gtt-rd, gtt-wr, db, dmae
	Addr  uint32
	Value uint64
	Flow  string // of the window, if one was used
}

// String is the access for a log: what it does, where, the value or how many words,
// and by whose window.
func (a Access) String() string {
	s := fmt.Sprintf("%s %#x %#x", a.Kind, a.Addr, a.Value)
	if a.Flow != "" {
		s += ", window of " + a.Flow
	}
	return s
}

// BAR is a hardware function's way to its engine.
type BAR struct {
	Hwfn int
	Regs *Registers
	// Bell takes what is written to BAR1: an address there, and 4 or 8 octets.
	Bell func(addr uint32, data uint64, width int)
	// Trace is told of every access; nil: nobody listens.
	Trace func(Access)
	// Warn is told of the misuse of windows.
	Warn func(err error)

	windows [Windows]window
	free    []int // the head is at the end
	waiters []waiter
	main    *PTT
	dpc     *PTT
	copying bool
	stats   PTTStats
}

// PTTStats tells how the windows are used.
type PTTStats struct {
	Free    int
	Waiting int
	Lent    uint64
	Failed  uint64 // callers that got none in time
	Misused uint64 // of another function, after release, or of another flow
	DMA     uint64 // commands
}

// NewBAR returns the way of one hwfn to the registers of its engine.
func NewBAR(hwfn int, regs *Registers) *BAR {
	b := &BAR{Hwfn: hwfn, Regs: regs}
	for i := Windows - 1; i >= Windows-Allocatable; i-- {
		b.free = append(b.free, i)
	}
	b.main, b.dpc = &PTT{bar: b, window: 2, flow: "main"}, &PTT{bar: b, window: 3, flow: "dpc"}
	b.windows[2].lent, b.windows[3].lent = true, true
	return b
}

// Main is the window that is reserved for the life cycle, DPC that for the
// slowpath's interrupts.
func (b *BAR) Main() *PTT { return b.main }
func (b *BAR) DPC() *PTT  { return b.dpc }

// TryAcquire lends a window for a flow; nil if none is free.
func (b *BAR) TryAcquire(flow string) *PTT {
	n := len(b.free)
	if n == 0 {
		return nil
	}
	i := b.free[n-1]
	b.free = b.free[:n-1]
	w := &b.windows[i]
	w.turn++
	w.lent = true
	b.stats.Lent++
	return &PTT{b, i, w.turn, flow}
}

// Acquire lends a window, at once or as soon as one is free: it looks every
// millisecond, 1000 times, and then answers got with the caller's code.
func (b *BAR) Acquire(flow string, fail status.Code, now frame.Time, got func(*PTT, error)) {
	if p := b.TryAcquire(flow); p != nil {
		got(p, nil)
		return
	}
	b.waiters = append(b.waiters, waiter{now.Add(acquireEvery), 0, fail, flow, got})
}

// Poll has those try again whose time has come, and returns the next time.
func (b *BAR) Poll(now frame.Time) frame.Time {
	var ready []waiter
	rest := b.waiters[:0]
	for _, w := range b.waiters {
		if w.at <= now {
			ready = append(ready, w)
		} else {
			rest = append(rest, w)
		}
	}
	b.waiters = rest
	for _, w := range ready {
		w.tries++
		if p := b.TryAcquire(w.flow); p != nil {
			w.got(p, nil)
		} else if w.tries == acquireTries {
			b.stats.Failed++
			w.got(nil, w.fail.Errorf("%s: no PTT window in %v", w.flow, acquireTries*acquireEvery))
		} else {
			w.at = w.at.Add(acquireEvery)
			b.waiters = append(b.waiters, w)
		}
	}
	next := frame.Never
	for _, w := range b.waiters {
		next = min(next, w.at)
	}
	return next
}

// Release gives a window back to the head of the free ones. INVAL: it is
// reserved, of another function, or was released before.
func (b *BAR) Release(p *PTT) error {
	if err := b.check(p); err != nil {
		return err
	}
	if p == b.main || p == b.dpc {
		return b.misused(status.Inval.Errorf("release of the %s window, which is reserved", p.flow))
	}
	w := &b.windows[p.window]
	w.lent, w.claim = false, ""
	b.free = append(b.free, p.window)
	return nil
}

// Release gives the window back to where it came from.
func (p *PTT) Release() error { return p.bar.Release(p) }

func (b *BAR) misused(err error) error {
	b.stats.Misused++
	if b.Warn != nil {
		b.Warn(err)
	}
	return err
}

// check tells whether a window may be used here.
func (b *BAR) check(p *PTT) error {
	switch w := &p.bar.windows[p.window]; {
	case p.bar != b:
		return b.misused(status.Inval.Errorf("hwfn %d uses the window of hwfn %d that %s has", b.Hwfn, p.bar.Hwfn,
			p.flow))
	case !w.lent || w.turn != p.turn:
		return b.misused(status.Inval.Errorf("%s uses window %d, which it has released", p.flow, p.window))
	}
	return nil
}

// Claim has a window serve one operation alone until end is called: one that
// takes its time, and moves the window again and again. INVAL, and counted:
// another does so already.
func (b *BAR) Claim(p *PTT, operation string) (end func(), err error) {
	if err := b.check(p); err != nil {
		return nil, err
	}
	w := &b.windows[p.window]
	if w.claim != "" {
		return nil, b.misused(status.Inval.Errorf("%s uses window %d in the middle of %s: a window serves one flow",
			operation, p.window, w.claim))
	}
	w.claim = operation
	return func() { w.claim = "" }, nil
}

// use moves a window to addr.
func (b *BAR) use(p *PTT, addr uint32) error {
	if err := b.check(p); err != nil {
		return err
	}
	b.windows[p.window].base = addr &^ (WindowSize - 1)
	return nil
}

// Stats tells how the windows are used.
func (b *BAR) Stats() PTTStats {
	s := b.stats
	s.Free, s.Waiting = len(b.free), len(b.waiters)
	return s
}
