// Package iscsi is the iSCSI side of one function of the device: its parameters, the
// ramrods by which the driver starts and stops the function, takes established TCP
// connections over, updates, terminates and clears them, the queues that the two share,
// the contexts that the firmware keeps, and the events that it tells of itself.
//
// The queues are rings in memory that firmware and driver share: each completion queue
// (CQ) has a queue of receive buffers (RQ) and one of commands (CmdQ) beside it; each
// connection has a send queue (SQ) and a queue of PDUs that are sent but not yet
// acknowledged (UHQ).
package iscsi

import "tapir/wire/enum"

// Command is the id of a ramrod (iscsi_ramrod_cmd_id).
type Command uint8

// The commands.
const (
	InitFunc    Command = 1
	DestroyFunc Command = 2
	OffloadConn Command = 3
	UpdateConn  Command = 4
	Termination Command = 5
	ClearSQ     Command = 6
	MACUpdate   Command = 7
	ConnStats   Command = 8
)

var commandNames = [...]string{InitFunc: "INIT_FUNC", DestroyFunc: "DESTROY_FUNC", OffloadConn: "OFFLOAD_CONN",
	UpdateConn: "UPDATE_CONN", Termination: "TERMINATION_CONN", ClearSQ: "CLEAR_SQ", MACUpdate: "MAC_UPDATE",
	ConnStats: "CONN_STATS"}

// String is the command's name.
func (c Command) String() string { return enum.Name(commandNames[:], c, "Command(%d)") }

// Event is what the firmware tells by the event queue (iscsi_eqe_opcode): the ends of
// ramrods, of connections, and from StartOfErrors on errors.
type Event uint8

// The events.
const (
	EventInitFunc Event = iota
	EventDestroyFunc
	EventOffload
	EventUpdate
	EventClearSQ
	EventTerminate
	EventMACUpdate
	EventStats
	AsyncConnect   // the connection works
	AsyncTerminate // its termination is over
	StartOfErrors
	AbortReceived
	CloseReceived
	SYNReceived
	MaxRTTime
	MaxRTCount
	MaxKAProbes
	FinWait2
	ISCSIError // the code of the event is an Error of package nic/iscsi
	TCPError
	NumEvents
)

var eventNames = [NumEvents]string{"INIT_FUNC", "DESTROY_FUNC", "OFFLOAD_CONN", "UPDATE_CONN", "CLEAR_SQ",
	"TERMINATE_CONN", "MAC_UPDATE_CONN", "COLLECT_STATS_CONN", "ASYN_CONNECT_COMPLETE", "ASYN_TERMINATE_DONE",
	"START_OF_ERROR_TYPES", "ASYN_ABORT_RCVD", "ASYN_CLOSE_RCVD", "ASYN_SYN_RCVD", "ASYN_MAX_RT_TIME",
	"ASYN_MAX_RT_CNT", "ASYN_MAX_KA_PROBES_CNT", "ASYN_FIN_WAIT2", "ISCSI_CONN_ERROR", "TCP_CONN_ERROR"}

// String is the event's name.
func (e Event) String() string { return enum.Name(eventNames[:], e, "Event(%d)") }
