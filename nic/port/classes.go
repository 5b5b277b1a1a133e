package port

import (
	"encoding/binary"
	"fmt"

	"tapir/nic/dcb"
	"tapir/nic/pacing"
	"tapir/nic/view"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// classFrames is how many frames of the operating system, and of the RDMA engine, wait in a
// class before they hold back their senders.
const classFrames = 32

// hostFrames is how many frames of the operating system a class holds that uses several: beyond
// them its frames are lost, and those of other classes go on.
const hostFrames = QueueFrames / 2

// classes are the traffic classes of a port: frames wait there for the link.
type classes struct {
	dcb.Port
	queues [dcb.Classes]class
	holds  [dcb.Classes]pacing.Hold
	tree   pacing.Tree              // of weights and rates
	flows  [dcb.Classes]pacing.Flow // what the port tells the other end by PFC
	// discards counts received frames that had no room, by buffer.
	discards [dcb.Classes]uint64
	waiting  int
	used     uint8      // bit n: the operating system has sent by class n
	pfc      [2]uint64  // PFC frames, by direction
	held     uint8      // bit n: PFC holds priority n
	next     frame.Time // when that ends
}

// class is one traffic class.
type class struct {
	node    *pacing.Node
	waiting []ranked // first is at head
	head    int
	engine  int // frames of the RDMA engine
}

// ranked is a frame that waits.
type ranked struct {
	Out
	prio uint8
}

func (q *class) len() int { return len(q.waiting) - q.head }

// host is how many frames of the operating system wait.
func (q *class) host() int { return q.len() - q.engine }

func (q *class) push(o ranked) {
	if q.head > classFrames {
		n := copy(q.waiting, q.waiting[q.head:])
		clear(q.waiting[n:])
		q.waiting, q.head = q.waiting[:n], 0
	}
	q.waiting = append(q.waiting, o)
	if o.Offloaded {
		q.engine++
	}
}

func (q *class) pop() Out {
	o := q.waiting[q.head].Out
	q.waiting[q.head] = ranked{}
	if q.head++; q.head == len(q.waiting) {
		q.waiting, q.head = q.waiting[:0], 0
	}
	if o.Offloaded {
		q.engine--
	}
	return o
}

// SetClasses has the port queue what it sends by traffic classes, or ends that, while DCBX is off.
func (p *Port) SetClasses(c dcb.Port, now frame.Time) {
	if p.fixed = nil; c != (dcb.Port{}) {
		p.fixed = &c
	}
	p.SetDCB(*p.DCB(), now)
}

// useClasses puts traffic classes to use. What waits keeps its order within its class. PFC takes
// the place of PAUSE frames.
func (p *Port) useClasses(c dcb.Port, now frame.Time) {
	was := p.classes
	if was == nil && c == (dcb.Port{}) || was != nil && was.Equal(c) {
		return
	}
	if p.classes = nil; c != (dcb.Port{}) {
		n := &classes{Port: c, next: frame.Never}
		for tc := range n.queues {
			n.queues[tc].node = n.tree.Port().Child(true)
			n.queues[tc].node.SetWeight(int64(c.Weight[tc]))
			n.queues[tc].node.SetKbps(int64(c.MaxRate[tc]))
		}
		n.tree.Begin(now)
		if was != nil {
			n.flows, n.holds, n.discards, n.pfc = was.flows, was.holds, was.discards, was.pfc
		}
		for prio := range n.flows {
			f := &n.flows[prio]
			f.Tx, f.Speed, f.Limit = c.PFC>>prio&1 != 0, p.Flow.Speed, p.Flow.Limit
		}
		for prio := range n.holds {
			if h := &n.holds[prio]; c.PFC>>prio&1 == 0 {
				h.Until = min(h.Until, now)
			}
		}
		n.hold(now)
		p.classes = n
	}
	p.Sched.Queued = p.classes != nil
	p.Flow.Rx, p.Flow.Tx = p.agreed.RxPause && !p.PFC(), p.agreed.TxPause && !p.PFC()
	var all []Out
	for ; p.head < len(p.queue); p.head++ {
		all = append(all, p.queue[p.head])
	}
	p.queue, p.head = p.queue[:0], 0
	for tc := 0; was != nil && tc < len(was.queues); tc++ {
		for was.queues[tc].len() > 0 {
			all = append(all, was.queues[tc].pop())
		}
	}
	for _, o := range all {
		p.Send(o, now)
	}
}

// PFC tells whether the port obeys and sends PFC frames.
func (p *Port) PFC() bool { return p.classes != nil && p.classes.PFC != 0 }

// Priority is that of a frame with a tag of a priority, or none, and an IP packet of a
// traffic class, or none.
func (c *classes) priority(tagged bool, pcp uint8, isIP bool, tclass uint8) uint8 {
	switch {
	case c.TrustDSCP && isIP && c.DSCP != nil:
		prio, _ := c.DSCP.Priority(tclass >> 2)
		return prio
	case c.TrustDSCP && isIP:
		return tclass >> 5
	case tagged:
		return pcp
	}
	return 0
}

// priorityOf is that of a frame.
func (c *classes) priorityOf(b []byte) uint8 {
	h, n, err := ether.Parse(b)
	if err != nil {
		return 0
	}
	tclass := uint8(0)
	isIP := len(b) >= n+2
	switch {
	case !isIP:
	case h.Type == ether.TypeIPv4:
		tclass = b[n+1]
	case h.Type == ether.TypeIPv6:
		tclass = uint8(binary.BigEndian.Uint16(b[n:]) >> 4)
	default:
		isIP = false
	}
	return c.priority(h.NTags > 0, uint8(h.Tags[0].TCI>>13), isIP, tclass)
}

// Buffer is the receive buffer of a frame and its size in octets; 0: there is none. PAUSE frames
// have one for all.
func (p *Port) Buffer(f *frame.Frame) (i uint8, size int) {
	c := p.classes
	switch {
	case c == nil && p.Flow.Tx:
		return 0, dcb.LosslessBuffer
	case c == nil:
		return 0, 0
	}
	lossless := c.PFC
	if p.Flow.Tx {
		lossless = 0xff
	}
	i = c.Buffers.Of(c.priorityOf(f.Bytes()))
	return i, c.Buffers.Octets(i, lossless)
}

// Holds tells whether the RDMA engine has to wait with packets of a priority: PFC holds it,
// or enough of them wait. The engine asks again in each Poll.
func (p *Port) Holds(tagged bool, pcp uint8, isIP bool, tclass uint8) bool {
	c := p.classes
	if c == nil {
		return false
	}
	prio := c.priority(tagged, pcp, isIP, tclass)
	return c.held>>prio&1 != 0 || c.queues[c.PrioTC[prio]].engine >= classFrames
}

// sendByClass is Send of a port with traffic classes.
func (p *Port) sendByClass(o Out, now frame.Time) {
	c := p.classes
	prio := c.priorityOf(o.Frame.Bytes())
	q := &c.queues[c.PrioTC[prio]]
	if !o.Offloaded {
		c.used |= 1 << c.PrioTC[prio]
	}
	switch {
	case p.Closed:
		p.Drop(o, drop.Link, now)
		return
	case q.len() >= QueueFrames, !o.Offloaded && c.several() && q.host() >= hostFrames:
		p.Drop(o, drop.TxQueue, now)
		return
	}
	q.push(ranked{o.Retained(), prio})
	c.waiting++
	if p.Polling {
		p.flushClasses(now)
	}
}

// several tells whether the operating system sends by more than one class.
func (c *classes) several() bool { return c.used&(c.used-1) != 0 }

// roomByClass is Room of a port with traffic classes. The operating system has one queue in
// front of them. A full class holds that back while no other is in use, a paused or limited one
// later than others. If several are in use each loses what it has no room for.
func (p *Port) roomByClass(engine bool) int {
	c, room := p.classes, classFrames
	switch {
	case p.Closed:
		return QueueFrames
	case !engine && c.several():
		return classFrames
	}
	for tc := range c.queues {
		q := &c.queues[tc]
		n := q.engine
		if !engine {
			if n = q.host(); n > 0 && n < hostFrames && (c.MaxRate[tc] > 0 || c.held>>q.waiting[q.head].prio&1 != 0) {
				continue
			}
		}
		room = min(room, classFrames-n)
	}
	return max(0, room)
}

// EngineRoom is Room for the TCP engine.
func (p *Port) EngineRoom() int {
	if p.classes == nil {
		return p.Room()
	}
	return p.roomByClass(true)
}

// choose is the class that sends next, nil if none may: strict ones before others, then by
// weight (IEEE 802.1Q-2018 clause 8.6.8).
func (c *classes) choose() (best *class) {
	for tc := len(c.queues) - 1; tc >= 0; tc-- {
		q := &c.queues[tc]
		if q.len() == 0 {
			continue
		}
		if c.held>>q.waiting[q.head].prio&1 != 0 || c.MaxRate[tc] > 0 && !q.conforms() {
			continue
		}
		if c.TSA[tc] != dcb.ETS {
			return q
		}
		if best == nil || q.node.Tag() < best.node.Tag() {
			best = q
		}
	}
	return best
}

// conforms tells whether the rate of the class lets its first frame leave now.
func (q *class) conforms() bool {
	_, before := pacing.Octets(q.waiting[q.head].Frame, gap)
	return q.node.Departs(before)
}

// hold takes in which priorities PFC holds now, and until when.
func (c *classes) hold(now frame.Time) {
	c.held, c.next = 0, frame.Never
	for prio := range c.holds {
		if h := &c.holds[prio]; h.Until > now {
			c.held |= 1 << prio
			c.next = min(c.next, h.Until)
		} else {
			h.Settle(now)
		}
	}
}

// flushClasses sends what may leave while the link has room.
func (p *Port) flushClasses(now frame.Time) {
	c := p.classes
	c.tree.Begin(now)
	if c.held != 0 {
		c.hold(now)
	}
	for c.waiting > 0 {
		q := c.choose()
		if q == nil || !p.Closed && (p.link.Room() <= 0 || !p.departs(q.waiting[q.head].Frame)) {
			return
		}
		prio := q.waiting[q.head].prio
		o := q.pop()
		c.waiting--
		if p.Closed {
			p.Drop(o, drop.Link, now)
			continue
		}
		all, _ := pacing.Octets(o.Frame, gap)
		p.Transmit(o, now)
		if c.TSA[c.PrioTC[prio]] == dcb.ETS {
			q.node.Spend(all)
		} else {
			q.node.SpendHere(all)
		}
	}
}

// priorityCounters are those of PFC, with the names that the drivers qede and mlx5 have.
// Durations are in microseconds, of sent frames until the last one.
func (p *Port) priorityCounters() (list []Counter) {
	c := p.classes
	list = append(list, view.Count("rx_pfc_frames", c.pfc[frame.Inbound]),
		view.Count("tx_pfc_frames", c.pfc[frame.Outbound]))
	for prio := range c.holds {
		if c.PFC>>prio&1 == 0 {
			continue
		}
		h := &c.holds[prio]
		name := fmt.Sprintf("x_prio%d_pause", prio)
		list = append(list, view.Count("r"+name, h.Frames),
			view.Count("r"+name+"_duration", uint64(h.Total().Microseconds())),
			view.Count("r"+name+"_transition", h.Transitions), view.Count("t"+name, c.flows[prio].Sent),
			view.Count("t"+name+"_duration", uint64(c.flows[prio].Paused.Microseconds())),
			view.Count(fmt.Sprintf("rx_prio%d_discards", prio), c.discards[c.Buffers.Of(uint8(prio))]))
	}
	return list
}
