package loop

import (
	"time"

	"golang.org/x/sys/unix"

	"tapir/wire/frame"
)

const (
	// spinFor bounds how long a loop spins, and how short a sleep must have been
	// for the loop to spin before the next.
	spinFor = 30 * time.Microsecond
	// napBelow is how short a sleep must have been for the next to begin as a nap,
	// which lasts at most napFor.
	napBelow = time.Millisecond
	napFor   = 5 * time.Millisecond
	// longYield is a yield during which another process used the processor. The loop
	// does not spin for noSpinFor after it, as the scheduler prefers those that sleep.
	longYield = 500 * time.Microsecond
	noSpinFor = 10 * time.Millisecond
	// briefYield is a yield during which nobody else used the processor. A loop then looks
	// glances times at a ring in memory, some microseconds in all, before the next.
	briefYield = 2 * time.Microsecond
	glances    = 1500
	// noSleep is shorter than any sleep.
	noSleep = time.Microsecond
)

// waitPolicy decides how a loop without work waits.
//
// It spins first (it looks for work and yields the processor between two looks)
// when its last sleep was short: to be woken costs both sides more than a look. A
// spin that finds nothing is followed by sleeps until one is short again. Yielding
// serves two processes that take turns, not a chain of them: a loop with sources
// does not spin.
//
// It naps when its last sleep was a little longer: it sleeps without telling the
// Go runtime, whose monitor would otherwise wake up to give the processor to
// another goroutine, and again to take it back, each time at the cost of the
// process that the loop waits for.
//
// Else it sleeps.
type waitPolicy struct {
	spin, nap bool
	brief     bool       // nobody else used the processor during the last yield
	spinAgain frame.Time // until then the loop neither spins nor yields
}

func (p *waitPolicy) spins(now frame.Time) bool { return p.spin && now >= p.spinAgain }

// slept says how long the last sleep was, and whether there was work at its end.
func (p *waitPolicy) slept(d time.Duration, work bool) {
	p.spin, p.nap = work && d < spinFor, work && d < napBelow
}

// yield gives the processor to others. long: another process used it.
func (p *waitPolicy) yield(c *clock, before frame.Time) (now frame.Time, long bool) {
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	now = c.now()
	p.brief = now.Sub(before) < briefYield
	if long = now.Sub(before) > longYield; long {
		p.spinAgain = now.Add(noSpinFor)
	}
	return now, long
}
