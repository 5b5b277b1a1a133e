// Package rdma is the RDMA side of one function of the device: the ramrods by
// which the driver core creates, offloads, modifies, queries and destroys queue
// pairs and shared receive queues, the contexts that the firmware keeps of them,
// and the events that it tells of itself. Protocol is iWARP, or RoCE (roce.go).
package rdma

import "tapir/wire/enum"

// Command is the id of a ramrod (rdma_ramrod_cmd_id, iwarp_ramrod_cmd_id).
type Command uint8

// The commands.
const (
	FuncInit   Command = 1
	FuncClose  Command = 2
	CreateSRQ  Command = 8
	ModifySRQ  Command = 9
	DestroySRQ Command = 10
	MPAOffload Command = 14
	CreateQP   Command = 16
	QueryQP    Command = 17
	ModifyQP   Command = 18
	DestroyQP  Command = 19
)

var commandNames = [...]string{FuncInit: "FUNC_INIT", FuncClose: "FUNC_CLOSE", CreateSRQ: "CREATE_SRQ",
	ModifySRQ: "MODIFY_SRQ", DestroySRQ: "DESTROY_SRQ", MPAOffload: "MPA_OFFLOAD", CreateQP: "CREATE_QP",
	QueryQP: "QUERY_QP", ModifyQP: "MODIFY_QP", DestroyQP: "DESTROY_QP"}

// String is the command's name.
func (c Command) String() string { return enum.Name(commandNames[:], c, "Command(%d)") }

// Event is what the firmware tells of itself (iwarp_eqe_async_opcode).
type Event uint8

// The events.
const (
	Exception  Event = 4 // the code says which
	QPInError  Event = 5 // and flushed
	CQOverflow Event = 6
	SRQLimit   Event = 7
	NumEvents  Event = 9
)

var eventNames = [NumEvents]string{Exception: "EXCEPTION_DETECTED", QPInError: "QP_IN_ERROR_STATE",
	CQOverflow: "CQ_OVERFLOW", SRQLimit: "SRQ_LIMIT"}

// String is the event's name.
func (e Event) String() string { return enum.Name(eventNames[:], e, "Event(%d)") }

// Codes of exceptions (iwarp_fw_return_code).
const (
	RemoteProtection  = 26
	LocalCatastrophic = 28
	RemoteOperation   = 30
	TerminateReceived = 31
)

// State is that of a queue pair (iwarp_qp_state).
type State uint8

// The states.
const (
	Idle State = iota
	RTS
	Terminate
	Closing
	Error
)

// QP is what a queue pair is created with: numbers of objects.
type QP struct{ Handle, PD, SendCQ, RecvCQ, SRQ uint32 }

// SRQ is a shared receive queue that is created, or whose limit is armed.
type SRQ struct{ ID, Handle, Limit uint32 }
