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

// Classes is what a port does about traffic classes and PFC. The zero value is a port without
// them.
type Classes struct {
	dcb.Config
	// TrustDSCP: the priority of an IP packet is that of its DSCP. Else it is that of the
	// frame's VLAN tag, and 0 without one.
	TrustDSCP bool
	DSCP      *[64]uint8 // the priority of each DSCP, nil: its upper three bits
}

// equal tells whether two are the same.
func (c Classes) equal(o Classes) bool {
	if c.DSCP != nil && o.DSCP != nil && *c.DSCP == *o.DSCP {
		c.DSCP, o.DSCP = nil, nil
	}
	return c == o
}

// classFrames is how many frames of the operating system, and of the RDMA engine, wait in a
// class before they hold back their senders.
const classFrames = 32

// classes are the traffic classes of a port: frames wait there for the link.
type classes struct {
	Classes
	queues  [dcb.Classes]class
	holds   [dcb.Classes]pacing.Hold
	tree    pacing.Tree // of weights
	flow    pacing.Flow // what the port tells the other end by PFC
	waiting int
	held    uint8      // bit n: PFC holds priority n
	next    frame.Time // when that ends
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
func (p *Port) SetClasses(c Classes, now frame.Time) {
	if p.fixed = nil; c != (Classes{}) {
		p.fixed = &c
	}
	p.SetDCB(*p.DCB(), now)
}

// useClasses puts traffic classes to use. What waits keeps its order within its class. PFC takes
// the place of PAUSE frames.
func (p *Port) useClasses(c Classes, now frame.Time) {
	was := p.classes
	if was == nil && c == (Classes{}) || was != nil && was.equal(c) {
		return
	}
	if p.classes = nil; c != (Classes{}) {
		n := &classes{Classes: c, next: frame.Never}
		for tc := range n.queues {
			n.queues[tc].node = n.tree.Port().Child(true)
			n.queues[tc].node.SetWeight(int64(c.Weight[tc]))
		}
		n.flow.Tx, n.flow.Speed = c.PFC != 0, p.Flow.Speed
		if was != nil {
			n.flow.Sent, n.holds = was.flow.Sent, was.holds
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
func (c *Classes) priority(tagged bool, pcp uint8, isIP bool, tclass uint8) uint8 {
	switch {
	case c.TrustDSCP && isIP && c.DSCP != nil:
		return c.DSCP[tclass>>2]
	case c.TrustDSCP && isIP:
		return tclass >> 5
	case tagged:
		return pcp
	}
	return 0
}

// priorityOf is that of a frame.
func (c *Classes) priorityOf(b []byte) uint8 {
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
	switch {
	case p.Closed:
		p.Drop(o, drop.Link, now)
		return
	case q.len() >= QueueFrames:
		p.Drop(o, drop.TxQueue, now)
		return
	}
	q.push(ranked{o.Retained(), prio})
	c.waiting++
	if p.Polling {
		p.flushClasses(now)
	}
}

// roomByClass is Room of a port with traffic classes: PFC holds back the frames of its
// priorities alone.
func (p *Port) roomByClass(engine bool) int {
	if p.Closed {
		return QueueFrames
	}
	c, room := p.classes, classFrames
	for tc := range c.queues {
		q := &c.queues[tc]
		n := q.engine
		if !engine {
			if n = q.len() - q.engine; n > 0 && n < QueueFrames/2 && c.held>>q.waiting[q.head].prio&1 != 0 {
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
		if c.held>>q.waiting[q.head].prio&1 != 0 {
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
		}
	}
}

// priorityCounters are those of PFC, with the names that the driver mlx5 has. Durations are in
// microseconds.
func (p *Port) priorityCounters() (list []Counter) {
	for prio := range p.classes.holds {
		if p.classes.PFC>>prio&1 == 0 {
			continue
		}
		h := &p.classes.holds[prio]
		name := fmt.Sprintf("x_prio%d_pause", prio)
		list = append(list, view.Count("r"+name, h.Frames),
			view.Count("r"+name+"_duration", uint64(h.Total().Microseconds())),
			view.Count("r"+name+"_transition", h.Transitions), view.Count("t"+name, p.classes.flow.Sent))
	}
	return list
}
