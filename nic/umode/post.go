package umode

import (
	"encoding/binary"
	"fmt"

	"tapir/nic/ring"
	"tapir/nic/uapi/abi"
	"tapir/nic/umode/proxy"
	"tapir/nic/verbs"
)

// Work requests and completions as the commands POST_SEND, POST_RECV,
// POST_SRQ_RECV and POLL_CQ carry them, for who has no bypass.

// Octets of a request, an element and a completion in a command.
const (
	sendWRLen = 56
	recvWRLen = 16
	sgeLen    = 16
	wcLen     = 48
)

// Most requests, and completions, of one command.
const (
	maxPosted = 128
	maxPolled = 512
)

// posting is a command that carries requests.
type posting struct {
	wrs, sges []byte
	elements  uint32
	inline    []byte // goes with the message, behind the answer
}

func (p *posting) addSGEs(list []verbs.SGE) uint32 {
	for i := range list {
		p.sges = append(p.sges, abi.Octets(&abi.SGE{Addr: list[i].Addr, Length: list[i].Length, LKey: list[i].LKey})...)
	}
	p.elements += uint32(len(list))
	return uint32(len(list))
}

// postAnswer is the answer of a command that posts: the number of the bad
// request.
const postAnswer = 8

// sendable refuses what the command cannot carry.
func sendable(wr *verbs.SendWR) error {
	if _, known := ring.Number(wr.Opcode); !known || wr.Opcode.Local() || wr.Flags&verbs.LocalFence != 0 {
		return fmt.Errorf("WR %d: %v without a library: %w", wr.ID, wr.Opcode, verbs.ErrUnsupported)
	}
	return nil
}

func (p *posting) addSend(wr *verbs.SendWR) {
	number, _ := ring.Number(wr.Opcode)
	sges := wr.SGEs
	if wr.Flags&verbs.Inline != 0 {
		at := proxy.Base + postAnswer + uint64(len(p.inline))
		sges = []verbs.SGE{{Addr: at, Length: uint32(len(wr.Inline))}}
		p.inline = append(p.inline, wr.Inline...)
	}
	w := abi.SendWR{ID: wr.ID, SGEs: p.addSGEs(sges), Opcode: number, Flags: ring.FlagsNumber(wr.Flags),
		RemoteAddr: wr.RemoteAddr}
	switch wr.Opcode {
	case verbs.OpSendImm, verbs.OpWriteImm: // the low half, as nic/ring
		binary.BigEndian.PutUint32(w.Imm[:], uint32(wr.Imm))
	default:
		native.PutUint32(w.Imm[:], wr.Invalidate)
	}
	if wr.Opcode.Atomic() {
		w.CompareAdd, w.Swap, w.AtomicRKey = wr.Atomic.CompareAdd, wr.Atomic.Swap, wr.RKey
	} else {
		w.CompareAdd = uint64(wr.RKey) // in its place, in the low half
	}
	p.wrs = append(p.wrs, abi.Octets(&w)...)
}

// post sends a batch of n requests of size octets; it returns how many were
// taken.
func (c *Context) post(call *Call, handle uint32, p *posting, n, size int) (int, error) {
	b := append(fields(response, handle, uint32(n), p.elements, uint32(size)), p.wrs...)
	b = append(append(b, p.sges...), call.Private...)
	putHeader(b, rows[call.Verb].command, 4)
	var before []byte
	if len(p.inline) > 0 {
		before = append(make([]byte, postAnswer), p.inline...)
	}
	memory := make([]byte, postAnswer+len(p.inline))
	if err := c.dev.with(before, b, memory); err != nil {
		return max(0, int(native.Uint32(memory))-1), err
	}
	return n, nil
}

// batches calls post with parts of n requests until one fails.
func batches(n int, post func(from, to int) (int, error)) (done int, err error) {
	for done < n && err == nil {
		taken := 0
		taken, err = post(done, min(n, done+maxPosted))
		done += taken
	}
	return done, err
}

// PostSend queues wrs in order. On error it returns the index of the first
// request that was not queued; those before it were. Regions and windows are
// named by their keys: FastReg is not available, and BindMW binds.
func (q *QP) PostSend(wrs ...verbs.SendWR) (bad int, err error) {
	if q.bypass != nil {
		return q.bypass.PostSend(wrs)
	}
	call := &Call{Verb: PostSend, Object: q}
	c, n, refused := q.ctx, len(wrs), error(nil)
	for i := range wrs {
		if refused = sendable(&wrs[i]); refused != nil {
			n = i
			break
		}
	}
	err = c.run(call, func() error {
		bad, err = batches(n, func(from, to int) (int, error) {
			var p posting
			for i := from; i < to; i++ {
				p.addSend(&wrs[i])
			}
			return c.post(call, q.handle, &p, to-from, sendWRLen)
		})
		if err == nil {
			err = refused
		}
		return err
	}, nil)
	return bad, err
}

// postRecv posts wrs to a queue pair or an SRQ by the command of v.
func (o *object) postRecv(v Verb, self any, wrs []verbs.RecvWR) (bad int, err error) {
	call := &Call{Verb: v, Object: self}
	err = o.ctx.run(call, func() error {
		bad, err = batches(len(wrs), func(from, to int) (int, error) {
			var p posting
			for i := from; i < to; i++ {
				p.wrs = append(p.wrs, abi.Octets(&abi.RecvWR{ID: wrs[i].ID, SGEs: p.addSGEs(wrs[i].SGEs)})...)
			}
			return o.ctx.post(call, o.handle, &p, to-from, recvWRLen)
		})
		return err
	}, nil)
	return bad, err
}

// PostRecv queues wrs in order. On error it returns the index of the first
// request that was not queued; those before it were.
func (q *QP) PostRecv(wrs ...verbs.RecvWR) (bad int, err error) {
	if q.bypass != nil {
		return q.bypass.PostRecv(wrs)
	}
	return q.postRecv(PostRecv, q, wrs)
}

// PostRecv queues wrs in order, as QP.PostRecv.
func (s *SRQ) PostRecv(wrs ...verbs.RecvWR) (bad int, err error) {
	if s.bypass != nil {
		return s.bypass.PostRecv(wrs)
	}
	return s.postRecv(PostSRQRecv, s, wrs)
}

// Bind describes the binding of a window. A Length of 0 unbinds.
type Bind struct {
	MW     *MW
	MR     *MR
	Addr   uint64 // within MR's addresses
	Length uint64
	Access verbs.Access // RemoteRead, RemoteWrite, RemoteAtomic, ZeroBased
}

// BindMW posts the binding of a window and returns the STag that it will have
// when the request's turn has come. Without a library it is ErrUnsupported:
// the commands cannot carry it.
func (q *QP) BindMW(id uint64, flags verbs.SendFlags, b Bind) (rkey uint32, err error) {
	call := &Call{Verb: BindMW, Object: q}
	err = q.ctx.run(call, func() error {
		if q.bypass == nil || b.MW == nil {
			return verbs.ErrUnsupported
		}
		rkey = b.MW.rkey&^0xff | uint32(uint8(b.MW.rkey)+1)
		return q.bypass.BindMW(id, flags, b, rkey)
	}, nil)
	if err != nil {
		return 0, err
	}
	b.MW.rkey = rkey
	return rkey, nil
}

// pollProxy polls by command.
func (q *CQ) pollProxy(wcs []WC) (n int, err error) {
	call := &Call{Verb: PollCQ, Object: q}
	err = q.ctx.run(call, func() error {
		most := min(len(wcs), maxPolled)
		b, err := q.ctx.execute(call, fields(response, q.handle, uint32(most)), 8+most*wcLen)
		if err != nil {
			return err
		}
		found := make([]ring.Completion, min(int(native.Uint32(b)), most))
		for i := range found {
			found[i].Parse(b[8+i*wcLen:])
		}
		q.ctx.completions(wcs, found)
		n = len(found)
		return nil
	}, nil)
	return n, err
}
