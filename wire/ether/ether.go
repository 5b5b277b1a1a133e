// Package ether encodes and decodes Ethernet II headers with up to two VLAN
// tags (IEEE 802.3 clause 3, IEEE 802.1Q clause 9). All fields are big-endian
// on the wire.
package ether

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// EtherTypes that packages share (IEEE 802 numbers registry).
const (
	TypeIPv4 uint16 = 0x0800
	TypeARP  uint16 = 0x0806
	TypeVLAN uint16 = 0x8100 // 802.1Q customer tag
	TypeIPv6 uint16 = 0x86dd
	TypeQinQ uint16 = 0x88a8 // 802.1ad service tag
	TypePTP  uint16 = 0x88f7
	// TypeLoopback is that of loopback tests (configuration test protocol).
	TypeLoopback uint16 = 0x9000
	TypeLLDP     uint16 = 0x88cc
)

const (
	// HeaderLen is the length in octets of an untagged header.
	HeaderLen = 14
	// TagLen is the length in octets of one VLAN tag.
	TagLen = 4
	// MaxHeaderLen is the length in octets of a header with two tags.
	MaxHeaderLen = HeaderLen + 2*TagLen
	// MinPayload is the shortest payload in octets, padding included (IEEE 802.3 clause 4.4).
	MinPayload = 46
)

// ErrTruncated reports a frame that ends inside its header.
var ErrTruncated = errors.New("ether: frame ends inside the header")

// Addr is a 48-bit MAC address.
type Addr [6]byte

// Broadcast is the address of all stations.
var Broadcast = Addr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// ParseAddr reads six octets in hexadecimal, separated by colons or hyphens.
func ParseAddr(s string) (Addr, error) {
	var a Addr
	if len(s) != 17 || (s[2] != ':' && s[2] != '-') {
		return Addr{}, fmt.Errorf("ether: %q is not a MAC address; expected the form 02:00:00:00:00:01", s)
	}
	for i := range a {
		hi, ok1 := nibble(s[3*i])
		lo, ok2 := nibble(s[3*i+1])
		if !ok1 || !ok2 || (i < 5 && s[3*i+2] != s[2]) {
			return Addr{}, fmt.Errorf("ether: %q is not a MAC address; expected the form 02:00:00:00:00:01", s)
		}
		a[i] = hi<<4 | lo
	}
	return a, nil
}

func nibble(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// String is the address as six colon-separated octets in lower case.
func (a Addr) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3], a[4], a[5])
}

// MarshalText implements encoding.TextMarshaler with the form of String.
func (a Addr) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseAddr.
func (a *Addr) UnmarshalText(b []byte) (err error) {
	*a, err = ParseAddr(string(b))
	return err
}

// IsMulticast reports whether the group bit is set; true for Broadcast too.
func (a Addr) IsMulticast() bool { return a[0]&1 != 0 }

// IsBroadcast reports whether a is the address of all stations.
func (a Addr) IsBroadcast() bool { return a == Broadcast }

// IsZero reports whether a is the all-zero address, which no station has.
func (a Addr) IsZero() bool { return a == Addr{} }

// Tag is one VLAN tag.
type Tag struct {
	TPID uint16 // TypeVLAN or TypeQinQ
	TCI  uint16 // priority (3 bits), drop eligible (1), VLAN id (12)
}

// VID is the VLAN id, 0 to 4095; 0 means "priority only".
func (t Tag) VID() uint16 { return t.TCI & 0x0fff }

// PCP is the priority code point, 0 to 7.
func (t Tag) PCP() uint8 { return uint8(t.TCI >> 13) }

// Header is an Ethernet header. Only the first NTags of Tags count, outermost
// first. Type below 1536 is an 802.3 length.
type Header struct {
	Dst, Src Addr
	Tags     [2]Tag
	NTags    int
	Type     uint16
}

// Parse reads the header at the front of b and returns its length including
// tags. A third tag is left as payload, with Type telling its TPID.
func Parse(b []byte) (h Header, n int, err error) {
	if len(b) < HeaderLen {
		return h, 0, ErrTruncated
	}
	h.Dst, h.Src = Addr(b[0:6]), Addr(b[6:12])
	h.Type = binary.BigEndian.Uint16(b[12:14])
	n = HeaderLen
	for h.NTags < len(h.Tags) && (h.Type == TypeVLAN || h.Type == TypeQinQ) {
		if len(b) < n+TagLen {
			return h, 0, ErrTruncated
		}
		h.Tags[h.NTags] = Tag{TPID: h.Type, TCI: binary.BigEndian.Uint16(b[n : n+2])}
		h.NTags++
		h.Type = binary.BigEndian.Uint16(b[n+2 : n+4])
		n += TagLen
	}
	return h, n, nil
}

// IsLLDP tells whether b is a frame of LLDP without a VLAN tag.
func IsLLDP(b []byte) bool {
	return len(b) >= HeaderLen && b[12] == byte(TypeLLDP>>8) && b[13] == byte(TypeLLDP&0xff)
}

// Len is the encoded length in octets.
func (h Header) Len() int { return HeaderLen + TagLen*h.NTags }

// Put writes the header to the front of b, which must hold Len octets, and
// returns Len.
func (h Header) Put(b []byte) int {
	copy(b[0:6], h.Dst[:])
	copy(b[6:12], h.Src[:])
	n := 12
	for _, t := range h.Tags[:h.NTags] {
		binary.BigEndian.PutUint16(b[n:], t.TPID)
		binary.BigEndian.PutUint16(b[n+2:], t.TCI)
		n += TagLen
	}
	binary.BigEndian.PutUint16(b[n:], h.Type)
	return n + 2
}

// AppendTo appends the encoded header to b.
func (h Header) AppendTo(b []byte) []byte {
	var buf [MaxHeaderLen]byte
	return append(b, buf[:h.Put(buf[:])]...)
}
