package port

import (
	"math/bits"

	"tapir/nic/pacing"
	"tapir/nic/view"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Speed is what a port has by default and what it claims, in Mb/s: tools and
// peers expect a number, and a TAP has none. At this speed a port does not pace
// what it sends.
const Speed = 100_000

// gap is what a frame takes of the line beside its octets: preamble, FCS and the
// gap to the next (IEEE 802.3 section 4.4.2).
const gap = 8 + fcsLen + 12

// fcsLen is the frame check sequence, which the MAC counts among the octets of
// a frame when it sorts frames by size, and which no TAP carries.
const fcsLen = 4

// sizeNames are the classes of frames by size, as the driver qede calls them.
var sizeNames = [...]string{"64", "65_to_127", "128_to_255", "256_to_511", "512_to_1023", "1024_to_1518", "1519_to_max"}

// sizeClass is the class of a frame of n octets with the FCS.
func sizeClass(n int) int {
	switch {
	case n > 1518:
		return 6
	case n > 64:
		return bits.Len(uint(n)) - 6 // from 65 to 127, the bounds are powers of two
	}
	return 0
}

// castNames are the kinds of destinations, as indices of MACStats.
var castNames = [...]string{"ucast", "mcast", "bcast"}

const (
	toOne = iota
	toGroup
	toAll
)

// MACStats counts what passes the port in one direction as the MAC does: the
// true frames on the cable, of which a super-frame is many.
type MACStats struct {
	packets, bytes [len(castNames)]uint64
	sizes          [len(sizeNames)]uint64
}

// count adds a frame, which it borrows.
func (m *MACStats) count(f *frame.Frame) {
	b := f.Bytes()
	if len(b) < ether.HeaderLen {
		return
	}
	cast := toOne
	if dst := ether.Addr(b[:6]); dst.IsBroadcast() {
		cast = toAll
	} else if dst.IsMulticast() {
		cast = toGroup
	}
	count, headers, size := pacing.Segments(f)
	if count > 1 {
		m.add(cast, headers+size, uint64(count-1))
	}
	m.add(cast, f.Len()-(count-1)*size, 1)
}

// add counts k frames of n octets.
func (m *MACStats) add(cast, n int, k uint64) {
	m.packets[cast] += k
	m.bytes[cast] += k * uint64(n)
	m.sizes[sizeClass(n+fcsLen)] += k
}

// Totals are the frames to one station, those to several, and the octets of all.
func (m *MACStats) Totals() (unicast, others, octets uint64) {
	for i := range castNames {
		octets += m.bytes[i]
	}
	return m.packets[toOne], m.packets[toGroup] + m.packets[toAll], octets
}

// Counters are those of all frames, with names that begin with prefix.
func (p *Port) Counters(prefix string) []Counter {
	in, out := p.Frames[frame.Inbound], p.Frames[frame.Outbound]
	list := []Counter{view.Count(prefix+"rx_packets", in.Packets), view.Count(prefix+"rx_bytes", in.Bytes),
		view.Count(prefix+"tx_packets", out.Packets), view.Count(prefix+"tx_bytes", out.Bytes)}
	if p.name == frame.Wire {
		list = append(list, view.Count("rx_pause_frames", p.Flow.Received), view.Count("tx_pause_frames", p.Flow.Sent),
			view.Count("tx_pause_duration", uint64(p.Sched.Paused().Microseconds())),
			view.Count("tx_lpi_entry_count", p.Sched.LPIEntries()))
		if p.Flow.Limit > 0 {
			list = append(list, p.pauseStorms()...)
		}
		if p.PFC() {
			list = append(list, p.priorityCounters()...)
		}
	}
	return list
}

// MACCounters are those of the MAC, with qede's names.
func (p *Port) MACCounters() (all []Counter) {
	prefixes := [...]string{frame.Inbound: "rx_", frame.Outbound: "tx_"}
	for dir := range p.MAC {
		for i, cast := range castNames {
			all = append(all, view.Count(prefixes[dir]+cast+"_bytes", p.MAC[dir].bytes[i]))
		}
		for i, cast := range castNames {
			all = append(all, view.Count(prefixes[dir]+cast+"_pkts", p.MAC[dir].packets[i]))
		}
	}
	for dir := range p.MAC {
		for i, size := range sizeNames {
			all = append(all, view.Count(prefixes[dir]+size+"_byte_packets", p.MAC[dir].sizes[i]))
		}
	}
	return all
}
