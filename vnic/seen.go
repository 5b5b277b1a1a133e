package vnic

import (
	"cmp"
	"slices"

	"tapir/opa"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Station is where a vport has seen a source address.
type Station struct {
	MAC  ether.Addr
	VLAN uint16     // 0: untagged
	LID  opa.LID    // 0: on the host's side
	Seen frame.Time // when last
}

// Stations lists the stations that a vport has seen, by VLAN and address.
func (n *Netdev) Stations() []Station {
	var list []Station
	for _, s := range n.stations.slots {
		if s.key != 0 {
			list = append(list, Station{MAC: s.key.addr(), VLAN: uint16(s.key>>48) & 0xfff, LID: s.lid, Seen: s.seen})
		}
	}
	slices.SortFunc(list, func(a, b Station) int {
		return cmp.Or(cmp.Compare(a.VLAN, b.VLAN), slices.Compare(a.MAC[:], b.MAC[:]))
	})
	return list
}
