package view

// QueueInfo describes a queue pair of the host function for display.
type QueueInfo struct {
	Hwfn       string `json:"hwfn,omitempty"` // of two
	Queue      int    `json:"queue"`
	RxPackets  uint64 `json:"rx_packets"` // handed to the host TAP
	RxDiscards uint64 `json:"rx_discards"`
	RxWaiting  int    `json:"rx_waiting"`
	TxPackets  uint64 `json:"tx_packets"`
	TxStopped  uint64 `json:"tx_stopped"` // frames that found the queue full
	TxWaiting  int    `json:"tx_waiting"`
	RSSEntries int    `json:"rss_entries"` // of the indirection table
}

// VportInfo describes the vport of the host function for display.
type VportInfo struct {
	Hwfn      string `json:"hwfn,omitempty"` // of two
	Vport     int    `json:"vport"`
	MTU       int    `json:"mtu"`
	RxMode    string `json:"rx_mode"`
	AnyVLAN   bool   `json:"accept_any_vlan"`
	MACs      int    `json:"mac_filters"`
	Groups    int    `json:"mcast_filters"`
	VLANs     int    `json:"vlan_filters"`
	Rules     int    `json:"ntuple_rules"`
	Queues    int    `json:"queues"`
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	Filtered  uint64 `json:"mac_filter_discards"`
	TxErrors  uint64 `json:"tx_err_drop_pkts"`
	TxMinRate int    `json:"tx_minrate"` // Mb/s, of the port's function
	TxMaxRate int    `json:"tx_maxrate"` // 0: no limit
}

// IRQInfo describes a status block and its vector for display.
type IRQInfo struct {
	Hwfn       string `json:"hwfn,omitempty"` // of two
	SB         string `json:"sb"`             // its number, or sp: the slowpath's
	User       string `json:"user"`
	Mode       string `json:"mode"`
	Vector     int    `json:"vector"`     // -1: none
	Interrupts uint64 `json:"interrupts"` // of the vector
	Events     uint64 `json:"events"`
	Updates    uint64 `json:"updates"` // writes of the block
	RxUsecs    int    `json:"rx_usecs"`
	TxUsecs    int    `json:"tx_usecs"`
}
