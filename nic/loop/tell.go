package loop

import "tapir/wire/frame"

// teller tells other processes what handlers have found. Who is woken takes the processor
// where there is no other, does what it can, and sleeps again; so it is told all at
// once, and of a request that has only been sent together with the reply, if that
// is about to come.
type teller struct {
	fns    []func()
	skip   int // sleeps before which nobody is waited for
	inVain int // what skip was last
}

// mostYields is how often a loop yields before it tells.
const mostYields = 3

// Tell has fn tell other processes what handlers have found: when those of the frames
// that this iteration has received have run, else before the loop sleeps or ends. Call it
// from a handler.
func (l *Loop) Tell(fn func()) { l.teller.fns = append(l.teller.fns, fn) }

func (l *Loop) tell() {
	for i, fn := range l.teller.fns {
		fn()
		l.teller.fns[i] = nil
	}
	l.teller.fns = l.teller.fns[:0]
}

// tellBeforeSleep tells what is left, unless others, to which the loop yields, have sent
// frames meanwhile. If that was in vain it does not yield before some sleeps, and twice
// as many each time, up to maxSkip.
func (l *Loop) tellBeforeSleep(now frame.Time) (found bool) {
	t := &l.teller
	if len(t.fns) == 0 {
		return false
	}
	if t.skip > 0 || now < l.policy.spinAgain {
		t.skip = max(0, t.skip-1)
		l.tell()
		return false
	}
	for n := 0; n < mostYields && !found; n++ {
		if _, long := l.policy.yield(&l.clock); long || l.policy.brief {
			n = mostYields
		}
		for _, p := range l.active {
			found = p.peek() || found
		}
	}
	if found {
		t.inVain = 0
		return true
	}
	t.inVain = min(max(1, 2*t.inVain), maxSkip)
	t.skip = t.inVain
	l.tell()
	return false
}
