package verbs

import "tapir/wire/list"

// A request whose octets may have to be sent again from its memory is lent to
// the transport. Its elements are then on the lists of their regions: a region
// that goes finds the queue pairs that need it, however many others there are.

// Lend says that the transport will read w, a request of q that it has resolved
// and begun, again until w completes or EndLoan is called: when a region of w
// goes before that, Endpoint.Reclaim is called.
func (q *QP) Lend(w *SendWQE) {
	for i := range w.spans {
		if s := &w.spans[i]; !s.loan.Listed() {
			s.loan.Owner = q
			s.r.mr.loans.Add(&s.loan)
		}
	}
}

// EndLoan ends what Lend began.
func (w *SendWQE) EndLoan() {
	for i := range w.spans {
		w.spans[i].loan.Remove()
	}
}

// Loan is a region from which a transport sends what the peer reads. The zero value is
// none.
type Loan struct {
	node list.Node[QP]
	mr   *MR
}

// Begin is QP.Lend for a region that the peer of q reads, until End.
func (l *Loan) Begin(q *QP, r *Region) {
	l.node.Owner, l.mr = q, r.mr
	r.mr.loans.Add(&l.node)
}

// Of tells whether the loan is of the region's memory and has not ended.
func (l *Loan) Of(r *Region) bool { return l.mr == r.mr && l.node.Listed() }

// End ends the loan, if there is one.
func (l *Loan) End() {
	l.node.Remove()
	l.node.Owner, l.mr = nil, nil
}

// reclaim has the transports of m's loans copy what they would read again.
func (m *MR) reclaim() {
	for n := m.loans.First(); n != nil; n = m.loans.First() {
		n.Remove()
		n.Owner.endpoint.Reclaim(m)
	}
}
