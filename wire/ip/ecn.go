package ip

import "encoding/binary"

// The ECN field, the lower two bits of Header.TOS (RFC 3168 section 5).
const (
	ECNMask = 3
	ECT0    = 2 // ECN-capable
	CE      = 3 // congestion was experienced
)

// MarkCE sets CE in the packet b, which begins with its IP header, if its sender is
// ECN-capable, and brings the checksum of an IPv4 header up to date (RFC 1624). It reports
// whether the packet has CE now and had not before.
func MarkCE(b []byte) bool {
	switch {
	case len(b) >= HeaderLen4 && b[0]>>4 == 4:
		if !capable(b[1]) {
			return false
		}
		sum := uint32(^binary.BigEndian.Uint16(b[10:])) + uint32(^binary.BigEndian.Uint16(b))
		b[1] |= CE
		binary.BigEndian.PutUint16(b[10:], ^Fold(sum+uint32(binary.BigEndian.Uint16(b))))
	case len(b) >= HeaderLen6 && b[0]>>4 == 6:
		if !capable(b[1] >> 4) {
			return false
		}
		b[1] |= CE << 4
	default:
		return false
	}
	return true
}

// capable tells whether a traffic class says ECT(0) or ECT(1).
func capable(tos byte) bool { return tos&ECNMask != 0 && tos&ECNMask != CE }
