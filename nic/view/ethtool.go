package view

import (
	"tapir/nic/hostfn"
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
	// Stats are those of the Linux driver that are counted, in its order; Own the
	// others of an HFI or virtual NIC. The others of a NIC are its counters.
	Stats []Counter `json:"stats"`
	Own   []Counter `json:"own,omitempty"`
	// RSS and Rules are those of the host function, nil and none without one.
	RSS      *EthtoolRSS   `json:"rss,omitempty"`
	Rules    []hostfn.Rule `json:"rules,omitempty"`
	MaxRules int           `json:"max_rules"`
}

// EthtoolRSS is how received packets are spread.
type EthtoolRSS struct {
	Table  []int  `json:"table"` // queues
	Key    []byte `json:"key"`
	Hashes uint8  `json:"hashes"` // fastlinq.HashTypes
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
	// Of an HFI: receive contexts and send engines, whose number is fixed.
	Rx int `json:"rx,omitempty"`
	Tx int `json:"tx,omitempty"`
}

// EthtoolMode is a link mode as ethtool(8) calls it.
type EthtoolMode struct {
	Name  string `json:"name"`
	Bit   int    `json:"bit"`   // of ethtool's masks
	Speed string `json:"speed"` // as link_advertise has it: "25G"
	Mbps  int    `json:"mbps"`
}

// EthtoolModes is what an end of the link can do, or offers.
type EthtoolModes struct {
	Modes     []EthtoolMode `json:"modes"` // by bit
	Autoneg   bool          `json:"autoneg"`
	Pause     bool          `json:"pause"` // symmetric
	AsymPause bool          `json:"asym_pause"`
}

// EthtoolLink is the link as ethtool shows it.
type EthtoolLink struct {
	Up      bool     `json:"up"`
	Speed   int      `json:"speed"` // Mb/s; 0: unknown
	Autoneg bool     `json:"autoneg"`
	Port    string   `json:"port"`
	Ports   []string `json:"ports"` // supported
	WoL     bool     `json:"wol"`   // a magic packet wakes the function

	Supported  EthtoolModes `json:"supported"`
	Advertised EthtoolModes `json:"advertised"`
	Partner    EthtoolModes `json:"partner"` // empty: it does not negotiate
	EEE        EthtoolEEE   `json:"eee"`
}

// EthtoolEEE is energy-efficient Ethernet as ethtool shows it.
type EthtoolEEE struct {
	Enabled    bool          `json:"enabled"`
	Active     bool          `json:"active"`
	TxLPI      bool          `json:"tx_lpi"`
	TxTimer    uint32        `json:"tx_timer"`  // us
	Supported  []EthtoolMode `json:"supported"` // empty: the port has no EEE
	Advertised []EthtoolMode `json:"advertised"`
	Partner    []EthtoolMode `json:"partner"`
}

// ModuleEEPROM is the memory of the port's module.
type ModuleEEPROM struct {
	Type string `json:"type"` // SFF-8636: page A0; SFF-8472: pages A0 and A2
	Data []byte `json:"data"`
}

// EthtoolFeature is a feature with the name that the kernel has for it.
type EthtoolFeature struct {
	Name   string `json:"name"`
	On     bool   `json:"on"`
	Wanted bool   `json:"wanted"` // On may have to wait for others
	Fixed  bool   `json:"fixed"`  // it cannot be changed
	// Setting changes it, with the first of Values for off, the second for on.
	Setting string    `json:"setting,omitempty"`
	Values  [2]string `json:"values"`
}

// Types of module memories.
const (
	SFF8636 = "SFF-8636"
	SFF8472 = "SFF-8472"
)
