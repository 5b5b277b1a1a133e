// Package igmp reads and makes the messages by which hosts tell which IP multicast
// groups they want: IGMP versions 1 to 3 (RFC 1112, RFC 2236, RFC 3376) and
// MLD versions 1 and 2 (RFC 2710, RFC 3810). All fields are big-endian.
package igmp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"tapir/wire/ip"
)

// Query6 is the type of a query of MLD among those of ICMPv6.
const Query6 = 130

// What can be wrong with a message. Parse4 and Parse6 return one of these
// unwrapped.
var (
	ErrTruncated = errors.New("igmp: message too short")
	ErrChecksum  = errors.New("igmp: wrong checksum")
	ErrType      = errors.New("igmp: not a message about groups")
)

// Types of IGMP and of MLD, an ICMPv6 message.
const (
	query4    = 0x11
	report4v1 = 0x12
	report4v2 = 0x16
	leave4    = 0x17
	report4v3 = 0x22

	report6v1 = 131
	done6     = 132
	report6v2 = 143
)

// Message is a query of a router or what a host reports about groups.
type Message struct {
	Query bool
	// Of a query: the group that it asks for, not valid if for all, and how long a host
	// may take to answer.
	Group  netip.Addr
	Within time.Duration

	records  []byte // of a report with records
	left     int    // records to come
	addrLen  int    // octets of an address
	one      netip.Addr
	oneJoins bool
}

// Change is what a message says about one group.
type Change struct {
	Group netip.Addr
	Join  bool // the sender wants the group, else it leaves
}

// Parse4 reads an IGMP message b, the payload of an IPv4 packet.
func Parse4(b []byte) (m Message, err error) {
	if len(b) < 8 {
		return m, ErrTruncated
	}
	if ip.Checksum(b, 0) != 0 {
		return m, ErrChecksum
	}
	switch b[0] {
	case query4:
		m = Message{Query: true, Within: within(uint32(b[1]), 7, 100*time.Millisecond)}
		if b[1] == 0 { // of version 1
			m.Within = 10 * time.Second
		}
		if g := netip.AddrFrom4([4]byte(b[4:])); g.IsMulticast() {
			m.Group = g
		}
		return m, nil
	case report4v1, report4v2, leave4:
		return Message{one: netip.AddrFrom4([4]byte(b[4:])), oneJoins: b[0] != leave4}, nil
	case report4v3:
		return Message{records: b[8:], left: int(binary.BigEndian.Uint16(b[6:])), addrLen: 4}, nil
	}
	return m, ErrType
}

// Parse6 reads an MLD message b, the ICMPv6 payload of a packet from src to
// dst.
func Parse6(src, dst netip.Addr, b []byte) (m Message, err error) {
	if len(b) < 8 {
		return m, ErrTruncated
	}
	switch b[0] {
	case Query6, report6v1, done6, report6v2:
	default:
		return m, ErrType
	}
	if ip.Checksum(b, ip.PseudoSum(src, dst, ip.ProtoICMPv6, len(b))) != 0 {
		return m, ErrChecksum
	}
	switch {
	case b[0] == report6v2:
		return Message{records: b[8:], left: int(binary.BigEndian.Uint16(b[6:])), addrLen: 16}, nil
	case len(b) < 24:
		return m, ErrTruncated
	case b[0] == Query6:
		m = Message{Query: true, Within: within(uint32(binary.BigEndian.Uint16(b[4:])), 15, time.Millisecond)}
		if g := netip.AddrFrom16([16]byte(b[8:])); g.IsMulticast() {
			m.Group = g
		}
		return m, nil
	}
	return Message{one: netip.AddrFrom16([16]byte(b[8:])), oneJoins: b[0] != done6}, nil
}

// within is the maximum response time that the code of a query stands for, in units of
// unit. Below 1<<bits the code is the time itself; above, it has an exponent of 3 bits and
// a mantissa of bits-3 (RFC 3376 section 4.1.1, RFC 3810 section 5.1.3).
func within(code uint32, bits int, unit time.Duration) time.Duration {
	if code>>bits == 0 {
		return time.Duration(code) * unit
	}
	mantissa := bits - 3
	exponent := code >> mantissa & 7
	return time.Duration((code&(1<<mantissa-1)|1<<mantissa)<<(exponent+3)) * unit
}

// Record is what a report says about a group.
type Record uint8

// The records of a host that wants all sources of a group, or none.
const (
	Wants Record = modeIsExclude   // the answer to a query
	Joins Record = changeToExclude // it did not before
	Left  Record = changeToInclude
)

// Report4 is the IGMPv3 message to 224.0.0.22 that says r about a group.
func Report4(r Record, group netip.Addr) []byte {
	b := make([]byte, 16)
	a := group.As4()
	b[0], b[7], b[8] = report4v3, 1, uint8(r)
	copy(b[12:], a[:])
	binary.BigEndian.PutUint16(b[2:], ip.Checksum(b, 0))
	return b
}

// Report6 is the MLDv2 message to ff02::16 that says r about a group, without
// its checksum.
func Report6(r Record, group netip.Addr) []byte {
	b := make([]byte, 28)
	a := group.As16()
	b[0], b[7], b[8] = report6v2, 1, uint8(r)
	copy(b[12:], a[:])
	return b
}

// Record types (RFC 3376 section 4.2.12, RFC 3810 section 5.2.12).
const (
	modeIsInclude   = 1
	modeIsExclude   = 2
	changeToInclude = 3
	changeToExclude = 4
	allowSources    = 5
	blockSources    = 6
)

// Next returns the next change of the message and false after the last. A
// record that the message ends in, or of a type or group that cannot be, ends
// it; one that changes nothing about the group as a whole is skipped.
func (m *Message) Next() (c Change, ok bool) {
	if m.one.IsValid() {
		c, m.one = Change{m.one, m.oneJoins}, netip.Addr{}
		return c, c.Group.IsMulticast()
	}
	for m.left > 0 {
		m.left--
		head := 4 + m.addrLen
		if len(m.records) < head {
			break
		}
		typ, sources := m.records[0], int(binary.BigEndian.Uint16(m.records[2:]))
		group, _ := netip.AddrFromSlice(m.records[4:head])
		n := head + sources*m.addrLen + int(m.records[1])*4
		if len(m.records) < n || !group.IsMulticast() {
			break
		}
		m.records = m.records[n:]
		switch typ {
		case modeIsExclude, changeToExclude:
			return Change{group, true}, true
		case modeIsInclude, changeToInclude:
			// From no sources at all: the sender left.
			return Change{group, sources > 0}, true
		case allowSources:
			return Change{group, true}, true
		case blockSources:
			continue
		}
		break
	}
	m.left = 0
	return Change{}, false
}
