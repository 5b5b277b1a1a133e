package iwarp

import (
	"tapir/ddp"
	"tapir/rdmap"
)

// readWR is the WR id of the oldest Read, or rdmap.NoRef.
func (c *conn) readWR() uint64 {
	if ref := c.stream.ReadRef(); ref != rdmap.NoRef && c.qp != nil {
		if w := c.qp.SendWQE(ref); w != nil {
			return w.ID
		}
	}
	return rdmap.NoRef
}

// noteSent says in the capture what r is.
func (c *conn) noteSent(r *record) {
	if h, _, err := ddp.Parse(r.hdr[:]); err == nil {
		c.note(r.wr, &h, int(r.n))
	}
}

// noteReceived says in the capture what segment b is. Of the requests of
// this side it names the receive that a Send used up, or the Read that a
// response belongs to.
func (c *conn) noteReceived(b []byte) {
	h, payload, err := ddp.Parse(b)
	if err != nil {
		c.e.notes.Addf("QP %d segment shorter than its header", c.qpNum())
		return
	}
	wr := rdmap.NoRef
	switch op := rdmap.ParseControl(h.ULP).Opcode; {
	case op.IsSend():
		wr = c.recvID
	case op == rdmap.ReadResponse:
		wr = c.readID
	}
	c.note(wr, &h, len(payload))
}

func (c *conn) qpNum() uint32 {
	if c.qp == nil {
		return 0
	}
	return c.qp.Num()
}

func (c *conn) note(wr uint64, h *ddp.Header, n int) {
	last := ""
	if h.Last {
		last = " last"
	}
	notes, op := c.e.notes, rdmap.ParseControl(h.ULP).Opcode
	switch {
	case wr == rdmap.NoRef && h.Tagged:
		notes.Addf("QP %d %v STag %#08x TO %#x len %d%s", c.qpNum(), op, h.STag, h.TO, n, last)
	case wr == rdmap.NoRef:
		notes.Addf("QP %d %v MSN %d MO %d len %d%s", c.qpNum(), op, h.MSN, h.MO, n, last)
	case h.Tagged:
		notes.Addf("QP %d WR %d %v STag %#08x TO %#x len %d%s", c.qpNum(), wr, op, h.STag, h.TO, n, last)
	default:
		notes.Addf("QP %d WR %d %v MSN %d MO %d len %d%s", c.qpNum(), wr, op, h.MSN, h.MO, n, last)
	}
}
