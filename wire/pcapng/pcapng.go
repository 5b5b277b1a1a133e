// Package pcapng writes and reads capture files of the pcapng format
// (draft-ietf-opsawg-pcapng): sections, interfaces, packets with nanosecond
// stamps, direction, packet id, queue and comments, and statistics.
//
// What is said rather than sent stands in journal entries, between the packets.
//
// Every block is a value struct that appends itself to a byte slice, so that a
// writer is nothing but a slice and an io.Writer. The Reader accepts both byte
// orders and every time resolution and gives the same structs back. Options
// and blocks that have no field here are skipped, not kept.
//
// It does not read the older pcap format, decrypt, resolve names or sort.
package pcapng

import "errors"

var (
	// ErrTruncated means that the input ends inside a block.
	ErrTruncated = errors.New("pcapng: file ends inside a block")
	// ErrMalformed means that a block contradicts the format; errors that wrap
	// it say where and why.
	ErrMalformed = errors.New("pcapng: malformed block")
)

// Block type codes, draft-ietf-opsawg-pcapng section 4.
const (
	typeSection    = 0x0a0d0d0a
	typeInterface  = 1
	typeSimple     = 3
	typeStatistics = 5
	typePacket     = 6
	typeJournal    = 9
)

// LinkEthernet is the link type of Ethernet frames without FCS.
const LinkEthernet = 1

// Block is one block of a file: *Section, *Interface, *Packet, *Statistics or
// *Journal.
type Block interface {
	// AppendTo appends the encoded block, little-endian, to b and returns the
	// extended slice.
	AppendTo(b []byte) []byte
}

// Section is the Section Header Block, section 4.1 of the draft: the first
// block of a file. Empty strings are not written.
type Section struct {
	Hardware    string
	OS          string
	Application string
	Comments    []string
}

// Interface is the Interface Description Block, section 4.2. Interfaces are
// numbered from 0 in the order in which they stand in their section. AppendTo
// writes a time resolution of nanoseconds, always.
type Interface struct {
	LinkType    uint16
	SnapLen     uint32 // octets kept of each packet; 0 = all
	Name        string
	Description string
	MAC         [6]byte // all zero = not written
	Speed       uint64  // bits per second; 0 = not written
	Filter      string  // the capture filter as text
	OS          string
	Hardware    string
	Comments    []string
}

// Flags is the epb_flags word, section 4.3.1: direction in bits 0-1,
// reception type in bits 2-4, link-layer errors in bits 16-31.
type Flags uint32

// Values of Flags.
const (
	Inbound   Flags = 1
	Outbound  Flags = 2
	Unicast   Flags = 1 << 2
	Multicast Flags = 2 << 2
	Broadcast Flags = 3 << 2
	CRCError  Flags = 1 << 24
)

// Direction returns only the direction bits: 0, Inbound or Outbound.
func (f Flags) Direction() Flags { return f & 3 }

// Has tells which optional numbers of a block are present.
type Has uint16

// Bits of Has: the first group belongs to Packet, the second to Statistics.
const (
	HasFlags Has = 1 << iota
	HasDropCount
	HasID
	HasQueue

	HasStart
	HasEnd
	HasReceived
	HasDropped
	HasAccepted
	HasOSDropped
	HasDelivered
)

// Packet is the Enhanced Packet Block, section 4.3.
type Packet struct {
	Interface uint32
	Stamp     int64  // nanoseconds since the Unix epoch; negative ones are written as 0
	Data      []byte // the kept octets, borrowed
	OrigLen   uint32 // octets the packet had on the wire
	Has       Has
	Flags     Flags  // if HasFlags
	DropCount uint64 // if HasDropCount: packets lost since the interface's last one
	ID        uint64 // if HasID
	Queue     uint32 // if HasQueue
	Comments  []string
}

// Statistics is the Interface Statistics Block, section 4.6. Times are
// nanoseconds since the Unix epoch, counts are packets since the start.
type Statistics struct {
	Interface uint32
	Stamp     int64
	Has       Has
	Start     int64
	End       int64
	Received  uint64
	Dropped   uint64 // lost by the interface
	Accepted  uint64 // let through by the filter
	OSDropped uint64 // lost by the capturing system
	Delivered uint64
	Comments  []string
}
