package verbs

import (
	"cmp"
	"fmt"

	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/list"
)

// State is the InfiniBand state of a queue pair. iWARP's own states map to
// it as in the FastLinQ driver core: IDLE is Reset, Init and RTR, RTS is RTS,
// CLOSING is SQD, TERMINATE is SQE, ERROR is Err.
type State uint8

const (
	Reset State = iota
	Init
	RTR
	RTS
	SQD
	SQE
	Err
	numStates
)

var (
	stateNames = [numStates]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}
	iwarpNames = [numStates]string{"IDLE", "IDLE", "IDLE", "RTS", "CLOSING", "TERMINATE", "ERROR"}
)

func (s State) String() string { return stateNames[s] }

// IWARP names the iWARP state (RDMA protocol verbs specification, section
// 6.2) that s stands for.
func (s State) IWARP() string { return iwarpNames[s] }

// ownerMoves are the transitions that Modify allows; transportMoves those
// that the transport may make. Bit n stands for the target state n. What an
// owner may ask for without effect is in ownerStays: the state it is in, and
// to close gracefully what has ended already, since that may cross on the way.
var (
	ownerMoves = [numStates]uint8{
		Reset: 1<<Init | 1<<Err,
		Init:  1<<Init | 1<<Err | 1<<Reset,
		RTR:   1<<Err | 1<<Reset,
		RTS:   1<<SQD | 1<<Err | 1<<Reset,
		SQD:   1<<Err | 1<<Reset,
		SQE:   1<<Err | 1<<Reset,
		Err:   1 << Reset,
	}
	ownerStays = [numStates]uint8{
		Reset: 1 << Reset, RTR: 1 << RTR, RTS: 1 << RTS, SQD: 1 << SQD, SQE: 1<<SQE | 1<<SQD, Err: 1<<Err | 1<<SQD,
	}
	transportMoves = [numStates]uint8{
		Init: 1<<RTR | 1<<RTS | 1<<Err,
		RTR:  1<<RTS | 1<<SQD | 1<<SQE | 1<<Err,
		RTS:  1<<SQD | 1<<SQE | 1<<Err,
		SQD:  1<<SQE | 1<<Err,
		SQE:  1 << Err,
	}
)

// QPConfig describes a queue pair to be created.
type QPConfig struct {
	Type           qpattr.Type // RC unless the transport is a Fabric
	SendCQ, RecvCQ *CQ         // both needed, but by an XRC target
	XRCD           *XRCD       // of an XRC target
	SRQ            *SRQ        // receives come from it, if set
	MaxSend        int         // work requests outstanding; 0 = 16
	MaxRecv        int         // 0 = 16
	MaxSGE         int         // elements per work request; 0 = 1
	MaxInline      int         // octets of inline data; 0 = none
	SignalAll      bool        // every send completes visibly
	Context        any         // the owner's
	// Describe appends to b what a Send is, for captures: message has its octets as far as its first
	// packet does (borrowed), sent tells that it is of this side. nil: captures say what RDMA does alone.
	Describe func(b, message []byte, sent bool) []byte
}

// QP is a queue pair.
type QP struct {
	object
	pd       *PD
	cfg      QPConfig
	state    State
	sq       sendQueue
	rq       recvQueue
	errFlush bool   // in Device.errFlush
	access   Access // what the peer may at most do
	rateLimit
	service
	windows list.List[MW] // of type 2, bound through the queue pair

	// Context is the owner's; nothing here looks at it.
	Context any
	// Private leads a layer above from the object to its own.
	Private any

	endpoint Endpoint
	cid      int
}

// NoteMessage notes what a Send of q is that begins with message (borrowed), if q's owner says so. Callers
// check that notes are on first.
func NoteMessage(q *QP, n *frame.Notes, message []byte, sent bool) {
	if describe := q.cfg.Describe; describe != nil {
		n.Append(func(b []byte) []byte { return describe(b, message, sent) })
	}
}

// NoteSend is NoteMessage of a Send of this side.
func NoteSend(q *QP, n *frame.Notes, w *SendWQE) {
	if q.cfg.Describe == nil || w.Opcode > OpSendImm {
		return
	}
	head := make([]byte, min(w.Length, noteLen))
	if w.Fetch(head, 0) == nil {
		NoteMessage(q, n, head, true)
	}
}

// noteLen is how much of a message a note is about.
const noteLen = 128

// CreateQP makes a queue pair in state Reset.
func (p *PD) CreateQP(cfg QPConfig) (*QP, error) {
	d := p.dev
	if err := cfg.check(p); err != nil {
		return nil, fmt.Errorf("create QP: %w", err)
	}
	o, err := d.add(kindQP, &p.object)
	if err != nil {
		return nil, err
	}
	qp := &QP{object: o, pd: p, cfg: cfg, access: remoteAccess, Context: cfg.Context}
	qp.rateLimit.q, qp.service.q = qp, qp
	if err = d.fabric.number(qp); err == nil {
		if qp.cid, err = d.conns.CreateQP(qp); err != nil {
			d.fabric.forget(qp)
		}
	}
	if err != nil {
		qp.unmade()
		return nil, fmt.Errorf("create QP: %w", err)
	}
	qp.sq.limit, qp.rq.limit = cfg.MaxSend, cfg.MaxRecv
	qp.endpoint = d.transport.NewEndpoint(qp)
	p.qps++
	cfg.hold(1)
	d.qps.Add(qp.num, qp)
	return qp, nil
}

// check fills in defaults and refuses what the device cannot give.
func (c *QPConfig) check(p *PD) error {
	l := &p.dev.limits
	for _, f := range []struct {
		name           string
		v              *int
		def, min, most int
	}{
		{"max send", &c.MaxSend, 16, 1, l.MaxQPWR}, {"max recv", &c.MaxRecv, 16, 1, l.MaxQPWR},
		{"max SGE", &c.MaxSGE, 1, 1, l.MaxSGE}, {"max inline", &c.MaxInline, 0, 0, l.MaxInline},
	} {
		if *f.v = cmp.Or(*f.v, f.def); *f.v < f.min || *f.v > f.most {
			return fmt.Errorf("%s %d, allowed are %d..%d: %w", f.name, *f.v, f.min, f.most, ErrInvalid)
		}
	}
	switch {
	case p.dead:
		return fmt.Errorf("PD %d: %w", p.num, ErrDestroyed)
	case c.Type == qpattr.XRCTarget:
		return c.checkType(p.dev)
	case c.SendCQ == nil || c.RecvCQ == nil:
		return fmt.Errorf("send and receive CQ are needed: %w", ErrInvalid)
	case c.SendCQ.dead || c.RecvCQ.dead:
		return fmt.Errorf("CQ: %w", ErrDestroyed)
	case c.SendCQ.dev != p.dev || c.RecvCQ.dev != p.dev:
		return fmt.Errorf("CQ of another device: %w", ErrInvalid)
	case c.SendCQ.ctx != p.ctx || c.RecvCQ.ctx != p.ctx:
		return fmt.Errorf("CQ of another context: %w", ErrInvalid) // RFC 5040 section 8.1.1
	case c.SRQ != nil && (c.SRQ.dead || c.SRQ.pd.dev != p.dev):
		return fmt.Errorf("SRQ destroyed or of another device: %w", ErrInvalid)
	}
	return c.checkType(p.dev)
}

// hold counts, or with -1 no longer counts, the queue pair at what it uses.
func (c *QPConfig) hold(n int) {
	if c.SendCQ != nil {
		c.SendCQ.refs += n
	}
	if c.RecvCQ != nil {
		c.RecvCQ.refs += n
	}
	if c.SRQ != nil {
		c.SRQ.refs += n
	}
	if c.XRCD != nil {
		c.XRCD.refs += n
	}
}

// State returns the queue pair's state.
func (q *QP) State() State { return q.state }

// PD returns the protection domain.
func (q *QP) PD() *PD { return q.pd }

// Device returns the device.
func (q *QP) Device() *Device { return q.dev }

// Endpoint is the transport's side of the queue pair.
func (q *QP) Endpoint() Endpoint { return q.endpoint }

// Config returns what the queue pair was created with, defaults filled in.
func (q *QP) Config() QPConfig { return q.cfg }

// QPAttr is what QP.Query tells.
type QPAttr struct {
	State        State
	Access       Access
	MaxSend      int
	MaxRecv      int // 0 with an SRQ
	MaxSGE       int
	MaxInline    int
	SendsPending int // posted and not completed
	RecvsPending int
	RateLimit    uint32 // kb/s; 0: none
}

// Query returns the queue pair's attributes. Its state is that of its context, as
// far as the firmware tells.
func (q *QP) Query() QPAttr {
	state, err := q.dev.conns.QueryQP(q)
	if err != nil {
		state = q.state
	}
	a := QPAttr{
		State: state, Access: q.access, MaxSend: q.sq.limit, MaxRecv: q.rq.limit,
		MaxSGE: q.cfg.MaxSGE, MaxInline: q.cfg.MaxInline,
		SendsPending: q.SendsPending(), RecvsPending: q.RecvsPending(), RateLimit: q.RateLimit(),
	}
	if q.cfg.SRQ != nil {
		a.MaxRecv = 0
	}
	return a
}

// SetAccess limits what the peer may do through the queue pair, whatever the
// rights of a region: RemoteRead, RemoteWrite, RemoteAtomic. All are allowed
// at first.
func (q *QP) SetAccess(a Access) error {
	switch {
	case q.dead:
		return fmt.Errorf("modify QP %d: %w", q.num, ErrDestroyed)
	case a&^remoteAccess != 0:
		return fmt.Errorf("modify QP %d: access %v, not remote: %w", q.num, a, ErrInvalid)
	}
	q.access = a
	return nil
}

// Modify moves the queue pair on its owner's behalf: Reset to Init before it
// is connected, RTS to SQD to close it gracefully (queued sends are finished
// first), Err or Reset to abort. RTR and RTS are reached only through the
// connection manager, unless the transport is a Fabric: see ModifyAttr.
func (q *QP) Modify(to State) error {
	if q.dead {
		return fmt.Errorf("modify QP %d: %w", q.num, ErrDestroyed)
	}
	if q.dev.fabric != nil {
		return q.modifyFabric(to)
	}
	if to < numStates && ownerStays[q.state]&(1<<to) != 0 {
		return nil
	}
	if to >= numStates || ownerMoves[q.state]&(1<<to) == 0 {
		return fmt.Errorf("modify QP %d: %v to %v: %w", q.num, q.state, to, ErrState)
	}
	if q.state > Init || to != Init && to != Reset {
		modify(q, to)
	}
	q.move(to)
	return nil
}

// fail moves the queue pair to Err, from any state that allows it, as the hardware
// does.
func (q *QP) fail() {
	abort(q)
	q.dev.Async(AsyncEvent{Type: EventQPFatal, QP: q, Err: ErrQueueFull})
}

// failHalted ends a queue pair of which a request failed on this side.
func (q *QP) failHalted(frame.Time) {
	if q.sq.halted {
		abort(q)
	}
}

// abort moves the queue pair to Err, whatever it is doing.
func abort(q *QP) {
	if !q.dead && ownerMoves[q.state]&(1<<Err) != 0 {
		q.move(Err)
		q.dev.conns.MovedQP(q)
	}
}

// move changes the state, tells the transport, then flushes.
func (q *QP) move(to State) {
	old := q.state
	q.state = to
	if old != to {
		q.endpoint.Modified(old)
	}
	if to == Err || to == Reset {
		q.Flush()
		q.sq.halted, q.sq.failed = false, false
	}
}

// Transition moves the queue pair on the transport's behalf. Entering Err
// flushes; entering SQE with a Fabric flushes the send queue. It reports whether the state allowed it.
func (q *QP) Transition(to State) bool {
	if q.dead || transportMoves[q.state]&(1<<to) == 0 {
		return false
	}
	q.state = to
	q.dev.conns.MovedQP(q)
	switch {
	case to == Err:
		q.Flush()
	case to == SQE && q.dev.fabric != nil:
		q.flushSends()
	}
	return true
}

// Destroy frees the queue pair; its connection, if any, is aborted and its
// completions are removed from the CQs.
func (q *QP) Destroy() error {
	if err := q.mayDestroy(); err != nil {
		return err
	}
	q.dev.conns.DestroyQP(q)
	q.cid = NoCID
	q.endpoint.Destroyed()
	for seq := q.sq.head; seq != q.sq.tail; seq++ {
		q.sq.at(seq).EndLoan()
	}
	q.state = Reset
	q.dev.fabric.forget(q)
	for _, cq := range []*CQ{q.cfg.SendCQ, q.cfg.RecvCQ} {
		if cq != nil {
			cq.purge(q)
		}
	}
	for w := range q.windows.All {
		w.unbind()
	}
	q.pd.qps--
	q.cfg.hold(-1)
	q.gone()
	q.dev.qps.Remove(q.num)
	q.dev.gone[0] += q.sq.tail
	q.dev.gone[1] += q.rq.tail
	return nil
}

// Flush completes every work request that is not finished with
// StatusFlushed, sends in order, then receives in order (RFC 5040 section
// 5.5; the receives of an SRQ stay).
func (q *QP) Flush() {
	q.flushSends()
	if q.rq.srqTaken {
		q.rq.srqTaken = false
		q.flushRecv(&q.rq.fromSRQ)
	}
	q.flushRecvs()
	q.awaitErrFlush()
	if q.cfg.SRQ != nil && q.state == Err {
		q.dev.Async(AsyncEvent{Type: EventLastWQE, QP: q})
	}
}

func (q *QP) flushRecv(r *RecvWQE) {
	q.recvCQ().push(WC{ID: r.ID, QP: q, Status: StatusFlushed, Opcode: WCRecv})
}
