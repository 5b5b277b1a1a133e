package nicnode

import (
	"context"
	"fmt"

	"tapir/nic/loop"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// CompChannel is a completion channel to wait on, from any goroutine but the
// NIC's own: the blocking form of verbs.CompChannel.
//
// The steps of a consumer: Attach its queue, arm it with ReqNotify, Wait, Ack,
// arm it again and only then poll it until it is empty, so that no completion
// falls between.
type CompChannel struct {
	node *Node
	ch   *verbs.CompChannel
	news chan struct{}
}

// CreateCompChannel makes a completion channel.
func (n *Node) CreateCompChannel() (*CompChannel, error) {
	c := &CompChannel{node: n, news: make(chan struct{}, 1)}
	err := n.DoWait(func(frame.Time) { c.ch = n.Device.Verbs.CreateCompChannel(c.wake) })
	if err != nil {
		return nil, err
	}
	return c, nil
}

// wake runs on the loop.
func (c *CompChannel) wake(frame.Time) {
	select {
	case c.news <- struct{}{}:
	default: // a waiter has not seen the last one
	}
}

// do is DoWait for calls that may fail.
func (c *CompChannel) do(fn func() error) (err error) {
	if lost := c.node.DoWait(func(frame.Time) { err = fn() }); lost != nil {
		return lost
	}
	return err
}

// Attach sends the notifications of cq to the channel.
func (c *CompChannel) Attach(cq *verbs.CQ) error {
	return c.do(func() error { return cq.SetChannel(c.ch) })
}

// Wait returns the queue of the oldest notification as soon as there is one.
// ctx bounds the wait; its error is returned, or loop.ErrClosed if the NIC
// ends.
func (c *CompChannel) Wait(ctx context.Context) (cq *verbs.CQ, err error) {
	for {
		err := c.do(func() error {
			if cq = c.ch.Get(); c.ch.Len() > 0 {
				c.wake(0) // for others who wait
			}
			return nil
		})
		if err != nil || cq != nil {
			return cq, err
		}
		select {
		case <-c.news:
		case <-ctx.Done():
			return nil, fmt.Errorf("completion channel: %w", ctx.Err())
		case <-c.node.Done():
			return nil, loop.ErrClosed
		}
	}
}

// Ack acknowledges n notifications of cq that Wait returned.
func (c *CompChannel) Ack(cq *verbs.CQ, n int) error {
	return c.do(func() error { return cq.AckEvents(n) })
}

// Close frees the channel; verbs.ErrBusy while a queue is attached.
func (c *CompChannel) Close() error { return c.do(c.ch.Destroy) }
