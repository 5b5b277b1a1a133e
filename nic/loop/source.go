package loop

import (
	"slices"

	"golang.org/x/sys/unix"

	"tapir/wire/frame"
)

// Source is a descriptor that the loop polls with the queues.
type Source struct {
	fd    int
	serve func(now frame.Time, hungUp bool)
	lost  func()
}

// AddSource has serve called on the loop's thread, before the engine's turn,
// whenever fd, which stays the caller's, is readable, or hung up and nothing is
// left to read; again in each iteration until it no longer is. One call does a
// bounded amount of work. lost is called there if the loop ends before
// RemoveSource, at once if it has ended or fd cannot be polled. Call it before
// Run, or from a function that Do runs.
func (l *Loop) AddSource(fd int, serve func(now frame.Time, hungUp bool), lost func()) *Source {
	return l.addSource(fd, unix.EPOLLIN, serve, lost)
}

func (l *Loop) addSource(fd int, events uint32, serve func(now frame.Time, hungUp bool), lost func()) *Source {
	s := &Source{fd: fd, serve: serve, lost: lost}
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	if !open || l.add(len(l.fds), fd, events) != nil {
		lost()
		return s
	}
	l.sources = append(l.sources, s)
	return s
}

// RemoveSource ends the polling of s, whose descriptor is still open. Call it from a function that Do runs or
// from s itself.
func (l *Loop) RemoveSource(s *Source) {
	if i := slices.Index(l.sources, s); i >= 0 {
		l.sources = slices.Delete(l.sources, i, i+1)
		l.remove(l.firstSource() + i)
	}
}

// firstSource is the place of the first source in fds.
func (l *Loop) firstSource() int { return 1 + len(l.ports) }

// serveSources serves those that the last poll found ready.
func (l *Loop) serveSources() {
	for i := 0; i < len(l.sources); i++ {
		ready := &l.fds[l.firstSource()+i].Revents
		events := *ready
		*ready = 0
		// A signal may interrupt the kernel's look at a listener of seccomp, and
		// that is an error and no end.
		if events == 0 || events == unix.POLLERR {
			continue
		}
		l.sources[i].serve(l.clock.now(), events&unix.POLLIN == 0)
	}
}

// loseSources tells all that the loop has ended.
func (l *Loop) loseSources() {
	sources := l.sources
	l.sources = nil
	for _, s := range sources {
		s.lost()
	}
}
