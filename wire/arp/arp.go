// Package arp encodes and decodes ARP for IPv4 over Ethernet (RFC 826). All
// fields are big-endian on the wire.
package arp

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"tapir/wire/ether"
)

// Len is the length in octets of an ARP packet for IPv4 over Ethernet.
const Len = 28

// Operations.
const (
	Request uint16 = 1
	Reply   uint16 = 2
)

// What can be wrong with a packet. Parse returns one of these unwrapped.
var (
	ErrTruncated = errors.New("arp: packet too short")
	ErrMalformed = errors.New("arp: not IPv4 over Ethernet")
)

// fixed is hardware type Ethernet, protocol IPv4, address lengths 6 and 4.
const fixed = 1<<48 | 0x0800<<32 | 6<<24 | 4<<16

// Packet is an ARP packet. The addresses are IPv4.
type Packet struct {
	Op        uint16
	SenderMAC ether.Addr
	SenderIP  netip.Addr
	TargetMAC ether.Addr
	TargetIP  netip.Addr
}

// Parse reads a packet; bytes behind it (Ethernet padding) are ignored.
func Parse(b []byte) (p Packet, err error) {
	if len(b) < Len {
		return p, ErrTruncated
	}
	v := binary.BigEndian.Uint64(b)
	if v&^0xffff != fixed {
		return p, ErrMalformed
	}
	return Packet{
		Op:        uint16(v),
		SenderMAC: ether.Addr(b[8:14]), SenderIP: netip.AddrFrom4([4]byte(b[14:18])),
		TargetMAC: ether.Addr(b[18:24]), TargetIP: netip.AddrFrom4([4]byte(b[24:28])),
	}, nil
}

// Put writes the packet to the front of b, which must hold Len octets, and
// returns Len.
func (p Packet) Put(b []byte) int {
	b = b[:Len]
	binary.BigEndian.PutUint64(b, fixed|uint64(p.Op))
	src, dst := p.SenderIP.As4(), p.TargetIP.As4()
	copy(b[8:], p.SenderMAC[:])
	copy(b[14:], src[:])
	copy(b[18:], p.TargetMAC[:])
	copy(b[24:], dst[:])
	return Len
}

// AppendTo appends the encoded packet to b.
func (p Packet) AppendTo(b []byte) []byte {
	var buf [Len]byte
	p.Put(buf[:])
	return append(b, buf[:]...)
}
