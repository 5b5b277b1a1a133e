// Package unicast negotiates unicast transmission (IEEE 1588-2019 section
// 16.1): a Requester asks masters to send it Announce, Sync, Delay_Resp and
// Pdelay_Resp messages and renews what it was granted; a Grantor grants within
// its limits and knows when each message is due.
//
// Both are pure: Signaling messages and the time go in, Signaling messages and
// deadlines come out. The port that owns them composes the messages granted.
package unicast

import (
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// Services is a set of message types that are granted.
type Services uint8

// The message types that can be granted, each with the general messages that
// belong to it.
const (
	Announce Services = 1 << iota
	Sync              // and Follow_Up
	DelayResp
	PdelayResp // and Pdelay_Resp_Follow_Up

	numServices = iota
)

// types are the message types of the services, in the order of their bits.
var types = [numServices]msg.Type{msg.Announce, msg.Sync, msg.DelayResp, msg.PdelayResp}

// ServiceOf is the service to which messages of type t belong, 0 if none.
func ServiceOf(t msg.Type) Services {
	switch t {
	case msg.Announce:
		return Announce
	case msg.Sync, msg.FollowUp:
		return Sync
	case msg.DelayResp:
		return DelayResp
	case msg.PdelayResp, msg.PdelayRespFollowUp:
		return PdelayResp
	}
	return 0
}

// String lists the message types: "Announce,Sync".
func (s Services) String() string {
	text := ""
	for i, t := range types {
		if s&(1<<i) != 0 {
			if text != "" {
				text += ","
			}
			text += t.String()
		}
	}
	return text
}

// serviceIndex is the bit of the service that a TLV names, false if it names
// none. A TLV says Sync and Delay_Resp, never what belongs to them.
func serviceIndex(t msg.Type) (int, bool) {
	for i, u := range types {
		if t == u {
			return i, true
		}
	}
	return 0, false
}

// Lower sends what is negotiated.
type Lower interface {
	// Signal sends a Signaling message with tlvs (borrowed) to target, which
	// is msg.AllPorts while the other side's identity is not known.
	Signal(dst transport.Addr, target msg.PortIdentity, tlvs msg.TLVs)
}

// seconds is a duration in s as a TLV has it.
func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }
