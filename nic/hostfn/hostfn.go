// Package hostfn is the operating system's interface of a NIC's function: its
// network interface, which is the host TAP.
package hostfn

import (
	"net/netip"

	"tapir/nic/pacing"
	"tapir/wire/frame"
)

// Function passes frames between the wire and the operating system. Frames are
// taken.
type Function interface {
	// FromWire takes a frame of the wire that is not the NIC's own.
	FromWire(f *frame.Frame)
	// Diverts takes a frame of the operating system that is not this NIC engine's;
	// false: the NIC looks at it and calls FromHost.
	Diverts(f *frame.Frame) bool
	// FromHost takes a frame that the operating system sends.
	FromHost(f *frame.Frame)
	// Poll passes on what waits while the links have room, and returns when it
	// wants to be called again.
	Poll(now frame.Time) frame.Time
	// Due tells whether frames could move at once.
	Due() bool
	// Waiting is the number of frames in the queues.
	Waiting() int
	// Fill is how full the fullest receive queue is, in parts of pacing.Full.
	Fill() int
	// Buffers are where frames wait for a receive queue; nil: none has had to.
	Buffers() *pacing.Buffers
}

// NIC is what a function sees of its NIC.
type NIC interface {
	// ToWire takes a frame for the wire, which has room for WireRoom more.
	ToWire(f *frame.Frame)
	WireRoom() int
	// ToHost takes a frame for the host TAP, which has room for HostRoom more.
	ToHost(f *frame.Frame)
	HostRoom() int
	// Drop takes a frame that cannot leave by a port; Dropped tells of one that
	// somebody else releases.
	Drop(p frame.Port, f *frame.Frame, r frame.DropReason)
	// Buffer is the receive buffer of a frame of the wire and its size in octets; 0: there is none.
	Buffer(f *frame.Frame) (i uint8, size int)
	Dropped(p frame.Port, f *frame.Frame, r frame.DropReason)
	// Admit looks at a frame of the operating system that did not pass the NIC;
	// false: it was not allowed, and is gone.
	Admit(f *frame.Frame) bool
}

// None is the function without an operating system.
type None struct{}

// FromWire implements Function.
func (None) FromWire(f *frame.Frame) { f.Release() }

// Diverts implements Function.
func (None) Diverts(*frame.Frame) bool { return false }

// FromHost implements Function.
func (None) FromHost(f *frame.Frame) { f.Release() }

// Poll implements Function.
func (None) Poll(frame.Time) frame.Time { return frame.Never }

// Due implements Function.
func (None) Due() bool { return false }

// Waiting implements Function.
func (None) Waiting() int { return 0 }

// Fill implements Function.
func (None) Fill() int { return 0 }

// Buffers implements Function.
func (None) Buffers() *pacing.Buffers { return nil }

// Rule claims a flow of received packets for a queue, or drops it. The zero value
// of a field of the flow means any.
type Rule struct {
	Location         int
	Proto            uint8 // ip.ProtoTCP or ip.ProtoUDP
	V6               bool
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	Tunnel           uint8
	Drop             bool
	Queue            int
}
