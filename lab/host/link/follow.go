package link

import (
	"errors"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// dumpTries is far from what a dump needs even while links come and go.
const dumpTries = 1000

// whole repeats a dump of one of the kernel's tables until no change has
// interrupted it.
func whole[T any](dump func() ([]T, error)) (all []T, err error) {
	for range dumpTries {
		if all, err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

func (n *Net) linkList() ([]netlink.Link, error) { return whole(n.h.LinkList) }

func (n *Net) addrList(l netlink.Link) ([]netlink.Addr, error) {
	return whole(func() ([]netlink.Addr, error) { return n.h.AddrList(l, netlink.FAMILY_ALL) })
}

// again is how long a follower rests before it tries again to subscribe.
const again = 10 * time.Millisecond

// follower follows one of the kernel's streams of changes on a goroutine. The
// kernel ends a stream that is read too slowly: what it said then is lost, and
// the follower subscribes anew.
type follower[T any] struct {
	open   func(updates chan<- T, done <-chan struct{}, at *netns.NsHandle) error
	begin  func() // nil: nothing
	change func(T)
	missed func() // changes were lost
}

type subscription[T any] struct {
	updates chan T
	done    chan struct{}
}

func (f *follower[T]) subscribe(n *Net) (s subscription[T], err error) {
	s = subscription[T]{make(chan T), make(chan struct{})}
	var at *netns.NsHandle
	if !n.ns.IsCurrent() {
		h := netns.NsHandle(n.ns.Fd())
		at = &h
	}
	return s, f.open(s.updates, s.done, at)
}

// follow begins. stop ends it and waits for the goroutine.
func (f *follower[T]) follow(n *Net) (stop func(), err error) {
	s, err := f.subscribe(n)
	if err != nil {
		return nil, err
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if f.begin != nil {
			f.begin()
		}
		for f.read(s, over) {
			for {
				if s, err = f.subscribe(n); err == nil {
					break
				}
				select {
				case <-over:
					return
				case <-time.After(again):
				}
			}
			f.missed()
		}
	}()
	return func() { close(over); <-ended }, nil
}

// read takes changes until over, or until the stream ends: then it is true.
func (f *follower[T]) read(s subscription[T], over <-chan struct{}) bool {
	for {
		select {
		case u, ok := <-s.updates:
			if !ok {
				close(s.done)
				return true
			}
			f.change(u)
		case <-over:
			close(s.done)
			for range s.updates { // until the stream has ended
			}
			return false
		}
	}
}
