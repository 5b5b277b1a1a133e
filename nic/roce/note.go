package roce

import (
	"strconv"

	"tapir/wire/ib"
)

// note says in the capture what packet p of a request is.
func (q *qp) note(p *ib.Packet, wr uint64) {
	q.e.env.Notes.Append(func(b []byte) []byte {
		b = q.describe(b, p)
		return strconv.AppendUint(append(b, " WR "...), wr, 10)
	})
}

// noteSends says in the capture what Sends begin in a frame: n messages from record at on.
func (q *qp) noteSends(at, n uint32) {
	for i := range n {
		if w := q.v.SendWQE(q.req.rec(at + i).seq); w != nil {
			q.v.NoteSend(q.e.env.Notes, w)
		}
	}
}

// noteBegun says in the capture what Send of the peer begins in a packet.
func (q *qp) noteBegun(p *ib.Packet) {
	switch p.Opcode &^ ib.Opcode(q.class) {
	case ib.OpSendFirst, ib.OpSendOnly, ib.OpSendOnlyImm, ib.OpSendOnlyInvalidate:
		q.v.Note(q.e.env.Notes, p.Payload, false)
	}
}

// noteOther says in the capture what a packet is that belongs to no request of this side.
func (q *qp) noteOther(p *ib.Packet) {
	q.e.env.Notes.Append(func(b []byte) []byte { return q.describe(b, p) })
}

// describe appends a line such as "QP 17 PSN 5 RC SEND Only MSN 3".
func (q *qp) describe(b []byte, p *ib.Packet) []byte {
	b = strconv.AppendUint(append(b, "QP "...), uint64(q.v.QPN()), 10)
	b = strconv.AppendUint(append(b, " PSN "...), uint64(p.PSN), 10)
	b = append(append(b, ' '), p.Opcode.String()...)
	if h, _ := p.Opcode.Headers(); h&ib.HasAETH != 0 {
		b = append(append(b, ' '), p.AETH.Syndrome.String()...)
		b = strconv.AppendUint(append(b, " MSN "...), uint64(p.AETH.MSN), 10)
	}
	return b
}
