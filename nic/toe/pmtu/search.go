package pmtu

import (
	"time"

	"tapir/wire/frame"
)

// step is how exactly a search finds the MTU.
const step = 32

// Search raises a reduced MTU by segments that are larger than the rest
// (RFC 4821): the first as large as can be, then by halves. MTUs count IP
// packets, ends are stream offsets.
type Search struct {
	end   uint64     // end of the probe in flight; 0: none
	size  int        // its packet
	high  int        // smallest packet known to be lost; 0: none
	told  int        // what ICMP says that the path carries; 0: nothing
	begin frame.Time // no probe before
}

// Begin starts a search at a time.
func Begin(at frame.Time) Search { return Search{begin: at} }

// Due is the packet of the probe to be sent now, 0 if none is: mtu is in use,
// top the largest that may be of use. A search that has found the MTU begins
// again after age.
func (s *Search) Due(mtu, top int, age time.Duration, now frame.Time) int {
	switch {
	case mtu >= top, now < s.begin, s.end != 0:
		return 0
	case s.told > mtu:
		return s.told
	case s.high == 0:
		return top
	case s.high-mtu <= step:
		*s = Begin(now.Add(age))
		return 0
	}
	return (mtu + s.high) / 2
}

// Sent says that the stream octets up to end left in a probe of size.
func (s *Search) Sent(end uint64, size int) { s.end, s.size = end, size }

// Told takes from ICMP that the path carries mtu, and reports whether the
// probe in flight was larger.
func (s *Search) Told(mtu int) bool {
	if s.end == 0 || mtu >= s.size {
		return false
	}
	s.told = mtu
	return true
}

// Lost tells that the segment that ended at end was lost, and reports whether
// it was the probe: its loss is no sign of congestion (RFC 4821 section
// 7.6.2).
func (s *Search) Lost(end uint64) bool {
	if s.end == 0 || end != s.end {
		return false
	}
	if s.high, s.end = s.size, 0; s.told >= s.size {
		s.told = 0
	}
	return true
}

// Failed reports whether a probe has been lost and none is in flight.
func (s *Search) Failed() bool { return s.high != 0 && s.end == 0 }

// Acked tells that everything below una has arrived. It returns the MTU that
// the probe has proved, 0 if none has.
func (s *Search) Acked(una uint64) int {
	if s.end == 0 || una < s.end {
		return 0
	}
	s.end = 0
	return s.size
}
