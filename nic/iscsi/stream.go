package iscsi

import "tapir/wire/iscsi"

// mover is how the PDUs and the data of a connection's commands travel.
type mover interface {
	// send sends a PDU that ends t, or none if t is nil; ok is false if too many wait already.
	send(h *iscsi.BHS, data []byte, t *task) (ok bool)
	// dataIn sends data, part of the task's buffer, with the status.
	dataIn(t *task, data []byte, flags byte, residual int)
	// ask asks for n octets from t.next on. The task has a tag for them.
	ask(t *task, n int)
}

// stream is a mover on TCP.
type stream struct{ *Conn }

func (c stream) send(h *iscsi.BHS, data []byte, _ *task) bool {
	c.out.add(h, data, nil, c.par.Digests)
	return c.out.plain <= maxWaiting
}

// ask sends an R2T.
func (c stream) ask(t *task, n int) {
	var h iscsi.BHS
	h[0], h[1] = byte(iscsi.R2T), iscsi.Final
	copy(h[8:16], t.bhs[8:16])
	h.Put(iscsi.ITT, t.bhs.U32(iscsi.ITT))
	h.Put(iscsi.TTT, t.tag)
	h.Put(iscsi.R2TSN, t.sent)
	h.Put(iscsi.Offset, uint32(t.next))
	h.Put(iscsi.Desired, uint32(n))
	c.Conn.send(&h, nil, nil)
}

// dataIn sends Data-In; the last one has the status.
func (c stream) dataIn(t *task, data []byte, flags byte, residual int) {
	for off := 0; off < len(data); {
		n := min(c.par.Send, len(data)-off, c.par.Burst-off%c.par.Burst)
		var h iscsi.BHS
		h[0] = byte(iscsi.DataIn)
		copy(h[8:16], t.bhs[8:16])
		h.Put(iscsi.ITT, t.bhs.U32(iscsi.ITT))
		h.Put(iscsi.TTT, iscsi.Unassigned)
		last := off+n == len(data)
		if last || (off+n)%c.par.Burst == 0 {
			h[1] = iscsi.Final
		}
		c.number(&h)
		if last {
			h[1] |= iscsi.Status | flags
			h[3] = byte(t.cmd.Status)
			h.Put(iscsi.Residual, uint32(residual))
		} else {
			h.Put(iscsi.StatSN, 0)
		}
		h.Put(iscsi.DataSN, t.sent)
		h.Put(iscsi.Offset, uint32(off))
		c.out.add(&h, data[off:off+n], t.buf, c.par.Digests)
		t.sent++
		off += n
	}
	c.statSN++
}
