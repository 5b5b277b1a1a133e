package uverbs

import (
	"cmp"
	"syscall"

	"tapir/nic/ring"
	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
)

// qp is a queue pair whose queues are rings of the program's.
type qp struct {
	target
	v    *verbs.QP
	send *ring.SendQueue
	recv *ring.RecvQueue // nil: receives come from an SRQ
	caps abi.QPCaps
	attr qpAttr
}

// qpAttr is what a program sets of a queue pair and only itself wants to know:
// iWARP has no use for it.
type qpAttr struct {
	pkeyIndex          uint16
	maxRead, maxDest   uint8 // Reads and atomics outbound, inbound
	minRNR, timeout    uint8
	retries, rnrRetry  uint8
	qkey, rqPSN, sqPSN uint32
}

func (q *qp) destroy() error {
	if err := q.v.Destroy(); err != nil {
		return err
	}
	delete(q.f.server.qps, q.v.QPN())
	q.to.Forget(&q.async)
	q.freeRings()
	return nil
}

func (q *qp) freeRings() {
	q.send.Free()
	if q.recv != nil {
		q.recv.Free()
	}
}

// Queue pair types, as ibv_qp_type.
const (
	typeRC        = 2
	typeUC        = 3
	typeUD        = 4
	typeRawPacket = 8
	typeXRCSend   = 9
	typeXRCRecv   = 10
	typeDriver    = 0xff
)

// checkType: an RNIC has reliable connections only, RoCE's devices what qpTypes names.
func (r *request) checkType(t uint8) error {
	if _, ok := qpTypes[t]; ok && r.roce() {
		return nil
	}
	switch t {
	case typeRC:
		return nil
	case typeUC, typeUD, typeRawPacket, typeXRCSend, typeXRCRecv, typeDriver:
		return syscall.EOPNOTSUPP
	}
	return syscall.EINVAL
}

// createQPAnswerLen is struct ib_uverbs_create_qp_resp.
const createQPAnswerLen = 32

// createQP serves CREATE_QP{response, user_handle, pd, send_cq, recv_cq, srq,
// caps, u8 sig_all, u8 type, u8 is_srq} -> {handle, number, caps, u32} {receive
// ring, send ring}.
func createQP(r *request) error { return r.createQP(r.in[8:]) }

// createQPEx serves the extended CREATE_QP, the same without a response, then
// {comp_mask, create_flags, table, source_qpn}; its answer goes on with
// {comp_mask, response_length}.
func createQPEx(r *request) error {
	switch compMask := r.in.u32(48); {
	case compMask > 1:
		return syscall.EINVAL
	case compMask != 0, r.in.u32(52) != 0: // RSS, creation flags
		return syscall.EOPNOTSUPP
	}
	return r.createQP(r.in)
}

func (r *request) createQP(in body) error {
	if err := r.wantsUHW(2 * ringLen); err != nil {
		return err
	}
	if err := r.checkType(in.u8(45)); err != nil {
		return err
	}
	q := &qp{target: r.target(in.u64(0)), caps: abi.Get[abi.QPCaps](in[24:])}
	p, cfg, err := r.qpConfig(in, &q.caps)
	if err != nil {
		return err
	}
	return r.create(q, func() error { return q.create(r, p, cfg) }, func(h uint32) (core, uhw []byte) {
		q.v.Private = q
		r.f.server.qps[q.v.QPN()] = q
		uhw = make([]byte, ringLen)
		if q.recv != nil {
			uhw = place(q.recv)
		}
		return abi.Octets(&abi.CreateQP{Handle: h, Number: q.v.QPN(), Caps: q.caps,
			ResponseLength: length[abi.CreateQP](r)}), append(uhw, place(q.send)...)
	})
}

// qpConfig authenticates the handles and checks the sizes.
func (r *request) qpConfig(in body, caps *abi.QPCaps) (_ *pd, cfg verbs.QPConfig, err error) {
	if qpTypes[in.u8(45)] == qpattr.XRCTarget {
		x, err := lookup[*xrcd](r.f, in.u32(8))
		if err != nil {
			return nil, cfg, err
		}
		return x.pd, verbs.QPConfig{Type: qpattr.XRCTarget, XRCD: x.v, MaxSend: 1, MaxRecv: 1}, nil
	}
	p, noPD := lookup[*pd](r.f, in.u32(8))
	send, noSend := lookup[*cq](r.f, in.u32(12))
	recv, noRecv := lookup[*cq](r.f, in.u32(16))
	if err := cmp.Or(noPD, noSend, noRecv); err != nil {
		return nil, cfg, err
	}
	cfg = verbs.QPConfig{Type: qpTypes[in.u8(45)], SendCQ: send.v, RecvCQ: recv.v, SignalAll: in.u8(44) != 0}
	if in.u8(46) != 0 {
		shared, err := lookup[*srq](r.f, in.u32(20))
		if err != nil {
			return nil, cfg, err
		}
		cfg.SRQ = shared.v
		caps.RecvWR, caps.RecvSGE = 0, 0
	}
	l := r.f.ctx.Device().Limits()
	if max(caps.SendWR, caps.RecvWR) > uint32(l.MaxQPWR) || max(caps.SendSGE, caps.RecvSGE) > uint32(l.MaxSGE) ||
		caps.Inline > uint32(l.MaxInline) {
		return nil, cfg, syscall.EINVAL
	}
	// As with the rxe driver the room of the elements takes inline data, too:
	// programs rely on that without asking.
	caps.Inline = min(max(caps.Inline, max(1, caps.SendSGE)*sgeLen), uint32(l.MaxInline))
	cfg.MaxSend, cfg.MaxRecv = max(1, int(caps.SendWR)), max(1, int(caps.RecvWR))
	cfg.MaxSGE, cfg.MaxInline = max(1, int(caps.SendSGE), int(caps.RecvSGE)), int(caps.Inline)
	return p, cfg, nil
}

// create makes the rings in the program's file, then the queue pair.
func (q *qp) create(r *request, p *pd, cfg verbs.QPConfig) (err error) {
	arena := q.f.arena
	if q.send, err = arena.NewSendQueue(q.f.ctx.Device(), cfg.MaxSend, cfg.MaxSGE, cfg.MaxInline); err != nil {
		return err
	}
	if cfg.SRQ == nil {
		if q.recv, err = arena.NewRecvQueue(cfg.MaxRecv, cfg.MaxSGE); err != nil {
			q.send.Free()
			return err
		}
	}
	r.trace(StepDriver)
	if q.v, err = p.CreateQP(cfg); err != nil {
		q.freeRings()
		return err
	}
	if cfg.Type == qpattr.UD {
		q.send.Datagrams()
	}
	q.v.SetSendSource(q.send)
	if q.recv != nil {
		q.v.SetRecvSource(q.recv)
	}
	return nil
}
