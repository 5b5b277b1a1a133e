package uverbs

import (
	"cmp"
	"encoding/binary"
	"syscall"

	"tapir/nic/ring"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
)

// posted is what the commands that carry work requests have in common:
// {response, handle, wr_count, sge_count, wqe_size}, the requests, then the
// elements of all.
type posted struct {
	count, size uint32
	wrs, sges   body
}

const sgeLen = 16

// posted reads it; a request has at least least octets.
func (r *request) posted(least uint32) (p posted, err error) {
	p.count, p.size = r.in.u32(12), r.in.u32(20)
	rest := r.in[24:]
	wrs, sges := uint64(p.count)*uint64(p.size), uint64(r.in.u32(16))*sgeLen
	switch {
	case p.count > 0 && p.size < least:
		return p, syscall.EINVAL
	case wrs > uint64(len(rest)) || sges > uint64(len(rest))-wrs:
		return p, syscall.ENOSPC
	case !isZero(rest[wrs+sges:]):
		return p, syscall.EOPNOTSUPP
	}
	p.wrs, p.sges = rest[:wrs], rest[wrs:wrs+sges]
	return p, nil
}

// next cuts off a request and the elements that it counts at octet 8.
func (p *posted) next() (wr body, sges []verbs.SGE, err error) {
	wr, p.wrs = p.wrs[:p.size], p.wrs[p.size:]
	n := uint64(wr.u32(8)) * sgeLen
	if n > uint64(len(p.sges)) {
		return nil, nil, syscall.EINVAL
	}
	for b := p.sges[:n]; len(b) > 0; b = b[sgeLen:] {
		sges = append(sges, verbs.SGE{Addr: b.u64(0), Length: b.u32(8), LKey: b.u32(12)})
	}
	p.sges = p.sges[n:]
	return wr, sges, nil
}

// answerPosted tells which request, from 1, was refused; 0: none.
func (r *request) answerPosted(bad int, err error) error {
	if err == nil {
		bad = -1
	}
	return cmp.Or(r.answer(words(uint32(bad+1)), nil), err)
}

// sendWRLen and recvWRLen are struct ib_uverbs_send_wr and ib_uverbs_recv_wr.
const (
	sendWRLen = 56
	recvWRLen = 16
)

// postSend serves POST_SEND. Without requests it is a provider's doorbell for
// what stands in the send ring; no provider looks at the answer to that.
func postSend(r *request, q *qp) error {
	p, err := r.posted(sendWRLen)
	if err != nil {
		return err
	}
	if p.count == 0 {
		err := q.v.Doorbell()
		if b := r.f.bells; b != nil && err == nil && q.v.State() == verbs.RTS {
			b.Posts(r.in.u32(8), true)
		}
		return err
	}
	var wrs []verbs.SendWR
	for range p.count {
		wr, err := r.sendWR(&p, q)
		if err != nil {
			return err
		}
		wrs = append(wrs, wr)
	}
	return r.answerPosted(q.v.PostSend(wrs...))
}

// sendWR reads the next request of p. Inline data is taken from the program's
// memory at once.
func (r *request) sendWR(p *posted, q *qp) (wr verbs.SendWR, err error) {
	in, sges, err := p.next()
	if err != nil {
		return wr, err
	}
	op, known := ring.Opcode(in.u32(12))
	if !known || op.Local() {
		return wr, syscall.EINVAL
	}
	wr = verbs.SendWR{ID: in.u64(0), Opcode: op, SGEs: sges, RemoteAddr: in.u64(24), RKey: in.u32(32),
		Flags: ring.Flags(in.u32(16)), RemoteSRQ: in.u32(52)} // reserved octets: the kernel has no field for it
	if q.v.Type() == qpattr.UD {
		a, err := lookup[*ah](r.f, in.u32(24))
		if err != nil {
			return wr, err
		}
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = a.v, in.u32(28), in.u32(32)
		wr.RemoteAddr, wr.RKey = 0, 0
	}
	switch op {
	case verbs.OpSendImm, verbs.OpWriteImm:
		wr.Imm = uint64(binary.BigEndian.Uint32(in[20:]))
	case verbs.OpSendInv:
		wr.Invalidate = in.u32(20)
	case verbs.OpCompSwap, verbs.OpFetchAdd:
		wr.Atomic = verbs.Operands{CompareAdd: in.u64(32), Swap: in.u64(40)}
		wr.RKey = in.u32(48)
	}
	if wr.Flags&verbs.Inline != 0 {
		wr.Inline, err = r.gather(sges, int(q.caps.Inline))
		wr.SGEs = nil
	}
	return wr, err
}

// gather copies what sges name, at most most octets.
func (r *request) gather(sges []verbs.SGE, most int) (data []byte, err error) {
	for _, s := range sges {
		if int(s.Length) > most-len(data) {
			return nil, syscall.EINVAL
		}
		at := len(data)
		data = append(data, make([]byte, s.Length)...)
		if err := r.c.Read(s.Addr, data[at:]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// receiver is a QP or SRQ.
type receiver interface {
	PostRecv(wrs ...verbs.RecvWR) (bad int, err error)
}

// postRecv serves POST_RECV, postSRQRecv POST_SRQ_RECV.
func postRecv(r *request, q *qp) error     { return r.postRecv(q.v) }
func postSRQRecv(r *request, s *srq) error { return r.postRecv(s.v) }

func (r *request) postRecv(to receiver) error {
	p, err := r.posted(recvWRLen)
	if err != nil {
		return err
	}
	var wrs []verbs.RecvWR
	for range p.count {
		in, sges, err := p.next()
		if err != nil {
			return err
		}
		wrs = append(wrs, verbs.RecvWR{ID: in.u64(0), SGEs: sges})
	}
	return r.answerPosted(to.PostRecv(wrs...))
}
