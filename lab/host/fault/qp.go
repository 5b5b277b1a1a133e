package fault

import (
	"fmt"
	"net/netip"
)

// FindQP names the queue pair of a NIC that has the
// TCP connection between two ends; 0 if none has. The error is why that cannot
// be told.
type FindQP func(nic string, ends [2]netip.AddrPort) (qpn uint32, err error)

// FindQPs makes rules for queue pairs possible. find is called for a connection
// when its first FPDU passes, once for each NIC that such a rule is about: both
// sides have bound their queue pairs by then. Before, or without it, no
// connection is one of a queue pair.
func (e *Engine) FindQPs(find FindQP) { e.find = find }

// ownedQP is the queue pair that a connection has at a NIC; 0: none.
type ownedQP struct {
	nic string
	qpn uint32
}

// qp is the queue pair at nic of the connection in hand.
func (j *judgement) qp(r *rule) uint32 {
	for _, q := range j.c.qps {
		if q.nic == r.NIC {
			return q.qpn
		}
	}
	q := ownedQP{nic: r.NIC}
	if j.e.find != nil {
		var err error
		if q.qpn, err = j.e.find(r.NIC, [2]netip.AddrPort{j.t.src, j.t.dst}); err != nil {
			j.e.unasked = err
		}
	}
	j.c.qps = append(j.c.qps, q)
	return q.qpn
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
