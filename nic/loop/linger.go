package loop

import (
	"time"

	"tapir/wire/frame"
)

const (
	// lingerFrom is how many octets of frames a loop with sources has moved since it last
	// slept when it lingers before the next sleep.
	lingerFrom = 512
	// lingerFor is how long it lingers, and how short its last sleep must have been: a
	// stream's next frame comes sooner than a processor is woken up.
	lingerFor = spinAlone
	// A loop to whom lingering has cost the processor does not linger for noSpinFor, and
	// twice as long each time, up to maxPause, until it has been of use again.
	maxPause = time.Second
)

// lingerer decides whether a loop with sources lingers: it yields the processor to the
// programs that it serves, which poll, and looks for work in between. To be woken by a
// frame from another processor costs its sender a system call of 30 µs in a virtual
// machine, and comes 50 µs later; a few yields cost less. A program that does not yield
// uses up its slice, and a peer on the same processor wakes others for little, so messages
// that come one at a time are slept for.
type lingerer struct {
	moved int           // octets of frames, as far as they count
	pause time.Duration // what the last one was
	again frame.Time    // until then it does not linger
}

// lingers tells whether the loop lingers before the sleep that it is about to begin. While
// lingering is of use half of what was moved counts on: a stream's acknowledgements are few octets.
func (l *Loop) lingers(now frame.Time) bool {
	moved := l.lingerer.moved
	l.lingerer.moved = 0
	if moved < lingerFrom || len(l.sources) == 0 || !l.policy.spinAlone || now < l.lingerer.again || l.waits() {
		return false
	}
	l.lingerer.moved = moved / 2
	return true
}

// linger looks for work until the deadline at the latest.
func (l *Loop) linger(now, deadline frame.Time) (found bool) {
	for end := min(deadline, now.Add(lingerFor)); now < end; {
		var long bool
		if now, long = l.policy.yield(&l.clock); long {
			l.lingerer.inVain(now)
			return false
		}
		n, _, err := l.wait(look) // it may take the mailbox's event; the next sleep meets the error
		if l.called() || n > 0 || err != nil || l.bells.rung() || l.readyNow(false) {
			l.mayBeMore()
			l.lingerer.pause = 0
			return true
		}
	}
	return false
}

// inVain is for a yield during which another process used the processor.
func (l *lingerer) inVain(now frame.Time) {
	l.pause = min(max(noSpinFor, 2*l.pause), maxPause)
	l.again = now.Add(l.pause)
}
