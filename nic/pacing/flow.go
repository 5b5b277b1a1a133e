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

// Flow is the flow control of a port (IEEE 802.3 annex 31B).
type Flow struct {
	// Rx: PAUSE frames are obeyed; Tx: they are sent. Both are as the two ends have
	// agreed.
	Rx, Tx bool
	// Speed of the link in Mb/s, which says how long a quantum is.
	Speed int
	// Received and Sent count PAUSE frames.
	Received, Sent uint64

	off     bool       // the other end was told to wait
	refresh frame.Time // when it is told again
}

// Pause is how long so many quanta are.
func (f *Flow) Pause(quanta uint16) time.Duration {
	return pause.Duration(quanta, f.Speed)
}

// Waits takes in how full the receive queues are, and tells whether a PAUSE frame
// has to leave, with how many quanta; Told notes that it has.
func (f *Flow) Waits(fill int, now frame.Time) (quanta uint16, send bool) {
	switch {
	case !f.Tx:
		f.off = false
	case fill >= XOFF:
		return pause.MostQuanta, !f.off || f.refresh <= now
	case f.off && fill <= XON:
		return 0, true
	case f.off:
		return pause.MostQuanta, f.refresh <= now
	}
	return 0, false
}

// Off tells whether the other end was told to wait.
func (f *Flow) Off() bool { return f.off }

// Told notes that a PAUSE frame has left.
func (f *Flow) Told(quanta uint16, now frame.Time) {
	f.Sent++
	f.off, f.refresh = quanta > 0, now.Add(f.Pause(quanta)/2)
}

// Next is when a PAUSE frame has to be repeated; frame.Never: none.
func (f *Flow) Next() frame.Time {
	if !f.off {
		return frame.Never
	}
	return f.refresh
}
