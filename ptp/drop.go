package ptp

import (
	"strings"

	"tapir/ptp/msg"
	"tapir/wire/enum"
)

// Drop says why a message or a stamp was not used.
type Drop uint8

const (
	DropNone       Drop = iota
	DropMalformed       // lengths, a timestamp or a TLV that cannot be
	DropVersion         // not version 2
	DropSdoID           // of another sdoId
	DropDomain          // of another domain
	DropPort            // the port is faulty or disabled
	DropOwn             // our own message came back
	DropUnstamped       // an event message without its stamp
	DropState           // of no use in the port's state
	DropParent          // not from the master that is followed
	DropOther           // the answer to somebody else
	DropSequence        // a sequenceId that nobody waits for
	DropDuplicate       // seen before
	DropUnmatched       // a Sync or Follow_Up whose counterpart did not come
	DropMechanism       // of the other delay mechanism
	DropSteps           // an Announce from too many steps away
	DropClass           // an Announce of too high a clockClass
	DropAlternate       // from an alternate master
	DropLoop            // our own identity is in the path trace
	DropForeign         // the table of foreign masters is full of better ones
	DropCapable         // the link is not asCapable
	DropUnicast         // by unicast without a grant
	DropRate            // more requests than are answered in a second
	DropQueue           // too many answers wait
	DropRange           // a time or interval beyond what can be computed with
	DropPeers           // several answers to one Pdelay_Req
	DropStampLate       // a transmit stamp after its time was over
	DropStampStray      // a transmit stamp that was reported before, or never asked for
	DropStampLost       // a transmit stamp that did not come, or came as an error
	DropTLV             // a TLV that nobody serves
	NumDrops
)

var dropNames = [NumDrops]string{
	"none", "malformed", "version", "sdo_id", "domain", "port", "own", "unstamped", "state", "parent", "other",
	"sequence",
	"duplicate", "unmatched", "mechanism", "steps", "class", "alternate", "loop", "foreign", "capable", "unicast",
	"rate", "queue", "range", "peers", "stamp_late", "stamp_stray", "stamp_lost", "tlv",
}

func (d Drop) String() string {
	return enum.Name(dropNames[:], d, "unknown")
}

// Stats is what a port has counted.
type Stats struct {
	Rx, Tx [16]uint64 // by message type; PORT_STATS
	Drops  [NumDrops]uint64
	// How often timers ran out, as linuxptp counts it in PORT_SERVICE_STATS: of
	// receipt, of qualification, and those at which something is sent.
	AnnounceTimeout, SyncTimeout, QualificationTimeout     uint64
	MasterAnnounceTimeout, MasterSyncTimeout, DelayTimeout uint64
	UnicastServiceTimeout, UnicastRequestTimeout           uint64
	SyncMismatch, FollowUpMismatch                         uint64 // that waited in vain
	Unanswered                                             uint64 // Delay_Req
	Faults                                                 uint64
}

// Counter is one number with its name.
type Counter struct {
	Name  string
	Value uint64
}

// Counters lists s by name: rx_sync, tx_announce, drop_domain and their like.
func (s *Stats) Counters() []Counter {
	var list []Counter
	for t := range msg.Type(16) {
		if t.Len() == 0 {
			continue
		}
		name := strings.ToLower(t.String())
		list = append(list, Counter{"rx_" + name, s.Rx[t]}, Counter{"tx_" + name, s.Tx[t]})
	}
	for d := DropNone + 1; d < NumDrops; d++ {
		list = append(list, Counter{"drop_" + d.String(), s.Drops[d]})
	}
	return append(list,
		Counter{"announce_timeout", s.AnnounceTimeout}, Counter{"sync_timeout", s.SyncTimeout},
		Counter{"qualification_timeout", s.QualificationTimeout}, Counter{"sync_mismatch", s.SyncMismatch},
		Counter{"followup_mismatch", s.FollowUpMismatch}, Counter{"delay_unanswered", s.Unanswered},
		Counter{"faults", s.Faults})
}

// parseDrop is the reason for what msg refused.
func parseDrop(err error) Drop {
	if err == msg.ErrVersion {
		return DropVersion
	}
	return DropMalformed
}
