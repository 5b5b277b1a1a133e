package uverbs

import (
	"cmp"
	"syscall"

	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/wire/ib"
)

// What MODIFY_QP changes, the bits of ibv_qp_attr_mask.
const (
	maskState      = 1 << 0
	maskCurState   = 1 << 1
	maskAccess     = 1 << 3
	maskPKeyIndex  = 1 << 4
	maskPort       = 1 << 5
	maskQKey       = 1 << 6
	maskAV         = 1 << 7
	maskTimeout    = 1 << 9
	maskRetries    = 1 << 10
	maskRNRRetry   = 1 << 11
	maskRQPSN      = 1 << 12
	maskMaxRead    = 1 << 13
	maskAltPath    = 1 << 14
	maskMinRNR     = 1 << 15
	maskSQPSN      = 1 << 16
	maskMaxDest    = 1 << 17
	maskDestQPN    = 1 << 20
	maskStandard   = 1<<21 - 1
	maskRateLimit  = 1 << 25
	remoteAccess   = verbs.RemoteRead | verbs.RemoteWrite | verbs.RemoteAtomic
	modifyQPLen    = 112
	qpAttrLen      = 128
	portNumber     = 1
	statesOfKernel = uint8(verbs.Err)
)

// modifyQP serves MODIFY_QP{two paths of 32 octets, handle, mask, qkey, rq_psn,
// sq_psn, dest_qpn, access, u16 pkey, u16 alt_pkey, u8 state, ...}.
func modifyQP(r *request) error {
	if r.in.u32(68)&^maskStandard != 0 {
		return syscall.EOPNOTSUPP
	}
	return r.modifyQP()
}

// modifyQPEx serves the extended MODIFY_QP, the same and {rate_limit, u32}, in kb/s.
func modifyQPEx(r *request) error {
	mask, rate := r.in.u32(68), r.in.u32(modifyQPLen)
	switch {
	case mask&^(maskStandard|maskRateLimit) != 0:
		return syscall.EOPNOTSUPP
	case mask&maskRateLimit != 0 && rate > verbs.MaxRateLimit:
		return syscall.EINVAL
	}
	if err := r.modifyQP(); err != nil {
		return err
	}
	if mask&maskRateLimit != 0 {
		q, err := lookup[*qp](r.f, r.in.u32(64))
		if err = cmp.Or(err, q.v.SetRateLimit(rate)); err != nil {
			return err
		}
	}
	return r.answer(words(0, uint32(min(r.outLen, 8))), nil)
}

func (r *request) modifyQP() error {
	q, err := lookup[*qp](r.f, r.in.u32(64))
	if err != nil {
		return err
	}
	if r.roce() {
		return r.modifyRoCE(q)
	}
	mask := r.in.u32(68)
	state, current := r.in.u8(96), r.in.u8(97)
	switch {
	case mask&maskPort != 0 && r.in.u8(104) != portNumber,
		mask&maskCurState != 0 && current > statesOfKernel,
		mask&maskState != 0 && state > statesOfKernel,
		mask&(maskAV|maskAltPath|maskDestQPN) != 0: // only the CM connects
		return syscall.EINVAL
	}
	if mask&maskAccess != 0 {
		if err := q.v.SetAccess(verbs.Access(r.in.u32(88)) & remoteAccess); err != nil {
			return err
		}
	}
	if mask&maskState != 0 {
		if r.f.bells != nil {
			r.f.bells.Posts(r.in.u32(64), false)
		}
		if err := q.modify(verbs.State(state)); err != nil {
			return err
		}
	}
	q.attr.set(mask, r.in)
	return nil
}

// modify moves the queue pair as iWARP drivers do: the CM makes connections, so
// what leads to one has no effect of its own, and an end before there was one
// none either.
func (q *qp) modify(to verbs.State) error {
	switch state := q.v.State(); {
	case to == verbs.RTR && state != verbs.Reset && state != verbs.Err:
		return nil
	case to == verbs.SQD && (state == verbs.Reset || state == verbs.Init):
		return nil
	}
	return q.v.Modify(to)
}

// set keeps what the mask names.
func (a *qpAttr) set(mask uint32, in body) {
	for _, f := range []struct {
		bit uint32
		to  *uint8
		at  int
	}{
		{maskMaxRead, &a.maxRead, 101}, {maskMaxDest, &a.maxDest, 102}, {maskMinRNR, &a.minRNR, 103},
		{maskTimeout, &a.timeout, 105}, {maskRetries, &a.retries, 106}, {maskRNRRetry, &a.rnrRetry, 107},
	} {
		if mask&f.bit != 0 {
			*f.to = in.u8(f.at)
		}
	}
	for _, f := range []struct {
		bit uint32
		to  *uint32
		at  int
	}{{maskQKey, &a.qkey, 72}, {maskRQPSN, &a.rqPSN, 76}, {maskSQPSN, &a.sqPSN, 80}} {
		if mask&f.bit != 0 {
			*f.to = in.u32(f.at)
		}
	}
	if mask&maskPKeyIndex != 0 {
		a.pkeyIndex = in.u16(92)
	}
}

// queryQP serves QUERY_QP{response, handle, mask}: all attributes, whatever
// the mask says. iWARP's state IDLE is INIT, as iWARP drivers say, also before
// the program asks for it.
func queryQP(r *request, q *qp) error {
	now := q.v.Query()
	a, state := q.attr, uint8(max(now.State, verbs.Init))
	out := abi.QPAttr{
		Caps: q.caps, QKey: a.qkey, RQPSN: a.rqPSN, SQPSN: a.sqPSN, Access: uint32(verbs.LocalWrite | now.Access),
		PKeyIndex: a.pkeyIndex, State: state, CurState: state, PathMTU: ib.MTUCode(q.f.ctx.Device().PortAttr().MTU),
		MaxRead: a.maxRead, MaxDest: a.maxDest, MinRNR: a.minRNR, Port: portNumber, Timeout: a.timeout,
		Retries: a.retries, RNRRetry: a.rnrRetry,
	}
	if q.f.ctx.Device().Fabric() {
		q.queryRoCE(&out)
	}
	if q.v.Config().SignalAll {
		out.SigAll = 1
	}
	return r.answer(abi.Octets(&out), nil)
}
