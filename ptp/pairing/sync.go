// Package pairing holds what waits for its counterpart in a PTP port: a Sync
// for its Follow_Up, a Delay_Req for its answer, an event message for its
// stamp. All of it is bounded.
package pairing

import (
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Result tells what a message did.
type Result uint8

const (
	Waiting   Result = iota // more is to come
	Done                    // the pair is complete
	Duplicate               // seen before
	Unmatched               // its counterpart will not come
	Unknown                 // nothing waits for it
)

// FollowUp is what a Follow_Up brings, or a Sync of one step.
type FollowUp struct {
	Origin     frame.Stamp
	Correction msg.TimeInterval
	Info       msg.FollowUpInfo // of IEEE 802.1AS
	HasInfo    bool
}

// Pair is a Sync with its Follow_Up.
type Pair struct {
	Ingress    frame.Stamp
	Correction msg.TimeInterval // of the Sync
	FollowUp
}

// Syncs pairs each Sync with its Follow_Up, in whichever order they come. Of
// either, the last one waits.
type Syncs struct {
	haveSync, haveFollowUp bool
	seq                    uint16
	pair                   Pair
	done                   bool // lastSeq is valid
	lastSeq                uint16
}

// Drop forgets what waits.
func (s *Syncs) Drop() { s.haveSync, s.haveFollowUp = false, false }

// Seen tells that a Sync of this sequenceId is there or was used.
func (s *Syncs) Seen(seq uint16) bool {
	return s.done && s.lastSeq == seq || s.haveSync && s.seq == seq
}

// Sync takes a Sync of two steps that was not Seen; displaced tells that
// another message waited in vain.
func (s *Syncs) Sync(seq uint16, ingress frame.Stamp, corr msg.TimeInterval) (p Pair, r Result, displaced bool) {
	if s.haveFollowUp && s.seq == seq {
		s.OneStep(seq)
		return Pair{ingress, corr, s.pair.FollowUp}, Done, false
	}
	displaced = s.haveSync || s.haveFollowUp
	s.haveSync, s.haveFollowUp, s.seq, s.pair = true, false, seq, Pair{Ingress: ingress, Correction: corr}
	return Pair{}, Waiting, displaced
}

// OneStep takes a Sync that needs no Follow_Up.
func (s *Syncs) OneStep(seq uint16) {
	s.Drop()
	s.done, s.lastSeq = true, seq
}

// FollowUp takes a Follow_Up; displaced as for Sync.
func (s *Syncs) FollowUp(seq uint16, f FollowUp) (p Pair, r Result, displaced bool) {
	switch {
	case s.done && s.lastSeq == seq, s.haveFollowUp && s.seq == seq:
		return p, Duplicate, false
	case s.haveSync && s.seq == seq:
		s.OneStep(seq)
		return Pair{s.pair.Ingress, s.pair.Correction, f}, Done, false
	case s.haveSync && int16(seq-s.seq) < 0:
		return p, Unmatched, false // of an older Sync that was lost
	}
	displaced = s.haveSync || s.haveFollowUp
	s.haveSync, s.haveFollowUp, s.seq, s.pair = false, true, seq, Pair{FollowUp: f}
	return p, Waiting, displaced
}
