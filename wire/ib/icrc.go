package ib

import (
	"encoding/binary"

	"tapir/wire/crc"
)

// ICRC is the state of an invariant CRC while it is computed over a packet
// (section 7.8, annexes A16.5.1 and A17.9.3): start it with the network
// headers, then add the transport headers, payload and pad. The zero value is
// not a start.
type ICRC uint32

// icrcStart is the state after 8 octets 0xff, which stand for the local route
// header that RoCE does not have; the register is 0xdebb20e3 then.
const icrcStart ICRC = 0x2144df1c

// four adds 4 octets, the first of them in the lowest bits of v.
func (c ICRC) four(v uint32) ICRC { return ICRC(crc.Four(uint32(c), v)) }

// eight adds 8 octets, the first of them in the lowest bits of v.
func (c ICRC) eight(v uint64) ICRC { return ICRC(crc.Eight(uint32(c), v)) }

// small adds a few octets.
func (c ICRC) small(b []byte) ICRC { return ICRC(crc.Short(uint32(c), b)) }

// Octets that count as ones, the first in the lowest bits.
const (
	onesIPv4     = 0xff << 8                              // TOS
	onesIPv4TTL  = 0xff | 0xffff<<16                      // TTL, header checksum
	onesUDP      = 0xffff << 16                           // checksum, in the last four octets
	onesGRH      = 0x0f | 0xff<<8 | 0xffff<<16 | 0xff<<56 // traffic class, flow label, hop limit
	onesBTH      = 0xff << 32                             // FECN, BECN and reserved bits
	onesUDPEight = onesUDP << 32
)

// ICRCIPv4 starts with an IPv4 header without options and the UDP header
// behind it: the first 28 octets of b. TOS, TTL, header checksum and UDP
// checksum count as ones.
func ICRCIPv4(b []byte) ICRC {
	b, le := b[:28], binary.LittleEndian
	c := icrcStart.eight(le.Uint64(b) | onesIPv4).eight(le.Uint64(b[8:]) | onesIPv4TTL)
	return c.eight(le.Uint64(b[16:])).four(le.Uint32(b[24:]) | onesUDP)
}

// ICRCIPv6 starts with an IPv6 header and the UDP header behind it: the first
// 48 octets of b. Traffic class, flow label, hop limit and UDP checksum count
// as ones.
func ICRCIPv6(b []byte) ICRC {
	return ICRCGRH(b).eight(binary.LittleEndian.Uint64(b[GRHLen:]) | onesUDPEight)
}

// ICRCGRH starts with the GRH of a RoCEv1 packet: the first 40 octets of b.
func ICRCGRH(b []byte) ICRC {
	return icrcStart.eight(binary.LittleEndian.Uint64(b) | onesGRH).small(b[8:GRHLen])
}

// Headers adds b, which begins with a BTH, the octet of whose FECN, BECN and
// reserved bits counts as ones.
func (c ICRC) Headers(b []byte) ICRC {
	le := binary.LittleEndian
	return c.eight(le.Uint64(b) | onesBTH).four(le.Uint32(b[8:])).small(b[BTHLen:])
}

// Payload adds payload or pad.
func (c ICRC) Payload(b []byte) ICRC { return ICRC(crc.IEEE(uint32(c), b)) }

// Copy copies src to dst, which has its length, and adds the copy as payload.
func (c ICRC) Copy(dst, src []byte) ICRC { return ICRC(crc.IEEECopy(uint32(c), dst, src)) }

// identified[i][v] is what octet i of an IPv4 header's identification changes in an ICRC of
// the headers up to UDP if it is v, not 0: a CRC is linear.
var identified = func() (t [2][256]ICRC) {
	var b [28]byte
	zero := ICRCIPv4(b[:])
	for i := range t {
		for v := range t[i] {
			b[4+i] = byte(v)
			t[i][v] = ICRCIPv4(b[:]) ^ zero
		}
		b[4+i] = 0
	}
	return t
}()

// Identify makes of an ICRC of an IPv4 and UDP header, whose identification is 0, that with
// the identification id: packets of a super-frame differ in nothing else.
func (c ICRC) Identify(id uint16) ICRC {
	return c ^ identified[0][id>>8] ^ identified[1][byte(id)]
}

// Put writes the finished ICRC to the front of b, which has ICRCLen octets:
// least significant octet first.
func (c ICRC) Put(b []byte) { binary.LittleEndian.PutUint32(b, uint32(c)) }

// Check finishes: start was made of the network headers, b is the packet from
// its BTH to its ICRC. It says whether the ICRC is right; b shorter than BTH
// and ICRC is wrong.
func (c ICRC) Check(b []byte) bool {
	if len(b) < BTHLen+ICRCLen {
		return false
	}
	end := len(b) - ICRCLen
	got := c.Headers(b[:BTHLen]).Payload(b[BTHLen:end])
	return uint32(got) == binary.LittleEndian.Uint32(b[end:])
}
