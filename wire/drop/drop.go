// Package drop holds the reasons for which any station of an Ethernet
// discards frames: NICs, fabric ports and switches share them. A device
// registers the reasons that only it has in a package of its own.
package drop

import "tapir/wire/frame"

// Reasons of a station. Their numbers end below those of nicdrop.
const (
	Truncated    frame.DropReason = iota + 1 // shorter than its headers say
	Malformed                                // a header field holds an impossible value
	NotOurMAC                                // unicast to another station
	WrongVLAN                                // tagged for another VLAN, or tag missing
	EtherType                                // no protocol is bound to the EtherType
	NotOurIP                                 // unicast to another host
	IPChecksum                               // IPv4 header checksum wrong
	IPOptions                                // source routing and other refused options
	IPProtocol                               // no protocol is bound to the IP protocol number
	Fragment                                 // reassembly refused, timed out or overlapping
	L4Checksum                               // TCP, UDP or ICMP checksum wrong
	NoListener                               // no connection and no listener for the segment
	Backlog                                  // the listener's backlog is full
	TCPSequence                              // outside the receive window
	TCPDuplicate                             // data received before
	TCPState                                 // not acceptable in the connection's state
	Reassembly                               // out-of-order memory is exhausted
	Neighbor                                 // the next hop did not answer ARP or ND
	NoRoute                                  // no prefix and no gateway covers the destination
	TxQueue                                  // the transmit queue was full
	Link                                     // the TAP refused the frame, or the port is down
	Fault                                    // an injected fault
	HostQueue                                // the host TAP's queue was full
	NoBuffer                                 // the pool is exhausted
	Oversize                                 // longer than the MTU allows
	Source                                   // a MAC or IP source address that no station may use
	Unused                                   // a valid message that the receiver has no use for
	FCCRC                                    // FCoE: the CRC of the frame of Fibre Channel is wrong
	FCSource                                 // FCoE: the source is not the address of the frame's S_ID
	FCExchange                               // FCoE: of an exchange that does not exist
	FCLogin                                  // FCoE: of a port that is not logged in
)

func init() {
	frame.RegisterDrops(Truncated,
		"truncated", "malformed", "not our MAC", "wrong VLAN", "unknown EtherType",
		"not our IP", "IP checksum", "IP options", "unknown IP protocol", "fragment",
		"L4 checksum", "no listener", "backlog full", "TCP sequence", "TCP duplicate",
		"TCP state", "reassembly full", "neighbor unreachable", "no route", "transmit queue full",
		"link refused", "injected fault", "host queue full", "no buffer", "oversize",
		"bad source address", "not used", "FC CRC", "FC source",
		"no FC exchange", "no FC login")
}
