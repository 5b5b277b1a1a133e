package verbs

import (
	"fmt"
	"slices"

	"tapir/wire/frame"
)

// CompChannel is a completion channel: it collects the notifications of
// completion queues for someone who fetches them, instead of calling a
// handler. Each notification fetched has to be acknowledged before its queue
// can be destroyed.
type CompChannel struct {
	dev  *Device
	wake func(now frame.Time)
	// ready holds, from head on, the queues whose notifications have not been
	// fetched, once for each notification.
	ready []*CQ
	head  int
	refs  int
	dead  bool
}

// CreateCompChannel makes a channel. wake, which may be nil, is called, as a
// callback, when there is something to fetch.
func (d *Device) CreateCompChannel(wake func(now frame.Time)) *CompChannel {
	return &CompChannel{dev: d, wake: wake}
}

// Get fetches the oldest notification: the queue that has completions, or nil
// when there is none. As after every notification, the queue has to be armed
// again with ReqNotify, then polled until it is empty.
func (ch *CompChannel) Get() *CQ {
	if ch.Len() == 0 {
		return nil
	}
	c := ch.ready[ch.head]
	ch.ready[ch.head] = nil
	if ch.head++; ch.head > len(ch.ready)/2 {
		ch.closeUp()
	}
	c.waiting--
	c.unacked++
	return c
}

// Len is the number of notifications to fetch.
func (ch *CompChannel) Len() int { return len(ch.ready) - ch.head }

// closeUp moves what waits to the front.
func (ch *CompChannel) closeUp() {
	ch.ready = slices.Delete(ch.ready, 0, ch.head)
	ch.head = 0
}

// Destroy frees the channel; ErrBusy while a CQ uses it.
func (ch *CompChannel) Destroy() error {
	if err := ch.dev.mayDestroy("completion channel", 0, ch.dead, ch.refs); err != nil {
		return err
	}
	ch.dead = true
	return nil
}

// notified queues a notification of c.
func (ch *CompChannel) notified(c *CQ, now frame.Time) {
	c.waiting++
	ch.ready = append(ch.ready, c)
	if ch.wake != nil {
		ch.wake(now)
	}
}

// forget drops the notifications of c that nobody has fetched.
func (ch *CompChannel) forget(c *CQ) {
	if c.waiting > 0 {
		c.waiting = 0
		ch.closeUp()
		ch.ready = slices.DeleteFunc(ch.ready, func(have *CQ) bool { return have == c })
	}
}

// SetChannel sends the notifications of the queue to ch, or, with nil, to its
// handler again. Those not fetched are lost; ErrBusy while fetched ones are
// not acknowledged.
func (c *CQ) SetChannel(ch *CompChannel) error {
	switch {
	case c.dead || ch != nil && ch.dead:
		return fmt.Errorf("channel of CQ %d: %w", c.num, ErrDestroyed)
	case ch != nil && ch.dev != c.dev:
		return fmt.Errorf("channel of CQ %d: of another device: %w", c.num, ErrInvalid)
	case c.unacked > 0:
		return fmt.Errorf("channel of CQ %d: %d notifications not acknowledged: %w", c.num, c.unacked, ErrBusy)
	}
	c.leaveChannel()
	if c.channel = ch; ch != nil {
		ch.refs++
	}
	return nil
}

// Channel returns what SetChannel was given.
func (c *CQ) Channel() *CompChannel { return c.channel }

func (c *CQ) leaveChannel() {
	if c.channel != nil {
		c.channel.forget(c)
		c.channel.refs--
		c.channel = nil
	}
}

// AckEvents acknowledges n notifications that were fetched.
func (c *CQ) AckEvents(n int) error {
	if n < 0 || n > c.unacked {
		return fmt.Errorf("acknowledge %d notifications of CQ %d, %d were fetched: %w", n, c.num, c.unacked, ErrInvalid)
	}
	c.unacked -= n
	return nil
}
