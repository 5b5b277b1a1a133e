package scsi

import (
	"encoding/binary"

	"tapir/lab/tool/inspect/clause"
	"tapir/lab/tool/inspect/message"
	"tapir/wire/iscsi"
)

// iser is what a connection has in iSER.
type iser struct {
	hello   bool // a Hello was sent
	replied bool
	ird     uint16  // of the Hello
	reads   []*task // of RDMA Reads without an answer, in order; nil: of none that is known
}

// NewISER judges a connection of iSER, whose initiator is a side, from its first message on
// (RFC 7145).
func NewISER(to Reporter, initiator int) *Conn {
	c := New(to, initiator, false)
	c.iser, c.keys.iser = &iser{}, true
	return c
}

// BeginsISER tells whether b, the first message of a connection, may begin a login in iSER.
func BeginsISER(b []byte) bool {
	return len(b) >= iscsi.ISERLen && (b[0]>>4 == byte(iscsi.ISERHello) && b[1] == iserVersions ||
		b[0]>>4 == byte(iscsi.ISERControl) && Begins(b[iscsi.ISERLen:]))
}

// iserVersions are the versions of a Hello: 10 and 10.
const iserVersions = 0xaa

// Message judges a message of iSER.
func (c *Conn) Message(m *message.Message) {
	p := &pdu{side: m.Side, packet: m.Packet, end: m.Packet}
	if !c.late && !c.to.Seen(1-m.Side) {
		c.vague(m.Packet, missingPackets)
	}
	switch m.Kind {
	case message.Send, message.SendInvalidate:
		c.send(p, m)
	case message.Answer:
		if r := c.iser.reads; m.Side == c.initiator && len(r) > 0 {
			if c.iser.reads = r[1:]; r[0] != nil {
				c.fetched(r[0])
			}
		}
	default:
		c.move(p, m)
	}
}

// send judges a Send: an iSER header, and mostly a PDU.
func (c *Conn) send(p *pdu, m *message.Message) {
	b := m.Data
	switch {
	case m.Octets < iscsi.ISERLen:
		c.bad(p, iserShort, "%d octets", m.Octets)
		return
	case b == nil:
		c.vague(p.packet, "the capture has cut messages of iSER off")
		return
	}
	switch iscsi.ISERKind(b[0] >> 4) {
	case iscsi.ISERHello, iscsi.ISERHelloReply:
		c.greeting(p, b)
		return
	case iscsi.ISERControl:
	default:
		c.bad(p, iserOpcode, "%d", b[0]>>4)
		return
	}
	msg, err := iscsi.ParseISER(b)
	if err != nil {
		c.bad(p, iserShort, "%d octets", len(b))
		return
	}
	p.BHS, p.text, p.advert = msg.BHS, msg.Data, msg.Advert
	head := iscsi.ISERLen + iscsi.HeaderLen
	p.ahs = b[head : head+4*int(p.BHS[4])]
	head += len(p.ahs) + len(p.text)
	if !zero(b[head:]) {
		c.bad(p, pduPad, "")
	}
	if b[0]&3 != 0 || !zero(b[1:4]) || !msg.Advert.Write && !zero(b[4:16]) ||
		!msg.Advert.Read && !zero(b[16:iscsi.ISERLen]) {
		c.bad(p, iserZero, "%x", b[:iscsi.ISERLen])
	}
	if op := p.Opcode(); op == iscsi.DataIn || op == iscsi.R2T ||
		op == iscsi.DataOut && p.U32(iscsi.TTT) != iscsi.Unassigned {
		c.bad(p, iserData, "%v", op)
		return
	}
	c.answer7145(p, m)
	c.take(p)
	c.advertise(p)
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// greeting judges a Hello or its reply.
func (c *Conn) greeting(p *pdu, b []byte) {
	s := c.iser
	n := binary.BigEndian.Uint16(b[2:])
	target := p.side != c.initiator
	reply := iscsi.ISERKind(b[0]>>4) == iscsi.ISERHelloReply
	name := "iSER Hello"
	if reply {
		name = "iSER HelloReply"
	}
	c.to.PDU(p.side, p.packet, name, "", 0)
	flags := byte(0x0f)
	if reply {
		flags = 0x0e // REJ is the lowest
	}
	if b[1] != iserVersions || b[0]&flags != 0 || !zero(b[4:iscsi.ISERLen]) || len(b) > iscsi.ISERLen {
		c.bad(p, iserVersion, "%x, %d octets", b[:iscsi.ISERLen], len(b))
	}
	switch {
	case reply != target, !reply && s.hello, reply && (s.replied || !s.hello && c.seen(p)):
		c.bad(p, iserHello, "%s", name)
	case reply && s.hello && n > s.ird:
		c.bad(p, iserORD, "%d exceeds %d", n, s.ird)
	}
	if reply {
		s.replied = true
	} else {
		s.hello, s.ird = true, n
	}
}

// advertise judges the memory that a PDU tells the target of.
func (c *Conn) advertise(p *pdu) {
	a := &p.advert
	t := c.tasks[p.U32(iscsi.ITT)]
	switch p.Opcode() {
	case iscsi.TaskRequest: // TASK REASSIGN, which nothing here follows
		return
	case iscsi.Command:
	default:
		if a.Read || a.Write {
			c.bad(p, iserAdvert, "%v", p.Opcode())
		}
		return
	}
	if t == nil || t.packet != p.packet || t.bhs != p.BHS {
		return
	}
	t.advert = *a
	rest := t.expect > uint32(p.DataLen())
	switch {
	case a.Read && !t.read || a.Write && !t.write:
		c.bad(p, iserAdvert, "%s", a.Describe(p.Append(nil)))
	case t.read && !t.both && t.expect > 0 && !a.Read, t.write && rest && p.BHS[1]&iscsi.Final != 0 && !a.Write:
		c.bad(p, iserNoSTag, "%s", p.Append(nil))
	}
}

// answer7145 judges what the header of a Send invalidates, and whether the data of the command
// that it ends has come.
func (c *Conn) answer7145(p *pdu, m *message.Message) {
	t := c.tasks[p.U32(iscsi.ITT)]
	inv := m.Kind == message.SendInvalidate
	if p.Opcode() != iscsi.Response || t == nil {
		if inv && c.seen(p) && (p.Opcode() != iscsi.Response || p.side == c.initiator) {
			c.bad(p, iserInv, "STag %#x in %v", m.Key, p.Opcode())
		}
		return
	}
	a := &t.advert
	if inv && !(a.Read && a.ReadSTag == m.Key || a.Write && a.WriteSTag == m.Key && !a.Read) {
		c.cross(p, iserInv, "STag %#x, of the command in packet %d", m.Key, t.packet)
	}
	if t.busy > 0 && p.BHS[2] == 0 && p.BHS[3] == 0 {
		t.early = p
	}
}

// fetched takes the answer to an RDMA Read of a task. If the task has ended before, no answer was
// lost: it came too late.
func (c *Conn) fetched(t *task) {
	if t.busy--; t.early != nil {
		c.cross(t.early, iserEarly, "the command in packet %d", t.packet)
		t.early = nil
	}
}

// move judges an RDMA Write or Read: RFC 7145 sections 7.3.5 and 7.3.6.
func (c *Conn) move(p *pdu, m *message.Message) {
	read := m.Kind == message.Read
	var t *task
	defer func() {
		if read && p.side != c.initiator {
			c.iser.reads = append(c.iser.reads, t)
		}
	}()
	switch {
	case m.Octets == 0: // it asks whether the peer is there
		return
	case p.side == c.initiator:
		c.bad(p, iserDriver, "%d octets of STag %#x", m.Octets, m.Key)
		return
	}
	within := false
	for _, x := range c.tasks {
		a := &x.advert
		base, has := a.ReadBase, a.Read && a.ReadSTag == m.Key
		if read {
			base, has = a.WriteBase, a.Write && a.WriteSTag == m.Key
		}
		fits := has && m.Within(base, uint64(x.expect))
		if has && (t == nil || fits && (!within || x.packet < t.packet)) {
			t, within = x, fits
		}
	}
	rule := map[bool]*clause.Rule{false: iserSink, true: iserSource}[read]
	switch {
	case t == nil:
		c.cross(p, rule, "%d octets of STag %#x", m.Octets, m.Key)
	case !within:
		c.cross(p, iserRange, "%d octets of STag %#x at %#x; the command in packet %d is about %d", m.Octets, m.Key,
			m.Addr, t.packet, t.expect)
	case read:
		t.got += uint32(m.Octets)
		t.busy++
	default:
		t.in += uint32(m.Octets)
	}
}
