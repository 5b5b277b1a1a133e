package opa

import "tapir/wire/frame"

const firstDrop frame.DropReason = 56

// Reasons for which a fabric port and its virtual NICs discard packets, beside
// those of wire/drop. Their numbers end below those of a switch.
const (
	DropPort      frame.DropReason = iota + firstDrop // the port is not active
	DropLength                                        // the length field is not that of the octets
	DropL2                                            // not the link format that was expected
	DropL4                                            // an L4 type that nobody takes
	DropSLID                                          // not a unicast LID as source
	DropDLID                                          // a destination LID that nobody can have
	DropNotOurLID                                     // for another port
	DropPad                                           // pad octets are not zero
	DropTail                                          // the tail octet is impossible
	DropICRC                                          // the invariant CRC is wrong
	DropPKey                                          // the P_Key rule forbids it
	DropVESW                                          // no virtual NIC of that vESW
	DropLooped                                        // our own packet came back
	DropSpoofed                                       // the source MAC filter forbids it
	DropRunt                                          // an Ethernet frame below 60 octets
	DropStorm                                         // beyond the storm limit
	DropState                                         // the virtual port is in state DROP_ALL
	DropNoDLID                                        // no destination LID is known
	DropShare                                         // of another gateway
)

func init() {
	frame.RegisterDrops(firstDrop, "port down",
		"wrong length", "wrong link format", "unknown L4 type", "bad SLID", "bad DLID", "not our LID",
		"pad not zero", "bad tail", "ICRC", "P_Key", "unknown vESW", "looped back", "source MAC filter",
		"runt", "storm limit", "DROP_ALL state", "no DLID", "other gateway")
}
