package cmt

import (
	"tapir/nic/fastlinq/l2"
	"tapir/nic/nicdrop"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Steering says to which engine a frame of the wire goes: where the LLH pins it,
// else by the hash of its flow. An engine that has failed gets none: what the
// hash gives it goes to the other, what is pinned to it is dropped.
type Steering struct {
	LLH    *LLH
	hasher *l2.Hasher
	failed [Engines]bool
	stats  SteeringStats
}

// SteeringStats count frames by what became of them.
type SteeringStats struct {
	Frames    [Engines]uint64 // that went to each engine
	Pinned    uint64          // of those, where the LLH says
	Resteered uint64          // of those, to the other engine than the hash says
	Dropped   uint64          // for an engine that has failed, or for no function
}

// NewSteering steers by an LLH. SetHash has to come before the first frame.
func NewSteering(llh *LLH) *Steering { return &Steering{LLH: llh} }

// SetHash chooses the key and the kinds of packets of the hash: those of RSS.
func (s *Steering) SetHash(key [l2.KeyLen]byte, types l2.HashTypes) {
	s.hasher = l2.NewHasher(key, types)
}

// SetFailed notes whether an engine has failed.
func (s *Steering) SetFailed(engine int, failed bool) { s.failed[engine] = failed }

// Stats are the counts so far.
func (s *Steering) Stats() SteeringStats { return s.stats }

// Engine is the engine of a frame, which it borrows, unless it answers why there
// is none.
func (s *Steering) Engine(f *frame.Frame) (engine int, r frame.DropReason) {
	flow := s.hasher.Look(f)
	a, ok := s.LLH.Classify(&flow)
	if !ok {
		s.stats.Dropped++
		return 0, drop.NotOurMAC
	}
	pinned := a != Both
	if engine = int(a); !pinned {
		engine = engineOf(flow.Hash)
	}
	if s.failed[engine] {
		if pinned || s.failed[1-engine] {
			s.stats.Dropped++
			return engine, nicdrop.Engine
		}
		engine = 1 - engine
		s.stats.Resteered++
	}
	if pinned {
		s.stats.Pinned++
	}
	s.stats.Frames[engine]++
	return engine, frame.DropNone
}
