package umode

import (
	"cmp"
	"fmt"
	"sync/atomic"

	"tapir/nic/uapi/abi"
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
	object
	pd     *PD
	num    uint32
	cfg    QPConfig
	bypass QPBypass
	broken atomic.Bool // a request has failed

	// Context is the owner's; nothing here looks at it.
	Context any
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
	cfg.MaxSend, cfg.MaxRecv, cfg.MaxSGE = cmp.Or(cfg.MaxSend, 16), cmp.Or(cfg.MaxRecv, 16), cmp.Or(cfg.MaxSGE, 1)
	c := p.ctx
	q := &QP{object: object{ctx: c, end: DestroyQP}, pd: p, cfg: cfg, Context: cfg.Context}
	q.user = c.enter(q)
	if err := q.create(CreateQP, q, q.request(), q.take); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.qps[q.num] = q
	return q, nil
}

// request asks for the queue pair.
func (q *QP) request() []byte {
	srq, cfg := uint32(0), &q.cfg
	recvs, sges := uint32(cfg.MaxRecv), uint32(cfg.MaxSGE)
	if cfg.SRQ != nil {
		srq, recvs, sges = cfg.SRQ.handle, 0, 0
	}
	return fields(response, q.user, q.pd.handle, cfg.SendCQ.handle, cfg.RecvCQ.handle, srq,
		uint32(cfg.MaxSend), recvs, uint32(cfg.MaxSGE), sges, uint32(cfg.MaxInline),
		flag(cfg.SignalAll), qpTypeRC, flag(cfg.SRQ != nil), uint8(0))
}

// take reads what the NIC gave.
func (q *QP) take(b []byte) {
	a, cfg := abi.Get[abi.CreateQP](b), &q.cfg
	q.num, cfg.MaxSend, cfg.MaxRecv = a.Number, int(a.Caps.SendWR), int(a.Caps.RecvWR)
	cfg.MaxSGE, cfg.MaxInline = int(a.Caps.SendSGE), int(a.Caps.Inline)
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
	qpState     = 1 << 0
	qpAccess    = 1 << 3
	qpPKeyIndex = 1 << 4
	qpPort      = 1 << 5
)

// Modify moves the queue pair to another state; which ones an owner may ask
// for is verbs.QP.Modify's business. As there, a move to Init takes the first P_Key,
// port 1 and the rights of before.
func (q *QP) Modify(to verbs.State) error {
	if to != verbs.Init {
		return q.modify(qpState, to, 0)
	}
	a, err := q.Query()
	if err != nil {
		return err
	}
	return q.modify(qpState|qpPKeyIndex|qpPort|qpAccess, to, a.Access)
}

// SetAccess limits what the peer may do through the queue pair.
func (q *QP) SetAccess(a verbs.Access) error { return q.modify(qpAccess, 0, a) }

func (q *QP) modify(mask uint32, state verbs.State, access verbs.Access) error {
	var dest [64]byte
	return q.ctx.do(ModifyQP, q, fields(dest[:], q.handle, mask, make([]byte, 16), uint32(access),
		uint32(0), uint8(state), make([]byte, 7), uint8(1), make([]byte, 7))) // 1: the port
}

// Query returns the queue pair's attributes, as far as the command carries
// them.
func (q *QP) Query() (verbs.QPAttr, error) {
	a, err := query[abi.QPAttr](q.ctx, QueryQP, q, fields(response, q.handle, uint32(qpState|qpAccess)))
	return verbs.QPAttr{State: verbs.State(a.State), Access: verbs.Access(a.Access), MaxSend: int(a.Caps.SendWR),
		MaxRecv: int(a.Caps.RecvWR), MaxSGE: int(a.Caps.SendSGE), MaxInline: int(a.Caps.Inline)}, err
}

// Destroy frees the queue pair and ends its connection. Its completions that
// were not polled are gone.
func (q *QP) Destroy() error {
	err := q.destroy(q, nil)
	if err == nil {
		q.ctx.mu.Lock()
		defer q.ctx.mu.Unlock()
		delete(q.ctx.qps, q.num)
	}
	return err
}

// SRQBypass posts to a shared receive queue without a command.
type SRQBypass interface {
	PostRecv(wrs []verbs.RecvWR) (n int, err error)
}

// SRQ is a receive queue shared by several queue pairs.
type SRQ struct {
	object
	num    uint32
	max    verbs.SRQAttr
	bypass SRQBypass
}

// CreateSRQ makes a shared receive queue for maxWR requests of up to maxSGE
// elements.
func (p *PD) CreateSRQ(maxWR, maxSGE int) (*SRQ, error) {
	c := p.ctx
	s := &SRQ{object: object{ctx: c, end: DestroySRQ}}
	s.user = c.enter(s)
	request := fields(response, s.user, p.handle, uint32(maxWR), uint32(maxSGE), uint32(0))
	err := s.create(CreateSRQ, s, request, func(b []byte) {
		a := abi.Get[abi.CreateSRQ](b)
		s.num, s.max = a.Number, verbs.SRQAttr{MaxWR: int(a.MaxWR), MaxSGE: int(a.MaxSGE)}
	})
	if err != nil {
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
	return s.ctx.do(ModifySRQ, s, fields(s.handle, uint32(srqLimit), uint32(0), uint32(n)))
}

// Query returns the queue's attributes, but for what waits in it.
func (s *SRQ) Query() (verbs.SRQAttr, error) {
	a, err := query[abi.SRQAttr](s.ctx, QuerySRQ, s, fields(response, s.handle, uint32(0)))
	return verbs.SRQAttr{MaxWR: int(a.MaxWR), MaxSGE: int(a.MaxSGE), Limit: int(a.Limit)}, err
}

// Destroy frees the queue; ErrBusy while a QP uses it.
func (s *SRQ) Destroy() error { return s.destroy(s, nil) }
