// Package fcoe is the FCoE side of one function of the device: its parameters, the ramrods by
// which the driver starts and stops the function, hands sessions of Fibre Channel over and
// ends them, the queues that the two share, the contexts that the firmware keeps, its
// statistics, and the events that it tells of itself.
//
// The firmware has the frames of sessions; those of FIP and of logins the driver sends and
// receives by light L2. Each connection has a send queue (SQ) in pages of its own: an element
// is a sequence that the driver wants to be sent. What a peer sends comes to the driver by the
// completion queues (CQ): commands of initiators by a queue of commands (CmdQ) besides, sense
// data in a receive buffer (RQ). What finds no room there is dropped silently, and counted: the
// other end repeats it after E_D_TOV.
package fcoe

import "tapir/wire/enum"

// Command is the id of a ramrod (fcoe_ramrod_cmd_id).
type Command uint8

// The commands.
const (
	InitFunc Command = iota
	DestroyFunc
	StatFunc
	OffloadConn
	TerminateConn
)

var commandNames = [...]string{"INIT_FUNC", "DESTROY_FUNC", "STAT_FUNC", "OFFLOAD_CONN", "TERMINATE_CONN"}

// String is the command's name.
func (c Command) String() string { return enum.Name(commandNames[:], c, "Command(%d)") }

// Event is what the firmware tells by the event queue (fcoe_eqe_opcode): the ends of ramrods,
// and errors.
type Event uint8

// The events.
const (
	EventInitFunc Event = iota
	EventDestroyFunc
	EventStatFunc
	EventOffload
	EventTerminate
	EventError // the code of the event is an Error of package nic/fcoe
	NumEvents
)

var eventNames = [NumEvents]string{"INIT_FUNC", "DESTROY_FUNC", "STAT_FUNC", "OFFLOAD_CONN", "TERMINATE_CONN", "ERROR"}

// String is the event's name.
func (e Event) String() string { return enum.Name(eventNames[:], e, "Event(%d)") }
