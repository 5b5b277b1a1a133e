package nvme

import wire "tapir/wire/nvme"

// Counter is something that a target counts.
type Counter uint8

// Counters. Those from ConnectionRefused on are faults of peers, of disks, or of the way to them.
const (
	Connections Counter = iota
	Controllers
	Discoveries
	AdminCommands
	ReadCommands
	WriteCommands
	OtherCommands
	OctetsRead
	OctetsWritten
	InCapsule
	Invalidations
	KeepAlives
	Events
	Waited
	ConnectionRefused
	ConnectRefused
	ConnectTimeout
	KeepAliveTimeout
	Malformed
	BadCommand
	BadSGL
	BadLBA
	Sequence
	RemoteAccess
	MediaErrors
	Miscompares
	counters
)

var counterNames = [counters]string{
	"connections", "controllers", "discovery_controllers", "admin_commands", "read_commands", "write_commands",
	"other_commands", "octets_read", "octets_written", "data_in_capsule", "remote_invalidations", "keep_alives",
	"asynchronous_events", "commands_that_waited", "connections_refused", "connects_refused", "connect_timeouts",
	"keep_alive_timeouts", "malformed_capsules", "commands_refused", "sgls_refused", "lba_out_of_range",
	"commands_out_of_sequence", "transfer_errors", "media_errors", "miscompares",
}

// String is the name that statistics have.
func (c Counter) String() string { return counterNames[c] }

// Stats are the counters of a target, by Counter.
type Stats [counters]uint64

// Add adds others.
func (s *Stats) Add(o Stats) {
	for i, v := range o {
		s[i] += v
	}
}

// refused counts a status that says that a command was wrong.
func (s *Stats) refused(status wire.Status) {
	switch status.Code() {
	case wire.Success, wire.AbortedByRequest:
	case wire.SequenceError:
		s[Sequence]++
	case wire.SGLTypeInvalid, wire.SGLLengthInvalid, wire.SGLOffsetInvalid, wire.InvalidSGLCount:
		s[BadSGL]++
	case wire.LBAOutOfRange:
		s[BadLBA]++
	case wire.CompareFailure:
		s[Miscompares]++
	case wire.WriteFault, wire.ReadError:
		s[MediaErrors]++
	case wire.ConnectInvalid, wire.HostRefused, wire.FormatIncompatible, wire.ControllerBusy:
		s[ConnectRefused]++
	default:
		s[BadCommand]++
	}
}
