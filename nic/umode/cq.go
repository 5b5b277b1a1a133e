package umode

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"tapir/nic/umode/eventfile"
	"tapir/nic/verbs"
)

// CompChannel is a completion channel to wait on.
//
// The steps of a consumer: arm the queue with ReqNotify, Wait, Ack, arm it
// again and only then poll it until it is empty, so that no completion falls
// between. CQ.Next does all of that.
type CompChannel struct {
	ctx    *Context
	number uint32
	events *eventfile.File
	cqs    atomic.Int32
}

// CreateCompChannel makes a completion channel.
func (c *Context) CreateCompChannel() (*CompChannel, error) {
	ch := &CompChannel{ctx: c}
	call := &Call{Verb: CreateCompChannel, Object: ch}
	err := c.run(call, func() error {
		b, err := c.execute(call, fields(response), 0)
		if err != nil {
			return err
		}
		ch.number = native.Uint32(b)
		ch.events, err = c.session.takeEvents(ch.number, "completion channel", true)
		return err
	}, func() { _ = ch.Close() })
	if err != nil {
		return nil, err
	}
	return ch, nil
}

// Wait returns the queue of the oldest notification as soon as there is one.
// ctx bounds the wait; its error is returned, or ErrRemoved if the NIC ends.
func (ch *CompChannel) Wait(ctx context.Context) (*CQ, error) {
	var b [8]byte
	for {
		if err := ch.events.Read(ctx, b[:]); err != nil {
			return nil, fmt.Errorf("completion channel: %w", err)
		}
		ch.ctx.mu.Lock()
		cq, _ := ch.ctx.objects[native.Uint64(b[:])].(*CQ)
		if cq != nil {
			cq.unacked++
		}
		ch.ctx.mu.Unlock()
		if cq != nil { // else it has been destroyed meanwhile
			return cq, nil
		}
	}
}

// Ack acknowledges n notifications of cq that Wait returned: until then it
// cannot be destroyed.
func (ch *CompChannel) Ack(cq *CQ, n int) error {
	ch.ctx.mu.Lock()
	defer ch.ctx.mu.Unlock()
	if n < 0 || n > cq.unacked {
		return fmt.Errorf("acknowledge %d notifications, %d were fetched: %w", n, cq.unacked, verbs.ErrInvalid)
	}
	cq.unacked -= n
	return nil
}

// Close frees the channel; ErrBusy while a queue uses it.
func (ch *CompChannel) Close() error {
	if n := ch.cqs.Load(); n > 0 {
		return fmt.Errorf("close completion channel: %d queues: %w", n, verbs.ErrBusy)
	}
	return ch.events.Close()
}

// WC is a work completion; QP is of this process.
type WC struct {
	verbs.WC
	QP *QP
}

// CQBypass polls a queue without a command: it moves completions into wcs and
// returns their number.
type CQBypass interface{ Poll(wcs []WC) int }

// CQArmer is a CQBypass that also does ReqNotify without a command.
type CQArmer interface {
	CQBypass
	Arm(solicitedOnly bool)
}

// CQSleeper is a CQArmer that can also wait, until the next completion or for a
// time: ArmAsleep takes the place of Arm and announces it. Unless woken, the
// queue is then armed as by Arm(false).
type CQSleeper interface {
	CQArmer
	ArmAsleep()
	Sleep(most time.Duration) (woken bool)
}

// CQ is a completion queue.
type CQ struct {
	object
	entries int
	channel *CompChannel
	unacked int // notifications; guarded by ctx.mu
	bypass  CQBypass
	next    [1]WC // of Next
}

// CreateCQ makes a completion queue for at least entries completions. Its
// notifications go to ch, which may be nil.
func (c *Context) CreateCQ(entries int, ch *CompChannel) (*CQ, error) {
	return c.createCQ(entries, ch, nil)
}

// CreateCQ makes a completion queue that belongs to the domain, which stays
// while the queue is there. Queue pairs of any domain can use it.
func (p *PD) CreateCQ(entries int, ch *CompChannel) (*CQ, error) {
	return p.ctx.createCQ(entries, ch, p)
}

// createCQ makes a queue that belongs to p if there is one.
func (c *Context) createCQ(entries int, ch *CompChannel, p *PD) (*CQ, error) {
	q := &CQ{object: object{ctx: c, end: DestroyCQ}, channel: ch}
	q.user = c.enter(q)
	number := ^uint32(0)
	if ch != nil {
		number = ch.number
	}
	verb, request := CreateCQ, fields(response, q.user, uint32(entries), uint32(0), number, uint32(0))
	if p != nil {
		verb, request = CreateCQOfPD, append(request, fields(p.handle, uint32(0))[commandHeader:]...)
	}
	if err := q.create(verb, q, request, func(b []byte) { q.entries = int(native.Uint32(b[4:])) }); err != nil {
		return nil, err
	}
	if ch != nil {
		ch.cqs.Add(1)
	}
	return q, nil
}

// Cap is the number of completions that fit.
func (q *CQ) Cap() int { return q.entries }

// SetBypass lets b poll the queue from now on, for post triggers.
func (q *CQ) SetBypass(b CQBypass) { q.bypass = b }

// Poll moves up to len(wcs) completions into wcs, oldest first, and returns
// their number.
func (q *CQ) Poll(wcs []WC) (int, error) {
	if q.bypass != nil {
		return q.bypass.Poll(wcs), nil
	}
	return q.pollProxy(wcs)
}

// ReqNotify asks for one notification at the next completion, or, with
// solicitedOnly, at the next that is solicited or failed. Completions that
// wait already cause none: poll after it.
func (q *CQ) ReqNotify(solicitedOnly bool) error {
	if a, ok := q.bypass.(CQArmer); ok {
		a.Arm(solicitedOnly)
		return nil
	}
	return q.ctx.do(ReqNotifyCQ, q, fields(q.handle, uint32(flag(solicitedOnly))))
}

// Next waits for one completion. The queue must have its channel to itself.
func (q *CQ) Next(ctx context.Context) (WC, error) {
	wcs := q.next[:]
	for {
		if n, err := q.Poll(wcs); err != nil || n > 0 {
			return wcs[0], err
		}
		if q.channel == nil {
			return WC{}, fmt.Errorf("wait for a completion: the queue has no channel: %w", verbs.ErrInvalid)
		}
		if s, ok := q.bypass.(CQSleeper); ok && q.channel.events.MaySpin(ctx) {
			s.ArmAsleep()
			n := s.Poll(wcs)
			woken := n > 0 || s.Sleep(eventfile.SpinTime)
			q.channel.events.Spun(!woken)
			switch {
			case n > 0:
				return wcs[0], nil
			case woken:
				continue
			}
		} else {
			if err := q.ReqNotify(false); err != nil {
				return WC{}, err
			}
			if n, err := q.Poll(wcs); err != nil || n > 0 {
				return wcs[0], err
			}
		}
		if err := q.await(ctx); err != nil {
			return WC{}, err
		}
	}
}

// await waits for a notification.
func (q *CQ) await(ctx context.Context) error {
	if _, err := q.channel.Wait(ctx); err != nil {
		return err
	}
	return q.channel.Ack(q, 1)
}

// Resize changes the number of completions that fit; ErrInvalid if more wait.
func (q *CQ) Resize(entries int) error {
	room, err := query[uint32](q.ctx, ResizeCQ, q, fields(response, q.handle, uint32(entries)))
	if room > 0 { // also where a post trigger fails
		q.entries = int(room)
	}
	return err
}

// Destroy frees the queue; ErrBusy while a QP uses it or notifications that
// were fetched are not acknowledged.
func (q *CQ) Destroy() error {
	q.ctx.mu.Lock()
	busy := error(nil)
	if q.unacked > 0 {
		busy = fmt.Errorf("%d notifications not acknowledged: %w", q.unacked, verbs.ErrBusy)
	}
	q.ctx.mu.Unlock()
	err := q.destroy(q, busy)
	if err == nil && q.channel != nil {
		q.channel.cqs.Add(-1)
	}
	return err
}
