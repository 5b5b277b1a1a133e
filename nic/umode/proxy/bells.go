package proxy

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/doorbell"
	"tapir/nic/uapi/ipc"
)

// MaxBells is how many doorbells a client can have.
const MaxBells = doorbell.Max

// Doorbells are a client's, for the loop of the thread that calls Step. fd, an
// eventfd that nobody reads, is signalled unless the loop Looks by itself.
type Doorbells interface {
	Rung() bool
	Serve()
	Looks(yes bool)
}

// bellRung is what a client's doorbells do.
type bellRung struct {
	*doorbell.Bells
	session *session
	posts   []Request   // by number
	poster  *caller     // of all
	rung    func(n int) // made once
	stop    func()
}

// addBell makes doorbell r.Size one that posts r.Command.
func (s *session) addBell(c *caller, r *Request) error {
	switch {
	case s.files[r.File] == nil:
		return syscall.EBADF
	case r.Size >= MaxBells:
		return syscall.EINVAL
	}
	if s.bells == nil {
		if err := s.makeBells(c); err != nil {
			return err
		}
	}
	for uint64(len(s.bells.posts)) <= r.Size {
		s.bells.posts = append(s.bells.posts, Request{})
	}
	s.bells.posts[r.Size] = Request{File: r.File, Command: slices.Clone(r.Command)}
	return nil
}

func (s *session) makeBells(c *caller) error {
	b, memory, err := doorbell.New()
	if err != nil {
		return err
	}
	fd, err := unix.FcntlInt(uintptr(b.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		ipc.Close(memory)
		b.End()
		return err
	}
	for _, fd := range []int{memory, fd} {
		_, _ = c.Install(fd, syscall.O_CLOEXEC) // an answer has room for more
	}
	s.bells = &bellRung{Bells: b, session: s, poster: &caller{session: s, silent: true}}
	s.bells.rung = s.bells.post
	s.bells.stop = s.home.AddBell(b.FD(), s.bells)
	return nil
}

// Serve implements Doorbells.
func (b *bellRung) Serve() { b.session.serveBells() }

// post does what doorbell n is for. Nobody waits for what comes later.
func (b *bellRung) post(n int) {
	if n >= len(b.posts) {
		return
	}
	f := b.session.files[b.posts[n].File]
	if f != nil && errors.Is(f.Command(b.poster, b.posts[n].Command), abi.Later) {
		f.Cancel(b.poster)
	}
}

// serveBells does what was rung for. It comes before each request too: what was
// posted first goes first.
func (s *session) serveBells() {
	if s.bells != nil && s.bells.Rung() {
		s.bells.Drain(s.bells.rung)
	}
}

// endBells is the end of the session for them.
func (s *session) endBells() {
	if s.bells != nil {
		s.bells.stop()
		s.bells.End()
		s.bells = nil
	}
}
