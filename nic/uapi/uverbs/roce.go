package uverbs

import (
	"cmp"
	"errors"
	"syscall"

	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
)

// What only devices of RoCE have: address handles, multicast groups, XRC domains, and
// queue pairs that programs connect by MODIFY_QP.

// roce tells whether the device has them.
func (r *request) roce() bool { return r.f.ctx.Device().Fabric() }

// fabric serves a command that an RNIC has not got.
func fabric(serve func(*request) error) func(*request) error {
	return func(r *request) error {
		if !r.roce() {
			return syscall.EOPNOTSUPP
		}
		return serve(r)
	}
}

// qpTypes are the types of queue pairs by ibv_qp_type.
var qpTypes = map[uint8]qpattr.Type{typeRC: qpattr.RC, typeUC: qpattr.UC, typeUD: qpattr.UD,
	typeXRCSend: qpattr.XRCInitiator, typeXRCRecv: qpattr.XRCTarget}

// ah is an address handle.
type ah struct{ v *verbs.AH }

func (a *ah) destroy() error { return a.v.Destroy() }

// createAH serves CREATE_AH{response, user_handle, pd, u32, struct ib_uverbs_ah_attr} ->
// {handle} {u32 number, u32}: requests of the rxe provider name the handle by its number.
func createAH(r *request) error {
	p, err := lookup[*pd](r.f, r.in.u32(16))
	if err != nil {
		return err
	}
	attr := r.in[24:]
	path := abi.AHPath(attr)
	if attr.u8(29) == 0 || attr.u8(30) != portNumber || r.f.gidAt(int(path.SGIDIndex)) == (verbs.GID{}) {
		return syscall.EINVAL // RoCE has no LIDs
	}
	a := &ah{}
	return r.create(a, func() (err error) {
		a.v, err = p.CreateAH(path)
		return err
	}, func(h uint32) (core, uhw []byte) { return words(h), words(a.v.Num(), 0) })
}

// attachMcast serves ATTACH_MCAST{gid, handle, u16 lid}, detachMcast DETACH_MCAST.
func attachMcast(r *request, q *qp) error { return q.v.AttachMcast(verbs.GID(r.in[:16])) }
func detachMcast(r *request, q *qp) error { return q.v.DetachMcast(verbs.GID(r.in[:16])) }

// xrcd is an XRC domain.
type xrcd struct {
	v  *verbs.XRCD
	pd *pd // of its target queue pairs
}

func (x *xrcd) destroy() error {
	if err := x.v.Dealloc(); err != nil {
		return err
	}
	return x.pd.Dealloc()
}

// noFile is the descriptor of a domain that no other process shares.
const noFile = ^uint32(0)

// openXRCD serves OPEN_XRCD{response, fd, flags} -> {handle}. EOPNOTSUPP: with a file, by
// which other processes would find the domain.
func openXRCD(r *request) error {
	if r.in.u32(8) != noFile {
		return syscall.EOPNOTSUPP
	}
	x := &xrcd{}
	return r.create(x, func() (err error) {
		if x.v, err = r.f.ctx.AllocXRCD(); err != nil {
			return err
		}
		var p *verbs.PD
		if p, err = r.f.ctx.AllocPD(); err != nil {
			return errors.Join(err, x.v.Dealloc())
		}
		x.pd = &pd{p}
		return nil
	}, func(h uint32) (core, uhw []byte) { return words(h), nil })
}

// modifyRoCE serves MODIFY_QP: all that the mask names, or nothing.
func (r *request) modifyRoCE(q *qp) error {
	in, mask := r.in, r.in.u32(68)
	a := qpattr.Attr{QKey: in.u32(72), RQPSN: in.u32(76) & psnMask, SQPSN: in.u32(80) & psnMask, DestQPN: in.u32(84),
		Access: uint8(verbs.Access(in.u32(88)) & remoteAccess), PKeyIndex: in.u16(92), CurState: in.u8(97),
		PathMTU: qpattr.MTUOctets(in.u8(98)), SQDNotify: in.u8(100) != 0, MaxRdAtomic: in.u8(101),
		MaxDestRdAtomic: in.u8(102), MinRNRTimer: in.u8(103), Port: in.u8(104), Timeout: in.u8(105),
		RetryCount: in.u8(106), RNRRetry: in.u8(107), Path: abi.DestPath(in)}
	to := q.v.State()
	if mask&maskState != 0 {
		if to = verbs.State(in.u8(96)); to > verbs.Err {
			return syscall.EINVAL
		}
	}
	switch {
	case mask&maskCurState != 0 && a.CurState > statesOfKernel,
		mask&maskAV != 0 && (in.u8(30) == 0 || r.f.gidAt(int(a.Path.SGIDIndex)) == (verbs.GID{})):
		return syscall.EINVAL
	}
	if r.f.bells != nil && mask&maskState != 0 {
		r.f.bells.Posts(in.u32(64), false)
	}
	return q.v.ModifyAttr(to, &a, qpattr.Mask(mask&maskStandard))
}

// psnMask cuts a packet sequence number to its 24 bits, as the kernel does.
const psnMask = 1<<24 - 1

// queryRoCE fills in what QUERY_QP tells of a queue pair of RoCE.
func (q *qp) queryRoCE(out *abi.QPAttr) {
	a := q.v.Attr()
	state := uint8(q.v.State())
	out.State, out.CurState = state, state
	out.QKey, out.RQPSN, out.SQPSN, out.DestQPN, out.PKeyIndex = a.QKey, a.RQPSN, a.SQPSN, a.DestQPN, a.PKeyIndex
	out.PathMTU = cmp.Or(qpattr.MTUCode(a.PathMTU), qpattr.MTUCode(q.f.ctx.Device().PathMTU()))
	out.MaxRead, out.MaxDest, out.MinRNR = a.MaxRdAtomic, a.MaxDestRdAtomic, a.MinRNRTimer
	out.Timeout, out.Retries, out.RNRRetry = a.Timeout, a.RetryCount, a.RNRRetry
	out.Access = uint32(q.v.Access())
	out.Dest = abi.DestOf(&a.Path)
}
