// Package linkmode is what the ends of an Ethernet link offer each other: speeds,
// PAUSE and EEE (IEEE 802.3 clauses 28 and 78).
package linkmode

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Speeds is a set of link speeds, as drivers advertise and boards have them.
type Speeds uint32

// The speeds.
const (
	Speed1G Speeds = 1 << iota
	Speed10G
	Speed20G
	Speed25G
	Speed40G
	Speed50G
	Speed100G
	// Twisted pairs alone have the two slowest.
	Speed10M
	Speed100M
	AllSpeeds    Speeds = 1<<iota - 1
	ModuleSpeeds        = AllSpeeds &^ (Speed10M | Speed100M)
)

// speeds are all, from slow to fast, in Mb/s.
var speeds = [...]struct {
	bit  Speeds
	mbps uint32
}{{Speed10M, 10}, {Speed100M, 100}, {Speed1G, 1000}, {Speed10G, 10000}, {Speed20G, 20000}, {Speed25G, 25000},
	{Speed40G, 40000}, {Speed50G, 50000}, {Speed100G, 100000}}

// Mbps is the speed in Mb/s, of a set the fastest; 0 for none.
func (s Speeds) Mbps() uint32 {
	for _, e := range slices.Backward(speeds[:]) {
		if s&e.bit != 0 {
			return e.mbps
		}
	}
	return 0
}

// SpeedOf is the speed of so many Mb/s; 0 if there is none.
func SpeedOf(mbps uint32) Speeds {
	for _, e := range speeds {
		if e.mbps == mbps {
			return e.bit
		}
	}
	return 0
}

// String lists the speeds: "1G,25G".
func (s Speeds) String() string {
	var names []string
	for _, e := range speeds {
		switch {
		case s&e.bit == 0:
		case e.mbps < 1000:
			names = append(names, fmt.Sprintf("%dM", e.mbps))
		default:
			names = append(names, fmt.Sprintf("%dG", e.mbps/1000))
		}
	}
	return cmp.Or(strings.Join(names, ","), "none")
}

// EEECaps is a set of speeds at which EEE is advertised.
type EEECaps uint8

// The speeds.
const (
	EEE1G  EEECaps = 1 << 1
	EEE10G EEECaps = 1 << 2
	AllEEE         = EEE1G | EEE10G
)

// Speeds are those of the set.
func (c EEECaps) Speeds() (s Speeds) {
	if c&EEE1G != 0 {
		s |= Speed1G
	}
	if c&EEE10G != 0 {
		s |= Speed10G
	}
	return s
}

// String lists the speeds.
func (c EEECaps) String() string { return c.Speeds().String() }

// Ability is what an end of a link offers to the other.
type Ability struct {
	// Dark: its transmitter is off, and there is no link.
	Dark bool `json:"dark"`
	// Speeds that it has; 0: those of the port, and ModuleSpeeds.
	Speeds Speeds `json:"speeds"`
	// Forced: it does not negotiate, and has one speed.
	Forced bool `json:"forced"`
	// NoSymmetric and Asymmetric are the two bits of its pause advertisement,
	// the first turned round; a forced partner's pause is not known.
	NoSymmetric bool    `json:"no_symmetric"`
	Asymmetric  bool    `json:"asymmetric"`
	EEE         EEECaps `json:"eee"` // that it advertises
}

// Agree is what an end that negotiates as a comes to with the other end: the speed
// in Mb/s, 0 without a common one, and whether it obeys and sends PAUSE frames (IEEE
// 802.3 table 28B-3).
func (a Ability) Agree(other Ability) (mbps uint32, rx, tx bool) {
	mbps = (cmp.Or(a.Speeds, AllSpeeds) & cmp.Or(other.Speeds, AllSpeeds)).Mbps()
	switch {
	case a.Dark || other.Dark:
		return 0, false, false
	case mbps == 0 || a.Forced || other.Forced:
	case !a.NoSymmetric && !other.NoSymmetric:
		return mbps, true, true
	case a.Asymmetric && other.Asymmetric:
		return mbps, !a.NoSymmetric, !other.NoSymmetric
	}
	return mbps, false, false
}
