// Package nicdrop holds the reasons for which only an Ethernet NIC discards
// frames. Those that it shares with other stations are in wire/drop.
package nicdrop

import (
	"iter"

	"tapir/wire/frame"
)

const first frame.DropReason = 32

// Reasons of a NIC. Their numbers end below those of an Omni-Path fabric.
const (
	Owned        frame.DropReason = iota + first // of the operating system, on a connection of the TCP engine
	Port                                         // the port is not active
	Vport                                        // no vport receives, or it stopped with the frame
	TTL                                          // time to live or hop limit 0
	Rule                                         // a rule of n-tuple steering
	AntiSpoofing                                 // sent with another station's address
	Control                                      // sent to a protocol that is the port's own
	Offload                                      // sent with work to do that does not fit the frame
	Engine                                       // for an engine that has failed
	EngineRing                                   // the ring to the other engine was full
	Pause                                        // a PAUSE frame for another station
	PauseOff                                     // a PAUSE frame, which the ends have not agreed on
	MACControl                                   // for the MAC, with an opcode that it does not know
	OuterTag                                     // with an outer VLAN tag of no function
	Switch                                       // for a neighbor on the port that does not keep up
	Rate                                         // received beyond the function's rate or share of the port
	Storm                                        // for all stations, beyond the storm limit of the switch inside
	ICRC                                         // RoCE: the invariant CRC is wrong
	Transport                                    // RoCE: no transport header of InfiniBand
	DestQP                                       // RoCE: no queue pair takes the packet
	PKey                                         // RoCE: of another partition, or a wrong Q_Key
	Peer                                         // RoCE: not from the queue pair's peer
	PSN                                          // RoCE: out of sequence, or received before
	Refused                                      // RoCE: no receive is posted, or the request is not allowed
	end
)

func init() {
	frame.RegisterDrops(first, "owned by engine", "port down", "no active vport", "TTL 0", "n-tuple rule",
		"anti-spoofing", "control frame", "impossible offload", "engine failed", "engine ring full", "pause address",
		"pause not agreed", "unknown MAC control", "outer tag", "function switch full", "function rate", "storm limit",
		"RoCE ICRC", "RoCE header", "no queue pair", "RoCE key", "RoCE peer", "RoCE PSN", "RoCE refused")
}

// All are the reasons for which a NIC may discard a frame, shared ones first.
func All() iter.Seq[frame.DropReason] {
	return func(yield func(frame.DropReason) bool) {
		for r := range frame.DropReasons() {
			if r >= end || !yield(r) {
				return
			}
		}
	}
}
