package ecore

import (
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/wire/frame"
)

// Load is the answer to LOAD_REQ, which says what is to be initialised, and
// by mirror that to UNLOAD_REQ.
type Load uint8

// The answers.
const (
	NotLoaded    Load = iota
	LoadEngine        // first on the engine: common, port and function
	LoadPort          // first on the port: port and function
	LoadFunction      // others are there: function
)

// String is the answer's name.
func (l Load) String() string { return [...]string{"", "ENGINE", "PORT", "FUNCTION"}[l] }

// Override is what the user says about pushing a recorded driver aside.
type Override uint8

// The overrides (override_force_load).
const (
	OverrideNone Override = iota
	OverrideAlways
	OverrideNever
)

// LoadParams is what hw_init knows about a load (p_drv_load_params).
type LoadParams struct {
	CrashKernel   bool
	LockTimeout   uint8 // seconds (mfw_timeout_val); 0: default, 255: none
	AvoidEngReset bool
	Override      Override
}

// DriverState is what the driver says of itself to the management firmware.
type DriverState uint8

// The driver states.
const (
	DriverNotLoaded DriverState = 2 + iota
	DriverLoading
	DriverDisabled
	DriverActive
)

// MFW is a function's mailbox to the management firmware. Where the firmware
// does not know a command, the answer is NOTIMPL, which does no harm.
type MFW interface {
	// Init opens the mailbox anew. FuncInfo is read from shared memory.
	Init() error
	FuncInfo() (FuncInfo, error)
	LoadReq(p LoadParams, now frame.Time, done func(l Load, err error, now frame.Time))
	LoadDone(now frame.Time, done Done)
	UnloadReq(now frame.Time, done func(l Load, err error, now frame.Time))
	UnloadDone(now frame.Time, done Done)
	Capabilities(now frame.Time, done Done)
	InitiatePFFLR(now frame.Time, done Done)
	Drain(now frame.Time, done Done)
	// LockShares keeps other functions from asking for shares, until UnlockShares, or
	// until the firmware finds that it lasts too long. BUSY names who has the lock.
	LockShares(now frame.Time, done Done)
	UnlockShares(now frame.Time, done Done)
	// Share asks for the function's share of a resource.
	Share(r Resource, now frame.Time, done func(now frame.Time, s Share, err error))
	DriverState(s DriverState, now frame.Time)
	// Push tells what the driver always tells once it is up: the version of
	// the storm firmware and the MTU, and that there is no embedded switch.
	Push(storm uint32, mtu int, now frame.Time)
	// ReadShadow makes the messages so far the past.
	ReadShadow()
	// SetRecovery has no command sent any more, until Init.
	SetRecovery(now frame.Time)
}

// IntMode is a mode of interrupts.
type IntMode uint8

// The modes, as Linux' qed_int_mode numbers them.
const (
	INTA IntMode = iota
	MSIX
	MSI
	Poll
)

var intModes = [...]string{"INTA", "MSIX", "MSI", "POLL"}

// String is the mode's name.
func (m IntMode) String() string { return intModes[m] }

// Interrupts are the slowpath's of one hwfn: its status block, where each
// user has a protocol index.
type Interrupts interface {
	// RegisterCB gives fn a protocol index, NOMEM if none is free.
	RegisterCB(fn func(now frame.Time)) (pi int, err error)
	UnregisterCB(pi int) error
	// Event is the chip's side: something has happened behind an index.
	Event(pi int, now frame.Time)
	IntEnable(now frame.Time)
	IntDisable()
	// SBs is the number of fastpath status blocks.
	SBs() int
}

// HWError is a kind of hardware error.
type HWError uint8

// The kinds.
const (
	FanFail HWError = iota
	MFWRespFail
	HWAttn
	DMAEFail
	RamrodFail
	FWAssert
	numHWErrors
)

var hwErrorNames = [...]string{"FAN_FAIL", "MFW_RESP_FAIL", "HW_ATTN", "DMAE_FAIL", "RAMROD_FAIL", "FW_ASSERT"}

// String is the kind's name.
func (e HWError) String() string { return hwErrorNames[e] }

// Hooks are the client's: what the core asks it for, and tells it. Any may be
// nil; one that is not there agrees.
type Hooks struct {
	// SlowpathIRQReq has the client install the slowpath's interrupt service
	// routine, before anything is sent whose end is an interrupt.
	SlowpathIRQReq func(h *Hwfn) error
	// SlowpathIRQFree is the other end of it.
	SlowpathIRQFree func(h *Hwfn)
	// BeforePFStart and AfterPFStop surround the life of the function in the
	// firmware.
	BeforePFStart func(h *Hwfn) error
	AfterPFStop   func(h *Hwfn)
	// HWError tells of a hardware error.
	HWError func(h *Hwfn, kind HWError, err error)
	// ScheduleRecovery asks for a recovery: HWStop to HWInit.
	ScheduleRecovery func(h *Hwfn)
	// DoorbellRecovery tells that all doorbells were rung again.
	DoorbellRecovery func(h *Hwfn)
}

// Ramrods executes the ramrods of one protocol on an engine: it is the
// firmware. It returns the firmware's code, 0 if it is done, and 8 octets for
// the event.
type Ramrods func(pf int, el spq.Element) (code uint8, data uint64)

// Protocols that have their ids here, so that clients need not import cxt.
type Protocol = cxt.Protocol
