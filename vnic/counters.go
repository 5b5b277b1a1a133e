package vnic

import (
	"tapir/opa"
	"tapir/wire/drop"
	"tapir/wire/frame"
)

// Way counts the frames of one direction. Octets and size classes include the
// FCS, which no frame carries here: four octets each.
type Way struct {
	// Packets, Bytes and Sizes count what was sent, what the host wanted sent
	// and could not be, what was received, and runts and oversized frames.
	Packets, Bytes uint64
	// Sizes: 64 octets, then up to 127, 255, 511, 1023, 1518, and more.
	Sizes [7]uint64
	// The others count good frames alone.
	Unicast, McastBcast, Untagged, VLAN uint64
}

const fcs = 4

// sizeMost are the longest frames of the size classes but for the last.
var sizeMost = [...]int{64, 127, 255, 511, 1023, 1518}

// size counts a frame of n octets without FCS.
func (w *Way) size(n int) {
	n += fcs
	w.Packets++
	w.Bytes += uint64(n)
	class := 0
	for class < len(sizeMost) && n > sizeMost[class] {
		class++
	}
	w.Sizes[class]++
}

func (w *Way) good(group, tagged bool) {
	if group {
		w.McastBcast++
	} else {
		w.Unicast++
	}
	if tagged {
		w.VLAN++
	} else {
		w.Untagged++
	}
}

// Stats is what a vport has counted. The sums of the drops are the errors.
type Stats struct {
	Tx, Rx           Way
	TxDrops, RxDrops frame.Drops

	// UnknownVESW counts packets for vESWs that the HFI port has not; as in
	// the Linux driver the port's first vport tells them.
	UnknownVESW uint64

	FECN, BECN     uint64 // packets received with these marks
	Learned, Moved uint64 // stations learned, stations seen at another place
	NotLearned     uint64 // stations beyond a limit
	Flooded        uint64 // frames to unknown stations sent to all
	Relayed        uint64 // frames passed on as default port
	Answered       uint64 // ARP and ND requests answered for others
	Joins, Leaves  uint64 // of groups, by IGMP and MLD of the host's side
	HostTx, HostRx uint64 // frames handed to the operating system, and taken from it
}

// TxErrors is the number of frames of the host that were not sent.
func (s *Stats) TxErrors() uint64 { return s.TxDrops.Total() }

// RxErrors is the number of received packets that did not reach the host.
func (s *Stats) RxErrors() uint64 { return s.RxDrops.Total() + s.UnknownVESW }

// The parts of the errors that the Linux driver and ERROR_COUNTERS know.

func (s *Stats) TxFIFOErrors() uint64 {
	return s.TxDrops[drop.TxQueue] + s.TxDrops[drop.NoBuffer]
}
func (s *Stats) TxCarrierErrors() uint64 { return s.TxDrops[opa.DropPort] }
func (s *Stats) RxFIFOErrors() uint64 {
	return s.RxDrops[drop.HostQueue] + s.RxDrops[drop.NoBuffer]
}

// Counter is one number with its name.
type Counter struct {
	Name  string
	Value uint64
}

// sizeNames are the endings of the seven size classes' names.
var sizeNames = [7]string{"64_size", "65_127", "128_255", "256_511", "512_1023", "1024_1518", "1519_max"}

// DriverCounters is the number of counters that the Linux driver has.
const DriverCounters = 39

// Counters lists s under the names of ethtool -S: first the 39 of the Linux
// driver in its order, then ours, then each drop reason as tx_drop_* and
// rx_drop_*.
func (s *Stats) Counters() []Counter {
	list := []Counter{
		{"rx_packets", s.Rx.Packets}, {"tx_packets", s.Tx.Packets}, {"rx_bytes", s.Rx.Bytes}, {"tx_bytes", s.Tx.Bytes},
		{"rx_errors", s.RxErrors()}, {"tx_errors", s.TxErrors()}, {"rx_dropped", s.RxErrors()},
		{"tx_dropped", s.TxErrors()},
	}
	list = s.Tx.list(list, "tx_")
	list = s.Rx.list(list, "rx_")
	list = append(list,
		Counter{"rx_fifo_errors", s.RxFIFOErrors()}, Counter{"rx_length_errors", 0},
		Counter{"tx_fifo_errors", s.TxFIFOErrors()}, Counter{"tx_carrier_errors", s.TxCarrierErrors()},
		Counter{"tx_dlid_zero", s.TxDrops[opa.DropNoDLID]}, Counter{"tx_drop_state", s.TxDrops[opa.DropState]},
		Counter{"rx_drop_state", s.RxDrops[opa.DropState]},
		Counter{"rx_oversize", s.RxDrops[drop.Oversize]}, Counter{"rx_runt", s.RxDrops[opa.DropRunt]},
		// From here on ours.
		Counter{"tx_smac_filt", s.TxDrops[opa.DropSpoofed]}, Counter{"rx_bad_veswid", s.UnknownVESW},
		Counter{"rx_fecn", s.FECN}, Counter{"rx_becn", s.BECN},
		Counter{"stations_learned", s.Learned}, Counter{"stations_moved", s.Moved},
		Counter{"stations_refused", s.NotLearned}, Counter{"tx_flooded", s.Flooded}, Counter{"rx_relayed", s.Relayed},
		Counter{"tx_answered", s.Answered}, Counter{"group_joins", s.Joins}, Counter{"group_leaves", s.Leaves},
		Counter{"host_tx_packets", s.HostTx}, Counter{"host_rx_packets", s.HostRx},
	)
	for _, way := range []struct {
		prefix string
		drops  *frame.Drops
	}{{"tx_drop_", &s.TxDrops}, {"rx_drop_", &s.RxDrops}} {
		for r := range frame.DropReasons() {
			if possible[r] {
				list = append(list, Counter{way.prefix + r.Counter(), way.drops[r]})
			}
		}
	}
	return list
}

func (w *Way) list(list []Counter, prefix string) []Counter {
	list = append(list, Counter{prefix + "unicast", w.Unicast}, Counter{prefix + "mcastbcast", w.McastBcast},
		Counter{prefix + "untagged", w.Untagged}, Counter{prefix + "vlan", w.VLAN})
	for i, name := range sizeNames {
		list = append(list, Counter{prefix + name, w.Sizes[i]})
	}
	return list
}

// possible are the reasons for which a vport drops.
var possible = [frame.MaxDropReasons]bool{
	drop.Truncated: true, drop.NotOurMAC: true, drop.TxQueue: true, drop.HostQueue: true,
	drop.NoBuffer: true, drop.Oversize: true, drop.Source: true, opa.DropPort: true,
	opa.DropPKey: true, opa.DropLooped: true, opa.DropSpoofed: true, opa.DropRunt: true,
	opa.DropStorm: true, opa.DropState: true, opa.DropNoDLID: true, opa.DropShare: true,
}
