package pacing

import (
	"time"

	"tapir/wire/frame"
	"tapir/wire/pause"
)

// Fill of a receive queue, in parts of Full, from which on and down to which the
// other end has to wait. What is above XOFF is for the frames on their way.
const (
	Full = 256
	XOFF = Full / 2
	XON  = Full / 4
)

// Buffers tells of the receive buffers of a port.
type Buffers struct {
	Fill     [8]int    // how full each is, in parts of Full
	Discards [8]uint64 // frames that had no room in it
}

// Flow is the flow control of a port (IEEE 802.3 annex 31B).
type Flow struct {
	// Rx: PAUSE frames are obeyed; Tx: they are sent. Both are as the two ends have
	// agreed.
	Rx, Tx bool

	off    bool // the other end was told to wait
	warned bool // Warnings counts this pause
	storm  bool // Limit has passed, and the queues have not been emptied since

	// Speed of the link in Mb/s, which says how long a quantum is.
	Speed int
	// Received and Sent count PAUSE frames.
	Received, Sent uint64
	// Paused is for how long the other end was told to wait, up to the last PAUSE frame.
	Paused time.Duration
	// Limit is for how long the other end may be told to wait without a break; 0: for ever.
	// After it, the other end is told to go on, and not to wait again before the queues are
	// emptied down to XON. Warnings counts pauses that lasted for most of it, Storms those
	// that it ended.
	Limit            time.Duration
	Warnings, Storms uint64

	since   frame.Time // when that began
	told    frame.Time // when it was told last
	refresh frame.Time // when it is told again
}

// Pause is how long so many quanta are.
func (f *Flow) Pause(quanta uint16) time.Duration {
	return pause.Duration(quanta, f.Speed)
}

// Waits takes in how full the receive queues are, and tells whether a PAUSE frame
// has to leave, with how many quanta; Told notes that it has.
func (f *Flow) Waits(fill int, now frame.Time) (quanta uint16, send bool) {
	f.watch(fill, now)
	switch {
	case !f.Tx:
		f.off = false
	case f.storm || fill <= XON:
		return 0, f.off
	case fill >= XOFF:
		return pause.MostQuanta, !f.off || f.refresh <= now
	case f.off:
		return pause.MostQuanta, f.refresh <= now
	}
	return 0, false
}

// watch takes in how long the other end has been told to wait.
func (f *Flow) watch(fill int, now frame.Time) {
	switch {
	case !f.Tx || fill <= XON:
		f.storm = false
		return
	case f.Limit == 0 || !f.off || f.storm || now < f.mark():
		return
	case !f.warned:
		f.warned = true
		f.Warnings++
	}
	if now >= f.mark() {
		f.storm = true
		f.Storms++
	}
}

// mark is when a pause has lasted for most of Limit, or for all of it.
func (f *Flow) mark() frame.Time {
	if f.warned {
		return f.since.Add(f.Limit)
	}
	return f.since.Add(f.Limit / 100 * warning)
}

// warning is how much of Limit is most of it, in percent; mlx5 has that, too.
const warning = 85

// Off tells whether the other end was told to wait.
func (f *Flow) Off() bool { return f.off }

// Quiet tells that there is nothing to watch with queues that are so full.
func (f *Flow) Quiet(fill int) bool { return fill < XOFF && !f.off && !f.storm }

// Told notes that a PAUSE frame has left.
func (f *Flow) Told(quanta uint16, now frame.Time) {
	f.Sent++
	if f.off {
		f.Paused += now.Sub(f.told)
	} else {
		f.since, f.warned = now, false
	}
	f.told = now
	f.off, f.refresh = quanta > 0, now.Add(f.Pause(quanta)/2)
}

// Next is when to call Waits again: a PAUSE frame has to be repeated, or Limit has passed;
// frame.Never: there is no need.
func (f *Flow) Next() frame.Time {
	switch {
	case !f.off:
		return frame.Never
	case f.Limit == 0:
		return f.refresh
	}
	return min(f.refresh, f.mark())
}
