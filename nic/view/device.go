package view

// DeviceRow is one line of what there is to know of a NIC's RDMA device: an
// attribute with its value, or a resource with its use and limit.
type DeviceRow struct {
	Name  string `json:"attribute"`
	Value string `json:"value,omitempty"`
	Used  *int   `json:"used,omitempty"`
	Limit *int   `json:"limit,omitempty"`
	Ever  *int   `json:"ever,omitempty"` // made, or raised, since the NIC runs
}

// AttributeRow is an attribute of the device with its value.
type AttributeRow struct {
	Name  string `json:"attribute"`
	Value string `json:"value"`
}

// NVMRow describes an image in the flash.
type NVMRow struct {
	Image  string `json:"image"`
	Offset uint32 `json:"offset"`
	Length uint32 `json:"length"`
	CRC    string `json:"crc"`
	State  string `json:"state"`
}

// TLVRow is a value that the firmware has pulled.
type TLVRow struct {
	Group string `json:"group"`
	TLV   string `json:"tlv"`
	Value string `json:"value"`
}

// Health is the health reporter "fw_fatal" of the device: hardware errors, those
// that the management firmware tells of included, and recoveries.
type Health struct {
	State      string       `json:"state"` // healthy, error or recovering
	Errors     uint64       `json:"errors"`
	Recoveries uint64       `json:"recoveries"`
	Kinds      []HealthKind `json:"kinds"` // all that there are
	Last       string       `json:"last,omitempty"`
	LastKind   string       `json:"last_kind,omitempty"`
	Engine     int          `json:"engine"` // of the last
	Dump       int          `json:"dump"`   // octets that are kept
	Leaked     int          `json:"leaked_cids"`
	// AutoRecover: a recovery begins by itself, but not within Grace, in milliseconds,
	// of the last.
	AutoRecover bool  `json:"auto_recover"`
	Grace       int64 `json:"grace_period"`
}

// HealthKind is a kind of hardware error.
type HealthKind struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// DevlinkInfo is what devlink(8) asks the driver of a device.
type DevlinkInfo struct {
	Name      string            `json:"name"`
	Driver    string            `json:"driver"`
	Serial    string            `json:"serial_number"` // of the board; empty: its VPD is damaged
	Fixed     []DevlinkVersion  `json:"fixed"`
	Running   []DevlinkVersion  `json:"running"`
	Stored    []DevlinkVersion  `json:"stored"` // in the flash
	Resources []DevlinkResource `json:"resources"`
	Health    Health            `json:"health"`
}

// DevlinkVersion is the version of a component, by devlink's names.
type DevlinkVersion struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// DevlinkResource is a resource of the device: how many there are, and how many
// are in use.
type DevlinkResource struct {
	Name string `json:"name"`
	Size int    `json:"size"`
	Occ  *int   `json:"occ,omitempty"` // nil: nobody counts
}

// LL2Info describes a light L2 connection of the driver core.
type LL2Info struct {
	Handle    int    `json:"ll2"`
	Type      string `json:"type"`
	State     string `json:"state"`
	CID       int    `json:"cid"`
	MTU       int    `json:"mtu"`
	TxDest    string `json:"tx_dest"`
	RxDescs   int    `json:"rx_descs"`
	RxPosted  int    `json:"rx_posted"` // buffers that wait for packets
	TxDescs   int    `json:"tx_descs"`
	TxPending int    `json:"tx_pending"` // packets that have not left
	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxPackets uint64 `json:"tx_packets"`
	TxBytes   uint64 `json:"tx_bytes"`
	TxDropped uint64 `json:"tx_dropped"` // sent to DROP
	TxFailed  uint64 `json:"tx_failed"`
	TooBig    uint64 `json:"too_big"`
	NoBuffer  uint64 `json:"no_buffer"`
}

// LLDPInfo is an LLDP agent of a port with one of its neighbors.
type LLDPInfo struct {
	Agent    string `json:"agent"`
	State    string `json:"state,omitempty"`
	Interval uint8  `json:"interval,omitempty"` // s
	TTL      uint16 `json:"ttl,omitempty"`      // s, of what is sent
	// Of the neighbor.
	Chassis string `json:"chassis"`
	Port    string `json:"port"`
	System  string `json:"system"`
	MAUType uint16 `json:"mau_type"`
	Expires int64  `json:"expires"` // s

	TxFrames         uint64 `json:"tx_frames"`
	RxFrames         uint64 `json:"rx_frames"`
	RxErrors         uint64 `json:"rx_errors"`
	RxTooMany        uint64 `json:"rx_too_many"`
	TLVsUnrecognized uint64 `json:"tlvs_unrecognized"`
	Ageouts          uint64 `json:"ageouts"`
	NoBuffer         uint64 `json:"no_buffer"`
}
