package ring

import (
	"fmt"
	"sync/atomic"
	"time"

	"tapir/nic/verbs"
)

// SendPoster is the program half of a send queue.
type SendPoster struct {
	ring      producer
	maxSGE    int
	maxInline int
}

// OpenSendQueue takes up the program half of the send queue in mem, whose
// requests have up to maxSGE elements or maxInline octets of inline data.
// ErrLayout if there is none.
func OpenSendQueue(mem []byte, maxSGE, maxInline int) (*SendPoster, error) {
	h, err := open(mem, sendData+max(maxSGE*sgeLen, maxInline), offProducer, offConsumer)
	if err != nil {
		return nil, fmt.Errorf("send queue: %w", err)
	}
	return &SendPoster{ring: producer{h}, maxSGE: maxSGE, maxInline: maxInline}, nil
}

// Post writes wr to the queue. The device does not look before it is told to
// (a doorbell). wr.Bind is not used; a window is bound by PostBind. Errors:
// verbs.ErrQueueFull, ErrTooManySGE, ErrInlineSize, and ErrUnsupported for an
// operation that the layout has no number for.
func (p *SendPoster) Post(wr *verbs.SendWR) error { return p.post(wr, nil) }

// PostBind writes the binding of a window to the queue, as Post does with
// other requests.
func (p *SendPoster) PostBind(id uint64, flags verbs.SendFlags, b BindKeys) error {
	return p.post(&verbs.SendWR{ID: id, Opcode: verbs.OpBindMW, Flags: flags}, &b)
}

func (p *SendPoster) post(wr *verbs.SendWR, b *BindKeys) error {
	code, known := Number(wr.Opcode)
	e := p.ring.room()
	switch inline := wr.Flags&verbs.Inline != 0; {
	case !known || wr.Opcode == verbs.OpBindMW && b == nil:
		return fmt.Errorf("%v in a shared send queue: %w", wr.Opcode, verbs.ErrUnsupported)
	case e == nil:
		return verbs.ErrQueueFull
	case inline && len(wr.Inline) > p.maxInline:
		return verbs.ErrInlineSize
	case !inline && len(wr.SGEs) > p.maxSGE:
		return verbs.ErrTooManySGE
	}
	clear(e[:sendData])
	host.PutUint64(e[sendID:], wr.ID)
	host.PutUint32(e[sendOpcode:], code)
	host.PutUint32(e[sendFlags:], FlagsNumber(wr.Flags))
	if b != nil {
		b.put(e)
	} else {
		putTarget(e, wr)
		putPayload(e, wr)
	}
	p.ring.advance()
	return nil
}

// putTarget writes what wr does at the peer.
func putTarget(e []byte, wr *verbs.SendWR) {
	switch wr.Opcode {
	case verbs.OpSendImm, verbs.OpWriteImm:
		putImm(e[sendImm:], wr.Imm)
	case verbs.OpSendInv, verbs.OpLocalInv:
		host.PutUint32(e[sendImm:], wr.Invalidate)
	}
	host.PutUint64(e[sendAddr:], wr.RemoteAddr)
	host.PutUint64(e[sendIOVA:], wr.RemoteAddr)
	host.PutUint32(e[sendXRCSRQ:], wr.RemoteSRQ)
	if !wr.Opcode.Atomic() {
		host.PutUint32(e[sendRKey:], wr.RKey)
		return
	}
	host.PutUint64(e[sendCompareAdd:], wr.Atomic.CompareAdd)
	host.PutUint64(e[sendSwap:], wr.Atomic.Swap)
	host.PutUint32(e[sendAtomicRKey:], wr.RKey)
}

func putPayload(e []byte, wr *verbs.SendWR) {
	var total uint32
	if wr.Flags&verbs.Inline != 0 {
		total = uint32(copy(e[sendData:], wr.Inline))
	} else {
		total = putSGEs(e[sendData:], wr.SGEs)
		host.PutUint32(e[sendNumSGE:], uint32(len(wr.SGEs)))
		host.PutUint32(e[sendDMASGE:], uint32(len(wr.SGEs)))
	}
	host.PutUint32(e[sendLength:], total)
	host.PutUint32(e[sendResid:], total)
}

// RecvPoster is the program half of a receive queue or SRQ.
type RecvPoster struct {
	ring   producer
	maxSGE int
}

// OpenRecvQueue takes up the program half of the receive queue or SRQ in mem,
// whose requests have up to maxSGE elements. ErrLayout if there is none.
func OpenRecvQueue(mem []byte, maxSGE int) (*RecvPoster, error) {
	h, err := open(mem, recvData+maxSGE*sgeLen, offProducer, offConsumer)
	if err != nil {
		return nil, fmt.Errorf("receive queue: %w", err)
	}
	return &RecvPoster{ring: producer{h}, maxSGE: maxSGE}, nil
}

// Post gives wr to the device. Errors: verbs.ErrQueueFull, ErrTooManySGE.
func (p *RecvPoster) Post(wr *verbs.RecvWR) error {
	e := p.ring.room()
	switch {
	case e == nil:
		return verbs.ErrQueueFull
	case len(wr.SGEs) > p.maxSGE:
		return verbs.ErrTooManySGE
	}
	clear(e[:recvData])
	host.PutUint64(e[recvID:], wr.ID)
	host.PutUint32(e[recvNumSGE:], uint32(len(wr.SGEs)))
	host.PutUint32(e[recvDMASGE:], uint32(len(wr.SGEs)))
	total := putSGEs(e[recvData:], wr.SGEs)
	host.PutUint32(e[recvLength:], total)
	host.PutUint32(e[recvResid:], total)
	p.ring.advance()
	return nil
}

// Poller is the program half of a completion queue.
type Poller struct {
	ring  consumer
	armed *atomic.Uint32
	cqe   [cqeLen]byte
}

// OpenCompletionQueue takes up the program half of the completion queue in
// mem. ErrLayout if there is none.
func OpenCompletionQueue(mem []byte) (*Poller, error) {
	h, err := open(mem, cqeLen, offConsumer, offProducer)
	if err != nil {
		return nil, fmt.Errorf("completion queue: %w", err)
	}
	return &Poller{ring: consumer{h}, armed: word(mem, offArmed)}, nil
}

// Arm asks for one notification at the next completion or, with solicitedOnly,
// at the next that is solicited or failed. What is in the queue already causes
// none: poll after it.
func (p *Poller) Arm(solicitedOnly bool) {
	if solicitedOnly {
		p.armed.CompareAndSwap(armedNot, armedSolicited)
	} else {
		p.armed.Store(armedNext)
	}
}

// ArmAsleep is Arm for a program that sleeps by Sleep instead of waiting for a
// notification: there will be none.
func (p *Poller) ArmAsleep() { p.armed.Store(armedAsleep) }

// Sleep follows ArmAsleep, and a Poll that has found nothing. It returns when
// the next completion is there (woken), when most has passed, or when a signal
// came. Then, unless woken, the queue is armed as by Arm(false).
func (p *Poller) Sleep(most time.Duration) (woken bool) {
	sleep(p.armed, armedAsleep, most)
	return !p.armed.CompareAndSwap(armedAsleep, armedNext)
}

// Poll moves up to len(list) completions into list, oldest first, and returns
// their number.
func (p *Poller) Poll(list []Completion) int {
	for n := range list {
		e := p.ring.next()
		if e == nil {
			return n
		}
		copy(p.cqe[:], e)
		list[n].Parse(p.cqe[:])
		p.ring.advance()
	}
	return len(list)
}
