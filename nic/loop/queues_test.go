package loop

import (
	"bytes"
	"context"
	"testing"
	"time"

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

// Queues come and go while the loop runs; one whose loss was foreseen may
// fail without ending it.
func TestQueuesComeAndGo(t *testing.T) {
	l, err := New(Config{})
	must(t, err)
	near, far := newCable(t)
	c := &crossing{ports: map[frame.Port]*Port{}}
	c.ports[0] = l.AddQueue(0, near, 1522)
	l.SetEngine(c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	defer func() {
		cancel()
		must(t, <-ended)
		if n := l.pool.Lent(); n != 0 {
			t.Errorf("%d frames lost", n)
		}
	}()

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
