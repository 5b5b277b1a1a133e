// Package ddp is Direct Data Placement, RFC 5041: headers, the cutting of
// messages into segments and the checks at the data sink. It places nothing
// itself: a Placer does, on the memory it knows.
package ddp

import "encoding/binary"

const (
	// Version is the DDP version (DV) of RFC 5041.
	Version = 1
	// TaggedLen is the length of a tagged buffer header, section 4.2.
	TaggedLen = 14
	// UntaggedLen is the length of an untagged buffer header, section 4.3.
	UntaggedLen = 18
)

// Header is a DDP segment's header, RFC 5041 sections 4.1 to 4.3. On the wire
// all fields are big-endian.
type Header struct {
	Tagged   bool
	Last     bool
	Reserved uint8 // 4 bits, zero when sending
	Version  uint8 // 2 bits
	ULP      uint8 // RsvdULP[0:7]: the RDMAP control octet

	// Tagged buffer model.
	STag uint32
	TO   uint64 // tagged offset of the payload's first octet

	// Untagged buffer model.
	ULPWord uint32 // RsvdULP[8:39]: RDMAP's Invalidate STag
	QN      uint32 // queue number
	MSN     uint32 // message sequence number, from 1 in each queue
	MO      uint32 // message offset of the payload's first octet
}

// Parse reads the header at the start of a segment and returns the payload
// behind it, an alias of b. A segment too short for its header gives
// ErrTruncated; versions are the receiver's to check.
func Parse(b []byte) (h Header, payload []byte, err error) {
	payload, err = h.parse(b)
	return h, payload, err
}

// parse is Parse in place: a header that was just written field by field is
// slow to copy.
func (h *Header) parse(b []byte) (payload []byte, err error) {
	*h = Header{}
	if len(b) < 2 {
		return nil, ErrTruncated
	}
	c := b[0]
	tagged := c&0x80 != 0
	if len(b) < TaggedLen || !tagged && len(b) < UntaggedLen {
		return nil, ErrTruncated
	}
	h.Tagged, h.Last, h.Reserved, h.Version, h.ULP = tagged, c&0x40 != 0, c>>2&0x0f, c&3, b[1]
	if tagged {
		h.STag = binary.BigEndian.Uint32(b[2:])
		h.TO = binary.BigEndian.Uint64(b[6:])
		return b[TaggedLen:], nil
	}
	h.ULPWord = binary.BigEndian.Uint32(b[2:])
	h.QN = binary.BigEndian.Uint32(b[6:])
	h.MSN = binary.BigEndian.Uint32(b[10:])
	h.MO = binary.BigEndian.Uint32(b[14:])
	return b[UntaggedLen:], nil
}

// IsLast tells whether the segment b is the last one of its message. A segment
// without an octet is not.
func IsLast(b []byte) bool { return len(b) > 0 && b[0]&0x40 != 0 }

// Len is the header's length on the wire.
func (h *Header) Len() int {
	if h.Tagged {
		return TaggedLen
	}
	return UntaggedLen
}

// Put writes the header to the start of b and returns its length.
func (h *Header) Put(b []byte) int {
	c := h.Reserved&0x0f<<2 | h.Version&3
	if h.Last {
		c |= 0x40
	}
	if h.Tagged {
		_ = b[TaggedLen-1]
		b[0], b[1] = c|0x80, h.ULP
		binary.BigEndian.PutUint32(b[2:], h.STag)
		binary.BigEndian.PutUint64(b[6:], h.TO)
		return TaggedLen
	}
	_ = b[UntaggedLen-1]
	b[0], b[1] = c, h.ULP
	binary.BigEndian.PutUint32(b[2:], h.ULPWord)
	binary.BigEndian.PutUint32(b[6:], h.QN)
	binary.BigEndian.PutUint32(b[10:], h.MSN)
	binary.BigEndian.PutUint32(b[14:], h.MO)
	return UntaggedLen
}

// Advance turns the header that b begins with, written by Put, into that of
// the segment n payload octets later in the same message.
func Advance(b []byte, n uint64) {
	if b[0]&0x80 != 0 {
		binary.BigEndian.PutUint64(b[6:], binary.BigEndian.Uint64(b[6:])+n)
		return
	}
	binary.BigEndian.PutUint32(b[14:], binary.BigEndian.Uint32(b[14:])+uint32(n))
}

// AppendTo appends the header to b.
func (h *Header) AppendTo(b []byte) []byte {
	var a [UntaggedLen]byte
	return append(b, a[:h.Put(a[:])]...)
}
