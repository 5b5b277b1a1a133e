package verbs

import "fmt"

// SRQ is a receive queue shared by several QPs.
type SRQ struct {
	object
	pd     *PD
	rq     recvQueue
	maxSGE int
	watch  int   // EventSRQLimit below this many receives; 0 = off
	cid    int   // of its context
	xrcd   *XRCD // nil: an ordinary one
	cq     *CQ   // with xrcd: where messages complete
	failed bool  // EventSRQError was raised

	// Context is the owner's; nothing here looks at it.
	Context any
	// Private leads a layer above from the object to its own.
	Private any
}

// CreateSRQ makes a shared receive queue for maxWR requests of up to maxSGE
// elements.
func (p *PD) CreateSRQ(maxWR, maxSGE int) (*SRQ, error) {
	d := p.dev
	if p.dead || maxWR < 1 || maxWR > d.limits.MaxSRQWR || maxSGE < 1 || maxSGE > d.limits.MaxSGE {
		return nil, fmt.Errorf("create SRQ: %d requests of %d elements: %w", maxWR, maxSGE, ErrInvalid)
	}
	o, err := d.add(kindSRQ, &p.object)
	if err != nil {
		return nil, err
	}
	s := &SRQ{object: o, pd: p, rq: recvQueue{limit: maxWR}, maxSGE: maxSGE}
	if s.cid, err = d.conns.CreateSRQ(s); err != nil {
		s.unmade()
		return nil, fmt.Errorf("create SRQ: %w", err)
	}
	d.srqs.Add(s.num, s)
	return s, nil
}

// Len is the number of receives waiting.
func (s *SRQ) Len() int { return s.rq.len() }

// SRQAttr is what SRQ.Query tells.
type SRQAttr struct {
	MaxWR, MaxSGE int
	Limit         int // armed by SetLimit; 0 = not
	Waiting       int // receives
}

// Query returns the SRQ's attributes.
func (s *SRQ) Query() SRQAttr {
	return SRQAttr{MaxWR: s.rq.limit, MaxSGE: s.maxSGE, Limit: s.watch, Waiting: s.rq.len()}
}

// SetLimit arms one EventSRQLimit for when a receive is taken and fewer than n
// are left; 0 disarms.
func (s *SRQ) SetLimit(n int) error {
	if err := s.mayModify(n, s.rq.limit); err != nil {
		return err
	}
	if err := s.dev.conns.ModifySRQ(s, n); err != nil {
		return fmt.Errorf("modify SRQ %d: %w", s.num, err)
	}
	s.watch = n
	return nil
}

// Resize changes how many receives fit; those waiting stay. ErrInvalid if more
// wait, or are watched for by SetLimit, than would fit.
func (s *SRQ) Resize(maxWR int) error {
	if err := s.mayModify(max(s.watch, s.rq.len(), 1), maxWR); err != nil {
		return err
	}
	if src := s.rq.source; src != nil {
		if err := src.Resize(maxWR); err != nil {
			return fmt.Errorf("modify SRQ %d: %w", s.num, err)
		}
	}
	s.rq.limit = maxWR
	return nil
}

func (s *SRQ) mayModify(least, maxWR int) error {
	most := s.dev.limits.MaxSRQWR
	switch {
	case s.dead:
		return fmt.Errorf("modify SRQ %d: %w", s.num, ErrDestroyed)
	case least < 0 || least > maxWR || maxWR > most:
		return fmt.Errorf("modify SRQ %d: %d of %d receives, the device allows %d: %w", s.num, least, maxWR, most,
			ErrInvalid)
	}
	return nil
}

// Destroy frees the SRQ; ErrBusy while a QP uses it.
func (s *SRQ) Destroy() error {
	if err := s.mayDestroy(); err != nil {
		return err
	}
	s.dev.conns.DestroySRQ(s)
	if s.xrcd != nil {
		s.xrcd.refs--
		s.cq.refs--
	}
	s.gone()
	s.dev.srqs.Remove(s.num)
	s.dev.gone[2] += s.rq.tail
	return nil
}

// PostRecv is QP.PostRecv for the shared queue.
func (s *SRQ) PostRecv(wrs ...RecvWR) (bad int, err error) {
	for i := range wrs {
		err := s.rq.check(&wrs[i], s.maxSGE)
		switch {
		case s.dead:
			err = ErrDestroyed
		case s.failed:
			err = fmt.Errorf("it has failed: %w", ErrState)
		}
		if err != nil {
			return i, fmt.Errorf("post receive to SRQ %d, WR %d: %w", s.num, wrs[i].ID, err)
		}
		s.rq.push(&wrs[i])
		s.dev.logRecv(kindSRQ, s.num, &wrs[i])
	}
	return len(wrs), nil
}

// take moves the oldest request into w. One that cannot be read fails the SRQ:
// what follows it in the program's memory is not to be trusted either. Queue
// pairs then find no receive.
func (s *SRQ) take(w *RecvWQE) bool {
	if s.failed || s.rq.empty() {
		return false
	}
	from := s.rq.at(s.rq.head)
	s.rq.head++
	w.ID, w.Length, w.refused = from.ID, from.Length, from.refused
	w.sges = append(w.sges[:0], from.sges...)
	if s.failed = from.refused != StatusSuccess; s.failed {
		s.dev.Async(AsyncEvent{Type: EventSRQError, SRQ: s})
	}
	if s.watch > 0 && s.rq.len() < s.watch {
		s.watch = 0
		s.dev.Async(AsyncEvent{Type: EventSRQLimit, SRQ: s})
	}
	return true
}
