package iwarp

import (
	"encoding/binary"
	"strconv"

	"tapir/ddp"
	"tapir/mpa"
	"tapir/nic/verbs"
	"tapir/rdmap"
)

// noteKey is what a note about an FPDU says. FPDUs of one message mostly say
// the same, so that a capture costs them next to nothing.
type noteKey struct {
	qp   uint32
	wr   uint64
	op   rdmap.Opcode
	last bool
	// untagged: msn is its message's sequence number.
	untagged bool
	msn      uint32
	// ooo: placed before its turn, with another line when that comes.
	ooo bool
}

// readWR is the WR id of the oldest Read, or rdmap.NoRef.
func (in *inbound) readWR() uint64 {
	if ref := in.c.stream.ReadRef(); ref != rdmap.NoRef && in.c.qp != nil {
		if w := in.c.qp.SendWQE(ref); w != nil {
			return w.ID
		}
	}
	return rdmap.NoRef
}

// noteReceived says in the capture what segment b is. Of the requests of
// this side it names the receive that a Send used up, or readWR, the Read that
// a response belonged to.
func (in *inbound) noteReceived(b []byte, readWR uint64) {
	h, payload, err := ddp.Parse(b)
	if err != nil {
		in.c.e.notes.Addf("QP %d segment shorter than its header", in.c.qpNum())
		return
	}
	in.note(&h, readWR, false)
	in.noteBegun(&h, payload)
}

// noteBegun says in the capture what Send of the peer begins with a segment.
func (in *inbound) noteBegun(h *ddp.Header, payload []byte) {
	if rdmap.ParseControl(h.ULP).Opcode.IsSend() && h.MO == 0 && in.c.qp != nil {
		verbs.NoteMessage(in.c.qp, in.c.e.notes, payload, false)
	}
}

func (in *inbound) inboundWR(op rdmap.Opcode, readWR uint64) uint64 {
	switch {
	case op.IsSend():
		return in.recvID
	case op == rdmap.ReadResponse:
		return readWR
	}
	return rdmap.NoRef
}

func (c *conn) qpNum() uint32 {
	if c.qp == nil {
		return 0
	}
	return c.qp.Num()
}

// note adds a line such as "QP 3 WR 17 MSN 5 Send last" about a segment of the
// peer with header h. What else there is to know of an FPDU stands in its
// header, which a capture has.
func (in *inbound) note(h *ddp.Header, readWR uint64, ooo bool) {
	op := rdmap.ParseControl(h.ULP).Opcode
	k := noteKey{qp: in.c.qpNum(), wr: rdmap.NoRef, op: op, last: h.Last, untagged: !h.Tagged, ooo: ooo}
	if k.untagged {
		k.msn = h.MSN
	}
	if !ooo { // else what it belongs to is not known
		k.wr = in.inboundWR(op, readWR)
	}
	in.c.addNote(k, 1)
}

// noteRendered adds the line of count FPDUs of r, from the kth on, and what Send begins with them.
func (o *outbound) noteRendered(r *record, k, count int) {
	if !o.c.e.notes.On || r.kind == raw {
		return
	}
	key := noteKey{qp: o.c.qpNum(), wr: r.wr, op: r.op, last: r.last, untagged: r.hlen == ddp.UntaggedLen}
	if key.untagged {
		key.msn = binary.BigEndian.Uint32(r.head[mpa.LengthLen+msnAt:])
	}
	o.c.addNote(key, count)
	if k > 0 || r.moff > 0 || !r.op.IsSend() {
		return
	}
	if src, whole := o.payloadOf(r, 0, 1); whole {
		verbs.NoteMessage(o.c.qp, o.c.e.notes, src, true)
	} else if w := o.c.qp.SendWQE(r.seq); w != nil {
		verbs.NoteSend(o.c.qp, o.c.e.notes, w)
	}
}

// msnAt is where the MSN is in an untagged header (RFC 5041 section 4.3).
const msnAt = 10

func (c *conn) addNote(k noteKey, times int) {
	e := c.e
	if k != e.noted || !e.notes.Repeat(e.noteID, times) {
		e.noted, e.noteID = k, e.notes.Append(k.appendTo)
		e.notes.Repeat(e.noteID, times-1)
	}
}

func (k *noteKey) appendTo(b []byte) []byte {
	b = strconv.AppendUint(append(b, "QP "...), uint64(k.qp), 10)
	if k.wr != rdmap.NoRef {
		b = strconv.AppendUint(append(b, " WR "...), k.wr, 10)
	}
	if k.untagged {
		b = strconv.AppendUint(append(b, " MSN "...), uint64(k.msn), 10)
	}
	b = append(append(b, ' '), k.op.String()...)
	if k.last {
		b = append(b, " last"...)
	}
	if k.ooo {
		b = append(b, ", placed early"...)
	}
	return b
}
