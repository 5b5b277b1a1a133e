package umode

import (
	"cmp"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/ring"
	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
)

// The library built in: the one for the rings of nic/ring. The driver answers
// the creation of a queue with the places of its rings in the NIC's file
// (rdma/rdma_user_rxe.h), and the post trigger maps them.

// Octets of the driver's answers: places of 16 octets, and two words for an
// SRQ.
const (
	ringPlaceLen = 16
	cqPlaces     = ringPlaceLen
	qpPlaces     = 2 * ringPlaceLen // receive queue, send queue
	srqPlaces    = ringPlaceLen + 8
)

// withoutLibrary does no more than the driver demands: it makes no ring whose
// place nobody wants to know.
func withoutLibrary() *Triggers {
	var t Triggers
	for verb, n := range map[Verb]int{CreateCQ: cqPlaces, CreateCQOfPD: cqPlaces, ResizeCQ: cqPlaces,
		CreateQP: qpPlaces, CreateSRQ: srqPlaces} {
		t[verb].Pre = func(call *Call) error {
			call.Answer = make([]byte, n)
			return nil
		}
	}
	return &t
}

// ringLibrary maps the queues.
func ringLibrary() *Triggers {
	t := withoutLibrary()
	t[CreateCQ].Post, t[CreateCQOfPD].Post, t[ResizeCQ].Post = after(mapCQ), after(mapCQ), after(mapCQ)
	t[CreateQP].Post = after(mapQP)
	t[CreateSRQ].Post = after(mapSRQ)
	t[DestroyCQ].Post = after(func(q *CQ, _ []byte) error { q.bypass = nil; return nil })
	t[DestroyQP].Post = after(func(q *QP, _ []byte) error {
		if r, ok := q.bypass.(*qpRing); ok {
			r.bell.end()
		}
		q.bypass = nil
		return nil
	})
	t[DestroySRQ].Post = after(func(s *SRQ, _ []byte) error { s.bypass = nil; return nil })
	return t
}

// after is a post trigger of verbs about a T that does nothing where the verb has
// failed.
func after[T any](post func(object T, answer []byte) error) func(*Call) error {
	return func(call *Call) error {
		if call.Err != nil {
			return nil
		}
		return post(call.Object.(T), call.Answer)
	}
}

// mapRing maps the ring at a place, for as long as something refers to user.
func mapRing[T any](c *Context, user *T, answer []byte) (mem []byte, err error) {
	place := abi.Get[abi.Place](answer)
	raw, err := c.File().SyscallConn()
	if err == nil {
		failed := raw.Control(func(fd uintptr) {
			mem, err = unix.Mmap(int(fd), int64(place.Offset), int(place.Size), unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_SHARED)
		})
		err = cmp.Or(failed, err)
	}
	if err != nil {
		return nil, fmt.Errorf("map a ring of %d octets: %w", place.Size, err)
	}
	runtime.AddCleanup(user, func(mem []byte) { _ = unix.Munmap(mem) }, mem)
	return mem, nil
}

// cqRing polls a completion queue.
type cqRing struct {
	ctx    *Context
	poller *ring.Poller
	found  [32]ring.Completion
}

func mapCQ(q *CQ, answer []byte) error {
	r := &cqRing{ctx: q.ctx}
	mem, err := mapRing(q.ctx, r, answer)
	if err != nil {
		return err
	}
	if r.poller, err = ring.OpenCompletionQueue(mem); err == nil {
		q.SetBypass(r)
	}
	return err
}

// Poll implements CQBypass.
func (r *cqRing) Poll(wcs []WC) (n int) {
	for n < len(wcs) {
		found := r.poller.Poll(r.found[:min(len(wcs)-n, len(r.found))])
		if found == 0 {
			break
		}
		r.ctx.completions(wcs[n:], r.found[:found])
		n += found
	}
	runtime.KeepAlive(r)
	return n
}

// Arm implements CQArmer.
func (r *cqRing) Arm(solicitedOnly bool) {
	r.poller.Arm(solicitedOnly)
	runtime.KeepAlive(r)
}

// ArmAsleep implements CQSleeper.
func (r *cqRing) ArmAsleep() {
	r.poller.ArmAsleep()
	runtime.KeepAlive(r)
}

// Sleep implements CQSleeper.
func (r *cqRing) Sleep(most time.Duration) (woken bool) {
	woken = r.poller.Sleep(most)
	runtime.KeepAlive(r)
	return woken
}

// completions makes completions of this process from those of a ring.
func (c *Context) completions(wcs []WC, found []ring.Completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range found {
		f := &found[i]
		wcs[i] = WC{QP: c.qps[f.QPN], WC: verbs.WC{
			ID: f.ID, Status: f.Status, Opcode: f.Opcode, ByteLen: f.ByteLen,
			WithImm: f.WithImm, Imm: uint64(f.Imm), WithInv: f.WithInv, Invalidated: f.Invalidated,
		}}
		if q := wcs[i].QP; q != nil && f.Status != verbs.StatusSuccess {
			q.broken.Store(true)
		}
	}
}

// qpRing posts to a queue pair.
type qpRing struct {
	qp   *QP
	send *ring.SendPoster
	recv *ring.RecvPoster // nil: an SRQ takes its place
	bell *bell            // announces sends
}

func mapQP(q *QP, answer []byte) error {
	command := fields(uint64(0), q.handle, uint32(0), uint32(0), uint32(sendWRLen))
	putHeader(command, abi.CmdPostSend, 4)
	r := &qpRing{qp: q, bell: q.ctx.dev.newBell(command)}
	mem, err := mapRing(q.ctx, r, answer[ringPlaceLen:])
	if err != nil {
		return err
	}
	if r.send, err = ring.OpenSendQueue(mem, q.cfg.MaxSGE, q.cfg.MaxInline); err != nil {
		return err
	}
	if q.cfg.SRQ == nil {
		if mem, err = mapRing(q.ctx, r, answer); err != nil {
			return err
		}
		if r.recv, err = ring.OpenRecvQueue(mem, q.cfg.MaxSGE); err != nil {
			return err
		}
	}
	q.SetBypass(r)
	return nil
}

// PostSend implements QPBypass.
func (r *qpRing) PostSend(wrs []verbs.SendWR) (n int, err error) {
	defer runtime.KeepAlive(r)
	for n < len(wrs) && err == nil {
		if err = r.send.Post(&wrs[n]); err == nil {
			n++
		}
	}
	if n > 0 {
		if lost := r.bell.ring(); lost != nil {
			err = lost
		}
	}
	if err != nil {
		err = fmt.Errorf("post send to QP %d: %w", r.qp.num, err)
	}
	return n, err
}

// BindMW implements QPBypass.
func (r *qpRing) BindMW(id uint64, flags verbs.SendFlags, b Bind, rkey uint32) error {
	defer runtime.KeepAlive(r)
	keys := ring.BindKeys{RKey: b.MW.rkey, NewRKey: rkey, Addr: b.Addr, Length: b.Length, Access: b.Access}
	if b.MR != nil {
		keys.LKey = b.MR.lkey
	}
	if err := r.send.PostBind(id, flags, keys); err != nil {
		return err
	}
	return r.bell.ring()
}

// PostRecv implements QPBypass. The NIC looks when it needs a receive; one that
// has failed looks no more, unless it is told to.
func (r *qpRing) PostRecv(wrs []verbs.RecvWR) (n int, err error) {
	defer runtime.KeepAlive(r)
	if r.recv == nil {
		return 0, fmt.Errorf("post receive to QP %d: it takes receives from an SRQ: %w", r.qp.num, verbs.ErrInvalid)
	}
	if n, err = postRecvs(r.recv, wrs); err != nil {
		return n, fmt.Errorf("post receive to QP %d: %w", r.qp.num, err)
	}
	if r.qp.broken.Load() {
		err = r.bell.ring()
	}
	return n, err
}

func postRecvs(p *ring.RecvPoster, wrs []verbs.RecvWR) (int, error) {
	for i := range wrs {
		if err := p.Post(&wrs[i]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

// srqRing posts to a shared receive queue.
type srqRing struct {
	srq  *SRQ
	recv *ring.RecvPoster
}

func mapSRQ(s *SRQ, answer []byte) error {
	r := &srqRing{srq: s}
	mem, err := mapRing(s.ctx, r, answer)
	if err != nil {
		return err
	}
	if r.recv, err = ring.OpenRecvQueue(mem, s.max.MaxSGE); err == nil {
		s.SetBypass(r)
	}
	return err
}

// PostRecv implements SRQBypass.
func (r *srqRing) PostRecv(wrs []verbs.RecvWR) (int, error) {
	defer runtime.KeepAlive(r)
	n, err := postRecvs(r.recv, wrs)
	if err != nil {
		err = fmt.Errorf("post receive to SRQ %d: %w", r.srq.num, err)
	}
	return n, err
}
