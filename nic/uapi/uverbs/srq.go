package uverbs

import (
	"cmp"
	"syscall"

	"tapir/nic/ring"
	"tapir/nic/verbs"
)

// srq is a shared receive queue whose requests lie in a ring of the program's.
type srq struct {
	target
	v    *verbs.SRQ
	ring *ring.RecvQueue
}

func (s *srq) destroy() error {
	if err := s.v.Destroy(); err != nil {
		return err
	}
	s.to.Forget(&s.async)
	s.ring.Free()
	return nil
}

// newSRQ is what both commands for making one ask for.
type newSRQ struct {
	user                 uint64
	pd                   uint32
	maxWR, maxSGE, limit uint32
	xrcd                 *xrcd // of an XRC SRQ, with the queue of its completions
	cq                   *cq
}

// srqXRC is the type of an XRC SRQ (ib_srq_type).
const srqXRC = 1

// createSRQ serves CREATE_SRQ{response, user_handle, pd, max_wr, max_sge,
// limit} -> {handle, max_wr, max_sge, number} {ring, u32 number}.
func createSRQ(r *request) error {
	return r.createSRQ(newSRQ{r.in.u64(8), r.in.u32(16), r.in.u32(20), r.in.u32(24), r.in.u32(28), nil, nil})
}

// createXSRQ serves CREATE_XSRQ{response, user_handle, type, pd, max_wr,
// max_sge, limit, xrcd, cq, ...}, of which the basic type is as CREATE_SRQ.
func createXSRQ(r *request) error {
	want := newSRQ{r.in.u64(8), r.in.u32(20), r.in.u32(24), r.in.u32(28), r.in.u32(32), nil, nil}
	switch typ := r.in.u32(16); {
	case typ == srqXRC && r.roce():
		x, noDomain := lookup[*xrcd](r.f, r.in.u32(36))
		c, noCQ := lookup[*cq](r.f, r.in.u32(40))
		if err := cmp.Or(noDomain, noCQ); err != nil {
			return err
		}
		want.xrcd, want.cq = x, c
	case typ != 0: // XRC, tag matching
		return syscall.EOPNOTSUPP
	}
	return r.createSRQ(want)
}

// Answers to CREATE_SRQ: struct ib_uverbs_create_srq_resp, rxe_create_srq_resp.
const (
	srqAnswerLen = 16
	srqUHWLen    = ringLen + 8
)

func (r *request) createSRQ(want newSRQ) error {
	if err := r.wantsUHW(srqUHWLen); err != nil {
		return err
	}
	p, err := lookup[*pd](r.f, want.pd)
	if err != nil {
		return err
	}
	l := r.f.ctx.Device().Limits()
	if want.maxWR == 0 || want.maxWR > uint32(l.MaxSRQWR) || want.maxSGE > uint32(l.MaxSGE) || want.limit > want.maxWR {
		return syscall.EINVAL
	}
	s := &srq{target: r.target(want.user)}
	return r.create(s, func() error { return s.create(r, p, want) }, func(h uint32) (core, uhw []byte) {
		s.v.Private = s
		attr, num := s.v.Query(), s.v.Num()
		return words(h, uint32(attr.MaxWR), uint32(attr.MaxSGE), num), append(place(s.ring), words(num, 0)...)
	})
}

// create makes the ring in the program's file, then the queue.
func (s *srq) create(r *request, p *pd, want newSRQ) (err error) {
	sges := max(1, int(want.maxSGE))
	if s.ring, err = s.f.arena.NewRecvQueue(int(want.maxWR), sges); err != nil {
		return err
	}
	r.trace(StepDriver)
	if want.xrcd != nil {
		s.v, err = p.CreateXSRQ(want.xrcd.v, want.cq.v, int(want.maxWR), sges)
	} else {
		s.v, err = p.CreateSRQ(int(want.maxWR), sges)
	}
	if err != nil {
		s.ring.Free()
		return err
	}
	s.v.SetRecvSource(s.ring)
	return s.v.SetLimit(int(want.limit))
}

// What MODIFY_SRQ changes.
const (
	srqMaxWR = 1 << iota
	srqLimit
)

// modifySRQ serves MODIFY_SRQ{handle, mask, max_wr, limit} {u64 address}: where
// the provider wants to be told of the new ring.
func modifySRQ(r *request, s *srq) error {
	mask, maxWR, limit := r.in.u32(4), r.in.u32(8), r.in.u32(12)
	attr := s.v.Query()
	switch {
	case mask&^(srqMaxWR|srqLimit) != 0:
		return syscall.EINVAL
	case mask&srqMaxWR != 0:
		if len(r.uhw) < 8 || maxWR > uint32(r.f.ctx.Device().Limits().MaxSRQWR) {
			return syscall.EINVAL
		}
		attr.MaxWR = int(maxWR)
		fallthrough
	default:
		if mask&srqLimit != 0 && limit > uint32(attr.MaxWR) {
			return syscall.EINVAL
		}
	}
	if mask&srqMaxWR != 0 {
		if err := s.resize(r, int(maxWR)); err != nil {
			return err
		}
	}
	if mask&srqLimit != 0 {
		return s.v.SetLimit(int(limit))
	}
	return nil
}

func (s *srq) resize(r *request, maxWR int) error {
	if err := s.v.Resize(maxWR); err != nil {
		return err
	}
	return r.c.Write(r.uhw.u64(0), place(s.ring))
}

// querySRQ serves QUERY_SRQ{response, handle} -> {max_wr, max_sge, limit, u32}.
func querySRQ(r *request, s *srq) error {
	attr := s.v.Query()
	return r.answer(words(uint32(attr.MaxWR), uint32(attr.MaxSGE), uint32(attr.Limit), 0), nil)
}
