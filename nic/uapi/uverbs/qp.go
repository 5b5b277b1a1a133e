package uverbs

import (
	"syscall"

	"tapir/nic/al"
	"tapir/nic/ring"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// qp is a queue pair whose queues are rings of the program's.
type qp struct {
	f      *File
	v      *verbs.QP
	send   *ring.SendQueue
	recv   *ring.RecvQueue // nil: receives come from an SRQ
	user   uint64          // the program's name of it, in events
	events source
	caps   qpCaps
	attr   qpAttr
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

// AsyncEvent implements al.EventHandler.
func (q *qp) AsyncEvent(ev al.Event, _ frame.Time) { q.f.pushAsync(&q.events, q.user, ev.Type) }

func (q *qp) destroy() error {
	if err := q.v.Destroy(); err != nil {
		return err
	}
	delete(q.f.server.qps, q.v.Num())
	q.f.forgetAsync(&q.events)
	q.send.Free()
	if q.recv != nil {
		q.recv.Free()
	}
	return nil
}

// read is what DESTROY_QP answers.
func (q *qp) read() []uint32 { return []uint32{q.events.read} }

// qpCaps are five words that CREATE_QP asks for and its answer grants.
type qpCaps struct{ sendWR, recvWR, sendSGE, recvSGE, inline uint32 }

func (c *qpCaps) put(out []byte) {
	for i, v := range [...]uint32{c.sendWR, c.recvWR, c.sendSGE, c.recvSGE, c.inline} {
		native.PutUint32(out[4*i:], v)
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

// checkType: an RNIC has reliable connections only.
func checkType(t uint8) error {
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
	if err := checkType(in.u8(45)); err != nil {
		return err
	}
	q := &qp{
		f: r.f, user: in.u64(0),
		caps: qpCaps{in.u32(24), in.u32(28), in.u32(32), in.u32(36), in.u32(40)},
	}
	p, cfg, err := r.qpConfig(in, &q.caps)
	if err != nil {
		return err
	}
	v, err := made(r, func() (*verbs.QP, error) { return q.create(r, p, cfg) })
	if err != nil {
		return err
	}
	h := r.track(q)
	v.Private = q
	r.f.server.qps[v.Num()] = q
	return r.answerQP(h, q)
}

// qpConfig authenticates the handles and checks the sizes.
func (r *request) qpConfig(in body, caps *qpCaps) (p *pd, cfg verbs.QPConfig, err error) {
	if p, err = lookup[*pd](r.f, in.u32(8)); err != nil {
		return nil, cfg, err
	}
	send, err := lookup[*cq](r.f, in.u32(12))
	if err != nil {
		return nil, cfg, err
	}
	recv, err := lookup[*cq](r.f, in.u32(16))
	if err != nil {
		return nil, cfg, err
	}
	cfg = verbs.QPConfig{SendCQ: send.v, RecvCQ: recv.v, SignalAll: in.u8(44) != 0}
	if in.u8(46) != 0 {
		shared, err := lookup[*srq](r.f, in.u32(20))
		if err != nil {
			return nil, cfg, err
		}
		cfg.SRQ = shared.v
		caps.recvWR, caps.recvSGE = 0, 0
	}
	l := r.f.ctx.Device().Limits()
	if max(caps.sendWR, caps.recvWR) > uint32(l.MaxQPWR) || max(caps.sendSGE, caps.recvSGE) > uint32(l.MaxSGE) ||
		caps.inline > uint32(l.MaxInline) {
		return nil, cfg, syscall.EINVAL
	}
	// As with the rxe driver the room of the elements takes inline data, too:
	// programs rely on that without asking.
	caps.inline = min(max(caps.inline, max(1, caps.sendSGE)*sgeLen), uint32(l.MaxInline))
	cfg.MaxSend, cfg.MaxRecv = max(1, int(caps.sendWR)), max(1, int(caps.recvWR))
	cfg.MaxSGE, cfg.MaxInline = max(1, int(caps.sendSGE), int(caps.recvSGE)), int(caps.inline)
	return p, cfg, nil
}

// create makes the rings in the program's file, then the queue pair.
func (q *qp) create(r *request, p *pd, cfg verbs.QPConfig) (*verbs.QP, error) {
	arena := q.f.arena
	var err error
	if q.send, err = arena.NewSendQueue(q.f.ctx.Device(), cfg.MaxSend, cfg.MaxSGE, cfg.MaxInline); err != nil {
		return nil, err
	}
	if cfg.SRQ == nil {
		if q.recv, err = arena.NewRecvQueue(cfg.MaxRecv, cfg.MaxSGE); err != nil {
			q.send.Free()
			return nil, err
		}
	}
	r.trace(StepDriver)
	if q.v, err = p.CreateQP(cfg); err != nil {
		q.send.Free()
		if q.recv != nil {
			q.recv.Free()
		}
		return nil, err
	}
	q.v.SetSendSource(q.send)
	if q.recv != nil {
		q.v.SetRecvSource(q.recv)
	}
	return q.v, nil
}

func (r *request) answerQP(h uint32, q *qp) error {
	const extendedLen = createQPAnswerLen + 8
	out := r.reply(extendedLen + 2*ringLen)
	core, uhw := out[:createQPAnswerLen], out[extendedLen:]
	if r.extended {
		core = out[:extendedLen]
		native.PutUint32(core[extendedLen-4:], uint32(min(r.outLen, extendedLen)))
	}
	native.PutUint32(core, h)
	native.PutUint32(core[4:], q.v.Num())
	q.caps.put(core[8:])
	if q.recv != nil {
		putRing(uhw, q.recv)
	}
	putRing(uhw[ringLen:], q.send)
	return r.answerNew(h, core, uhw)
}
