package fault

import (
	"fmt"
	"net/netip"

	"tapir/wire/ib"
)

// Connection is what a packet tells of the connection that it belongs to.
type Connection struct {
	// Src and Dst are the ends of a TCP connection, in the direction of the packet. RoCE has
	// addresses alone, with port 0.
	Src, Dst netip.AddrPort
	DestQP   uint32 // of RoCE: the queue pair at Dst; 0: TCP
}

// FindQP names the queue pair of a NIC that has a connection; 0 if none has. The error is why
// that cannot be told.
type FindQP func(nic string, c Connection) (qpn uint32, err error)

// FindQPs makes rules for queue pairs possible. find is called for a connection
// when its first FPDU or, in each direction, its first RoCE packet passes, once for each NIC
// that such a rule is about: both sides have bound their queue pairs by then. Before, or
// without it, no connection is one of a queue pair. RoCE's datagrams have no connection.
func (e *Engine) FindQPs(find FindQP) { e.find = find }

// ownedQP is the queue pair that a connection has at a NIC; 0: none.
type ownedQP struct {
	nic string
	qpn uint32
}

// qp is the queue pair at a rule's NIC of the connection in hand.
func (j *judgement) qp(r *rule) uint32 {
	known := j.qps()
	for _, q := range *known {
		if q.nic == r.NIC {
			return q.qpn
		}
	}
	q := ownedQP{nic: r.NIC}
	if j.e.find != nil && !j.t.datagram() {
		c := Connection{Src: j.t.src, Dst: j.t.dst}
		if p := &j.t.roce; j.f != nil {
			c = Connection{netip.AddrPortFrom(p.src, 0), netip.AddrPortFrom(p.dst, 0), p.DestQP}
		}
		var err error
		if q.qpn, err = j.e.find(r.NIC, c); err != nil {
			j.e.unasked = err
		}
	}
	*known = append(*known, q)
	return q.qpn
}

// qps are the queue pairs that are known of the connection in hand.
func (j *judgement) qps() *[]ownedQP {
	switch {
	case j.f != nil:
		return &j.f.qps
	case j.c != nil:
		return &j.c.qps
	}
	return new([]ownedQP)
}

// datagram reports whether the frame holds a datagram of RoCE.
func (t *thing) datagram() bool {
	return t.class == ofRoCE && t.roce.Opcode.Transport() == ib.TransportUD
}

// ofQP reports whether a rule is about the queue pair of the FPDU in hand.
func (r *rule) ofQP(j *judgement) bool {
	if r.QPN == 0 {
		return true
	}
	own := j.qp(r) == r.QPN
	r.seen = r.seen || own
	return own
}

// unseen says why a rule found nothing of its queue pair, "" if it did.
func (e *Engine) unseen(r *rule) string {
	if r.QPN == 0 || r.seen {
		return ""
	}
	s := fmt.Sprintf("no %s on a connection of QP %d of %s passed the link", r.What, r.QPN, r.NIC)
	if e.unasked != nil {
		s += fmt.Sprintf("; it could not be asked for once: %v", e.unasked)
	}
	return s
}
