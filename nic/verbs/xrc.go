package verbs

import (
	"fmt"

	"tapir/nic/verbs/qpattr"
)

// XRCD is a domain of extended reliable connections: its target queue pairs
// receive into its shared receive queues, which the peer names by number.
type XRCD struct {
	object

	// Private leads a layer above from the object to its own.
	Private any
}

// AllocXRCD makes a domain. ErrUnsupported unless the transport has XRC.
func (c *Context) AllocXRCD() (*XRCD, error) {
	d := c.dev
	if d.fabric == nil || !d.fabric.types.Has(qpattr.XRCTarget) {
		return nil, fmt.Errorf("allocate XRC domain: an RNIC has no XRC: %w", ErrUnsupported)
	}
	o, err := d.add(kindXRCD, &c.object)
	if err != nil {
		return nil, err
	}
	x := &XRCD{object: o}
	d.xrcds.Add(x.num, x)
	return x, nil
}

// Dealloc frees the domain; ErrBusy while a queue pair or SRQ belongs to it.
func (x *XRCD) Dealloc() error {
	if err := x.mayDestroy(); err != nil {
		return err
	}
	x.gone()
	x.dev.xrcds.Remove(x.num)
	return nil
}

// SRQ returns the domain's shared receive queue with a number, nil if there is
// none.
func (x *XRCD) SRQ(num uint32) *SRQ {
	for _, s := range x.dev.srqs.All() {
		if s.num == num && s.xrcd == x {
			return s
		}
	}
	return nil
}

// CreateXSRQ is CreateSRQ for a domain: messages complete in cq. The peer names
// the queue by Num.
func (p *PD) CreateXSRQ(x *XRCD, cq *CQ, maxWR, maxSGE int) (*SRQ, error) {
	if x == nil || x.dead || x.dev != p.dev || cq == nil || cq.dead || cq.dev != p.dev {
		return nil, fmt.Errorf("create XRC SRQ: domain or CQ destroyed or of another device: %w", ErrInvalid)
	}
	s, err := p.CreateSRQ(maxWR, maxSGE)
	if err != nil {
		return nil, err
	}
	s.xrcd, s.cq = x, cq
	x.refs++
	cq.refs++
	return s, nil
}

// XRCD is the domain of the SRQ, nil if it is an ordinary one.
func (s *SRQ) XRCD() *XRCD { return s.xrcd }

// SelectSRQ has the next receive of an XRC target come from srq, which stays until
// the message is complete, and the peer's keys be judged in the protection domain of srq
// (annex A14).
func (s *service) SelectSRQ(srq *SRQ) {
	s.xpd = srq.pd
	if !s.q.rq.srqTaken {
		s.xsrq = srq
	}
}

// XRCD is the domain of an XRC target.
func (s *service) XRCD() *XRCD { return s.q.cfg.XRCD }

// remotePD is the protection domain that the peer's keys belong to.
func (s *service) remotePD() *PD {
	if s.q.cfg.XRCD != nil && s.xpd != nil {
		return s.xpd
	}
	return s.q.pd
}

// srq is the shared queue that receives come from, nil if they do not.
func (s *service) srq() *SRQ {
	if s.q.cfg.XRCD != nil {
		return s.xsrq
	}
	return s.q.cfg.SRQ
}

// recvCQ is where receives complete.
func (s *service) recvCQ() *CQ {
	if s.q.cfg.XRCD != nil {
		return s.xsrq.cq
	}
	return s.q.cfg.RecvCQ
}
