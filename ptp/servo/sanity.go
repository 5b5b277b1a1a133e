package servo

import (
	"math"
	"time"

	"tapir/wire/frame"
)

// DefaultSanityLimit is linuxptp's sanity_freq_limit in ppb.
const DefaultSanityLimit = 200_000_000

// sanityInterval is the shortest time over which a rate is judged.
const sanityInterval = 100 * time.Millisecond

// Sanity watches the steered clock beside engine time: somebody else may set
// it, or a broken master drag it along.
type Sanity struct {
	limit       float64
	now         frame.Time
	local       frame.Stamp
	last        float64 // the correction in force
	least, most float64 // those since the last check
	begun       bool
}

// NewSanity returns a watch for rates that differ by more than limit ppb from
// what the corrections explain; 0 switches it off.
func NewSanity(limit float64) *Sanity { return &Sanity{limit: limit} }

// Steered tells of a correction put in force, as ppb by which the clock is
// sped up.
func (s *Sanity) Steered(ppb float64) {
	s.last = ppb
	s.least, s.most = min(s.least, ppb), max(s.most, ppb)
}

// Stepped tells that the clock was stepped on purpose by ns.
func (s *Sanity) Stepped(ns int64) { s.local += frame.Stamp(ns) }

// Check tells whether the clock, which shows local at engine time now, ran at
// a possible rate since the last check.
func (s *Sanity) Check(now frame.Time, local frame.Stamp) bool {
	if s.limit <= 0 {
		return true
	}
	if !s.begun {
		s.begin(now, local)
		return true
	}
	elapsed := now.Sub(s.now)
	if elapsed < sanityInterval {
		return true
	}
	ppb := float64(int64(local-s.local)-int64(elapsed)) / float64(elapsed) * 1e9
	low, high := s.least-s.limit, s.most+s.limit
	s.begin(now, local)
	return ppb >= low && ppb <= high && !math.IsNaN(ppb)
}

// begin starts a new interval under the correction in force.
func (s *Sanity) begin(now frame.Time, local frame.Stamp) {
	s.begun, s.now, s.local = true, now, local
	s.least, s.most = s.last, s.last
}
