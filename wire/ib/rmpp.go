package ib

import "encoding/binary"

// The reliable multi-packet transaction protocol (RMPP, section 13.6) carries
// messages longer than a datagram in segments.

const offRMPP = 24

// Types of RMPP packets (section 13.6.2.1).
const (
	RMPPNone  uint8 = 0
	RMPPData  uint8 = 1
	RMPPAck   uint8 = 2
	RMPPStop  uint8 = 3
	RMPPAbort uint8 = 4
)

// Flags of RMPP packets.
const (
	RMPPActive uint8 = 1
	RMPPFirst  uint8 = 2
	RMPPLast   uint8 = 4
)

// rmppNoTime is RRespTime without a value.
const rmppNoTime = 31

// RMPP is the header behind the common one.
type RMPP struct {
	Type, Flags, Status uint8
	Segment             uint32 // of data, from 1 on; of an acknowledgement: the last in order
	// Length is, of data, the payload: of the whole message in the first
	// segment, of this one in the last. Of an acknowledgement it is the last
	// segment that may be sent (NewWindowLast).
	Length uint32
}

// ParseRMPP reads the header of a datagram, MADLen long.
func ParseRMPP(mad []byte) RMPP {
	b, be := mad[offRMPP:], binary.BigEndian
	return RMPP{Type: b[1], Flags: b[2] & 7, Status: b[3], Segment: be.Uint32(b[4:]), Length: be.Uint32(b[8:])}
}

// Put writes the header into a datagram, MADLen long.
func (r *RMPP) Put(mad []byte) {
	b, be := mad[offRMPP:], binary.BigEndian
	b[0], b[1], b[2], b[3] = 1, r.Type, rmppNoTime<<3|r.Flags&7, r.Status
	be.PutUint32(b[4:], r.Segment)
	be.PutUint32(b[8:], r.Length)
}

// Offsets of the data of classes with RMPP.
const (
	offSAData     = 56
	offVendorData = 40
	offRMPPClass  = 36 // of the header of the class
)

// DataOffset is where the data of a datagram with RMPP begins in its class.
func DataOffset(class uint8) int {
	switch {
	case class == ClassSA:
		return offSAData
	case class >= firstOUIClass && class <= lastOUIClass:
		return offVendorData
	}
	return offRMPPClass
}

// Classes of vendors, whose datagrams name the vendor's OUI (section 16.5).
const (
	firstOUIClass = 0x30
	lastOUIClass  = 0x4f
)

// HasOUI tells whether datagrams of a class name a vendor.
func HasOUI(class uint8) bool { return class >= firstOUIClass && class <= lastOUIClass }

// OUI is the vendor of such a datagram, MADLen long.
func OUI(mad []byte) uint32 { return binary.BigEndian.Uint32(mad[offRMPPClass:]) & 0xffffff }

// ResponseBit is set in the methods of responses.
const ResponseBit uint8 = 0x80

// IsResponse reports whether a datagram answers another: a response, or TrapRepress.
func IsResponse(mad []byte) bool {
	const trapRepress = 7
	return mad[3]&ResponseBit != 0 || mad[3] == trapRepress
}
