package verbs

import (
	"fmt"

	"tapir/nic/msglog"
	"tapir/wire/frame"
)

const (
	armedNot = iota
	armedSolicited
	armedNext
)

// CQ is a completion queue: a ring of fixed capacity.
type CQ struct {
	object
	ctx      *Context // nil: the driver's own
	vector   int      // the CNQ that counts notifications
	ring     []WC     // grows up to capacity
	sink     Sink     // takes the completions, if set
	pushed   WC       // what it was given last
	head     int
	count    int
	capacity int
	armed    uint8
	queued   bool
	failed   bool
	handler  func(*CQ, frame.Time)
	total    uint64
	channel  *CompChannel // nil: handler
	waiting  int          // notifications in it
	unacked  int          // notifications fetched from it

	// Context is the owner's; nothing here looks at it.
	Context any
	// Private leads a layer above from the object to its own.
	Private any
}

// CreateCQ makes a completion queue for entries completions. handler, which
// may be nil, is called once after each ReqNotify.
func (d *Device) CreateCQ(entries int, handler func(*CQ, frame.Time)) (*CQ, error) {
	return d.createCQ(nil, nil, entries, 0, handler)
}

// createCQ makes a queue that is a child of parent; both it and c may be nil.
func (d *Device) createCQ(parent *object, c *Context, entries, vector int, handler func(*CQ, frame.Time)) (*CQ,
	error) {
	switch {
	case parent != nil && !parent.dead && (vector < 0 || vector >= len(d.cnqs)):
		return nil, fmt.Errorf("create CQ: completion vector %d, the device has 0..%d: %w", vector, len(d.cnqs)-1,
			ErrInvalid)
	case entries < 1 || entries > d.limits.MaxCQE:
		return nil, fmt.Errorf("create CQ: %d entries, allowed are 1..%d: %w",
			entries, d.limits.MaxCQE, ErrInvalid)
	}
	o, err := d.add(kindCQ, parent)
	if err != nil {
		return nil, err
	}
	q := &CQ{object: o, ctx: c, vector: vector, capacity: entries, handler: handler}
	d.cqs.Add(q.num, q)
	return q, nil
}

// Len is the number of completions waiting.
func (c *CQ) Len() int {
	if c.sink != nil {
		return c.sink.Len()
	}
	return c.count
}

// Cap is the number of completions that fit.
func (c *CQ) Cap() int {
	if c.sink != nil {
		return c.sink.Cap()
	}
	return c.capacity
}

// Free is the number of completions that still fit.
func (c *CQ) Free() int { return c.Cap() - c.Len() }

// Failed tells whether the CQ has overflowed; it then takes no more.
func (c *CQ) Failed() bool { return c.failed }

// Total is the number of completions ever queued.
func (c *CQ) Total() uint64 { return c.total }

// SetHandler replaces the notification handler.
func (c *CQ) SetHandler(h func(*CQ, frame.Time)) { c.handler = h }

// Resize changes the number of completions that fit; those waiting stay.
// ErrInvalid if more wait than would fit.
func (c *CQ) Resize(entries int) error {
	switch {
	case c.dead:
		return fmt.Errorf("resize CQ %d: %w", c.num, ErrDestroyed)
	case entries < 1 || entries > c.dev.limits.MaxCQE:
		return fmt.Errorf("resize CQ %d: %d entries, allowed are 1..%d: %w", c.num, entries, c.dev.limits.MaxCQE,
			ErrInvalid)
	case entries < c.Len():
		return fmt.Errorf("resize CQ %d: %d entries, %d completions wait: %w", c.num, entries, c.Len(), ErrInvalid)
	case c.sink != nil:
		if err := c.sink.Resize(entries); err != nil {
			return fmt.Errorf("resize CQ %d: %w", c.num, err)
		}
	}
	c.capacity = entries
	if len(c.ring) > entries {
		c.setRing(entries)
	}
	return nil
}

// Destroy frees the CQ; ErrBusy while a QP uses it or notifications fetched
// from its channel are not acknowledged.
func (c *CQ) Destroy() error {
	if err := c.dev.mayDestroy("CQ", c.num, c.dead, c.refs+c.unacked); err != nil {
		return err
	}
	c.leaveChannel()
	c.gone()
	c.dev.cqs.Remove(c.num)
	return nil
}

// Poll moves up to len(wcs) completions into wcs, oldest first, and returns
// their number.
func (c *CQ) Poll(wcs []WC) int {
	n := 0
	for n < len(wcs) && c.count > 0 {
		wcs[n] = c.ring[c.head]
		c.head = (c.head + 1) % len(c.ring)
		c.count--
		n++
	}
	return n
}

// ReqNotify asks for one call of the handler at the next completion, or, with
// solicitedOnly, at the next that is solicited or failed. It reports whether
// completions wait already: these cause no call, poll again.
func (c *CQ) ReqNotify(solicitedOnly bool) (missed bool) {
	if !solicitedOnly {
		c.armed = armedNext
	} else if c.armed == armedNot {
		c.armed = armedSolicited
	}
	return c.Len() > 0
}

// push queues wc. A CQ that overflows raises EventCQError and takes no more;
// its queue pairs go to error, since their completions are lost.
func (c *CQ) push(wc WC) {
	if c.failed || c.dead {
		return
	}
	if c.Free() <= 0 {
		c.failed = true
		c.dev.Async(AsyncEvent{Type: EventCQError, CQ: c})
		c.dev.Defer(c.failQPs)
		return
	}
	c.put(&wc)
	c.total++
	if c.dev.log.On(msglog.WR) {
		c.logDone(&wc)
	}
	asked, told := c.awaited(wc.Solicited || wc.Status != StatusSuccess)
	if told {
		c.dev.cnqs[c.vector]++
	}
	if asked && !c.queued {
		c.queued = true
		c.dev.cnqs[c.vector]++
		c.dev.notified[c.vector] = append(c.dev.notified[c.vector], c)
		c.dev.raise(c.vector)
	}
}

// awaited tells, once, whether somebody wants to be notified of what was pushed
// last, and whether somebody has been.
func (c *CQ) awaited(solicited bool) (asked, told bool) {
	if c.sink != nil {
		asked, told = c.sink.Awaited(solicited)
	}
	if c.armed == armedNext || c.armed == armedSolicited && solicited {
		c.armed = armedNot
		asked = true
	}
	return asked, told
}

// put stores wc, for which there is room.
func (c *CQ) put(wc *WC) {
	if c.sink != nil {
		c.pushed = *wc
		c.sink.Push(&c.pushed)
		return
	}
	if c.count == len(c.ring) {
		c.grow()
	}
	c.ring[(c.head+c.count)%len(c.ring)] = *wc
	c.count++
}

// failQPs runs outside the transport's calls, which led to the overflow.
func (c *CQ) failQPs(frame.Time) {
	for _, q := range c.dev.qps.All() {
		if (q.cfg.SendCQ == c || q.cfg.RecvCQ == c) && ownerMoves[q.state]&(1<<Err) != 0 {
			q.fail()
		}
	}
}

func (c *CQ) grow() { c.setRing(min(c.capacity, max(16, 2*len(c.ring)))) }

func (c *CQ) setRing(n int) {
	ring := make([]WC, n)
	for i := range c.count {
		ring[i] = c.ring[(c.head+i)%len(c.ring)]
	}
	c.ring, c.head = ring, 0
}

// purge removes the completions of a destroyed QP that nobody else has.
func (c *CQ) purge(qp *QP) {
	kept := 0
	for i := range c.count {
		wc := c.ring[(c.head+i)%len(c.ring)]
		if wc.QP != qp {
			c.ring[(c.head+kept)%len(c.ring)] = wc
			kept++
		}
	}
	c.count = kept
}
