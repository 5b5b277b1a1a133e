package frame

// DropReason says why a frame or its content was discarded. Every drop is
// counted under its reason and noted in the NIC's own capture.
type DropReason uint8

const (
	DropNone         DropReason = iota
	DropTruncated               // shorter than its headers say
	DropMalformed               // a header field holds an impossible value
	DropNotOurMAC               // unicast to another station
	DropWrongVLAN               // tagged for another VLAN, or tag missing
	DropEtherType               // no protocol is bound to the EtherType
	DropNotOurIP                // unicast to another host
	DropIPChecksum              // IPv4 header checksum wrong
	DropIPOptions               // source routing and other refused options
	DropIPProtocol              // no protocol is bound to the IP protocol number
	DropFragment                // reassembly refused, timed out or overlapping
	DropL4Checksum              // TCP, UDP or ICMP checksum wrong
	DropNoListener              // no connection and no listener for the segment
	DropBacklog                 // the listener's backlog is full
	DropTCPSequence             // outside the receive window
	DropTCPDuplicate            // data received before
	DropTCPState                // not acceptable in the connection's state
	DropReassembly              // out-of-order memory is exhausted
	DropNeighbor                // the next hop did not answer ARP or ND
	DropNoRoute                 // no prefix and no gateway covers the destination
	DropTxQueue                 // the transmit queue was full
	DropLink                    // the TAP refused the frame, or the port is down
	DropFault                   // an injected fault
	DropHostQueue               // the host TAP's queue was full
	DropNoBuffer                // the pool is exhausted
	DropOversize                // longer than the MTU allows
	DropSource                  // a MAC or IP source address that no station may use
	DropUnused                  // a valid message that this NIC has no use for
	DropOwned                   // of the operating system, on a connection of the TCP engine
	DropPort                    // the port is not active
	DropVport                   // no vport receives, or it stopped with the frame
	DropTTL                     // time to live or hop limit 0
	DropRule                    // a rule of n-tuple steering
	DropAntiSpoofing            // sent with another station's address
	DropControl                 // sent to a protocol that is the port's own
	DropOffload                 // sent with work to do that does not fit the frame
	DropEngine                  // for an engine that has failed
	DropEngineRing              // the ring to the other engine was full
	// EndNICDrops ends the reasons of RDMA NICs; those of an Omni-Path fabric
	// follow.
	EndNICDrops
)

// Reasons of an Omni-Path fabric port and its virtual NICs.
const (
	DropLength    DropReason = iota + EndNICDrops // the length field is not that of the octets
	DropL2                                        // not the link format that was expected
	DropL4                                        // an L4 type that nobody takes
	DropSLID                                      // not a unicast LID as source
	DropDLID                                      // a destination LID that nobody can have
	DropNotOurLID                                 // for another port
	DropPad                                       // pad octets are not zero
	DropTail                                      // the tail octet is impossible
	DropICRC                                      // the invariant CRC is wrong
	DropPKey                                      // the P_Key rule forbids it
	DropVESW                                      // no virtual NIC of that vESW
	DropLooped                                    // our own packet came back
	DropSpoofed                                   // the source MAC filter forbids it
	DropRunt                                      // an Ethernet frame below 60 octets
	DropStorm                                     // beyond the storm limit
	DropState                                     // the virtual port is in state DROP_ALL
	DropNoDLID                                    // no destination LID is known
	DropShare                                     // of another gateway
	endFabricDrops
)

// Reasons of a switch.
const (
	DropLinkLocal DropReason = iota + endFabricDrops // a group that no bridge forwards
	DropSamePort                                     // the station is behind the port that the frame came from
	DropClock                                        // a PTP message that a transparent clock does not pass on
	NumDropReasons
)

var dropNames = [NumDropReasons]string{
	"none", "truncated", "malformed", "not our MAC", "wrong VLAN", "unknown EtherType",
	"not our IP", "IP checksum", "IP options", "unknown IP protocol", "fragment",
	"L4 checksum", "no listener", "backlog full", "TCP sequence", "TCP duplicate",
	"TCP state", "reassembly full", "neighbor unreachable", "no route", "transmit queue full",
	"link refused", "injected fault", "host queue full", "no buffer", "oversize",
	"bad source address", "not used", "owned by engine", "port down",
	"no active vport", "TTL 0", "n-tuple rule", "anti-spoofing", "control frame", "impossible offload", "engine failed", "engine ring full",
	"wrong length", "wrong link format", "unknown L4 type", "bad SLID", "bad DLID", "not our LID",
	"pad not zero", "bad tail", "ICRC", "P_Key", "unknown vESW", "looped back", "source MAC filter",
	"runt", "storm limit", "DROP_ALL state", "no DLID", "other gateway",
	"link-local group", "same port", "not passed by clock",
}

func (r DropReason) String() string {
	if r < NumDropReasons {
		return dropNames[r]
	}
	return "unknown"
}

// Drops counts discarded frames by reason.
type Drops [NumDropReasons]uint64

// Count adds one drop for reason r.
func (d *Drops) Count(r DropReason) { d[r]++ }

// Total is the sum over all reasons.
func (d *Drops) Total() (n uint64) {
	for _, c := range d[1:] {
		n += c
	}
	return n
}
