package opa

import (
	"errors"

	"tapir/wire/frame"
)

// The seam between the two halves of a virtual NIC, after the RDMA netdev of
// the Linux kernel: an HFI port gives out RDMANetdevs, and a VNIC is the
// client of one.

// Errors of the control operations of an RDMANetdev.
var (
	ErrNoVESW    = errors.New("opa: a netdev without vESW id cannot be opened")
	ErrVESWInUse = errors.New("opa: another netdev of this port has that vESW id")
	ErrNetdevs   = errors.New("opa: the port has no netdev left to give")
)

// RDMANetdev is the hardware-dependent half of one network device.
type RDMANetdev interface {
	// SetID names the vESW whose packets the netdev gets while it is open, by
	// all 12 bits of its id, and the fabric it belongs to. vESW 0 is none. It
	// fails with ErrVESWInUse and changes nothing then.
	SetID(fabric, vesw uint16) error
	// SetMulticast says which multicast LIDs the netdev listens to. mlids is
	// borrowed.
	SetMulticast(mlids []LID)
	// Open lets packets in and out. It fails with ErrNoVESW.
	Open() error
	// Stop ends that.
	Stop()
	// Transmit takes f, one 16B packet, to send it on virtual lane vl. If it
	// returns anything but DropNone it has released f: DropPort if the port
	// is not active or the netdev not open, DropOversize, DropTxQueue,
	// DropNoBuffer. It only queues; packets leave when the port is polled.
	Transmit(f *frame.Frame, vl uint8) frame.DropReason
}

// NetdevClient is the hardware-independent half, as an HFI port calls it.
type NetdevClient interface {
	// Deliver takes f, which holds p, a packet for the netdev's vESW that
	// passed the port's own checks. f.Queue is the receive context. It returns
	// why the packet went no further, for the port's capture: the client has
	// counted that.
	Deliver(p Packet, f *frame.Frame, now frame.Time) frame.DropReason
	// PortEvent tells that the port's state or LID has changed.
	PortEvent(now frame.Time)
}
