// Package timescale is what a grandmaster says of its time
// (timePropertiesDS), and how UTC goes on over a leap second.
package timescale

import (
	"time"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Properties are what a grandmaster says of its time.
type Properties struct {
	UTCOffset          int16 // currentUtcOffset: TAI - UTC in s
	UTCOffsetValid     bool
	Leap59, Leap61     bool // the last minute of this UTC day has 59 or 61 s
	TimeTraceable      bool
	FrequencyTraceable bool
	PTPTimescale       bool // the epoch is that of PTP, not arbitrary
	TimeSource         msg.TimeSource
}

// Of is what flags, offset and source say, as Announce and management messages
// have them.
func Of(f msg.Flags, utcOffset int16, source msg.TimeSource) Properties {
	return Properties{
		UTCOffset: utcOffset, UTCOffsetValid: f.Has(msg.FlagUTCOffsetValid),
		Leap59: f.Has(msg.FlagLeap59), Leap61: f.Has(msg.FlagLeap61),
		TimeTraceable: f.Has(msg.FlagTimeTraceable), FrequencyTraceable: f.Has(msg.FlagFrequencyTraceable),
		PTPTimescale: f.Has(msg.FlagPTPTimescale), TimeSource: source,
	}
}

// Flags are p as messages carry them.
func (p *Properties) Flags() (f msg.Flags) {
	for _, b := range []struct {
		on   bool
		flag msg.Flags
	}{
		{p.Leap61, msg.FlagLeap61}, {p.Leap59, msg.FlagLeap59}, {p.UTCOffsetValid, msg.FlagUTCOffsetValid},
		{p.PTPTimescale, msg.FlagPTPTimescale}, {p.TimeTraceable, msg.FlagTimeTraceable},
		{p.FrequencyTraceable, msg.FlagFrequencyTraceable},
	} {
		if b.on {
			f |= b.flag
		}
	}
	return f
}

const daySeconds = 86400

// Day is the number of the UTC day, since the epoch, in which a clock shows s.
func (p *Properties) Day(s frame.Stamp) int64 {
	return (int64(s)/int64(time.Second) - int64(p.UTCOffset)) / daySeconds
}

// Leaps tells that a leap second is announced.
func (p *Properties) Leaps() bool { return p.Leap59 || p.Leap61 }

// LeapEnd is the moment, on the PTP timescale, at which a UTC day that ends
// with the announced leap second is over, and by how much the offset changes.
func (p *Properties) LeapEnd(day int64) (at frame.Stamp, step int16) {
	switch {
	case p.Leap61:
		step = 1
	case p.Leap59:
		step = -1
	}
	return frame.Stamp(((day+1)*daySeconds + int64(p.UTCOffset) + int64(step)) * int64(time.Second)), step
}
