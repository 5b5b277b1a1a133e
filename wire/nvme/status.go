package nvme

import "fmt"

// Status is how a command ended: code in the low 8 bits, its type in the next 3, and flags
// (base specification section 3.3.3.2.1).
type Status uint16

// DNR says that the command would fail again.
const DNR Status = 1 << 14

// Generic status.
const (
	Success            Status = 0x000
	InvalidOpcode      Status = 0x001
	InvalidField       Status = 0x002
	IDConflict         Status = 0x003
	DataTransferError  Status = 0x004
	InternalError      Status = 0x006
	AbortedByRequest   Status = 0x007
	InvalidNamespace   Status = 0x00b
	SequenceError      Status = 0x00c
	InvalidSGLCount    Status = 0x00e
	SGLLengthInvalid   Status = 0x00f
	SGLTypeInvalid     Status = 0x011
	SGLOffsetInvalid   Status = 0x016
	KeepAliveInvalid   Status = 0x019
	NamespaceProtected Status = 0x020
	LBAOutOfRange      Status = 0x080
)

// Status of commands.
const (
	InvalidLogPage     Status = 0x109
	TooManyEvents      Status = 0x105
	FeatureNotSaveable Status = 0x10d
	FormatIncompatible Status = 0x180 // Connect
	ControllerBusy     Status = 0x181
	ConnectInvalid     Status = 0x182 // a parameter of Connect
	HostRefused        Status = 0x184 // Connect
)

// Status of media.
const (
	WriteFault     Status = 0x280
	ReadError      Status = 0x281
	CompareFailure Status = 0x285
)

var statusNames = map[Status]string{
	Success: "success", InvalidOpcode: "invalid command opcode", InvalidField: "invalid field in command",
	IDConflict: "command ID conflict", DataTransferError: "data transfer error", InternalError: "internal error",
	AbortedByRequest: "command abort requested", InvalidNamespace: "invalid namespace or format",
	SequenceError: "command sequence error", InvalidSGLCount: "invalid number of SGL descriptors",
	SGLLengthInvalid: "data SGL length invalid", SGLTypeInvalid: "SGL descriptor type invalid",
	SGLOffsetInvalid: "SGL offset invalid", KeepAliveInvalid: "keep alive timeout invalid",
	NamespaceProtected: "namespace is write protected", LBAOutOfRange: "LBA out of range",
	InvalidLogPage: "invalid log page", TooManyEvents: "asynchronous event request limit exceeded",
	FeatureNotSaveable: "feature identifier not saveable", FormatIncompatible: "connect: incompatible format",
	ControllerBusy: "connect: controller busy", ConnectInvalid: "connect: invalid parameters",
	HostRefused: "connect: invalid host", WriteFault: "write fault", ReadError: "unrecovered read error",
	CompareFailure: "compare failure",
}

// Code is the status without flags.
func (s Status) Code() Status { return s & 0x7ff }

// String is the standard's name with the type and code.
func (s Status) String() string {
	name := statusNames[s.Code()]
	if name == "" {
		name = "status"
	}
	return fmt.Sprintf("%s (%x/%02x)", name, uint16(s>>8&7), uint8(s))
}

// Error makes a status other than Success an error.
func (s Status) Error() string { return s.String() }
