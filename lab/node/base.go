// Package node is the life cycle that all nodes of a lab share in real time:
// NICs (nicnode), Omni-Path HFIs (hfinode), Ethernet Managers (emnode) and
// switches (swnode). A node goes through these stages:
//
//  1. Open: the event loop, and the namespaces.
//  2. The kind opens its TAPs (OpenTAP) and builds its engine.
//  3. Run: the loop on a thread of its own.
//  4. Watch and AwaitCarrier: the link state of the TAP reaches the engine.
//  5. Follow: a goroutine keeps the node as the kernel's interfaces are.
//  6. End: the follower, then the loop; then what was changed is undone, latest
//     first.
//
// Whatever fails on the way, End undoes what was done so far.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// carrierWait bounds how long a node waits for the TAP to come to life: the
// kernel may sit on that news for a second.
const carrierWait = 1500 * time.Millisecond

// Env is the surroundings of a node. The zero value stands for the caller's
// namespace, TAPs, and no log.
type Env struct {
	NS      *netns.NS // namespace of the TAPs (borrowed); nil: that of the caller
	Log     io.Writer // what goes wrong while the node runs; nil: nowhere
	Version string    // of the binary, for those who ask

	// Of a NIC.

	// Layer is the access layer that the NIC's RDMA device joins, several NICs
	// the same; nil: one of its own.
	Layer *Layer
	// Cards are the devices with several functions that run; nil: a function has its
	// device alone.
	Cards *Cards
	// Wire takes the place of the TAP (taken), as an end of link.NewWire does.
	Wire tap.Queue
	// LoopStamps takes as stamps of PTP messages the times at which the loop
	// reads and writes them, not those of the kernel: to measure the difference.
	LoopStamps bool

	// HostNS is the namespace of an HFI's host TAPs (borrowed); nil: that which
	// the configuration names, or NS.
	HostNS *netns.NS
	// PortNS are the namespaces of a switch's ports (borrowed); nil ones, and
	// those that are missing: as the configuration says.
	PortNS []*netns.NS
}

// Base is what all kinds of nodes share. Its methods may be called from any
// goroutine.
type Base struct {
	env  Env
	name string
	// Loop, Space, OnEnd and Undo are for the kind of node alone.
	Loop  *loop.Loop
	Space Space
	Undo  Undo
	// OnEnd runs on the loop's thread after the loop, with its error.
	OnEnd func(error)

	host     *Base // whose loop the node runs on; nil: its own
	follower follower
	reason   error // why the node ends, if not by End
	cancel   context.CancelFunc
	done     chan struct{}
	err      error // of the loop; valid after done

	alive  chan struct{} // the carrier has been up once
	once   sync.Once
	ending sync.Once
}

// Undo is what has to be undone when a node ends.
type Undo = link.Undo

// Space is a network namespace that a node works in.
type Space struct {
	NS    *netns.NS
	Links *link.Net
}

// Open makes the loop of the node called name. Unless the wire lies in memory,
// it enters the namespace of the TAPs, too.
func (b *Base) Open(name string, env Env) (err error) {
	b.name, b.env = name, env
	b.done, b.alive, b.follower = make(chan struct{}), make(chan struct{}), newFollower()
	if b.Loop, err = loop.New(loop.Config{}); err != nil || env.Wire != nil {
		return err
	}
	b.Space, err = b.Enter(env.NS, "")
	return err
}

// Join opens a node that runs on the loop of another and ends with it at the latest.
func (b *Base) Join(name string, env Env, host *Base) (err error) {
	b.name, b.env, b.host, b.Loop = name, env, host, host.Loop
	b.done, b.alive, b.follower = make(chan struct{}), make(chan struct{}), newFollower()
	b.Space, err = b.Enter(env.NS, "")
	return err
}

// Start opens the node and takes the steps of its kind, such as build and run.
// An error, which has the node's name, leaves nothing behind.
func (b *Base) Start(name string, env Env, steps ...func() error) error {
	open := func() error { return b.Open(name, env) }
	if err := InOrder(append([]func() error{open}, steps...)...); err != nil {
		b.End(nil)
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// InOrder takes steps until one fails.
func InOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Close stops the node and removes what Start made. It returns why the node had
// stopped before, if it had.
func (b *Base) Close() error {
	b.End(nil)
	return b.Err()
}

// Enter opens a namespace until the node ends: ns (borrowed), or the one that
// path names, or that of the node, or at first the caller's.
func (b *Base) Enter(ns *netns.NS, path string) (s Space, err error) {
	switch s.NS = ns; {
	case ns != nil:
	case path != "":
		if s.NS, err = netns.Open(netns.Path(path)); err != nil {
			return s, fmt.Errorf("netns: %w; `ip netns add %s` makes one", err, path)
		}
		b.Undo.Add(func() { s.NS.Close() })
	case b.Space.NS != nil:
		return b.Space, nil
	default:
		if s.NS, err = netns.Current(); err != nil {
			return s, err
		}
		b.Undo.Add(func() { s.NS.Close() })
	}
	if s.Links, err = link.In(s.NS); err == nil {
		b.Undo.Add(s.Links.Close)
	}
	return s, err
}

// Env are the surroundings that the node was started with.
func (b *Base) Env() *Env { return &b.env }

// Run starts the loop.
func (b *Base) Run() {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	if b.host != nil {
		go b.stay(ctx)
		return
	}
	go func() {
		defer close(b.done)
		err := b.Loop.Run(ctx)
		if b.OnEnd != nil {
			b.OnEnd(err)
		}
		if b.err = err; err == nil {
			b.err = b.reason
		}
	}()
}

// stay waits for the end of a node on the loop of another, or of that.
func (b *Base) stay(ctx context.Context) {
	defer close(b.done)
	select {
	case <-ctx.Done():
		b.err = b.reason
		if b.OnEnd != nil { // the loop may go on for the others
			go func() {
				<-b.host.done
				b.OnEnd(b.host.err)
			}()
		}
	case <-b.host.done:
		if b.err = b.host.err; b.OnEnd != nil {
			b.OnEnd(b.err)
		}
	}
}

// Alive notes that the carrier has been up once.
func (b *Base) Alive() { b.once.Do(func() { close(b.alive) }) }

// Watch follows the link state of a TAP, on the loop's thread, or whether the other end of a
// wire is there. A TAP in another namespace and a wire in memory count as up.
func (b *Base) Watch(wire tap.Queue, carrier func(up bool, now frame.Time)) error {
	tell := func(up bool) {
		b.Loop.Do(func(now frame.Time) {
			carrier(up, now)
			if up {
				b.Alive()
			}
		})
	}
	if p, ok := wire.(tap.Plugged); ok {
		return b.DoWait(func(frame.Time) {
			if !p.OnCarrier(tell) {
				b.Alive() // nobody is there who could come to life
			}
		})
	}
	if b.Space.Links == nil {
		tell(true)
		return nil
	}
	if _, err := b.Space.Links.Get(wire.Name()); err != nil {
		tell(true)
		return nil
	}
	renamed := func(name string) {
		if t, ok := wire.(*tap.TAP); ok {
			t.Rename(name)
		}
	}
	removed, _ := wire.(interface{ Removed() error })
	was := false
	stop, err := b.Space.Links.Watch(wire.Name(), func(up bool) {
		if up || was {
			tell(up)
		}
		if was = up; !up && removed != nil {
			b.Loop.Do(func(frame.Time) {
				if err := removed.Removed(); err != nil {
					b.Abort(fmt.Errorf("%s: %w", wire.Name(), err))
				}
			})
		}
	}, renamed)
	if err == nil {
		b.Undo.Add(stop)
	}
	return err
}

// Linked is told of its link.
type Linked interface {
	LinkUp(now frame.Time)
	LinkDown(now frame.Time)
}

// SetCarrier tells a port that its link is up or down.
func SetCarrier(port Linked, up bool, now frame.Time) {
	if up {
		port.LinkUp(now)
	} else {
		port.LinkDown(now)
	}
}

// AwaitCarrier waits a moment until the TAP is up.
func (b *Base) AwaitCarrier(ctx context.Context) {
	select {
	case <-b.alive:
	case <-b.done:
	case <-ctx.Done():
	case <-time.After(carrierWait):
	}
}

// Abort stops the loop; why is the reason that Err gives. It is called on the
// loop's thread.
func (b *Base) Abort(why error) {
	b.reason = why
	b.cancel()
}

// End stops follower and loop and undoes what was done. why is the reason that
// Err gives; nil: the node ends because it was closed. Only the first call
// counts.
func (b *Base) End(why error) {
	b.ending.Do(func() {
		b.follower.stop() // it asks the loop, and would complain of TAPs that go
		if why != nil {
			b.reason = why
		}
		if b.cancel != nil {
			b.cancel()
			<-b.done
		}
		if b.Loop != nil && b.host == nil {
			b.Loop.Close() // the queues too
		}
		b.Undo.Run()
	})
}

// Warn tells the log what cannot be helped here.
func (b *Base) Warn(format string, args ...any) { b.env.Warn(b.name, fmt.Sprintf(format, args...)) }

// Warn tells the log something of the node called name.
func (e *Env) Warn(name, text string) {
	if e.Log != nil {
		logs.Lock()
		defer logs.Unlock()
		fmt.Fprintf(e.Log, "%s: %s\n", name, text)
	}
}

// logs keeps the lines of a log apart, which several nodes may share.
var logs sync.Mutex

// Name is the node's name.
func (b *Base) Name() string { return b.name }

// Do queues fn to run on the node's loop. False means that the node has ended
// and fn will not run.
func (b *Base) Do(fn func(now frame.Time)) bool { return b.Loop.Do(fn) }

// DoWait runs fn on the node's loop and returns after it, or with
// loop.ErrClosed if the node has ended, or with loop.ErrInCallback if it is
// called from within a handler.
func (b *Base) DoWait(fn func(now frame.Time)) error { return b.Loop.DoWait(fn) }

// Now is the time of the node's loop.
func (b *Base) Now() frame.Time { return b.Loop.Now() }

// Done is closed when the node has stopped: after Close, or because a TAP of it
// went away.
func (b *Base) Done() <-chan struct{} { return b.done }

// Err is why the node stopped by itself; nil while it runs and after Close.
func (b *Base) Err() error {
	select {
	case <-b.done:
		return b.err
	default:
		return nil
	}
}

// CloseAll closes nodes side by side and returns when all have ended.
func CloseAll[N interface{ Close() error }](nodes []N) error { return Each(nodes, N.Close) }

// Each calls do for all side by side and returns when all calls have ended.
func Each[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, v := range all {
		wait.Go(func() { errs[i] = do(v) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// Texts are the texts of all.
func Texts[T fmt.Stringer](all []T) (texts []string) {
	for _, v := range all {
		texts = append(texts, v.String())
	}
	return texts
}
