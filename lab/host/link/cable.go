package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	rules "tapir/lab/host/fault"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// CableConfig describes a Cable. A and B are its ends, both with offloads or
// both without. An end that makes writers wait when it is full has the sender at the other
// end wait.
type CableConfig struct {
	A, B tap.Queue // taken
	// ToB is what happens to frames from A, ToA to those from B.
	ToB, ToA Impairment
	MTU      int    // octets of IP of the longest frame without offloads
	Seed     uint64 // of the faults
	// Tracer sees every frame as it enters, Outbound, with its fate, and as it
	// leaves, Inbound. Port is the end where it does: 0 for A, 1 for B. The same
	// ID stands for the same frame; those of a super-frame's segments are
	// consecutive from it on. nil: nobody
	Tracer frame.Tracer
	// Rules strike exact things before chance does (taken; nil: none). Struck,
	// which may be nil, is told of each strike, on the cable's thread.
	Rules  *rules.Engine
	Struck func(rules.Strike)
	// Compensate: see Impaired.Compensate, with Seen at A and B (taken).
	Compensate bool
	Seen       [2]Seen
}

// Cable joins two queues, on a thread of its own.
type Cable struct {
	bad    *Impaired
	ends   [2]tap.Queue
	loop   *loop.Loop
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the loop; valid after done
	ending sync.Once
}

// NewCable joins the ends of cfg until Close. It takes them even if it fails.
func NewCable(cfg CableConfig) (*Cable, error) {
	bad, err := Impair(cfg.A, cfg.ToB, cfg.ToA, cfg.Seed)
	if err != nil {
		cfg.B.Close()
		return nil, err
	}
	if cfg.Compensate {
		bad.Compensate(cfg.Seen)
	}
	bad.tracer, bad.rules, bad.struck = cfg.Tracer, cfg.Rules, cfg.Struck
	c := &Cable{bad: bad, ends: [2]tap.Queue{cfg.A, cfg.B}, done: make(chan struct{})}
	if c.loop, err = loop.New(loop.Config{}); err != nil {
		bad.Close()
		cfg.B.Close()
		return nil, err
	}
	const tags = 2 * ether.TagLen
	s := &splice{}
	for i, q := range []tap.Queue{bad, cfg.B} {
		s.ends[i].port = c.loop.AddQueue(frame.Port(i), q, cfg.MTU+ether.HeaderLen+tags)
	}
	c.loop.SetEngine(s)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		defer close(c.done)
		c.err = c.loop.Run(ctx)
	}()
	return c, nil
}

// SetCarrier pulls the cable out of end 0, which is A, or 1, or plugs it in again, so that who is
// there notices. Some ends have no way to tell: that is no error.
func (c *Cable) SetCarrier(end int, on bool) error {
	q, ok := c.ends[end].(tap.Carrier)
	if !ok {
		return nil
	}
	var err error
	return errors.Join(c.loop.DoWait(func(frame.Time) { err = q.SetCarrier(on) }), err)
}

// Set changes what happens to frames from now on.
func (c *Cable) Set(toB, toA Impairment) error {
	return c.loop.DoWait(func(frame.Time) { c.bad.Set(toB, toA) })
}

// SetRules puts rules in force in the place of those before. A cable without an
// engine for them takes none.
func (c *Cable) SetRules(all []rules.Rule) error {
	if c.bad.rules == nil && len(all) == 0 {
		return nil
	}
	var refused error
	err := c.loop.DoWait(func(frame.Time) { refused = c.bad.rules.SetRules(all) })
	return errors.Join(err, refused)
}

// Rules counts what rules have done so far; nothing on a cable without an
// engine for them.
func (c *Cable) Rules() (counts []rules.Count) {
	c.read(func() { counts = c.bad.rules.Counts() })
	return counts
}

// Faults counts what the cable has done so far in both directions.
func (c *Cable) Faults() (toB, toA FaultCount) {
	c.read(func() { toB, toA = c.bad.Faults() })
	return toB, toA
}

// Delivered is how many octets left the cable so far, in both directions, and how late.
func (c *Cable) Delivered() (octets uint64, l rules.Lateness) {
	c.read(func() { octets, l = c.bad.Delivered() })
	return octets, l
}

// Arm gives a cable that has no engine for rules one (taken).
func (c *Cable) Arm(e *rules.Engine) error {
	return c.loop.DoWait(func(frame.Time) {
		if c.bad.rules == nil {
			c.bad.rules = e
		}
	})
}

// read calls look while the cable stands still, or when it has ended.
func (c *Cable) read(look func()) {
	if c.loop.DoWait(func(frame.Time) { look() }) != nil {
		<-c.done
		look()
	}
}

// Close pulls the cable out of both ends and closes them. It returns why the
// cable had failed before, if it had.
func (c *Cable) Close() error {
	c.ending.Do(func() {
		c.cancel()
		<-c.done
	})
	if c.err != nil {
		return fmt.Errorf("cable: %w", c.err)
	}
	return nil
}

// splice is the engine that joins the two ports of a loop.
type splice struct {
	ends [2]struct {
		port *loop.Port
		out  []*frame.Frame // on their way to the port
	}
}

// Receive takes what came in at one end for the other.
func (s *splice) Receive(p frame.Port, frames []*frame.Frame, _ frame.Time) {
	out := &s.ends[1-p].out
	for _, f := range frames {
		f.ID = 0 // the sender's
		*out = append(*out, f)
	}
}

// Dispatch has nothing to do.
func (s *splice) Dispatch(frame.Time) bool { return false }

// Poll sends what was received. While a port has no room nothing is read at the other end.
func (s *splice) Poll(frame.Time) frame.Time {
	for i := range s.ends {
		e := &s.ends[i]
		sent := 0
		for ; sent < len(e.out) && e.port.Room() > 0; sent++ {
			e.port.Transmit(e.out[sent])
		}
		e.out = slices.Delete(e.out, 0, sent)
		s.ends[1-i].port.Hold(len(e.out) > 0)
	}
	return frame.Never
}

// TxDone has nobody to tell.
func (s *splice) TxDone(_ uint64, _, _ frame.Time) bool { return false }
