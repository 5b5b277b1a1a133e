// Package sw is the fabric switch: it joins ports as a learning switch does,
// with a queueing delay of choice, and is a transparent or boundary clock of
// IEEE 1588 if that is wanted.
//
// A frame's way through it:
//
//  1. Receive: link-local groups and impossible sources go; the source is
//     learned; PTP messages are shown to the clock, which may keep them.
//  2. forward: the frame, or copies of it, into the queues of its traffic
//     class at its egress ports, each with a delay of its own. A packet of
//     Omni-Path that finds a queue full beyond the threshold gets FECN, a
//     packet of IP CE.
//  3. Poll: what is due leaves, class by class; a transparent clock corrects
//     it as it does. Senders that fill buffers get PFC or PAUSE frames.
//
// Switch is pure and runs in virtual time or, by a Node, on TAPs.
package sw

import (
	"math/rand/v2"
	"slices"

	"tapir/lab/conf/swconf"
	"tapir/nic/dcb"
	"tapir/nic/dcbx"
	"tapir/nic/lldp"
	"tapir/nic/pacing"
	"tapir/opa"
	"tapir/ptp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Env is what a Switch lives in.
type Env struct {
	Pool  frame.Pool
	Links []frame.Link // of the ports, in order
	// Clock is the switch's hardware clock: of residence times, and the one
	// that a boundary clock steers.
	Clock ptp.Clock
}

// PortCounts counts what passed one port.
type PortCounts struct {
	RxFrames, RxOctets uint64
	TxFrames, TxOctets uint64
	Flooded            uint64 // received for an unknown or group address
	Marked             uint64 // packets of Omni-Path that got FECN
	CE                 uint64 // frames of IP that got CE
	Queued             int    // frames that wait
	QueuedOctets       int    // octets of them
	QueueMost          uint64 // frames that have waited at a time, at most
	QueueMostOctets    uint64 // octets likewise
	RxDrops, TxDrops   frame.Drops
}

// Switch is the pure switch: an engine as nic/loop drives it. Ports count from
// 0.
type Switch struct {
	cfg   swconf.Config
	env   Env
	ports []port
	busy  []int // ports whose queues are not empty, in order
	// pausing: a port has told its sender to wait; signals: PFC may have something to tell
	// the senders of some priorities.
	pausing, signals bool
	now              frame.Time // of the last Poll
	macs             macTable
	clock            timekeeper // nil: a plain switch
	agent            agent
	talk             frame.Time // when LLDP wants to be polled
	shared           sharedBuffer
	router           *router    // nil: there are no routes
	forwarder        *forwarder // nil: there is no FCF
}

type port struct {
	line
	link frame.Link
	// classes are the egress queues: waiting frames of queued octets in all.
	classes         []class
	waiting, queued int
	red             red
	rng             *rand.Rand
	delay           swconf.Delay
	counts          PortCounts

	marking
	routed   bool // it bridges nothing
	unmarked int  // packets still to be left without FECN

	dcb  dcb.Config // what the port acts on: as configured, or what DCBX has come to
	lldp *lldp.Port // nil: none, and no dcbx either
	dcbx *dcbx.Machine

	// By priority: what the other end keeps from being sent, what waits that came by the
	// port, and what passed.
	holds      [dcb.Classes]pacing.Hold
	buffers    [dcb.Classes]buffer
	priorities [dcb.Classes]struct{ rxFrames, rxOctets, txFrames, txOctets uint64 }
}

// waiting is a frame in an egress queue.
type waiting struct {
	at  frame.Time
	f   *frame.Frame
	tag tag
	in  int // the port that it came by

	prio     uint8
	lossless bool // counts in the buffer of that port
	pooled   bool // counts in the shared buffer
}

// timekeeper is what a switch that is no plain one does with PTP messages.
type timekeeper interface {
	// receive looks at a frame (borrowed) that came in. Unless forward, the
	// clock has done with it what is to be done.
	receive(port int, f *frame.Frame, now frame.Time) (t tag, why frame.DropReason, forward bool)
	// depart takes a frame that leaves and had a tag.
	depart(port int, f *frame.Frame, t tag, now frame.Time)
	// sent tells when the frame with that ID left, Never if nobody knows. True
	// asks for poll.
	sent(id uint64, at frame.Time) bool
	// poll sends the clock's own messages and returns the next deadline.
	poll(now frame.Time) frame.Time
	// close releases what waits.
	close()
}

// New returns a switch of cfg.
func New(cfg swconf.Config, env Env) (*Switch, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Switch{cfg: cfg, env: env, shared: sharedBuffer{octets: cfg.Buffer, alpha: cfg.Alpha},
		macs: newMACTable(cfg.Ageing, cfg.MACs), ports: make([]port, len(cfg.Ports))}
	for i := range s.ports {
		s.ports[i] = port{link: env.Links[i], delay: cfg.Delay, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(i))),
			marking: marking{cfg.FECNThreshold, cfg.FECNSize, cfg.FECNRate}}
		if d := cfg.Ports[i].Delay; d != nil {
			s.ports[i].delay = *d
		}
		s.ports[i].red = newRED(&s.cfg, i)
		s.ports[i].dcb = cfg.DCB
		s.classify(&s.ports[i])
		s.unite(i)
		s.discover(i)
	}
	s.agent, s.router = newAgent(s), newRouter(s)
	s.forwarder = newForwarder(s)
	var err error
	s.clock, err = newClock(s)
	return s, err
}

// Receive takes the frames of a batch. Those that nobody observes count as
// seen now.
func (s *Switch) Receive(p frame.Port, frames []*frame.Frame, now frame.Time) {
	for _, f := range frames {
		if f.Seen == 0 {
			f.Seen = now
		}
		f.ID = 0 // the sender's
		s.receive(int(p), f, now)
	}
}

func (s *Switch) receive(in int, f *frame.Frame, now frame.Time) {
	c := &s.ports[in].counts
	c.RxFrames++
	c.RxOctets += uint64(f.Len())
	b := f.Bytes()
	if len(b) < ether.HeaderLen {
		s.drop(in, f, drop.Truncated)
		return
	}
	if ether.IsMACControl(b) {
		s.control(in, f, now)
		return
	}
	if s.ports[in].lldp != nil && ether.IsLLDP(b) && s.hear(in, f, now) {
		return
	}
	dst, src := ether.Addr(b[:6]), ether.Addr(b[6:12])
	if src.IsMulticast() || src.IsZero() {
		s.drop(in, f, drop.Source)
		return
	}
	if !s.ports[in].routed && src != routerMAC {
		s.macs.learn(src, in, now)
	}
	var t tag
	if s.clock != nil {
		var why frame.DropReason
		forward := true
		if t, why, forward = s.clock.receive(in, f, now); !forward {
			if why != frame.DropNone {
				c.RxDrops.Count(why)
			}
			f.Release()
			return
		}
	}
	if !s.cfg.Forwards(dst) {
		s.drop(in, f, DropLinkLocal)
		return
	}
	if asks(b) {
		s.manage(in, f, now)
	}
	if s.forwarder != nil && s.forwarder.receive(in, f, t, now) {
		return
	}
	if s.router != nil && s.router.receive(in, f, t, now) {
		return
	}
	s.forward(in, dst, f, t, now)
}

func (s *Switch) drop(in int, f *frame.Frame, why frame.DropReason) {
	s.ports[in].counts.RxDrops.Count(why)
	f.Release()
}

// count counts a frame that goes on, by its priority.
func (s *Switch) count(in int, f *frame.Frame) {
	if s.cfg.Mapped {
		c := &s.ports[in].priorities[s.priority(f.Bytes())]
		c.rxFrames++
		c.rxOctets += uint64(f.Len())
	}
}

// forward takes f to the port behind which dst is, or to all but its own.
func (s *Switch) forward(in int, dst ether.Addr, f *frame.Frame, t tag, now frame.Time) {
	s.count(in, f)
	if !dst.IsMulticast() {
		if out, ok := s.macs.find(dst, now); ok {
			if out == in {
				s.drop(in, f, DropSamePort)
				return
			}
			s.enqueue(in, out, f, t, now)
			return
		}
	}
	s.ports[in].counts.Flooded++
	last := len(s.ports) - 1
	for last == in || last >= 0 && s.ports[last].routed {
		last--
	}
	if last < 0 {
		s.drop(in, f, DropSamePort)
		return
	}
	for out := range last {
		if out == in || s.ports[out].routed {
			continue
		}
		if twin := s.copyOf(f); twin != nil {
			s.enqueue(in, out, twin, t, now)
		} else {
			s.ports[out].counts.TxDrops.Count(drop.NoBuffer)
		}
	}
	s.enqueue(in, last, f, t, now)
}

// say takes a frame (borrowed) of the switch's own into the queue of a port.
func (s *Switch) say(out int, b []byte, now frame.Time) {
	f := s.env.Pool.Get(len(b))
	if f == nil {
		s.ports[out].counts.TxDrops.Count(drop.NoBuffer)
		return
	}
	f.Append(b)
	s.enqueue(out, out, f, tag{}, now)
}

func (s *Switch) copyOf(f *frame.Frame) *frame.Frame {
	twin := s.env.Pool.Get(f.Len())
	if twin == nil {
		return nil
	}
	twin.Append(f.Bytes())
	twin.Offload = f.Offload
	return twin
}

// enqueue takes f into the queue of a port.
func (s *Switch) enqueue(in, out int, f *frame.Frame, t tag, now frame.Time) {
	p := &s.ports[out]
	if p.down {
		p.counts.TxDrops.Count(drop.Link)
		f.Release()
		return
	}
	w := waiting{f: f, tag: t, in: in}
	q := &p.classes[0]
	if s.cfg.Mapped {
		w.prio = s.priority(f.Bytes())
		q = &p.classes[p.dcb.PrioTC[w.prio]]
	}
	if !s.admit(p, q, &w, now) {
		return
	}
	if p.threshold > 0 && swconf.Congested(p.threshold, q.len(), s.cfg.Queue) {
		p.markFECN(f)
	}
	if p.red.marks(q.octets) && markCE(f) {
		p.counts.CE++
	}
	q.depths.add(q.octets)
	w.at = now.Add(p.delay.Draw(p.rng))
	if n := len(q.waiting); n > q.head {
		w.at = max(w.at, q.waiting[n-1].at)
	}
	if p.waiting == 0 {
		i, _ := slices.BinarySearch(s.busy, out)
		s.busy = slices.Insert(s.busy, i, out)
	}
	s.put(p, q, w, now)
	p.counts.QueueMost = max(p.counts.QueueMost, uint64(p.waiting))
	p.counts.QueueMostOctets = max(p.counts.QueueMostOctets, uint64(p.queued))
}

// markFECN sets FECN in a packet of Omni-Path that meets congestion, if its turn has come.
func (p *port) markFECN(f *frame.Frame) {
	_, octets, ok := opa.ServiceClass(f.Bytes())
	if !ok || octets < p.octets {
		return
	}
	if p.unmarked > 0 {
		p.unmarked--
	} else if opa.MarkFECN(f.Bytes()) {
		p.counts.Marked++
		p.unmarked = p.rate
	}
}

// Dispatch has nothing to do.
func (s *Switch) Dispatch(frame.Time) bool { return false }

// Poll sends what is due and returns the next deadline.
func (s *Switch) Poll(now frame.Time) frame.Time {
	s.now = now
	s.macs.poll(now)
	next := frame.Never
	if s.forwarder != nil {
		next = s.forwarder.Poll(now)
	}
	kept := s.busy[:0]
	for _, i := range s.busy {
		next = min(next, s.drain(i, now))
		if s.ports[i].waiting > 0 {
			kept = append(kept, i)
		}
	}
	s.busy = kept
	next = min(next, s.signal(now), s.relieve(now), s.converse(now))
	if s.clock != nil {
		next = min(next, s.clock.poll(now))
	}
	return next
}

// drain sends what is due on one port.
func (s *Switch) drain(out int, now frame.Time) frame.Time {
	p := &s.ports[out]
	p.sched.Begin(now)
	q, next := s.choose(p, now)
	for q != nil && p.link.Room() > 0 {
		f := q.first().f
		all, before := pacing.Octets(f, gap)
		if !p.takes(all, before) {
			break
		}
		if q.node != nil {
			q.spend(all, now)
			c := &p.priorities[q.first().prio]
			c.txFrames++
			c.txOctets += uint64(f.Len())
		}
		q.frames++
		q.sent += uint64(f.Len())
		if w := s.leave(p, q); w.tag.IsZero() {
			s.transmit(out, f)
		} else {
			s.clock.depart(out, f, w.tag, now)
		}
		q, next = s.choose(p, now)
	}
	return min(next, p.sched.Next()) // what is due waits for the link, or for its turn
}

// transmit takes f out of the switch.
func (s *Switch) transmit(out int, f *frame.Frame) {
	c := &s.ports[out].counts
	if s.ports[out].link.Room() == 0 {
		c.TxDrops.Count(drop.TxQueue)
		id := f.ID
		f.Release()
		s.departed(id, frame.Never)
		return
	}
	c.TxFrames++
	c.TxOctets += uint64(f.Len())
	s.ports[out].link.Transmit(f)
}

// TxDone takes in when the frame with that ID left its port: Never if nobody
// knows. True asks for another Poll.
func (s *Switch) TxDone(id uint64, at, _ frame.Time) (again bool) { return s.departed(id, at) }

func (s *Switch) departed(id uint64, at frame.Time) (again bool) {
	return s.clock != nil && id != 0 && s.clock.sent(id, at)
}

// Counts are the counters of a port.
func (s *Switch) Counts(port int) PortCounts {
	c := s.ports[port].counts
	c.Queued, c.QueuedOctets = s.ports[port].waiting, s.ports[port].queued
	return c
}

// MACs lists the MAC table.
func (s *Switch) MACs(now frame.Time) []MACRow {
	return s.macs.rows(func(i int) string { return s.cfg.Ports[i].Name }, now)
}

// Close releases what waits.
func (s *Switch) Close() {
	for i := range s.ports {
		p := &s.ports[i]
		for tc := range p.classes {
			for p.classes[tc].len() > 0 {
				s.leave(p, &p.classes[tc]).f.Release()
			}
		}
	}
	if s.clock != nil {
		s.clock.close()
	}
}
