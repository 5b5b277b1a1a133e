package mad

import (
	"tapir/opa"
	"tapir/wire/frame"
)

// Address is the far end of a MAD.
type Address struct {
	LID opa.LID // opa.Permissive: whoever hears it, from a port without LID
	QP  uint32  // opa.QPSubnet for the classes of subnet management, opa.QPGeneral for all others
	SL  uint8
	// PKey is the partition, by a P_Key of any membership, of a MAD of QPGeneral;
	// 0: that of management.
	PKey uint16
}

// Send hands b, a MAD (borrowed), to the fabric. A packet to the permissive
// LID goes to the port's own agents too, and one to the port's own LID to
// them alone. It reports false if the port cannot send now.
type Send func(to Address, b []byte) bool

// Agent is whoever answers MADs at a port: the agents of subnet management and
// of virtual NICs, and managers. An HFI port offers each MAD that it receives
// for QP 0 or 1 to all of its agents; one that is not meant ignores it. An
// agent is a state machine without a clock.
type Agent interface {
	// Receive takes note of b (borrowed), which came from from, and may
	// answer at once.
	Receive(b []byte, from Address, now frame.Time, send Send)
	// Poll sends what is due and returns the time at which it wants to be
	// called again, frame.Never if only a MAD can change anything.
	Poll(now frame.Time, send Send) frame.Time
}
