package rdma

import "encoding/binary"

// Codes that the firmware returns (rdma_fw_return_code).
const (
	OK           = 0
	GeneralError = 5
)

// Firmware is what of a function's firmware serves RDMA. It remembers nothing
// beside the contexts.
type Firmware struct {
	// Context is the memory of an acquired connection id, SRQ that of a shared
	// receive queue; nil: there is none.
	Context, SRQ func(id int) []byte

	started bool
}

// Words of a queue pair's context, little endian. Bit 0 of the first octet says
// that it is one, bit 1 that it has a connection; the second octet is the state.
const (
	ctxFlags = 0
	ctxState = 1
	ctxWords = 4 // those of QP

	flagMade      = 1
	flagOffloaded = 2
)

// Words of a shared receive queue's context: that it is one, its handle, its limit.
const (
	srqMade   = 0
	srqHandle = 4
	srqLimit  = 8
)

// Reset is the firmware's when the function stops: RDMA has to be started anew.
func (f *Firmware) Reset() { f.started = false }

// Execute does a ramrod about a connection.
func (f *Firmware) Execute(c Command, cid int, p any) (code uint8, data uint64) {
	switch {
	case c == FuncInit && !f.started, c == FuncClose && f.started:
		f.started = c == FuncInit
		return OK, 0
	case !f.started:
		return GeneralError, 0
	case c == CreateSRQ || c == ModifySRQ || c == DestroySRQ:
		return f.srq(c, p), 0
	}
	return f.qp(c, cid, p)
}

// qp does one of a queue pair.
func (f *Firmware) qp(c Command, cid int, p any) (code uint8, data uint64) {
	ctx := f.Context(cid)
	if ctx == nil || (ctx[ctxFlags]&flagMade != 0) == (c == CreateQP) {
		return GeneralError, 0
	}
	state := State(ctx[ctxState])
	switch c {
	case CreateQP:
		p, ok := p.(*QP)
		if !ok {
			return GeneralError, 0
		}
		ctx[ctxFlags], ctx[ctxState] = flagMade, byte(Idle)
		for i, v := range [...]uint32{p.Handle, p.PD, p.SendCQ, p.RecvCQ, p.SRQ} {
			binary.LittleEndian.PutUint32(ctx[ctxWords+4*i:], v)
		}
	case MPAOffload:
		if state != Idle {
			return GeneralError, 0
		}
		ctx[ctxFlags] |= flagOffloaded
	case ModifyQP:
		to, ok := p.(State)
		if !ok || !mayMove(state, to) {
			return GeneralError, 0
		}
		f.move(ctx, to)
	case QueryQP:
		return OK, uint64(state)
	case DestroyQP:
		if state != Idle && state != Error {
			return GeneralError, 0
		}
		clear(ctx)
	default:
		return GeneralError, 0
	}
	return OK, 0
}

// mayMove tells which moves the driver may ask for. To close what is in error may
// cross on the way, and does nothing.
func mayMove(from, to State) bool {
	switch to {
	case Idle:
		return true
	case Closing:
		return from == RTS || from == Error
	}
	return to == Error
}

func (f *Firmware) move(ctx []byte, to State) {
	if to == Closing && State(ctx[ctxState]) == Error {
		return
	}
	ctx[ctxState] = byte(to)
	if to == Idle || to == Error {
		ctx[ctxFlags] &^= flagOffloaded
	}
}

// srq does one of a shared receive queue.
func (f *Firmware) srq(c Command, data any) (code uint8) {
	p, ok := data.(*SRQ)
	if !ok {
		return GeneralError
	}
	ctx := f.SRQ(int(p.ID))
	if ctx == nil || (ctx[srqMade] != 0) == (c == CreateSRQ) {
		return GeneralError
	}
	if c == DestroySRQ {
		clear(ctx)
		return OK
	}
	ctx[srqMade] = 1
	binary.LittleEndian.PutUint32(ctx[srqHandle:], p.Handle)
	binary.LittleEndian.PutUint32(ctx[srqLimit:], p.Limit)
	return OK
}

// Moved is the firmware moving a queue pair itself: MPA has agreed, or the
// connection ends.
func (f *Firmware) Moved(cid int, to State) {
	if ctx := f.Context(cid); ctx != nil && ctx[ctxFlags]&flagMade != 0 {
		f.move(ctx, to)
	}
}

// Limit disarms the limit of a shared receive queue, which it has reached, and
// tells whether it was armed.
func (f *Firmware) Limit(id int) bool {
	ctx := f.SRQ(id)
	if ctx == nil || binary.LittleEndian.Uint32(ctx[srqLimit:]) == 0 {
		return false
	}
	binary.LittleEndian.PutUint32(ctx[srqLimit:], 0)
	return true
}
