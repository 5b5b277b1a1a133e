package loop

import (
	"slices"

	"golang.org/x/sys/unix"

	"tapir/wire/frame"
)

// Bell is memory in which others ring, and a descriptor that they signal too,
// unless the loop looks by itself.
type Bell interface {
	// Rung tells whether there is something to serve, Serve serves it: a
	// bounded amount of work.
	Rung() bool
	Serve()
	// Looks says whether the loop looks by itself. Who rings does so before it
	// asks; the loop looks again after it has said no.
	Looks(yes bool)
}

// quietFor is how many sleeps a loop looks by itself at a bell that nobody rings.
const quietFor = 64

// The loop yields for those whom the frames of an iteration have woken, so that
// they ring while it is awake. If that was in vain it does not for some
// iterations, and twice as many each time, up to maxSkip.
const maxSkip = 64

// bells holds the bells that the loop polls, because they rang recently.
type bells struct {
	near   []*nearBell
	skip   int // iterations without yielding
	inVain int // what skip was last
}

type nearBell struct {
	Bell
	quiet int // sleeps since it was rung
	near  bool
}

// AddBell is AddSource for b, with its descriptor fd, for eventfd(2): nobody
// reads it.
func (l *Loop) AddBell(fd int, b Bell, lost func()) (remove func()) {
	n := &nearBell{Bell: b}
	s := l.addSource(fd, unix.EPOLLIN|unix.EPOLLET, func(frame.Time, bool) { l.ring(n) }, lost)
	return func() {
		l.RemoveSource(s)
		l.bells.remove(n)
	}
}

func (b *bells) remove(n *nearBell) {
	if i := slices.Index(b.near, n); i >= 0 {
		b.near = slices.Delete(b.near, i, i+1)
		n.near = false
	}
}

// ring serves a bell and looks at it by itself from now on.
func (l *Loop) ring(n *nearBell) {
	if !n.near {
		n.near = true
		l.bells.near = append(l.bells.near, n)
		n.Looks(true)
	}
	n.quiet = 0
	n.Serve()
}

// serveBells serves those that were rung. If frames came, who was woken by them
// may ring first.
func (l *Loop) serveBells(frames bool) {
	b := &l.bells
	if len(b.near) == 0 {
		return
	}
	if frames && !b.rung() {
		l.letRing()
	}
	for i := 0; i < len(b.near); i++ {
		if n := b.near[i]; n.Rung() {
			l.ring(n)
		}
	}
}

func (b *bells) rung() bool {
	return slices.ContainsFunc(b.near, func(n *nearBell) bool { return n.Rung() })
}

// letRing yields if that pays.
func (l *Loop) letRing() {
	b := &l.bells
	if b.skip > 0 {
		b.skip--
		return
	}
	now := l.clock.now()
	if now < l.policy.spinAgain {
		return
	}
	l.policy.yield(&l.clock)
	if b.inVain = min(max(1, 2*b.inVain), maxSkip); b.rung() {
		b.inVain = 0
	}
	b.skip = b.inVain
}

// sleepNear is before a sleep: those that ring have to signal from now on. False:
// one was rung.
func (b *bells) sleepNear() bool {
	b.look(false)
	if b.rung() {
		b.look(true)
		return false
	}
	return true
}

// look says whether the loop looks by itself.
func (b *bells) look(yes bool) {
	for _, n := range b.near {
		n.Looks(yes)
	}
}

// slept lets those go that nobody rings any more.
func (b *bells) slept() {
	b.near = slices.DeleteFunc(b.near, func(n *nearBell) bool {
		n.quiet++
		n.near = n.quiet < quietFor
		n.Looks(n.near)
		return !n.near
	})
}
