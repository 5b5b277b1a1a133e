package verbs

import (
	"time"

	"tapir/wire/frame"
)

// How often the queues of broken queue pairs are looked at: often at first, when
// a program is busy with the end of a connection.
const (
	errFlushFirst = time.Millisecond
	errFlushMost  = 32 * time.Millisecond
)

// ErrFlush flushes what programs post to queue pairs in error without a
// doorbell.
type ErrFlush struct {
	watched int
	every   time.Duration
	at      frame.Time
}

// Poll returns when it wants to be called again.
func (e *ErrFlush) Poll(v *Device, now frame.Time) frame.Time {
	n := v.InError()
	switch {
	case n == 0:
		*e = ErrFlush{}
		return frame.Never
	case n > e.watched:
		if e.every = errFlushFirst; e.watched == 0 || e.at > now.Add(e.every) {
			e.at = now.Add(e.every)
		}
	case e.at > now:
	default:
		e.every = min(2*e.every, errFlushMost)
		if v.FlushInError() {
			e.every = errFlushFirst
		}
		e.at = now.Add(e.every)
	}
	e.watched = v.InError()
	return e.at
}
