package loop

import (
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/wire/frame"
)

const (
	// spinFor bounds how long a loop spins, and how short a sleep must have been
	// for the loop to spin before the next.
	spinFor = 30 * time.Microsecond
	// spinAlone takes the place of spinFor at a ring in memory, while nobody else uses the
	// processor. It is longer than an idle processor takes to wake up, in a virtual machine
	// above all: else two loops that take turns, once both have slept, would never again find
	// each other awake.
	spinAlone = 150 * time.Microsecond
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
// does not spin; it lingers (linger.go).
//
// It naps when its last sleep was a little longer: it sleeps without telling the
// Go runtime, whose monitor would otherwise wake up to give the processor to
// another goroutine, and again to take it back, each time at the cost of the
// process that the loop waits for.
//
// Else it sleeps.
type waitPolicy struct {
	spin, nap bool
	spinAlone bool       // spin, if nobody else uses the processor
	brief     bool       // nobody else used the processor during the last yield
	spinAgain frame.Time // until then the loop neither spins nor yields
}

func (p *waitPolicy) spins(now frame.Time, ring bool) bool {
	return (p.spin || ring && p.spinAlone) && now >= p.spinAgain
}

// slept says how long the last sleep was, and whether there was work at its end.
func (p *waitPolicy) slept(d time.Duration, work bool) {
	p.spin, p.spinAlone, p.nap = work && d < spinFor, work && d < spinAlone, work && d < napBelow
}

// yield gives the processor to others. long: another process used it.
func (p *waitPolicy) yield(c *clock) (now frame.Time, long bool) {
	before := c.now()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	now = c.now()
	p.brief = now.Sub(before) < briefYield
	if long = now.Sub(before) > longYield; long {
		p.spinAgain = now.Add(noSpinFor)
	}
	return now, long
}

// spin looks for work until the deadline at the latest and yields between two looks. To
// try to read costs less than to ask first, where frames came last; one question is enough
// about all other ports.
func (l *Loop) spin(now, deadline frame.Time) (found bool) {
	end, alone, glanced, long := now, now, false, false
	if l.policy.spin {
		end = min(deadline, now.Add(spinFor))
	}
	if l.memory() != nil {
		alone = min(deadline, now.Add(spinAlone))
		l.policy.brief = true // until the first yield tells
	}
	for now < end || l.policy.brief && now < alone {
		// A look at memory costs less than to yield, unless somebody else had the processor.
		if glanced = !glanced && l.policy.brief && l.glance(); !glanced {
			if now, long = l.policy.yield(&l.clock); long {
				return false
			}
		}
		for _, p := range l.active {
			found = p.peek() || found
		}
		if len(l.active) < len(l.ports) {
			n, _, err := l.wait(look)
			found = found || n > 0 || err != nil // the next sleep meets the error
		}
		if l.called() || found { // the look may have taken the mailbox's event
			return true
		}
	}
	return false
}

// memory is the only queue whose frames came last, if it is a ring in memory.
func (l *Loop) memory() tap.Ring {
	if len(l.active) != 1 {
		return nil
	}
	return l.active[0].ring
}

// glance looks many times for a frame in memory.
func (l *Loop) glance() (found bool) {
	ring := l.memory()
	if ring == nil {
		return false
	}
	for range glances {
		if ring.Buffered() {
			return true
		}
	}
	return false
}
