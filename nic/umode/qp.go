package umode

import (
	"fmt"
	"sync/atomic"

	"tapir/nic/verbs"
)

// QPConfig describes a queue pair to be created, as verbs.QPConfig.
type QPConfig struct {
	SendCQ, RecvCQ *CQ
	SRQ            *SRQ // receives come from it, if set
	MaxSend        int  // work requests outstanding; 0 = 16
	MaxRecv        int  // 0 = 16
	MaxSGE         int  // elements per work request; 0 = 1
	MaxInline      int  // octets of inline data; 0 = none
	SignalAll      bool // every send completes visibly
	Context        any  // the owner's
}

// QPBypass posts to a queue pair without a command but the doorbell. Both
// return how many requests were taken.
type QPBypass interface {
	PostSend(wrs []verbs.SendWR) (n int, err error)
	PostRecv(wrs []verbs.RecvWR) (n int, err error)
	BindMW(id uint64, flags verbs.SendFlags, b Bind, rkey uint32) error
}

// QP is a reliable connected queue pair.
type QP struct {
	pd     *PD
	handle uint32
	user   uint64
	num    uint32
	cfg    QPConfig
	bypass QPBypass
	broken atomic.Bool // a request has failed

	// Context is the owner's; nothing here looks at it.
	Context any
}

func or(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

func flag(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}

// qpTypeRC is ibv_qp_type of a reliable connection.
const qpTypeRC = uint8(2)

// CreateQP makes a queue pair in state Reset. Config tells how much room it
// really has.
func (p *PD) CreateQP(cfg QPConfig) (*QP, error) {
	if cfg.SendCQ == nil || cfg.RecvCQ == nil {
		return nil, fmt.Errorf("create QP: send and receive CQ are needed: %w", verbs.ErrInvalid)
	}
	cfg.MaxSend, cfg.MaxRecv, cfg.MaxSGE = or(cfg.MaxSend, 16), or(cfg.MaxRecv, 16), or(cfg.MaxSGE, 1)
	q := &QP{pd: p, cfg: cfg, Context: cfg.Context}
	c := p.ctx
	q.user = c.enter(q)
	call := &Call{Verb: CreateQP, Object: q}
	err := c.run(call, func() error { return q.create(call) }, func() { _ = q.drop(&Call{}) })
	if err != nil {
		c.leave(q.user)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.qps[q.num] = q
	return q, nil
}

func (q *QP) create(call *Call) error {
	srq, cfg := uint32(0), &q.cfg
	recvs, sges := uint32(cfg.MaxRecv), uint32(cfg.MaxSGE)
	if cfg.SRQ != nil {
		srq, recvs, sges = cfg.SRQ.handle, 0, 0
	}
	b, err := q.pd.ctx.execute(call, cmdCreateQP, fields(response, q.user, q.pd.handle, cfg.SendCQ.handle, cfg.RecvCQ.handle, srq,
		uint32(cfg.MaxSend), recvs, uint32(cfg.MaxSGE), sges, uint32(cfg.MaxInline),
		flag(cfg.SignalAll), qpTypeRC, flag(cfg.SRQ != nil), uint8(0)), 32)
	if err != nil {
		return err
	}
	q.handle, q.num = native.Uint32(b), native.Uint32(b[4:])
	cfg.MaxSend, cfg.MaxRecv = int(native.Uint32(b[8:])), int(native.Uint32(b[12:]))
	cfg.MaxSGE, cfg.MaxInline = int(native.Uint32(b[16:])), int(native.Uint32(b[24:]))
	return nil
}

// Num is the QP number.
func (q *QP) Num() uint32 { return q.num }

// PD returns the protection domain.
func (q *QP) PD() *PD { return q.pd }

// Config returns what the queue pair was created with, with the room that the
// NIC gave.
func (q *QP) Config() QPConfig { return q.cfg }

// SetBypass lets b post to the queue pair from now on, for post triggers.
func (q *QP) SetBypass(b QPBypass) { q.bypass = b }

// Attributes of modify_qp.
const (
	qpState  = 1 << 0
	qpAccess = 1 << 3
)

// Modify moves the queue pair to another state; which ones an owner may ask
// for is verbs.QP.Modify's business.
func (q *QP) Modify(to verbs.State) error { return q.modify(qpState, to, 0) }

// SetAccess limits what the peer may do through the queue pair.
func (q *QP) SetAccess(a verbs.Access) error { return q.modify(qpAccess, 0, a) }

func (q *QP) modify(mask uint32, state verbs.State, access verbs.Access) error {
	call := &Call{Verb: ModifyQP, Object: q}
	return q.pd.ctx.run(call, func() error {
		var dest [64]byte
		_, err := q.pd.ctx.execute(call, cmdModifyQP, fields(dest[:], q.handle, mask, make([]byte, 16), uint32(access),
			uint32(0), uint8(state), make([]byte, 15)), 0)
		return err
	}, nil)
}

// Query returns the queue pair's attributes, as far as the command carries
// them.
func (q *QP) Query() (a verbs.QPAttr, err error) {
	call := &Call{Verb: QueryQP, Object: q}
	err = q.pd.ctx.run(call, func() error {
		b, err := q.pd.ctx.execute(call, cmdQueryQP, fields(response, q.handle, uint32(qpState|qpAccess)), 128)
		a = verbs.QPAttr{
			State: verbs.State(b[108]), Access: verbs.Access(native.Uint32(b[100:])), MaxSend: int(native.Uint32(b[64:])),
			MaxRecv: int(native.Uint32(b[68:])), MaxSGE: int(native.Uint32(b[72:])), MaxInline: int(native.Uint32(b[80:])),
		}
		return err
	}, nil)
	return a, err
}

func (q *QP) drop(call *Call) error {
	_, err := q.pd.ctx.execute(call, cmdDestroyQP, fields(response, q.handle, uint32(0)), 4)
	return err
}

// Destroy frees the queue pair and ends its connection. Its completions that
// were not polled are gone.
func (q *QP) Destroy() error {
	call := &Call{Verb: DestroyQP, Object: q}
	c := q.pd.ctx
	err := c.run(call, func() error { return q.drop(call) }, nil)
	if err == nil {
		c.leave(q.user)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.qps, q.num)
	}
	return err
}

// SRQBypass posts to a shared receive queue without a command.
type SRQBypass interface {
	PostRecv(wrs []verbs.RecvWR) (n int, err error)
}

// SRQ is a receive queue shared by several queue pairs.
type SRQ struct {
	pd     *PD
	handle uint32
	user   uint64
	num    uint32
	max    verbs.SRQAttr
	bypass SRQBypass
}

// CreateSRQ makes a shared receive queue for maxWR requests of up to maxSGE
// elements.
func (p *PD) CreateSRQ(maxWR, maxSGE int) (*SRQ, error) {
	s := &SRQ{pd: p, max: verbs.SRQAttr{MaxWR: maxWR, MaxSGE: maxSGE}}
	c := p.ctx
	s.user = c.enter(s)
	call := &Call{Verb: CreateSRQ, Object: s}
	err := c.run(call, func() error {
		b, err := c.execute(call, cmdCreateSRQ, fields(response, s.user, p.handle, uint32(maxWR), uint32(maxSGE), uint32(0)), 16)
		if err == nil {
			s.handle, s.num = native.Uint32(b), native.Uint32(b[12:])
			s.max = verbs.SRQAttr{MaxWR: int(native.Uint32(b[4:])), MaxSGE: int(native.Uint32(b[8:]))}
		}
		return err
	}, func() { _ = s.drop(&Call{}) })
	if err != nil {
		c.leave(s.user)
		return nil, err
	}
	return s, nil
}

// Num is the SRQ's number.
func (s *SRQ) Num() uint32 { return s.num }

// SetBypass lets b post to the queue from now on, for post triggers.
func (s *SRQ) SetBypass(b SRQBypass) { s.bypass = b }

// srqLimit is the attribute of modify_srq that SetLimit changes.
const srqLimit = 1 << 1

// SetLimit arms one SRQLimitReached event for when fewer than n receives are
// left; 0 disarms.
func (s *SRQ) SetLimit(n int) error {
	call := &Call{Verb: ModifySRQ, Object: s}
	return s.pd.ctx.run(call, func() error {
		_, err := s.pd.ctx.execute(call, cmdModifySRQ, fields(s.handle, uint32(srqLimit), uint32(0), uint32(n)), 0)
		return err
	}, nil)
}

// Query returns the queue's attributes, but for what waits in it.
func (s *SRQ) Query() (a verbs.SRQAttr, err error) {
	call := &Call{Verb: QuerySRQ, Object: s}
	err = s.pd.ctx.run(call, func() error {
		b, err := s.pd.ctx.execute(call, cmdQuerySRQ, fields(response, s.handle, uint32(0)), 16)
		a = verbs.SRQAttr{MaxWR: int(native.Uint32(b)), MaxSGE: int(native.Uint32(b[4:])), Limit: int(native.Uint32(b[8:]))}
		return err
	}, nil)
	return a, err
}

func (s *SRQ) drop(call *Call) error {
	_, err := s.pd.ctx.execute(call, cmdDestroySRQ, fields(response, s.handle, uint32(0)), 4)
	return err
}

// Destroy frees the queue; ErrBusy while a QP uses it.
func (s *SRQ) Destroy() error {
	call := &Call{Verb: DestroySRQ, Object: s}
	err := s.pd.ctx.run(call, func() error { return s.drop(call) }, nil)
	if err == nil {
		s.pd.ctx.leave(s.user)
	}
	return err
}
