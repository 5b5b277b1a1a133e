package rdma

import (
	"encoding/binary"

	"tapir/wire/enum"
)

// RoCECommand is the id of a ramrod of RoCE (roce_ramrod_cmd_id); those of Command up to
// DestroySRQ are common.
type RoCECommand uint8

// The commands. Each is about one half of a queue pair: its responder or its requester.
const (
	RoCECreateQP  RoCECommand = 13
	RoCEModifyQP  RoCECommand = 14
	RoCEQueryQP   RoCECommand = 15
	RoCEDestroyQP RoCECommand = 16
)

var roceCommands = [...]string{RoCECreateQP: "CREATE_QP", RoCEModifyQP: "MODIFY_QP", RoCEQueryQP: "QUERY_QP",
	RoCEDestroyQP: "DESTROY_QP"}

// String is the command's name.
func (c RoCECommand) String() string {
	if int(c) < int(RoCECreateQP) {
		return Command(c).String()
	}
	return enum.Name(roceCommands[:], c, "Command(%d)")
}

// RoCEEvent is what the firmware tells of itself (roce_async_events_type).
type RoCEEvent uint8

// The events.
const (
	CommEst          RoCEEvent = 1
	SQDrained        RoCEEvent = 2
	RoCESRQLimit     RoCEEvent = 3
	LastWQEReached   RoCEEvent = 4
	InvalidRequest   RoCEEvent = 6
	LocalAccess      RoCEEvent = 8
	QPCatastrophic   RoCEEvent = 9
	RoCECQOverflow   RoCEEvent = 10
	NumRoCEEvents    RoCEEvent = 16
	roceHandleOctets           = 4
)

var roceEvents = [NumRoCEEvents]string{CommEst: "COMM_EST", SQDrained: "SQ_DRAINED", RoCESRQLimit: "SRQ_LIMIT",
	LastWQEReached: "LAST_WQE_REACHED", InvalidRequest: "LOCAL_INVALID_REQUEST_ERR", LocalAccess: "LOCAL_ACCESS_ERR",
	QPCatastrophic: "QP_CATASTROPHIC_ERR", RoCECQOverflow: "CQ_OVERFLOW"}

// String is the event's name.
func (e RoCEEvent) String() string { return enum.Name(roceEvents[:], e, "Event(%d)") }

// RoCEState is that of a half of a queue pair (roce_qp_state).
type RoCEState uint8

// The states.
const (
	RoCEReset RoCEState = iota
	RoCEInit
	RoCERTR
	RoCERTS
	RoCESQD
	RoCEError
	RoCESQE
)

// Half is what a half of a queue pair is created with: its number and its state.
type Half struct {
	Handle uint32
	State  RoCEState
}

// ExecuteRoCE does a ramrod about a connection of RoCE.
func (f *Firmware) ExecuteRoCE(c RoCECommand, cid int, p any) (code uint8, data uint64) {
	if c < RoCECreateQP {
		return f.Execute(Command(c), cid, p)
	}
	ctx := f.Context(cid)
	if !f.started || ctx == nil || (ctx[ctxFlags]&flagMade != 0) == (c == RoCECreateQP) {
		return GeneralError, 0
	}
	switch c {
	case RoCECreateQP:
		half, ok := p.(Half)
		if !ok {
			return GeneralError, 0
		}
		ctx[ctxFlags], ctx[ctxState] = flagMade, byte(half.State)
		binary.LittleEndian.PutUint32(ctx[ctxWords:][:roceHandleOctets], half.Handle)
	case RoCEModifyQP:
		to, ok := p.(RoCEState)
		if !ok || to < RoCERTR {
			return GeneralError, 0
		}
		ctx[ctxState] = byte(to)
	case RoCEQueryQP:
		return OK, uint64(ctx[ctxState])
	case RoCEDestroyQP:
		clear(ctx)
	default:
		return GeneralError, 0
	}
	return OK, 0
}

// RoCEMoved is the firmware moving a half of a queue pair itself; there may be no such
// half.
func (f *Firmware) RoCEMoved(cid int, to RoCEState) {
	if ctx := f.Context(cid); ctx != nil && ctx[ctxFlags]&flagMade != 0 {
		ctx[ctxState] = byte(to)
	}
}

// Made tells whether there is a half of a queue pair.
func (f *Firmware) Made(cid int) bool {
	ctx := f.Context(cid)
	return ctx != nil && ctx[ctxFlags]&flagMade != 0
}
