package nicnode

import (
	"context"
	"sync"
	"sync/atomic"

	"tapir/nic/fastlinq"
	"tapir/nic/hardware"
	"tapir/nic/loop"
	"tapir/nic/tap"
	"tapir/wire/frame"
)

// second is the event loop of a NIC's second engine, on a thread of its own with
// the queues of the host TAP that have odd numbers.
type second struct {
	n       *Node
	loop    *loop.Loop
	host    *hostTAP
	cancel  context.CancelFunc
	done    chan struct{}
	running atomic.Bool
}

// newSecond makes the loop, which begins with run.
func (n *Node) newSecond() (*second, error) {
	l, err := loop.New(loop.Config{})
	if err != nil {
		return nil, err
	}
	s := &second{n: n, loop: l, done: make(chan struct{})}
	n.Undo.Add(s.end)
	return s, nil
}

// env is the second engine's world for the NIC.
func (s *second) env() *hardware.Second {
	return &hardware.Second{Pool: s.loop.Pool(), Host: s.host, Call: s.call, Wake: s.loop.Wake,
		WakeFirst: s.n.Loop.Wake, Guard: guard}
}

// attach gives the engine a queue of the host TAP.
func (s *second) attach(t *tap.TAP, index int) {
	p := s.loop.AddQueue(frame.Host, t, s.n.cfg.MTU+linkHeaders)
	p.SetIndex(index)
	s.host.ports = append(s.host.ports, p)
}

// call runs fn on the loop's thread and returns after it. While the loop does not
// run nobody else has the engine.
func (s *second) call(fn func()) {
	if !s.running.Load() || s.loop.DoWait(func(frame.Time) { fn() }) != nil {
		fn()
	}
}

// run starts the loop. If it ends by itself, so does the NIC.
func (s *second) run() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.loop.SetEngine(fastlinq.Of(s.n.Device.Hardware).Second())
	s.running.Store(true)
	go func() {
		defer close(s.done)
		if err := s.loop.Run(ctx); err != nil {
			s.n.Do(func(frame.Time) { s.n.Abort(err) })
		}
	}()
}

// end stops the loop, after that of the NIC.
func (s *second) end() {
	if s.running.Load() {
		s.cancel()
		<-s.done
	}
	s.loop.Close() // its queues, too
}

// drops counts what its queues have lost.
func (s *second) drops() (sum frame.Drops) {
	if s != nil {
		s.call(func() { sum = s.host.ports.Drops() })
	}
	return sum
}

// setMaxFrame follows the MTU.
func (s *second) setMaxFrame(octets int) {
	if s == nil {
		return
	}
	s.call(func() { s.host.ports.SetMaxFrame(octets) })
}

// guard is a tracer that the threads of both engines may use.
func guard(t frame.Tracer) frame.Tracer { return &guarded{to: t} }

type guarded struct {
	mu sync.Mutex
	to frame.Tracer
}

// Trace implements frame.Tracer.
func (g *guarded) Trace(r *frame.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.to.Trace(r)
}
