package loop

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/tap"
	"tapir/wire/frame"
)

// crossing passes what one port received to the other.
type crossing struct {
	ports map[frame.Port]*Port
	queue []*frame.Frame
	to    []frame.Port
}

func (c *crossing) Receive(port frame.Port, frames []*frame.Frame, _ frame.Time) {
	for _, f := range frames {
		c.queue, c.to = append(c.queue, f), append(c.to, 1-port)
	}
}

func (c *crossing) Dispatch(frame.Time) bool { return false }

func (c *crossing) Poll(frame.Time) frame.Time {
	for i, f := range c.queue {
		if p := c.ports[c.to[i]]; p != nil {
			p.Transmit(f)
		} else {
			f.Release()
		}
	}
	c.queue, c.to = c.queue[:0], c.to[:0]
	return frame.Never
}

func (c *crossing) TxDone(_ uint64, _, _ frame.Time) bool { return false }

// running runs a loop until end is called; all frames must have come back then.
func running(t *testing.T, l *Loop) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		must(t, <-ended)
		if n := l.pool.Lent(); n != 0 {
			t.Errorf("%d frames lost", n)
		}
	}
}

// Queues come and go while the loop runs; one whose loss was foreseen may
// fail without ending it.
func TestQueuesComeAndGo(t *testing.T) {
	l, err := New(Config{})
	must(t, err)
	near, far := newCable(t)
	c := &crossing{ports: map[frame.Port]*Port{}}
	c.ports[0] = l.AddQueue(0, near, 1522)
	l.SetEngine(c)
	defer running(t, l)()

	for range 3 {
		hostNear, hostFar := newCable(t)
		must(t, l.DoWait(func(frame.Time) { c.ports[1] = l.AddQueue(1, hostNear, 1522) }))
		hostFar.send(t, []byte("up"))
		if got := far.receive(t); !bytes.Equal(got, []byte("up")) {
			t.Fatalf("wire got %q", got)
		}
		far.send(t, []byte("down"))
		if got := hostFar.receive(t); !bytes.Equal(got, []byte("down")) {
			t.Fatalf("host got %q", got)
		}
		must(t, l.DoWait(func(frame.Time) {
			l.RemoveQueue(c.ports[1])
			l.RemoveQueue(c.ports[1]) // nothing left to do
			delete(c.ports, 1)
		}))
		if !hostNear.closed {
			t.Error("the queue is still open")
		}
	}

	hostNear, hostFar := newCable(t)
	lost := make(chan error, 1)
	must(t, l.DoWait(func(frame.Time) {
		c.ports[1] = l.AddQueue(1, hostNear, 1522)
		c.ports[1].OnLoss(func(err error) { delete(c.ports, 1); lost <- err })
	}))
	hostFar.Close()
	select {
	case err := <-lost:
		if err != tap.ErrGone {
			t.Errorf("lost: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the loss went unnoticed")
	}
	must(t, l.DoWait(func(frame.Time) {}))
}

// most notes how many frames waited when the engine got its turn to send.
type most struct {
	crossing
	frames int
}

func (m *most) Poll(now frame.Time) frame.Time {
	m.frames = max(m.frames, len(m.queue))
	return m.crossing.Poll(now)
}

// A loop that is late takes no more than a batch from the host before the engine sends:
// transmit queues have room for that.
func TestLateLoopTakesOneBatchOfTheHost(t *testing.T) {
	const sent = 3 * rxFrames
	l, err := New(Config{})
	must(t, err)
	near, far := newCable(t)
	hostNear, hostFar := newCable(t)
	m := &most{crossing: crossing{ports: map[frame.Port]*Port{}}}
	m.ports[frame.Wire] = l.AddQueue(frame.Wire, near, 1522)
	m.ports[1-frame.Wire] = l.AddQueue(1-frame.Wire, hostNear, 1522)
	l.SetEngine(m)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	defer func() {
		cancel()
		must(t, <-ended)
	}()
	must(t, l.DoWait(func(now frame.Time) {
		for range sent {
			hostFar.send(t, []byte("up"))
		}
		l.due = now
		for l.Now() < now.Add(5*late) { // the thread has no processor
			time.Sleep(time.Millisecond)
		}
	}))
	for range sent {
		far.receive(t)
	}
	must(t, l.DoWait(func(frame.Time) {
		if m.frames > rxFrames {
			t.Errorf("%d frames of the host before the engine sent one", m.frames)
		}
	}))
}

// batching holds up to eight frames back.
type batching struct {
	*cable
	on    bool
	held  [][]byte
	waits atomic.Int32 // how often Flush had no room
}

func (b *batching) Batch() { b.on = true }

func (b *batching) Write(f *frame.Frame) error {
	if len(b.held) == 8 {
		if err := b.Flush(); err != nil {
			return err
		}
	}
	b.held = append(b.held, bytes.Clone(f.Bytes()))
	return nil
}

func (b *batching) Flush() error {
	for ; len(b.held) > 0; b.held = b.held[1:] {
		if _, err := unix.Write(b.fd, b.held[0]); err != nil {
			b.waits.Add(1)
			return tap.ErrAgain
		}
	}
	return nil
}

// What a queue holds back leaves at the end of the iteration, or as soon as there is room, before
// what came later.
func TestBatcher(t *testing.T) {
	l, err := New(Config{})
	must(t, err)
	near, far := newCable(t)
	hostNear, hostFar := newCable(t)
	wire := &batching{cable: near}
	c := &crossing{ports: map[frame.Port]*Port{}}
	c.ports[0], c.ports[1] = l.AddQueue(0, wire, 9000), l.AddQueue(1, hostNear, 9000)
	l.SetEngine(c)
	defer running(t, l)()
	hostFar.send(t, []byte("alone"))
	if got := far.receive(t); !wire.on || string(got) != "alone" {
		t.Fatalf("%q, batching %v", got, wire.on)
	}
	const sent = 60 // more than the socket has room for
	for i := range sent {
		hostFar.send(t, bytes.Repeat([]byte{byte(i)}, 8000))
		must(t, l.DoWait(func(frame.Time) {}))
	}
	if wire.waits.Load() == 0 {
		t.Error("there was room all the time")
	}
	for i := range sent {
		if got := far.receive(t); len(got) != 8000 || got[0] != byte(i) {
			t.Fatalf("frame %d: %d octets of %d", i, len(got), got[0])
		}
	}
}
