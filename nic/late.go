package nic

import (
	"time"

	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// How often the queues of broken queue pairs are looked at: often at first, when
// a program is busy with the end of a connection.
const (
	lateFirst = time.Millisecond
	lateMost  = 32 * time.Millisecond
)

// lateReceives flushes what programs post to queue pairs in error without a
// doorbell.
type lateReceives struct {
	watched int
	every   time.Duration
	at      frame.Time
}

// poll returns when it wants to be called again.
func (l *lateReceives) poll(v *verbs.Device, now frame.Time) frame.Time {
	n := v.InError()
	switch {
	case n == 0:
		*l = lateReceives{}
		return frame.Never
	case n > l.watched:
		if l.every = lateFirst; l.watched == 0 || l.at > now.Add(l.every) {
			l.at = now.Add(l.every)
		}
	case l.at > now:
	default:
		l.every = min(2*l.every, lateMost)
		if v.FlushInError() {
			l.every = lateFirst
		}
		l.at = now.Add(l.every)
	}
	l.watched = v.InError()
	return l.at
}
