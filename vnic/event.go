package vnic

import "tapir/wire/enum"

// Event is what happened to a vport.
type Event uint8

const (
	Added            Event = iota // the vport exists
	Removed                       // it does so no more
	Reset                         // it has its power-on values again
	Configured                    // its configuration was set
	AddressChanged                // the interface has another MAC address
	UnicastChanged                // the list of its other unicast addresses
	MulticastChanged              // the list of its groups
	LinkChanged                   // it was opened or closed by the operating system
	OperChanged                   // carrier or dormant
	MTUChanged                    // its current or highest MTU
)

var eventNames = [...]string{"added", "removed", "reset", "configured", "address changed", "unicast list changed",
	"multicast list changed", "link changed", "oper state changed", "MTU changed"}

func (e Event) String() string {
	return enum.Name(eventNames[:], e, "event %d")
}

// Observer is told what happens to the vports of a port, on the engine's own
// thread and in the midst of a call: it may read the vport but change nothing.
type Observer interface {
	VPortEvent(n *Netdev, e Event)
}
