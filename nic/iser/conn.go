package iser

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"tapir/nic/cm"
	"tapir/nic/iscsi"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	wire "tapir/wire/iscsi"
)

// Sizes of a connection.
const (
	messageLen = wire.ISERLen + wire.HeaderLen + wire.MaxAHS + iscsi.ControlData
	receives   = iscsi.Outstanding
	slots      = 32
	maxPosted  = 512
	maxWaiting = 4096
	inline     = 256 // octets of a message that needs no slot
)

// Handler is whom a connection is for. All calls come from handlers of the device.
type Handler interface {
	// Established says that PDUs can be sent.
	Established(c *Conn, now frame.Time)
	// Control takes a PDU, borrowed.
	Control(m *wire.Message, now frame.Time)
	// Hello takes a Hello of an initiator; ok: it is to be answered.
	Hello() (ok bool)
	// Malformed says that the peer has sent what is no message of iSER: Abort is due.
	Malformed()
	// PeerClosed says that the peer, or the network, has begun to end the connection.
	PeerClosed(err error, now frame.Time)
	// Closed says that nothing is left of the connection; it is the last call. err is nil if the
	// end was orderly.
	Closed(err error, now frame.Time)
}

// Conn is a connection in iSER. It implements iscsi.RDMA.
type Conn struct {
	port *port
	h    Handler
	id   *cm.ID
	qp   *verbs.QP
	cq   *verbs.CQ
	mem  []byte // of receives, then slots
	mr   *verbs.MR
	free []int // slots
	// invalidates says that the peer understands Send with Invalidate.
	invalidates bool
	up          bool // work may be posted
	closing     bool // it ends when all is sent
	err         error

	ops     [maxPosted]op // posted, from done on, by number modulo their count
	next    uint64        // number of the next one to be posted
	done    uint64
	waiting []op
	scratch []byte
	idle    []*verbs.MR // for requests of an initiator
	wcs     [32]verbs.WC
	// What is being posted or taken.
	received wire.Message
	sge      [1]verbs.SGE
	recv     [1]verbs.RecvWR
	send     [1]verbs.SendWR
}

// op is one work request for the send queue.
type op struct {
	kind       verbs.Opcode
	message    []byte // of a Send that waits
	slot       int    // of one that was posted; -1: none
	invalidate uint32
	transfer   iscsi.Transfer // of Reads and Writes
}

var _ iscsi.RDMA = (*Conn)(nil)

// describe says in captures what a Send is.
func describe(b, message []byte, _ bool) []byte { return wire.DescribeISER(b, message) }

// newConn makes the queue pair, and posts receives.
func (p *port) newConn(h Handler) (c *Conn, err error) {
	c = &Conn{port: p, h: h, mem: make([]byte, (receives+slots)*messageLen)}
	for i := range slots {
		c.free = append(c.free, receives+i)
	}
	if c.mr, err = p.pd.RegMR(c.mem, verbs.LocalWrite); err != nil {
		return nil, err
	}
	if c.cq, err = p.ctx.CreateCQ(receives+2*maxPosted, 0, c.completed); err == nil {
		c.qp, err = p.pd.CreateQP(verbs.QPConfig{SendCQ: c.cq, RecvCQ: c.cq, MaxSend: maxPosted,
			MaxRecv: receives, MaxInline: inline, Context: c, Describe: describe})
	}
	if err == nil {
		err = c.qp.Modify(verbs.Init)
	}
	for i := 0; err == nil && i < receives; i++ {
		err = c.receive(i)
	}
	if err != nil {
		p.ctx.Device().Defer(func(frame.Time) { c.destroy() })
		return nil, err
	}
	c.cq.ReqNotify(false)
	p.conns = append(p.conns, c)
	return c, nil
}

// Local and Remote are the addresses.
func (c *Conn) Local() netip.AddrPort  { return c.id.Local() }
func (c *Conn) Remote() netip.AddrPort { return c.id.Remote() }

// slot is the memory of a receive or of a slot.
func (c *Conn) slot(i int) []byte { return c.mem[i*messageLen : (i+1)*messageLen] }

// part is the beginning of a slot.
func (c *Conn) part(i, n int) verbs.SGE {
	return verbs.SGE{Addr: c.mr.Addr() + uint64(i*messageLen), Length: uint32(n), LKey: c.mr.LKey()}
}

// receive posts a receive.
func (c *Conn) receive(i int) error {
	c.sge[0] = c.part(i, messageLen)
	c.recv[0] = verbs.RecvWR{ID: uint64(i), SGEs: c.sge[:]}
	_, err := c.qp.PostRecv(c.recv[:]...)
	return err
}

// private is the private data of this side.
func private() []byte { return []byte{wire.ISERNoZBVA, 0, 0, 0} }

// peer reads the peer's private data. A peer that says nothing, or whose transport fills up with
// zeros, understands the least.
func (c *Conn) peer(private []byte) {
	c.invalidates = len(private) >= 4 && private[0] == wire.ISERNoZBVA
}

// event takes what becomes of the connection.
func (c *Conn) event(ev cm.Event, now frame.Time) {
	switch ev.Type {
	case cm.ActiveComplete:
		c.peer(ev.PrivateData)
		c.begin(now)
	case cm.PassiveComplete:
		c.begin(now)
	case cm.Disconnected:
		c.up = false
		c.fail(ev.Err)
		c.h.PeerClosed(ev.Err, now)
	case cm.ClosedEvent:
		c.up = false
		c.fail(ev.Err)
		c.port.ctx.Device().Defer(c.bury)
	case cm.Rejected, cm.Refused, cm.TimedOut, cm.Unreachable, cm.Failed:
		c.fail(ev.Err)
	}
}

func (c *Conn) begin(now frame.Time) {
	c.up = true
	c.h.Established(c, now)
	c.flush(now)
}

// fail notes why the connection ends; the first cause counts.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// completed takes completions until there are none.
func (c *Conn) completed(_ *verbs.CQ, now frame.Time) {
	for more := true; more; more = c.cq.ReqNotify(false) {
		c.poll(now)
	}
}

func (c *Conn) poll(now frame.Time) {
	for n := c.cq.Poll(c.wcs[:]); n > 0; n = c.cq.Poll(c.wcs[:]) {
		for _, wc := range c.wcs[:n] {
			switch {
			case wc.Status != verbs.StatusSuccess:
				if c.up && wc.Status != verbs.StatusFlushed {
					c.fail(fmt.Errorf("iser: %v: %v", wc.Opcode, wc.Status))
					c.abort(now)
				}
			case wc.Opcode == verbs.WCRecv:
				c.message(int(wc.ID), int(wc.ByteLen), now)
			default:
				c.sent(wc.ID, now)
			}
		}
	}
}

// message takes what a receive has brought.
func (c *Conn) message(i, n int, now frame.Time) {
	var err error
	m := &c.received
	*m, err = wire.ParseISER(c.slot(i)[:n])
	switch {
	case !c.up:
		return
	case err != nil || m.Kind == wire.ISERHelloReply:
		c.fail(wire.ErrISER)
		c.h.Malformed()
	case m.Kind == wire.ISERHello:
		if c.h.Hello() {
			c.put(wire.AppendHelloReply(c.scratch[:0], c.id.ORD()), 0)
		}
	default:
		c.h.Control(m, now)
	}
	if c.qp.State() != verbs.Err && c.receive(i) != nil {
		c.abort(now)
	}
}

// sent takes the end of all work up to a number.
func (c *Conn) sent(number uint64, now frame.Time) {
	for c.done <= number {
		o := &c.ops[c.done%maxPosted]
		c.done++
		c.finish(o, true, now)
	}
	c.flush(now)
}

// finish lets go of what a work request has used.
func (c *Conn) finish(o *op, ok bool, now frame.Time) {
	switch {
	case o.transfer.Buffer != nil:
		x := o.transfer
		o.transfer = iscsi.Transfer{}
		x.Done(ok, now)
	case o.slot >= 0:
		c.free = append(c.free, o.slot)
		o.slot = -1
	}
}

// flush posts what waits, as far as there is room, and then closes if that is due.
func (c *Conn) flush(now frame.Time) {
	n := 0
	for n < len(c.waiting) && c.room(len(c.waiting[n].message)) {
		o := c.waiting[n]
		n++
		c.post(o, o.message)
	}
	c.waiting = slices.Delete(c.waiting, 0, n)
	if c.closing && c.up && len(c.waiting) == 0 && c.done == c.next {
		_ = c.id.Disconnect(false, now) // one that is ending already stays so
	}
}

// room tells whether a work request with a message of n octets can be posted.
func (c *Conn) room(n int) bool {
	return c.up && c.next-c.done < maxPosted && (n <= inline || len(c.free) > 0)
}

// post posts a work request, for which there is room.
func (c *Conn) post(o op, message []byte) {
	wr := &c.send[0]
	*wr = verbs.SendWR{ID: c.next, Opcode: o.kind, Flags: verbs.Signaled}
	o.slot, o.message = -1, nil
	switch x := &o.transfer; {
	case x.Buffer != nil:
		mr, err := c.port.region(x.Buffer)
		if err != nil {
			c.fail(err)
			c.up = false
			c.port.ctx.Device().Defer(c.abort)
		} else {
			c.sge[0] = verbs.SGE{Addr: mr.Addr() + uint64(x.Off), Length: uint32(x.Len), LKey: mr.LKey()}
		}
		wr.SGEs, wr.RemoteAddr, wr.RKey = c.sge[:], x.Addr, x.STag
		if o.kind == verbs.OpWrite { // a Send follows
			wr.Flags = 0
		}
	case len(message) <= inline:
		wr.Flags |= verbs.Inline
		wr.Inline = message
	default:
		k := len(c.free) - 1
		o.slot, c.free = c.free[k], c.free[:k]
		c.sge[0] = c.part(o.slot, copy(c.slot(o.slot), message))
		wr.SGEs = c.sge[:]
	}
	if o.invalidate != 0 {
		wr.Opcode, wr.Invalidate = verbs.OpSendInv, o.invalidate
	}
	c.ops[c.next%maxPosted] = o
	c.next++
	if !c.up {
		return
	}
	if _, err := c.qp.PostSend(c.send[:]...); err != nil {
		c.fail(err)
		c.up = false
		c.port.ctx.Device().Defer(c.abort)
	}
}

// queue posts a work request, or has it wait.
func (c *Conn) queue(o op, message []byte) bool {
	if len(c.waiting) == 0 && c.room(len(message)) {
		c.post(o, message)
		return true
	}
	o.message = slices.Clone(message)
	c.waiting = append(c.waiting, o)
	return len(c.waiting) <= maxWaiting
}

// put sends a message.
func (c *Conn) put(message []byte, invalidate uint32) bool {
	c.scratch = message
	return c.queue(op{kind: verbs.OpSend, invalidate: invalidate}, message)
}

// Send implements iscsi.RDMA.
func (c *Conn) Send(m *iscsi.Outgoing) bool {
	if !c.invalidates {
		m.Invalidate = 0
	}
	if len(m.Data) > iscsi.ControlData {
		return false
	}
	return c.put(wire.AppendISER(c.scratch[:0], &m.Advert, m.BHS, m.Data), m.Invalidate)
}

// Write implements iscsi.RDMA.
func (c *Conn) Write(x iscsi.Transfer) { c.queue(op{kind: verbs.OpWrite, transfer: x}, nil) }

// Read implements iscsi.RDMA.
func (c *Conn) Read(x iscsi.Transfer) { c.queue(op{kind: verbs.OpRead, transfer: x}, nil) }

// Probe has a RoCE peer acknowledge an RDMA Write of no octets, unless it has something else to acknowledge: a
// peer that is gone ends the connection. With iWARP, TCP's keep-alive does that.
func (c *Conn) Probe() {
	if c.up && !c.closing && c.done == c.next && c.port.ctx.Device().Identity().Personality == verbs.RoCE {
		c.post(op{kind: verbs.OpWrite}, nil)
	}
}

// Kick implements iscsi.Link; what is queued is sent.
func (c *Conn) Kick() {}

// CloseBoth implements iscsi.Link: an orderly end when all is sent.
func (c *Conn) CloseBoth() {
	c.closing = true
	c.port.ctx.Device().Defer(c.flush)
}

// Abort implements iscsi.Link.
func (c *Conn) Abort() { c.port.ctx.Device().Defer(c.abort) }

// abort ends the connection now. Nothing is left of it when the handlers of this moment have run: the
// peer's answer to the end may take long.
func (c *Conn) abort(now frame.Time) {
	c.up = false
	if c.id.State() != cm.Idle {
		_ = c.id.Disconnect(true, now) // one that is closing already stays so
	}
	c.port.ctx.Device().Defer(c.bury)
}

// bury ends what is left: outside of handlers.
func (c *Conn) bury(now frame.Time) {
	i := slices.Index(c.port.conns, c)
	if i < 0 {
		return
	}
	c.up = false
	if c.qp.State() != verbs.Err {
		_ = c.qp.Modify(verbs.Err) // its work has to be flushed; there is no other way out
	}
	c.poll(now)
	for ; c.done < c.next; c.done++ {
		c.finish(&c.ops[c.done%maxPosted], false, now)
	}
	for k := range c.waiting {
		c.waiting[k].slot = -1
		c.finish(&c.waiting[k], false, now)
	}
	c.waiting = nil
	c.destroy()
	id, dev := c.id, c.port.ctx.Device()
	if id.Destroy() != nil { // it is to be closed
		id.SetHandler(func(ev cm.Event, _ frame.Time) {
			if ev.Type == cm.ClosedEvent {
				dev.Defer(func(frame.Time) { _ = id.Destroy() })
			}
		})
	}
	c.port.conns = slices.Delete(c.port.conns, i, i+1)
	c.h.Closed(c.err, now)
	c.port.letGo()
}

// destroy gives the objects back. Those that cannot go now do so with the context.
func (c *Conn) destroy() {
	if c.qp != nil {
		_ = c.qp.Destroy()
	}
	if c.cq != nil {
		_ = c.cq.Destroy()
	}
	for _, mr := range append(c.idle, c.mr) {
		_ = mr.Dereg()
	}
}

// written and fetched are the rights of a target to memory that is advertised.
var (
	written = verbs.LocalWrite | verbs.RemoteWrite
	fetched = verbs.RemoteRead
)

// Advertise implements iscsi.RDMA.
func (c *Conn) Advertise(r *iscsi.Request, out []byte) (a wire.Advert, err error) {
	mem, access := verbs.Bytes(r.In), &written
	if len(r.In) == 0 {
		mem, access = verbs.Bytes(out), &fetched
	}
	var mr *verbs.MR
	if k := len(c.idle) - 1; k >= 0 {
		mr, c.idle = c.idle[k], c.idle[:k]
		err = mr.Rereg(verbs.Rereg{Memory: mem, IOVA: mr.Addr(), Access: access})
	} else {
		mr, err = c.port.pd.RegMR(mem, *access)
	}
	if err != nil {
		return a, errors.Join(errors.New("iser: memory cannot be registered"), err)
	}
	r.Region = mr
	if len(r.In) > 0 {
		return wire.Advert{Read: true, ReadSTag: mr.RKey(), ReadBase: mr.Addr()}, nil
	}
	return wire.Advert{Write: true, WriteSTag: mr.RKey(), WriteBase: mr.Addr()}, nil
}

// Withdraw implements iscsi.RDMA: what the target has not invalidated, this side does (RFC 7145
// section 8.3.2).
func (c *Conn) Withdraw(r *iscsi.Request) {
	mr, ok := r.Region.(*verbs.MR)
	if !ok {
		return
	}
	r.Region = nil
	_ = mr.Invalidate() // it has no windows
	c.idle = append(c.idle, mr)
}
