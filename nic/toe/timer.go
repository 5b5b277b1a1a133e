package toe

import "tapir/wire/frame"

// timerHeap is a binary heap of connections by deadline; ties go to the older
// connection. An entry may be earlier than its connection's deadline: moving
// a deadline back, as every acknowledgement does, costs nothing until then.
type timerHeap []timerEntry

type timerEntry struct {
	at frame.Time
	c  *Conn
}

func (h timerHeap) less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].c.id < h[j].c.id
}

func (h timerHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].c.heapIdx, h[j].c.heapIdx = i, j
}

func (h timerHeap) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h.less(i, p) {
			return
		}
		h.swap(i, p)
		i = p
	}
}

func (h timerHeap) down(i int) {
	for {
		m := 2*i + 1
		if m >= len(h) {
			return
		}
		if m+1 < len(h) && h.less(m+1, m) {
			m++
		}
		if !h.less(m, i) {
			return
		}
		h.swap(i, m)
		i = m
	}
}

// remove takes c out of the heap.
func (h *timerHeap) remove(c *Conn) {
	i := c.heapIdx
	if i < 0 {
		return
	}
	last := len(*h) - 1
	if i != last {
		h.swap(i, last)
	}
	(*h)[last] = timerEntry{}
	*h = (*h)[:last]
	c.heapIdx = -1
	if i < last {
		h.up(i)
		h.down(i)
	}
}

// schedule makes sure that c is looked at by its deadline.
func (h *timerHeap) schedule(c *Conn) {
	at := min(c.rtoAt, c.snd.ReorderAt, c.rcv.At, c.stateAt)
	switch {
	case c.gone:
	case at == frame.Never:
		h.remove(c)
	case c.heapIdx < 0:
		c.heapIdx = len(*h)
		*h = append(*h, timerEntry{at, c})
		h.up(c.heapIdx)
	case at < (*h)[c.heapIdx].at:
		(*h)[c.heapIdx].at = at
		h.up(c.heapIdx)
	}
}

// next is the earliest deadline.
func (h timerHeap) next() frame.Time {
	if len(h) == 0 {
		return frame.Never
	}
	return h[0].at
}

// fire runs the timers that are due.
func (e *Engine) fire(now frame.Time) {
	e.waits.Expire(now)
	for len(e.timers) > 0 && e.timers[0].at <= now {
		c := e.timers[0].c
		e.timers.remove(c)
		c.onTimer(now)
		e.timers.schedule(c)
	}
}

// onTimer handles every timer of c that is due.
func (c *Conn) onTimer(now frame.Time) {
	if c.rcv.At <= now {
		c.rcv.At = frame.Never
		c.rcv.Due = true
		c.Kick()
	}
	if c.snd.ReorderAt <= now {
		c.snd.ReorderAt = frame.Never
		c.onReorder(now)
	}
	if c.rtoAt <= now {
		c.rtoAt = frame.Never
		c.onRTO(now)
	}
	if !c.gone && c.stateAt <= now {
		c.stateAt = frame.Never
		c.onStateTimer(now)
	}
}

// onStateTimer ends a deserted FIN-WAIT-2, and probes an idle peer.
func (c *Conn) onStateTimer(now frame.Time) {
	due := c.lastIn.Add(c.par.FinTimeout)
	switch {
	case !c.deaf || c.state != StateFinWait2:
		c.keepAlive(now)
	case now < due:
		c.stateAt = due
	default:
		c.finish(Timeout, now)
	}
}

// keepAlive sends a probe once the peer has been silent for long enough
// (RFC 9293 section 3.8.4).
func (c *Conn) keepAlive(now frame.Time) {
	idle := c.par.KeepAlive
	if idle == 0 {
		return
	}
	if c.snd.Segs() > 0 { // the retransmission timer watches the peer
		c.stateAt = now.Add(idle)
		return
	}
	if due := c.lastIn.Add(idle); now < due {
		c.probes, c.stateAt = 0, due
		return
	}
	if c.probes >= c.par.KeepAliveProbes {
		c.finish(Timeout, now)
		return
	}
	c.probes++
	c.wantProbe = true
	c.stateAt = now.Add(max(c.par.KeepAliveInterval, c.e.cfg.MinRTO))
	c.Kick()
}

// readyList is the queue of connections that may have something to send. A
// connection is in it at most once.
type readyList struct{ head, tail *Conn }

func (l *readyList) push(c *Conn) {
	if c.queued || c.gone {
		return
	}
	c.queued = true
	if l.tail != nil {
		l.tail.nextReady = c
	} else {
		l.head = c
	}
	l.tail = c
}

func (l *readyList) pop() *Conn {
	c := l.head
	if l.head = c.nextReady; l.head == nil {
		l.tail = nil
	}
	c.nextReady, c.queued = nil, false
	return c
}
