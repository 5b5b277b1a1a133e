package rdmap

import (
	"encoding/binary"
	"errors"

	"tapir/wire/enum"
)

// ErrTruncated is a message too short for its RDMAP header.
var ErrTruncated = errors.New("rdmap: message shorter than its header")

// Lengths of the RDMAP headers behind the DDP header.
const (
	ReadRequestLen    = 28 // RFC 5040 section 4.4
	ImmediateLen      = 8  // RFC 7306 section 6.2
	AtomicRequestLen  = 52 // RFC 7306 section 5.2.1
	AtomicResponseLen = 12 // RFC 7306 section 5.2.2
)

// ReadRequest is the RDMA Read Request header, RFC 5040 section 4.4.
type ReadRequest struct {
	SinkSTag   uint32
	SinkTO     uint64
	Size       uint32 // octets to read
	SourceSTag uint32
	SourceTO   uint64
}

// ParseReadRequest reads the header at the start of b.
func ParseReadRequest(b []byte) (ReadRequest, error) {
	if len(b) < ReadRequestLen {
		return ReadRequest{}, ErrTruncated
	}
	return ReadRequest{
		SinkSTag:   binary.BigEndian.Uint32(b),
		SinkTO:     binary.BigEndian.Uint64(b[4:]),
		Size:       binary.BigEndian.Uint32(b[12:]),
		SourceSTag: binary.BigEndian.Uint32(b[16:]),
		SourceTO:   binary.BigEndian.Uint64(b[20:]),
	}, nil
}

// Put writes the header to the start of b and returns its length.
func (r *ReadRequest) Put(b []byte) int {
	_ = b[ReadRequestLen-1]
	binary.BigEndian.PutUint32(b, r.SinkSTag)
	binary.BigEndian.PutUint64(b[4:], r.SinkTO)
	binary.BigEndian.PutUint32(b[12:], r.Size)
	binary.BigEndian.PutUint32(b[16:], r.SourceSTag)
	binary.BigEndian.PutUint64(b[20:], r.SourceTO)
	return ReadRequestLen
}

// AppendTo appends the header to b.
func (r *ReadRequest) AppendTo(b []byte) []byte {
	var a [ReadRequestLen]byte
	return append(b, a[:r.Put(a[:])]...)
}

// Immediate is the content of an Immediate Data message, RFC 7306 section
// 6.2: eight octets without byte order.
type Immediate [ImmediateLen]byte

// ParseImmediate reads the payload of an Immediate Data message, which must
// be exactly eight octets long (section 6.3).
func ParseImmediate(b []byte) (Immediate, error) {
	if len(b) != ImmediateLen {
		return Immediate{}, ErrTruncated
	}
	return Immediate(b), nil
}

// Put writes the octets to the start of b and returns their number.
func (i *Immediate) Put(b []byte) int { return copy(b[:ImmediateLen], i[:]) }

// AppendTo appends the octets to b.
func (i *Immediate) AppendTo(b []byte) []byte { return append(b, i[:]...) }

// AtomicOp is an Atomic Operation Code, RFC 7306 section 5.2.1.
type AtomicOp uint8

// The atomic operations.
const (
	FetchAdd AtomicOp = 0
	Swap     AtomicOp = 1
	CmpSwap  AtomicOp = 2
)

// String is the operation's name.
func (o AtomicOp) String() string {
	return enum.Name([]string{"FetchAdd", "Swap", "CmpSwap"}, o, "reserved atomic operation")
}

// AtomicRequest is the Atomic Operation Request header, RFC 7306 section
// 5.2.1. All values are big-endian on the wire.
type AtomicRequest struct {
	Reserved    uint32 // 28 bits, zero when sending
	Op          AtomicOp
	ID          uint32 // comes back in the response
	STag        uint32
	TO          uint64 // of a 64-bit aligned value
	Data        uint64 // add or swap data
	Mask        uint64 // add or swap mask; all ones for Swap
	Compare     uint64
	CompareMask uint64
}

// ParseAtomicRequest reads the header at the start of b.
func ParseAtomicRequest(b []byte) (AtomicRequest, error) {
	if len(b) < AtomicRequestLen {
		return AtomicRequest{}, ErrTruncated
	}
	w := binary.BigEndian.Uint32(b)
	return AtomicRequest{
		Reserved:    w >> 4,
		Op:          AtomicOp(w & 0x0f),
		ID:          binary.BigEndian.Uint32(b[4:]),
		STag:        binary.BigEndian.Uint32(b[8:]),
		TO:          binary.BigEndian.Uint64(b[12:]),
		Data:        binary.BigEndian.Uint64(b[20:]),
		Mask:        binary.BigEndian.Uint64(b[28:]),
		Compare:     binary.BigEndian.Uint64(b[36:]),
		CompareMask: binary.BigEndian.Uint64(b[44:]),
	}, nil
}

// Put writes the header to the start of b and returns its length.
func (r *AtomicRequest) Put(b []byte) int {
	_ = b[AtomicRequestLen-1]
	binary.BigEndian.PutUint32(b, r.Reserved<<4|uint32(r.Op)&0x0f)
	binary.BigEndian.PutUint32(b[4:], r.ID)
	binary.BigEndian.PutUint32(b[8:], r.STag)
	binary.BigEndian.PutUint64(b[12:], r.TO)
	binary.BigEndian.PutUint64(b[20:], r.Data)
	binary.BigEndian.PutUint64(b[28:], r.Mask)
	binary.BigEndian.PutUint64(b[36:], r.Compare)
	binary.BigEndian.PutUint64(b[44:], r.CompareMask)
	return AtomicRequestLen
}

// AppendTo appends the header to b.
func (r *AtomicRequest) AppendTo(b []byte) []byte {
	var a [AtomicRequestLen]byte
	return append(b, a[:r.Put(a[:])]...)
}

// Apply returns what the operation stores where it found original (RFC 7306
// sections 5.1.1 and 5.1.2), and false for an unassigned operation code.
func (r *AtomicRequest) Apply(original uint64) (stored uint64, ok bool) {
	switch r.Op {
	case FetchAdd:
		return maskedAdd(original, r.Data, r.Mask), true
	case Swap:
		return r.Data, true
	case CmpSwap:
		if (r.Compare^original)&r.CompareMask != 0 {
			return original, true
		}
		return original&^r.Mask | r.Data&r.Mask, true
	}
	return original, false
}

// maskedAdd adds a and b as a row of fields, each ending at a set bit of
// mask; the carry out of a field is discarded.
func maskedAdd(a, b, mask uint64) uint64 {
	return (a&^mask + b&^mask) ^ (a^b)&mask
}

// AtomicResponse is the Atomic Operation Response header, RFC 7306 section
// 5.2.2.
type AtomicResponse struct {
	ID       uint32 // of the request
	Original uint64 // the value before the operation
}

// ParseAtomicResponse reads the header at the start of b.
func ParseAtomicResponse(b []byte) (AtomicResponse, error) {
	if len(b) < AtomicResponseLen {
		return AtomicResponse{}, ErrTruncated
	}
	return AtomicResponse{ID: binary.BigEndian.Uint32(b), Original: binary.BigEndian.Uint64(b[4:])}, nil
}

// Put writes the header to the start of b and returns its length.
func (r *AtomicResponse) Put(b []byte) int {
	_ = b[AtomicResponseLen-1]
	binary.BigEndian.PutUint32(b, r.ID)
	binary.BigEndian.PutUint64(b[4:], r.Original)
	return AtomicResponseLen
}

// AppendTo appends the header to b.
func (r *AtomicResponse) AppendTo(b []byte) []byte {
	var a [AtomicResponseLen]byte
	return append(b, a[:r.Put(a[:])]...)
}
