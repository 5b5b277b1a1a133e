package opa

import (
	"encoding/binary"

	"tapir/wire/ether"
	"tapir/wire/geneve"
	"tapir/wire/ip"
	"tapir/wire/nsh"
	"tapir/wire/udp"
)

// locate finds the fabric packet in the Ethernet frame b by its framing: its format,
// its first octet, and false if there is none. Nothing else is checked.
func locate(b []byte) (format Format, at int, ok bool) {
	if len(b) < ether.HeaderLen {
		return 0, 0, false
	}
	at = ether.HeaderLen
	switch binary.BigEndian.Uint16(b[12:]) {
	case nsh.EtherType:
		at = nshOverhead
	case EtherType16B:
	case EtherType9B:
		format = Format9B
	case ether.TypeIPv4:
		return locateGeneve(b)
	default:
		return 0, 0, false
	}
	return format, at, whole(b, at, format) && (at != nshOverhead || holds(b[:at]))
}

// whole tells whether b has room for a packet's header at octet at, and shows that
// format there.
func whole(b []byte, at int, format Format) bool {
	return len(b) >= at+HeaderLen && (format == Format9B || Packet(b[at:]).L2() == l2Type16B)
}

// holds tells whether a header that ends with b announces the first octets of a packet.
func holds(b []byte) bool {
	b = b[len(b)-4:]
	return binary.BigEndian.Uint16(b) == MetadataClass && b[2] == MetadataType
}

func locateGeneve(b []byte) (format Format, at int, ok bool) {
	const tunnel = ether.HeaderLen + ip.HeaderLen4 + udp.HeaderLen
	at = tunnel + geneve.HeaderLen
	if len(b) < at || b[ether.HeaderLen] != 0x45 || b[ether.HeaderLen+9] != ip.ProtoUDP ||
		binary.BigEndian.Uint16(b[tunnel-6:]) != geneve.Port || binary.BigEndian.Uint16(b[tunnel-2:]) != 0 {
		return 0, 0, false // a checksum forbids changes
	}
	switch binary.BigEndian.Uint16(b[tunnel+2:]) {
	case geneve.TypeEthernet:
		at = geneveOverhead
	case EtherType16B:
	case EtherType9B:
		format = Format9B
	default:
		return 0, 0, false
	}
	return format, at, whole(b, at, format) && (at != geneveOverhead || holds(b[:at]))
}

// ServiceClass is the service class of the fabric packet in the Ethernet frame b, and
// its length in octets; false: b holds none.
func ServiceClass(b []byte) (sc uint8, octets int, ok bool) {
	format, at, ok := locate(b)
	if !ok {
		return 0, 0, false
	}
	if format == Format9B {
		return Packet9B(b[at:]).SC(), len(b) - at, true
	}
	return Packet(b[at:]).SC(), len(b) - at, true
}

// MarkFECN sets FECN in the fabric packet that the Ethernet frame b holds, and tells
// whether it has. Subnet management and notifications of congestion are not marked.
func MarkFECN(b []byte) bool {
	format, at, ok := locate(b)
	if !ok {
		return false
	}
	p := b[at:]
	if format == Format9B {
		if Packet9B(p).SC() == SCManagement || p[1]&3 != lnhBTH {
			return false
		}
		p[bthAt+4] |= fecn9B >> 24
		return true
	}
	q := Packet(p)
	if q.SC() == SCManagement || IsCNP(p) {
		return false
	}
	q.SetFECN(true)
	return true
}
