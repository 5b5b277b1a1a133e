package mad

import "encoding/binary"

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
}

// ErrorCounters are the counters of frames that one virtual port dropped.
type ErrorCounters struct {
	CounterHead
	TxErrors, RxErrors uint64
	TxSourceMAC        uint64 // refused source address
	TxDLIDZero         uint64 // no destination LID
	TxLogic            uint64 // queue full or no carrier
	TxDropState        uint64 // while not forwarding
	RxBadVESW          uint64 // for a vESW that no port belongs to
	RxRunt             uint64
	RxOversize         uint64
	RxEthDown          uint64 // while the interface was down
	RxDropState        uint64 // while not forwarding
	RxLogic            uint64 // queue full
}

// Lengths of the attributes.
const (
	SummaryCountersLen = 360
	ErrorCountersLen   = 304
)

// errorAt are the offsets of the counters in the order of the struct.
var errorAt = [...]int{8, 16, 32, 64, 80, 96, 104, 120, 128, 144, 152, 160}

const countersAt = 8

func (h *CounterHead) parse(b []byte) {
	be := binary.BigEndian
	h.Instance, h.VESW, h.PortNum = be.Uint16(b), be.Uint16(b[2:]), be.Uint32(b[4:])
}

func (h *CounterHead) put(b []byte) {
	be := binary.BigEndian
	be.PutUint16(b, h.Instance)
	be.PutUint16(b[2:], h.VESW)
	be.PutUint32(b[4:], h.PortNum)
}

// counters are all 64-bit fields in the order of the layout.
func (c *SummaryCounters) counters() [28]*uint64 {
	t, r := &c.Tx, &c.Rx
	return [...]*uint64{
		&c.TxErrors, &c.RxErrors, &c.TxPackets, &c.RxPackets, &c.TxBytes, &c.RxBytes,
		&t.Unicast, &t.McastBcast, &t.Untagged, &t.VLAN,
		&t.Size64, &t.Size127, &t.Size255, &t.Size511, &t.Size1023, &t.Size1518, &t.SizeAbove1518,
		&r.Unicast, &r.McastBcast, &r.Untagged, &r.VLAN,
		&r.Size64, &r.Size127, &r.Size255, &r.Size511, &r.Size1023, &r.Size1518, &r.SizeAbove1518,
	}
}

// ParseSummaryCounters reads the attribute.
func ParseSummaryCounters(data []byte) (c SummaryCounters) {
	var buf [SummaryCountersLen]byte
	b := extend(data, buf[:])
	c.parse(b)
	for i, v := range c.counters() {
		*v = binary.BigEndian.Uint64(b[countersAt+8*i:])
	}
	return c
}

// Put writes the attribute.
func (c *SummaryCounters) Put(b []byte) {
	clear(b[:SummaryCountersLen])
	c.put(b)
	for i, v := range c.counters() {
		binary.BigEndian.PutUint64(b[countersAt+8*i:], *v)
	}
}

func (c *ErrorCounters) counters() [len(errorAt)]*uint64 {
	return [...]*uint64{
		&c.TxErrors, &c.RxErrors, &c.TxSourceMAC, &c.TxDLIDZero, &c.TxLogic, &c.TxDropState,
		&c.RxBadVESW, &c.RxRunt, &c.RxOversize, &c.RxEthDown, &c.RxDropState, &c.RxLogic,
	}
}

// ParseErrorCounters reads the attribute.
func ParseErrorCounters(data []byte) (c ErrorCounters) {
	var buf [ErrorCountersLen]byte
	b := extend(data, buf[:])
	c.parse(b)
	for i, v := range c.counters() {
		*v = binary.BigEndian.Uint64(b[errorAt[i]:])
	}
	return c
}

// Put writes the attribute.
func (c *ErrorCounters) Put(b []byte) {
	clear(b[:ErrorCountersLen])
	c.put(b)
	for i, v := range c.counters() {
		binary.BigEndian.PutUint64(b[errorAt[i]:], *v)
	}
}
