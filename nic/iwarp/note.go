package iwarp

import (
	"strconv"

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

// noteSent says in the capture what the FPDU of r is whose header is at the
// start of b.
func (c *conn) noteSent(r *record, b []byte) {
	if h, _, err := ddp.Parse(b); err == nil {
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

// note adds a line such as "QP 3 WR 17 RDMA Write STag 0x00000100 TO 0x0 len
// 1424 last". A capture wants one per FPDU, so it is put together by hand.
func (c *conn) note(wr uint64, h *ddp.Header, n int) {
	c.e.notes.Append(func(b []byte) []byte {
		b = number(append(b, "QP "...), uint64(c.qpNum()))
		if wr != rdmap.NoRef {
			b = number(append(b, " WR "...), wr)
		}
		b = append(append(b, ' '), rdmap.ParseControl(h.ULP).Opcode.String()...)
		if h.Tagged {
			b = append(b, " STag 0x"...)
			for shift := 28; shift >= 0; shift -= 4 {
				b = append(b, "0123456789abcdef"[h.STag>>shift&0xf])
			}
			b = strconv.AppendUint(append(b, " TO 0x"...), h.TO, 16)
		} else {
			b = number(append(b, " MSN "...), uint64(h.MSN))
			b = number(append(b, " MO "...), uint64(h.MO))
		}
		b = number(append(b, " len "...), uint64(n))
		if h.Last {
			b = append(b, " last"...)
		}
		return b
	})
}

func number(b []byte, n uint64) []byte { return strconv.AppendUint(b, n, 10) }
