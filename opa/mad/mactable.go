package mad

import (
	"encoding/binary"

	"tapir/opa"
	"tapir/wire/ether"
)

// MACEntry is one entry of a virtual port's MAC table. The zero MAC address
// is an empty entry.
type MACEntry struct {
	MAC, Mask ether.Addr
	DLID      opa.LID // 24 bits
	// Flags has SourceMAC set if the entry names a source that the port may
	// use, not a destination.
	Flags uint8
}

// SourceMAC is the flag of entries that name a source address.
const SourceMAC uint8 = 1 << 5

const (
	macEntryLen    = 16
	macEntriesHead = 8
	ifaceHead      = 8
)

const (
	// MaxMACEntriesIn is the number of entries that fit in one section.
	MaxMACEntriesIn = (VEMADataLen - macEntriesHead) / macEntryLen
	// MaxMACsIn is the number of addresses that fit in one MAC list.
	MaxMACsIn = (VEMADataLen - ifaceHead) / 6
)

// MACEntries is a section of a MAC table, a view of at most VEMADataLen
// octets.
type MACEntries []byte

// MACEntriesLen is the length of a section of n entries.
func MACEntriesLen(n int) int { return macEntriesHead + n*macEntryLen }

// PutHead writes what precedes the entries: the section's place in the table
// and the digest of the whole table.
func (m MACEntries) PutHead(offset, num uint16, digest uint32) {
	encode(m, offset, num, digest)
}

// Head reads it.
func (m MACEntries) Head() (offset, num uint16, digest uint32) {
	h := decode[struct {
		Offset, Num uint16
		Digest      uint32
	}](m)
	return h.Offset, h.Num, h.Digest
}

// Entry is the entry i of the section, below MaxMACEntriesIn.
func (m MACEntries) Entry(i int) (e MACEntry) {
	var buf [macEntryLen]byte
	b := extend(m[min(len(m), MACEntriesLen(i)):], buf[:])
	word := binary.BigEndian.Uint32(b[12:])
	return MACEntry{MAC: ether.Addr(b), Mask: ether.Addr(b[6:]), DLID: opa.LID(word >> 8), Flags: uint8(word)}
}

// SetEntry writes the entry i of the section.
func (m MACEntries) SetEntry(i int, e MACEntry) {
	b := m[MACEntriesLen(i):MACEntriesLen(i+1)]
	copy(b, e.MAC[:])
	copy(b[6:], e.Mask[:])
	binary.BigEndian.PutUint32(b[12:], uint32(e.DLID)<<8|uint32(e.Flags))
}

// IfaceMACs is a part of a list of the MAC addresses that an interface has,
// of at most MaxMACsIn.
type IfaceMACs []byte

// IfaceHead precedes the addresses.
type IfaceHead struct {
	Start uint16 // place of the first address in the whole list
	Num   uint16 // addresses in this MAD; 0 in a request: as many as fit
	Total uint16 // addresses in the whole list
	Gen   uint16 // generation count of the list
}

// IfaceMACsLen is the length of a part of n addresses.
func IfaceMACsLen(n int) int { return ifaceHead + 6*n }

// PutHead writes what precedes the addresses.
func (m IfaceMACs) PutHead(h IfaceHead) { encode(m, h) }

// Head reads it.
func (m IfaceMACs) Head() IfaceHead { return decode[IfaceHead](m) }

// MAC is the address i of the part.
func (m IfaceMACs) MAC(i int) ether.Addr {
	var buf [6]byte
	return ether.Addr(extend(m[min(len(m), IfaceMACsLen(i)):], buf[:]))
}

// SetMAC writes the address i of the part.
func (m IfaceMACs) SetMAC(i int, a ether.Addr) { copy(m[IfaceMACsLen(i):], a[:]) }
