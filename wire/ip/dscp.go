package ip

import "encoding/binary"

// SetDSCP sets the DSCP, 0 to 63, of the packet b, which begins with its IP header, unless it
// has one, and brings the checksum of an IPv4 header up to date (RFC 1624).
func SetDSCP(b []byte, dscp uint8) {
	switch {
	case len(b) >= HeaderLen4 && b[0]>>4 == 4 && b[1]>>2 == 0:
		sum := uint32(^binary.BigEndian.Uint16(b[10:])) + uint32(^binary.BigEndian.Uint16(b))
		b[1] |= dscp << 2
		binary.BigEndian.PutUint16(b[10:], ^Fold(sum+uint32(binary.BigEndian.Uint16(b))))
	case len(b) >= HeaderLen6 && b[0]>>4 == 6 && binary.BigEndian.Uint16(b)>>6&0x3f == 0:
		binary.BigEndian.PutUint16(b, binary.BigEndian.Uint16(b)|uint16(dscp)<<6)
	}
}
