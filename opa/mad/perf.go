package mad

// ClassPerf is the class of performance management, whose datagrams go to queue
// pair 1.
const ClassPerf uint8 = 0x04

// AttrPortStatus is the attribute with all counters of one port: Get; modifier
// PortStatusModifier.
const AttrPortStatus uint16 = 0x0040

// PortStatusModifier is the modifier for one port.
const PortStatusModifier uint32 = 1 << 24

// PortStatus are the counters of a port, as far as an HFI has them: octets of data
// are counted in flits of 8. A request has the first two fields alone.
type PortStatus struct {
	Port    uint8
	_       [3]byte
	VLs     uint32 // virtual lanes whose counters are wanted, a bit for each
	TxData  uint64
	RxData  uint64
	TxPkts  uint64
	RxPkts  uint64
	_       [4]uint64 // multicast, waits, congestion of a switch's port
	RxFECN  uint64
	RxBECN  uint64
	_       [7]uint64 // of lanes and switches
	TxDrops uint64
	_       [3]uint64
	RxDrops uint64
	_       [2]uint64
	_       uint32
	Downed  uint32 // link downs
	_       uint8
	Quality uint8 // of the link, 0 to MostQuality
	_       [6]byte
}

// MostQuality is that of a link without errors.
const MostQuality = 5

// PortStatusLen is the length of the attribute without counters of virtual lanes.
const PortStatusLen = 216

// ParsePortStatus reads the attribute.
func ParsePortStatus(data []byte) PortStatus { return decode[PortStatus](data) }

// Put writes the attribute.
func (s *PortStatus) Put(b []byte) { encode(b, s) }
