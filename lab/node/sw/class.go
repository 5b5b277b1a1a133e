package sw

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"tapir/nic/dcb"
	"tapir/nic/pacing"
	"tapir/wire/ether"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
)

// ClassCounts counts the frames of one traffic class of a port.
type ClassCounts struct {
	Class              int
	TSA                dcb.TSA
	Weight             uint8   // percent, of an ETS class
	Frames, Octets     uint64  // that left
	Queued             int     // frames that wait
	QueuedOctets       int     // octets of them
	QueueMostOctets    uint64  // octets that have waited at a time, at most
	QueueDrops, Storms uint64  // frames lost here, and how often the watchdog began to drop
	Depths             *Depths // what the frames found that waited here; borrowed
}

// Depths is a histogram of the octets in a queue, one sample a frame that enters it: those in
// front of it.
type Depths struct {
	Bins [32]uint64 // bin 0: none; bin n: more than half of Bound(n), and at most that
	Sum  uint64     // of all samples
}

// Bound is the most octets of a bin.
func (*Depths) Bound(bin int) int {
	if bin == 0 {
		return 0
	}
	return 1 << (bin - 1)
}

func (d *Depths) add(octets int) {
	bin := 0
	if octets > 0 {
		bin = min(1+bits.Len(uint(octets-1)), len(d.Bins)-1)
	}
	d.Bins[bin]++
	d.Sum += uint64(octets)
}

// class is the egress queue of one traffic class of a port.
type class struct {
	waiting []waiting // ordered by at; the first is at head
	head    int
	octets  int
	node    *pacing.Node // its part of the line; nil: all
	strict  bool
	rate    int64      // what it sends at most, in Mb/s; 0: no limit
	due     frame.Time // when the next frame may leave by that
	stalled frame.Time // since when PFC has held the class back; 0: it does not
	storm   bool       // the watchdog drops what PFC holds back

	frames, sent, most uint64
	drops              uint64 // frames lost as the queue was full, or to the watchdog
	storms             uint64 // how often the watchdog began to drop
	depths             Depths
}

func (q *class) len() int { return len(q.waiting) - q.head }

func (q *class) first() *waiting { return &q.waiting[q.head] }

// burst is how many octets a class with a rate makes up for at most when frames of others
// were on the line as its turn came.
const burst = 16 << 10

// spend accounts for octets that leave.
func (q *class) spend(octets int64, now frame.Time) {
	if !q.strict {
		q.node.Spend(octets)
	}
	if q.rate > 0 {
		of := func(octets int64) time.Duration { return time.Duration(octets * 8000 / q.rate) }
		q.due = max(q.due, now.Add(-of(burst))).Add(of(octets))
	}
}

// push appends a frame. A class that was empty has nothing to make up for.
func (q *class) push(w waiting, now frame.Time) {
	if q.len() == 0 {
		q.due = max(q.due, now)
	}
	if q.head > 32 && q.head > len(q.waiting)/2 {
		n := copy(q.waiting, q.waiting[q.head:])
		clear(q.waiting[n:])
		q.waiting, q.head = q.waiting[:n], 0
	}
	q.waiting = append(q.waiting, w)
	q.octets += w.f.Len()
	q.most = max(q.most, uint64(q.octets))
}

func (q *class) pop() waiting {
	w := q.waiting[q.head]
	q.waiting[q.head] = waiting{}
	if q.head++; q.head == len(q.waiting) {
		q.waiting, q.head = q.waiting[:0], 0
	}
	q.octets -= w.f.Len()
	q.stalled = 0
	return w
}

// classify makes the classes of a port, or has those that there are do as the port's
// configuration says. Their counters stay.
func (s *Switch) classify(p *port) {
	for len(p.classes) < p.dcb.TCs() {
		p.classes = append(p.classes, class{})
	}
	if !s.cfg.Mapped {
		return
	}
	for tc := range p.classes {
		q := &p.classes[tc]
		if q.node == nil {
			q.node = p.sched.Port().Child(true)
		}
		q.strict, q.rate = p.dcb.TSA[tc] != dcb.ETS, int64(s.cfg.MaxRate[tc])
		q.node.SetWeight(int64(p.dcb.Weight[tc]))
	}
}

// reclassify has a port act on another configuration, on what waits too.
func (s *Switch) reclassify(out int, c dcb.Config, now frame.Time) {
	p := &s.ports[out]
	if p.dcb == c {
		return
	}
	var waits []waiting
	for tc := range p.classes {
		for p.classes[tc].len() > 0 {
			waits = append(waits, s.leave(p, &p.classes[tc]))
		}
	}
	slices.SortStableFunc(waits, func(a, b waiting) int { return cmp.Compare(a.at, b.at) })
	p.dcb = c
	s.classify(p)
	for prio := range p.holds {
		if h := &p.holds[prio]; c.PFC>>prio&1 == 0 && h.Until > now {
			h.Settle(now)
			h.Until = now
		}
	}
	p.balance()
	for _, w := range waits {
		s.put(p, &p.classes[c.PrioTC[w.prio]], w, now)
	}
	s.signals = true
}

// put takes a frame into the queue of a class.
func (s *Switch) put(p *port, q *class, w waiting, now frame.Time) {
	s.keep(&w)
	q.push(w, now)
	p.waiting++
	p.queued += w.f.Len()
}

// priority is that of a frame: of its DSCP if the switch trusts that, else of its outer
// VLAN tag, else 0. Untagged frames of an FCF's fabric have that of the application table.
func (s *Switch) priority(b []byte) uint8 {
	if s.cfg.TrustDSCP {
		if h, n, err := ether.Parse(b); err == nil {
			switch {
			case h.Type == ether.TypeIPv4 && len(b) > n+1:
				return s.cfg.Priority(b[n+1] >> 2)
			case h.Type == ether.TypeIPv6 && len(b) > n+1:
				return s.cfg.Priority(uint8(binary.BigEndian.Uint16(b[n:]) >> 6 & 0x3f))
			}
		}
	}
	switch binary.BigEndian.Uint16(b[12:]) {
	case ether.TypeVLAN, ether.TypeQinQ:
		if len(b) > ether.HeaderLen {
			return b[14] >> 5
		}
	case fcoe.EtherType, fip.EtherType:
		if s.forwarder != nil {
			return s.forwarder.priorities[binary.BigEndian.Uint16(b[12:])]
		}
	}
	return 0
}

// choose is the class that sends next, nil if none may: strict classes go first, the
// highest number before the others, and ETS classes share by weight what they leave (IEEE
// 802.1Q-2018 clause 8.6.8). next is when to ask again, if time alone changes that.
func (s *Switch) choose(p *port, now frame.Time) (best *class, next frame.Time) {
	next = frame.Never
	for tc := len(p.classes) - 1; tc >= 0; tc-- {
		q := &p.classes[tc]
		if q.len() == 0 {
			continue
		}
		at := s.held(p, q, now)
		if q.len() == 0 {
			continue // the watchdog has dropped all
		}
		if q.rate > 0 {
			at = max(at, q.due)
		}
		if at = max(at, q.first().at); at > now {
			next = min(next, at)
			continue
		}
		if q.strict || q.node == nil {
			return q, next
		}
		if best == nil || q.node.Tag() < best.node.Tag() {
			best = q
		}
	}
	return best, next
}

// leave takes the first frame out of the queue of a port.
func (s *Switch) leave(p *port, q *class) waiting {
	w := q.pop()
	p.waiting--
	p.queued -= w.f.Len()
	s.free(&w)
	return w
}

// ClassCounts are the counters of the traffic classes of a port.
func (s *Switch) ClassCounts(port int) []ClassCounts {
	list := make([]ClassCounts, len(s.ports[port].classes))
	for tc := range list {
		q := &s.ports[port].classes[tc]
		list[tc] = ClassCounts{Class: tc, TSA: s.ports[port].dcb.TSA[tc], Weight: s.ports[port].dcb.Weight[tc],
			Frames: q.frames, Octets: q.sent, Queued: q.len(), QueuedOctets: q.octets,
			QueueMostOctets: q.most, QueueDrops: q.drops, Storms: q.storms, Depths: &q.depths}
	}
	return list
}
