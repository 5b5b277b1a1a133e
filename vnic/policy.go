package vnic

import (
	"cmp"
	"time"

	"tapir/wire/enum"
	"tapir/wire/frame"
)

// Unknown says what becomes of a unicast frame whose station nobody knows.
type Unknown uint8

const (
	// ToProxy sends it to a default port, which can relay it, and to all if
	// there is none.
	ToProxy Unknown = iota
	// ToDefaultPort sends it to a default port only, as the Linux driver does.
	// Default ports are gateways then: stations behind them are not learned.
	ToDefaultPort
	// ToAll sends it to all.
	ToAll
	// Discard drops it.
	Discard
)

var unknownNames = [...]string{"proxy", "default-port", "flood", "drop"}

func (u Unknown) String() string { return unknownNames[u] }

// ParseUnknown reads proxy, default-port, flood or drop.
func ParseUnknown(s string) (Unknown, error) {
	return enum.Parse[Unknown](unknownNames[:], s,
		"vnic: policy for unknown unicast %q; expected proxy, default-port, flood or drop")
}

// Policy is how a vport treats frames beyond what the Ethernet Manager says.
// The zero value is what the Linux driver does, but that what is unknown goes
// to all if there is no default port.
type Policy struct {
	Unknown Unknown
	// Learn remembers behind which LID, or on the host's side, a source
	// address was seen.
	Learn       bool
	Age         time.Duration // of a station that is silent; 0: 300 s
	MaxStations int           // 0: 1024
	MaxPerLID   int           // of those behind one LID; 0: 256
	// Report lists the stations of the host's side among the interface's
	// unicast addresses, so that the Ethernet Manager learns of virtual
	// machines behind it. It needs Learn.
	Report bool
	// Relay passes a frame that came to this port for a station known behind
	// another one on to it: what a proxy has to do.
	Relay bool
	// Filter refuses unicast frames for stations that are not on the host's
	// side. Without it every frame is delivered, which a bridge or gateway
	// needs.
	Filter bool
	// Gateway makes the vport one of those between its vESW and a network on
	// the host's side. If they are the vESW's default ports, each passes on the
	// flows of its share only.
	Gateway bool
	// Snoop follows the IGMP and MLD messages of the host's side: groups that
	// stations behind it joined count as the interface's.
	Snoop bool
	// AllGroups listens to all groups that the MAC table knows.
	AllGroups bool
	// Suppress answers ARP and ND requests for addresses seen before.
	Suppress     bool
	MaxNeighbors int // addresses remembered for that; 0: 1024
	// TxStorm limits what the host sends to all stations, RxStorm what
	// arrives so.
	TxStorm, RxStorm frame.Rate
	// HostQueue bounds the frames that wait for the host; 0: 1024.
	HostQueue int
}

// DefaultPolicy is what most networks want: stations are learned, groups and
// neighbors followed.
func DefaultPolicy() Policy { return Policy{Learn: true, Snoop: true, Suppress: true} }

func (p Policy) withDefaults() Policy {
	p.MaxStations, p.MaxPerLID = cmp.Or(max(p.MaxStations, 0), 1024), cmp.Or(max(p.MaxPerLID, 0), 256)
	p.MaxNeighbors, p.HostQueue = cmp.Or(max(p.MaxNeighbors, 0), 1024), cmp.Or(max(p.HostQueue, 0), 1024)
	p.Age = cmp.Or(max(p.Age, 0), 300*time.Second)
	return p
}
