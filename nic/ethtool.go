package nic

import (
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/port"
	"tapir/wire/drop"
	"tapir/wire/ether"
)

// EthtoolInfo is what ethtool(8) asks the driver of a NIC.
type EthtoolInfo struct {
	Netdev          string     `json:"netdev"` // the NIC's name
	Driver          string     `json:"driver"`
	Version         string     `json:"version"`          // of the binary, unknown here
	FirmwareVersion string     `json:"firmware_version"` // of the boot code and the management firmware
	BootVersion     string     `json:"boot_version"`     // empty: there is none
	StormVersion    string     `json:"storm_version"`    // of the engine's firmware
	BusInfo         string     `json:"bus_info"`         // the wire TAP, unknown here
	PermAddr        ether.Addr `json:"permanent_address"`

	Msglvl   uint32           `json:"msglvl"`
	Link     EthtoolLink      `json:"link"`
	Pause    EthtoolPause     `json:"pause"`
	Rings    EthtoolRings     `json:"rings"`
	Channels EthtoolChannels  `json:"channels"`
	Features []EthtoolFeature `json:"features"`
	// Stats are those of the driver qede that are counted, in its order.
	Stats []Counter `json:"stats"`
	// RSS and Rules are those of the host function, nil and none without one.
	RSS      *EthtoolRSS `json:"rss,omitempty"`
	Rules    []qede.Rule `json:"rules,omitempty"`
	MaxRules int         `json:"max_rules"`
}

// EthtoolRSS is how received packets are spread.
type EthtoolRSS struct {
	Table  []int        `json:"table"` // queues
	Key    []byte       `json:"key"`
	Hashes l2.HashTypes `json:"hashes"`
}

// EthtoolPause are the flow control settings.
type EthtoolPause struct {
	Autoneg bool `json:"autoneg"`
	Rx      bool `json:"rx"`
	Tx      bool `json:"tx"`
	// What came of it.
	RxNegotiated bool `json:"rx_negotiated"`
	TxNegotiated bool `json:"tx_negotiated"`
}

// EthtoolRings are the sizes of queues, in frames; 0: there is no such queue.
type EthtoolRings struct {
	RxMax int `json:"rx_max"`
	TxMax int `json:"tx_max"`
	Rx    int `json:"rx"`
	Tx    int `json:"tx"`
}

// EthtoolChannels are the numbers of queue pairs of the Ethernet function.
type EthtoolChannels struct {
	MaxCombined int `json:"max_combined"`
	Combined    int `json:"combined"`
}

// ShowEthtool describes the NIC as ethtool does.
func (d *Device) ShowEthtool() EthtoolInfo {
	e := EthtoolInfo{
		Netdev: d.cfg.Name, Driver: "tapir", PermAddr: d.permanent, Msglvl: d.cfg.Msglvl.Word(),
		FirmwareVersion: d.firmwareVersion(), BootVersion: d.bootVersion(), StormVersion: fw.Wanted.String(),
		Link:     d.ethtoolLink(),
		Pause:    d.pause(),
		Rings:    EthtoolRings{TxMax: port.QueueFrames, Tx: port.QueueFrames},
		Channels: EthtoolChannels{MaxCombined: 1, Combined: 1},
		Features: d.features(), Stats: d.qedeStats(),
	}
	if d.function != nil {
		d.function.describe(&e, d.cfg.Queues, d.coupled)
		if d.coupled != nil { // the user's table, not an engine's half
			s := d.cfg.netdev()
			table := s.FullTable()
			e.RSS.Table, e.MaxRules = table[:], 0
		}
	}
	return e
}

// pause is the flow control that the driver asks for, and what it has.
func (d *Device) pause() EthtoolPause {
	p, s := d.management.mcp.LinkParams(), d.management.mcp.LinkState()
	return EthtoolPause{Autoneg: p.PauseAutoneg, Rx: p.ForcedRx, Tx: p.ForcedTx, RxNegotiated: s.RxFlowControl, TxNegotiated: s.TxFlowControl}
}

// qedeStats are the counters that ethtool -S shows, with qede's names.
func (d *Device) qedeStats() []Counter {
	drops := d.allDrops()
	return append(d.wire.MACCounters(),
		Counter{Name: "no_buff_discards", Value: drops[drop.NoBuffer]},
		Counter{Name: "mac_filter_discards", Value: drops[drop.NotOurMAC]},
		Counter{Name: "packet_too_big_discard", Value: drops[drop.Oversize]},
		Counter{Name: "link_change_count", Value: d.linkChanges},
		Counter{Name: "ptp_skip_txts", Value: d.PTP.Unit().Stats().TxSkipped})
}
