package iscsi

import (
	"slices"

	"tapir/nic/iscsi/keys"
	"tapir/nic/scsi"
	"tapir/wire/frame"
	"tapir/wire/iscsi"
)

// RDMA is a Link that carries iSER (RFC 7145): control-type PDUs as messages, the data of commands
// by RDMA Write and Read of the target. Peers with receives for the PDUs that they may get are
// what bounds them; the Link knows how many it may have outstanding.
type RDMA interface {
	Link
	// Send sends a PDU behind all that was asked for before. It copies data. ok is false if too
	// many PDUs wait.
	Send(m *Outgoing) (ok bool)
	// Write copies memory of the target to the initiator's, Read the other way. Done of t is
	// called once, when the memory is not used any more.
	Write(t Transfer)
	Read(t Transfer)
	// Advertise makes r.In, or that of r.Out from an offset on, accessible to the target until
	// Withdraw.
	Advertise(r *Request, out []byte) (iscsi.Advert, error)
	Withdraw(r *Request)
}

// Outgoing is a PDU to be sent in iSER.
type Outgoing struct {
	BHS        *iscsi.BHS
	Data       []byte
	Advert     iscsi.Advert
	Invalidate uint32 // an STag of the peer's that is of no use any more; 0: none
}

// Transfer is a part of a target's buffer that moves by RDMA.
type Transfer struct {
	Buffer   *Buffer
	Off, Len int    // octets of the buffer
	STag     uint32 // of the initiator's memory, and the address in it
	Addr     uint64

	c        *Conn
	itt, tag uint32
	reads    bool
}

// Done says that the transfer has ended; ok: all of it has moved.
func (x *Transfer) Done(ok bool, now frame.Time) {
	c := x.c
	t := c.tasks[x.itt]
	c.t.pool.drop(x.Buffer)
	if !x.reads || t == nil || t.tag != x.tag || !t.asked {
		return
	}
	if t.busy, t.asked = false, false; t.gone || !ok {
		t.gone = true
		t.end()
		return
	}
	c.heard = now
	c.t.stats[OctetsWritten] += uint64(x.Len)
	t.next += x.Len
	t.advance()
}

// rdma is a mover in iSER.
type rdma struct {
	*Conn
	by RDMA
}

// send sends a PDU. That with the good end of a task invalidates the memory that the initiator has
// advertised, if it has only one (RFC 7145 section 7.3.2).
func (c rdma) send(h *iscsi.BHS, data []byte, t *task) bool {
	m := &c.outgoing
	*m = Outgoing{BHS: h, Data: data}
	if t != nil && t.cmd.Status == scsi.Good && t.advert.Read != t.advert.Write {
		m.Invalidate = t.advert.ReadSTag | t.advert.WriteSTag
	}
	return c.by.Send(m)
}

// ask fetches data by RDMA Read. Until it is there, the task cannot end: when an initiator hears
// of the end it takes its memory back (RFC 7145 section 7.3.3).
func (c rdma) ask(t *task, n int) {
	if !t.advert.Write {
		c.breach()
		return
	}
	addr := t.advert.WriteBase + uint64(t.next)
	if c.par.Tagged { // the memory has what is asked for alone
		addr -= uint64(t.unsolicited)
	}
	t.busy = true
	t.buf.users++
	c.by.Read(Transfer{Buffer: t.buf, Off: t.next, Len: n, STag: t.advert.WriteSTag, Addr: addr, c: c.Conn,
		itt: t.bhs.U32(iscsi.ITT), tag: t.tag, reads: true})
}

// dataIn puts data in its place by RDMA Write; the response follows.
func (c rdma) dataIn(t *task, data []byte, flags byte, residual int) {
	t.buf.users++
	c.by.Write(Transfer{Buffer: t.buf, Len: len(data), STag: t.advert.ReadSTag, Addr: t.advert.ReadBase, c: c.Conn})
	t.sent++
	t.status(flags, residual)
}

// breach ends a connection whose peer breaks the rules of iSER (RFC 7145 section 10.1.3.4).
func (c *Conn) breach() {
	c.t.stats[BadISER]++
	c.abort()
}

// Control takes a control-type PDU in iSER; data is borrowed.
func (c *Conn) Control(m *iscsi.Message, now frame.Time) {
	if c.phase == ended || c.closing {
		return
	}
	if c.phase == fullFeature {
		c.heard, c.pinged = now, false
		c.retire(&m.BHS)
		if c.par.Hello && !c.greeted {
			c.breach()
			return
		}
	}
	c.placing = nil
	if c.phase == fullFeature && m.BHS.Opcode() == iscsi.DataOut {
		copy(c.place(&m.BHS), m.Data)
	}
	c.advert = m.Advert
	c.pdu(&m.BHS, m.Data)
}

// Hello takes a Hello; ok is false if it has not been asked for, or has come before.
func (c *Conn) Hello() (ok bool) {
	if ok = c.phase == fullFeature && c.par.Hello && !c.greeted; !ok {
		c.breach()
	}
	c.greeted = true
	return ok
}

// Malformed hears of a message that cannot be understood.
func (c *Conn) Malformed() { c.breach() }

// intrusion is a PDU that the initiator does not expect, and has not retired: its StatSN, and its tag if it
// has one.
type intrusion struct{ statSN, tag uint32 }

// intrude tells whether a PDU that the initiator does not expect may be sent, and leave places free for
// others; then it is outstanding (RFC 7145 section 8.1.2).
func (c *Conn) intrude(tag uint32, free int) bool {
	if !c.iser || c.par.Unexpected == 0 || c.phase != fullFeature {
		return true
	}
	if len(c.intrusions)+free >= c.par.Unexpected {
		c.t.stats[Withheld]++
		return false
	}
	c.intrusions = append(c.intrusions, intrusion{c.statSN, tag})
	return true
}

// retire forgets what the initiator shows by a PDU that it has had.
func (c *Conn) retire(h *iscsi.BHS) {
	c.intrusions = slices.DeleteFunc(c.intrusions, func(x intrusion) bool {
		return iscsi.Less(x.statSN, h.U32(iscsi.ExpStatSN)) ||
			x.tag != 0 && h.Opcode() == iscsi.NopOut && h.U32(iscsi.TTT) == x.tag
	})
}

// Limits that both sides declare in iSER.
const (
	// ControlData is how many octets of data a control-type PDU has at most.
	ControlData = keys.ControlData
	// Outstanding is how many PDUs of an initiator may be under way at a time: commands with a
	// Data-Out each, and what a target does not expect.
	Outstanding = 2*window + keys.Unexpected
)

// message sends a PDU in iSER.
func (i *Initiator) message(m *Outgoing) {
	if !i.rdma.Send(m) {
		i.link.Abort()
	}
	i.link.Kick()
}

// Control takes a control-type PDU in iSER; data is borrowed.
func (i *Initiator) Control(m *iscsi.Message, now frame.Time) {
	if !i.over {
		i.pdu(&m.BHS, m.Data, now)
	}
}
