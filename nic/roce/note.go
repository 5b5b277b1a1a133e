package roce

import (
	"strconv"

	"tapir/nic/verbs"
	"tapir/wire/ib"
)

// note says in the capture what packet p of a request is.
func (q *qp) note(p *ib.Packet, wr uint64) {
	q.e.env.Notes.Append(func(b []byte) []byte {
		b = p.Describe(b, q.v.QPN())
		return strconv.AppendUint(append(b, " WR "...), wr, 10)
	})
}

// noteSends says in the capture what Sends begin in a frame: n messages from record at on.
func (q *qp) noteSends(at, n uint32) {
	for i := range n {
		if w := q.v.SendWQE(q.req.rec(at + i).seq); w != nil {
			verbs.NoteSend(q.v, q.e.env.Notes, w)
		}
	}
}

// noteOther says in the capture what a packet is that belongs to no request of this side.
func (q *qp) noteOther(p *ib.Packet) {
	q.e.env.Notes.Append(func(b []byte) []byte { return p.Describe(b, q.v.QPN()) })
}
