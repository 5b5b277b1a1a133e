package vnic

import (
	"tapir/opa"
)

// Lower is what the hardware-independent half needs of an HFI port; hfi.Port
// is one.
type Lower interface {
	// AllocRDMANetdev gives out a netdev whose packets go to client (kept). It
	// fails with opa.ErrNetdevs when the port has none left.
	AllocRDMANetdev(client opa.NetdevClient) (opa.RDMANetdev, error)
	// FreeRDMANetdev takes a netdev back and forgets its client.
	FreeRDMANetdev(n opa.RDMANetdev)
	// Active reports whether packets can cross the port.
	Active() bool
	// LID is the port's LID, 0 before it is assigned.
	LID() opa.LID
	// GUID is the port's GUID.
	GUID() uint64
	// PortNum is the port's number on its HFI, from 1.
	PortNum() uint8
	// MTU is the longest 16B packet that can be sent, in octets.
	MTU() int
	// ICRC is what the port's packets carry as invariant CRC.
	ICRC() opa.ICRC
	// UnknownVESW counts the packets for vESWs that no open netdev has.
	UnknownVESW() uint64
}
