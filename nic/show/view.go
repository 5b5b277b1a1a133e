// Package show describes a NIC for display: its objects, connections, counters,
// events and log.
package show

import (
	"tapir/nic/cm"
	"tapir/nic/hardware"
	"tapir/nic/ip"
	"tapir/nic/iwarp"
	"tapir/nic/port"
	"tapir/nic/ptp"
	"tapir/nic/roce"
	"tapir/nic/roce/gid"
	"tapir/nic/roce/ibcm"
	"tapir/nic/toe"
	"tapir/nic/transport"
	"tapir/nic/verbs"
)

// View is a NIC, seen from outside: the parts that it is made of.
type View struct {
	Verbs *verbs.Device
	CM    *cm.Manager
	// IP are the addresses and what reaches them, PTP the hardware clock and
	// who uses it.
	IP  *ip.Stack
	PTP *ptp.Service
	// Hardware is the function of the device that the NIC is.
	Hardware hardware.Function

	// IWARP and RoCE are the transports of RDMA: at most one is there, as the personality says.
	IWARP *iwarp.Engine
	RoCE  *roce.Engine
	// RoCECM is RoCE's connection manager, GIDs its GID table.
	RoCECM *ibcm.Engine
	GIDs   gid.Table

	// FCoE is the way of an end node to the wire; nil: the personality is another one.
	FCoE *transport.FCoE

	TCPEngine  *toe.Engine
	Common     port.Common
	Wire, Host *port.Port // Host does not exist without a host TAP
	// LinkChanges counts those of the port's state.
	LinkChanges uint64
}

// LastStamp is what the hardware clock showed when the last frame left; 0 if
// none has.
func (v *View) LastStamp() int64 {
	if v.Wire.Stamped == 0 {
		return 0
	}
	return int64(v.Common.PHC.At(v.Wire.LastSent))
}

// TCP is the engine below iWARP, for those who want plain streams over the
// NIC: connections and listeners of theirs live beside those of CM.
func (v *View) TCP() *toe.Engine { return v.TCPEngine }
