package transport

import (
	"tapir/nic/pacing"
	"tapir/nic/port"
	"tapir/nic/roce"
	"tapir/wire/frame"
)

// lineOverhead is what a frame takes of the line beside its octets: preamble, FCS and the gap
// to the next.
const lineOverhead = 24

// Ethernet is the way out for frames of the Ethernet function: with rate limiters for queue
// pairs it is the queue of the first one.
type Ethernet struct {
	wire *port.Port
	roce *roce.Engine
}

// NewEthernet returns the way out by wire; with another personality e is nil.
func NewEthernet(wire *port.Port, e *roce.Engine) *Ethernet { return &Ethernet{wire, e} }

// Room implements hardware.Output.
func (e *Ethernet) Room(now frame.Time) int {
	room := e.wire.Room()
	if e.roce == nil || room <= 0 {
		return room
	}
	return e.roce.EthernetRoom(room, now)
}

// Transmit implements hardware.Output.
func (e *Ethernet) Transmit(f *frame.Frame, now frame.Time) {
	if e.roce != nil {
		octets, _ := pacing.Octets(f, lineOverhead)
		e.roce.EthernetSent(int(octets), now)
	}
	e.wire.Send(port.Out{Frame: f}, now)
}
