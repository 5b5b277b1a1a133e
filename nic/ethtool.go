package nic

import (
	"tapir/nic/port"
	"tapir/nic/view"
	"tapir/wire/drop"
)

// ShowEthtool describes the NIC as ethtool does.
func (d *Device) ShowEthtool() view.EthtoolInfo {
	e := view.EthtoolInfo{
		Netdev: d.cfg.Name, Driver: "tapir", PermAddr: d.permanent, Msglvl: d.cfg.Msglvl.Word(),
		Rings:    view.EthtoolRings{TxMax: port.QueueFrames, Tx: port.QueueFrames},
		Channels: view.EthtoolChannels{MaxCombined: 1, Combined: 1},
		Stats:    d.qedeStats(),
	}
	d.Hardware.Describe(&e)
	return e
}

// qedeStats are the counters that ethtool -S shows, with qede's names.
func (d *Device) qedeStats() []view.Counter {
	drops := d.allDrops()
	return append(d.wire.MACCounters(),
		view.Count("no_buff_discards", drops[drop.NoBuffer]),
		view.Count("mac_filter_discards", drops[drop.NotOurMAC]),
		view.Count("packet_too_big_discard", drops[drop.Oversize]),
		view.Count("link_change_count", d.linkChanges),
		view.Count("ptp_skip_txts", d.PTP.Unit().Stats().TxSkipped))
}
