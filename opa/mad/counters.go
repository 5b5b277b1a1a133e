package mad

// CounterHead names the virtual port whose counters follow.
type CounterHead struct {
	Instance uint16 // number of the virtual port on its HFI port
	VESW     uint16
	PortNum  uint32 // number of the port in its vESW
}

// Frames counts the frames of one direction by kind and by length, FCS
// included.
type Frames struct {
	Unicast, McastBcast, Untagged, VLAN                                  uint64
	Size64, Size127, Size255, Size511, Size1023, Size1518, SizeAbove1518 uint64
}

// SummaryCounters are the counters of frames of one virtual port.
type SummaryCounters struct {
	CounterHead
	TxErrors, RxErrors   uint64
	TxPackets, RxPackets uint64
	TxBytes, RxBytes     uint64
	Tx, Rx               Frames

	_ [128]byte
}

// ErrorCounters are the counters of frames that one virtual port dropped.
type ErrorCounters struct {
	CounterHead
	TxErrors, RxErrors uint64
	_                  uint64
	TxSourceMAC        uint64 // refused source address
	_                  [3]uint64
	TxDLIDZero         uint64 // no destination LID
	_                  uint64
	TxLogic            uint64 // queue full or no carrier
	_                  uint64
	TxDropState        uint64 // while not forwarding
	RxBadVESW          uint64 // for a vESW that no port belongs to
	_                  uint64
	RxRunt             uint64
	RxOversize         uint64
	_                  uint64
	RxEthDown          uint64 // while the interface was down
	RxDropState        uint64 // while not forwarding
	RxLogic            uint64 // queue full
	_                  [136]byte
}

// Lengths of the attributes.
const (
	SummaryCountersLen = 360
	ErrorCountersLen   = 304
)

// ParseSummaryCounters reads the attribute.
func ParseSummaryCounters(data []byte) SummaryCounters { return decode[SummaryCounters](data) }

// Put writes the attribute.
func (c *SummaryCounters) Put(b []byte) { encode(b, c) }

// ParseErrorCounters reads the attribute.
func ParseErrorCounters(data []byte) ErrorCounters { return decode[ErrorCounters](data) }

// Put writes the attribute.
func (c *ErrorCounters) Put(b []byte) { encode(b, c) }
