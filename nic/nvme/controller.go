package nvme

import (
	"slices"
	"time"

	"tapir/wire/frame"
	wire "tapir/wire/nvme"
)

// Limits of a controller.
const (
	maxRequests  = 4 // for asynchronous events, that may wait
	maxFailures  = 8 // in the error log
	version      = 0x010400
	readyWithin  = 1   // in units of 500 ms
	keepAliveMin = 100 // milliseconds
	discoveryKA  = 120 * time.Second
)

// controller is what a host has connected to with an admin queue.
type controller struct {
	t         *Target
	id        uint16
	nqn       string
	discovery bool
	host      string
	hostID    [16]byte
	admin     *queue
	queues    []*queue // for I/O
	cc, csts  uint32
	kato      time.Duration
	heard     frame.Time
	watching  bool // the timer of keep-alives is set
	through   bool // the volatile cache is off: what is written outlives the system
	wanted    int  // queues for I/O that the host may have
	events    uint32
	requests  []*slot // that wait for an event
	pending   bool    // an error that no event has told of
	masked    bool    // until the error log is read
	over      bool
}

// prepare tells how much data a command moves, or why it cannot be done.
func (q *queue) prepare(s *slot) (int, transfer, wire.Status) {
	c := &s.cmd
	connect := c.Opcode() == wire.Fabrics && c.FabricsType() == wire.Connect
	switch {
	case connect && q.c != nil, !connect && q.c == nil:
		return 0, none, wire.SequenceError | wire.DNR
	case connect:
		return wire.ConnectLen, fromHost, wire.Success
	case c.Opcode() == wire.Fabrics && q.qid == 0:
		return 0, none, wire.Success
	case c.Opcode() == wire.Fabrics:
		return 0, none, wire.InvalidOpcode | wire.DNR
	case q.c.csts&wire.CSTSReady == 0:
		return 0, none, wire.SequenceError | wire.DNR
	case q.qid == 0:
		q.p.t.stats[AdminCommands]++
		return q.c.prepareAdmin(c)
	}
	n := q.namespace(c)
	if n == nil {
		return 0, none, wire.InvalidNamespace | wire.DNR
	}
	return n.prepare(c)
}

// namespace is that of a command, or nil.
func (q *queue) namespace(c *wire.Command) *Namespace {
	list := q.p.t.cfg.Namespaces
	if id := c.NSID(); id >= 1 && uint64(id) <= uint64(len(list)) && !q.c.discovery {
		return list[id-1]
	}
	return nil
}

// execute does a command whose data is there.
func (s *slot) execute(now frame.Time) {
	q := s.q
	switch c := &s.cmd; {
	case q.ending:
		s.end(wire.AbortedByRequest, now)
	case c.Opcode() == wire.Fabrics && c.FabricsType() == wire.Connect:
		s.connect(now)
	case c.Opcode() == wire.Fabrics:
		s.end(q.c.property(s, now), now)
	case q.qid == 0:
		q.c.executeAdmin(s, now)
	default:
		s.perform(now)
	}
}

// perform does an I/O command, on another thread if it may block.
func (s *slot) perform(now frame.Time) {
	q, t := s.q, s.q.p.t
	n := q.namespace(&s.cmd)
	switch s.cmd.Opcode() {
	case wire.Read:
		t.stats[ReadCommands]++
		t.stats[OctetsRead] += uint64(s.octets)
	case wire.Write:
		t.stats[WriteCommands]++
		t.stats[OctetsWritten] += uint64(s.octets)
	default:
		t.stats[OtherCommands]++
	}
	through := q.c.through
	if n.Offload == nil {
		s.performed(n.perform(&s.cmd, s.data, through), now)
		return
	}
	var st wire.Status
	dev := q.p.dev
	n.Offload(func() { st = n.perform(&s.cmd, s.data, through) }, func() { s.performed(st, dev.CA().Now()) })
}

// performed takes the outcome of an I/O command.
func (s *slot) performed(st wire.Status, now frame.Time) {
	if code := st.Code(); code == wire.WriteFault || code == wire.ReadError {
		s.q.p.t.failure(wire.ErrorEntry{SQID: s.q.qid, ID: s.cmd.ID(), Status: st, LBA: s.cmd.LBA(),
			NSID: s.cmd.NSID()}, now)
	}
	s.end(st, now)
}

// failure puts an error of a disk into the error log, and tells hosts.
func (t *Target) failure(e wire.ErrorEntry, now frame.Time) {
	t.failed++
	e.Count = t.failed
	t.failures = slices.Insert(t.failures, 0, e)
	t.failures = t.failures[:min(len(t.failures), maxFailures)]
	for _, c := range t.controllers {
		if !c.discovery {
			c.pending = true
			c.tell(now)
		}
	}
}

// tell answers a request for an event, if there is one of both.
func (c *controller) tell(now frame.Time) {
	if !c.pending || c.masked || len(c.requests) == 0 {
		return
	}
	c.pending, c.masked = false, true
	s := c.requests[0]
	c.requests = c.requests[1:]
	c.t.stats[Events]++
	s.result = wire.ErrorEvent
	s.end(wire.Success, now)
}

// connect makes a queue one of a controller.
func (s *slot) connect(now frame.Time) {
	q, t := s.q, s.q.p.t
	f, ok := s.cmd.Connect()
	d, err := wire.ParseConnectData(s.data)
	st := wire.Status(wire.Success)
	switch {
	case !ok || err != nil:
		st = wire.FormatIncompatible | wire.DNR
	case f.QID != q.qid || int(f.SQSize) == 0 || int(f.SQSize) >= q.entries:
		st = s.invalid(false, 42)
	case d.SubNQN != t.cfg.NQN && d.SubNQN != wire.DiscoveryNQN:
		st = s.invalid(true, 256)
	case d.SubNQN == t.cfg.NQN && len(t.cfg.Hosts) > 0 && !slices.Contains(t.cfg.Hosts, d.Host), d.Host == "":
		s.invalid(true, 512)
		st = wire.HostRefused | wire.DNR
	case q.qid == 0:
		st = s.create(f, &d, now)
	default:
		st = s.join(&d)
	}
	if st == wire.Success {
		q.entries, q.noFlow = int(f.SQSize)+1, f.NoFlow
		q.c.heard = now
		s.result = uint64(q.c.id)
	}
	s.end(st, now)
}

// invalid says which octet of a Connect, or of its data, is wrong.
func (s *slot) invalid(data bool, at uint64) wire.Status {
	s.result = at
	if data {
		s.result |= 1 << 16
	}
	return wire.ConnectInvalid | wire.DNR
}

// create makes a controller.
func (s *slot) create(f wire.ConnectFields, d *wire.ConnectData, now frame.Time) wire.Status {
	q, t := s.q, s.q.p.t
	switch {
	case d.CntlID != wire.AnyController:
		return s.invalid(true, 16)
	case len(t.controllers) >= maxControllers || t.port != q.p:
		return wire.ControllerBusy
	}
	c := &controller{t: t, id: t.freeID(), nqn: d.SubNQN, discovery: d.SubNQN == wire.DiscoveryNQN, host: d.Host,
		hostID: d.HostID, admin: q, wanted: maxQueues, kato: time.Duration(f.KATO) * time.Millisecond}
	t.stats[Controllers]++
	if c.discovery {
		t.stats[Discoveries]++
		c.wanted = 0
		if c.kato == 0 {
			c.kato = discoveryKA
		}
	}
	t.controllers = append(t.controllers, c)
	q.c, c.heard = c, now
	c.watch(now)
	return wire.Success
}

// freeID is a number that no controller has.
func (t *Target) freeID() uint16 {
	for {
		id := t.nextID
		if t.nextID++; t.nextID >= 0xfff0 || t.nextID >= t.cfg.FirstID+256 {
			t.nextID = max(t.cfg.FirstID, 1)
		}
		if !slices.ContainsFunc(t.controllers, func(c *controller) bool { return c.id == id }) {
			return id
		}
	}
}

// join adds an I/O queue to a controller.
func (s *slot) join(d *wire.ConnectData) wire.Status {
	q, t := s.q, s.q.p.t
	i := slices.IndexFunc(t.controllers, func(c *controller) bool { return c.id == d.CntlID })
	if i < 0 {
		return s.invalid(true, 16)
	}
	c := t.controllers[i]
	switch {
	case c.nqn != d.SubNQN:
		return s.invalid(true, 256)
	case c.host != d.Host || c.hostID != d.HostID:
		return s.invalid(true, 512)
	case c.csts&wire.CSTSReady == 0, slices.ContainsFunc(c.queues, func(o *queue) bool { return o.qid == q.qid }):
		return wire.SequenceError | wire.DNR
	case int(q.qid) > c.wanted:
		return s.invalid(false, 42)
	}
	q.c = c
	c.queues = append(c.queues, q)
	return wire.Success
}

// watch ends a controller whose host is silent for its timeout.
func (c *controller) watch(now frame.Time) {
	c.watching = false
	switch {
	case c.over || c.kato == 0:
		return
	case now.Sub(c.heard) >= c.kato:
		c.t.stats[KeepAliveTimeout]++
		c.csts |= wire.CSTSFatal
		c.end(true, now)
		return
	}
	c.watching = true
	c.admin.p.dev.Schedule(c.heard.Add(c.kato), c.watch)
}

// left takes away a queue whose connection ends; without the admin queue there is no controller.
func (c *controller) left(q *queue, abortive bool, now frame.Time) {
	if q == c.admin {
		c.end(abortive, now)
		return
	}
	c.queues = slices.DeleteFunc(c.queues, func(o *queue) bool { return o == q })
}

// end disconnects all queues.
func (c *controller) end(abortive bool, now frame.Time) {
	if c.over {
		return
	}
	c.over = true
	c.t.controllers = slices.DeleteFunc(c.t.controllers, func(o *controller) bool { return o == c })
	c.drop(abortive, now)
	c.requests = nil
	c.admin.disconnect(abortive, now)
}

// drop disconnects the I/O queues.
func (c *controller) drop(abortive bool, now frame.Time) {
	list := c.queues
	c.queues = nil
	for _, q := range list {
		q.disconnect(abortive, now)
	}
}

// property does a Property Get or Set.
func (c *controller) property(s *slot, now frame.Time) wire.Status {
	at, octets, value := s.cmd.Property()
	bad := wire.InvalidField | wire.DNR
	switch s.cmd.FabricsType() {
	case wire.PropertyGet:
		switch {
		case at == wire.PropCAP && octets == 8:
			s.result = wire.Capabilities(maxEntries, readyWithin)
		case at == wire.PropVS && octets == 4:
			s.result = version
		case at == wire.PropCC && octets == 4:
			s.result = uint64(c.cc)
		case at == wire.PropCSTS && octets == 4:
			s.result = uint64(c.csts)
		default:
			return bad
		}
		return wire.Success
	case wire.PropertySet:
		if at != wire.PropCC || octets != 4 {
			return bad
		}
		c.configure(uint32(value), now)
		return wire.Success
	}
	return wire.InvalidOpcode | wire.DNR
}

// configure takes a new CC.
func (c *controller) configure(cc uint32, now frame.Time) {
	old := c.cc
	c.cc = cc
	switch {
	case cc&wire.CCEnable != 0 && old&wire.CCEnable == 0:
		c.csts = wire.CSTSReady
		if sizes := uint32(0xff << 16); !c.discovery && cc&sizes != wire.CC&sizes || cc&0x3ff0 != 0 {
			c.csts = wire.CSTSFatal // sizes of entries and pages, or a command set that it does not have
		}
	case cc&wire.CCEnable == 0 && old&wire.CCEnable != 0: // a reset
		c.csts &^= wire.CSTSReady
		c.drop(false, now)
		for _, s := range c.requests {
			s.end(wire.AbortedByRequest, now)
		}
		c.requests, c.pending, c.masked, c.through = nil, false, false, false
	}
	if cc&wire.CCShutdown != 0 && old&wire.CCShutdown == 0 {
		c.csts |= wire.CSTSShutdownDone
	}
}
