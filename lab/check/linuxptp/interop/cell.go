// Package interop holds Tapir's PTP clocks against stock ptp4l on TAPs and
// veth pairs: every transport, delay mechanism and role. Tests run a few of
// its cells, make bench-ptp all of them.
package interop

import (
	"fmt"
	"strings"

	"tapir/lab/check/linuxptp"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// Role is what Tapir is between or beside stock clocks.
type Role uint8

const (
	Master      Role = iota // ptp4l follows the NIC
	Slave                   // the NIC follows ptp4l
	Transparent             // the fabric switch between two ptp4l
	Boundary                // the same
	numRoles
)

func (r Role) String() string { return [numRoles]string{"master", "slave", "tc", "bc"}[r] }

// Cell is one combination.
type Cell struct {
	Transport transport.Kind
	Delay     msg.DelayMechanism
	Role      Role
	OneStep   bool // of what Tapir sends; ptp4l has two steps with software stamps
}

var transports = []transport.Kind{transport.Ethernet, transport.UDPv4, transport.UDPv6}

// transportNames are ptp4l's.
var transportNames = map[transport.Kind]string{transport.Ethernet: "L2", transport.UDPv4: "UDPv4",
	transport.UDPv6: "UDPv6"}

var mechanismNames = map[msg.DelayMechanism]string{msg.DelayE2E: "E2E", msg.DelayP2P: "P2P"}

func (c Cell) String() string {
	name := fmt.Sprintf("%s-%s-%v", transportNames[c.Transport], mechanismNames[c.Delay], c.Role)
	if c.OneStep {
		name += "-onestep"
	}
	return strings.ToLower(name)
}

// Matrix are all cells.
func Matrix() (list []Cell) {
	for role := range numRoles {
		for _, t := range transports {
			for _, d := range []msg.DelayMechanism{msg.DelayE2E, msg.DelayP2P} {
				list = append(list, Cell{t, d, role, false})
				if role != Boundary {
					list = append(list, Cell{t, d, role, true})
				}
			}
		}
	}
	return list
}

// Pairwise are few cells that have each pair of transport, mechanism and role.
func Pairwise() (list []Cell) {
	for i, t := range transports {
		for j, d := range []msg.DelayMechanism{msg.DelayE2E, msg.DelayP2P} {
			for role := Role((i + j) % 2); role < numRoles; role += 2 {
				list = append(list, Cell{t, d, role, (i+int(role))%3 == 0 && role != Boundary})
			}
		}
	}
	return list
}

// options are ptp4l's, at rates at which a measurement need not take long.
func (c Cell) options() linuxptp.Options {
	return linuxptp.Options{
		"network_transport": transportNames[c.Transport], "delay_mechanism": mechanismNames[c.Delay],
		"logAnnounceInterval": "-2", "logSyncInterval": "-4",
		"logMinDelayReqInterval": "-4", "logMinPdelayReqInterval": "-4",
	}
}
