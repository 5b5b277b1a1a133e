package vnic

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"tapir/opa"
	"tapir/wire/ether"
)

// Bounds of a MAC table.
const (
	MaxEntries = 2048 // places of a table
	MaxSources = 256  // source-MAC entries among them
)

// SourceMAC is the flag of entries that name a source address.
const SourceMAC uint8 = 1 << 5

// Entry is one place of a MAC table: where a station is, or with flag
// SourceMAC, which source addresses the vport may use. The zero value is an
// empty place.
//
// Mask has ones where the address must agree; the Linux driver ignores it. All
// zero, as such managers leave it, it means the whole address.
type Entry struct {
	MAC, Mask ether.Addr
	DLID      opa.LID
	Flags     uint8 // the low octet of the entry's last word
}

// Source reports whether e is a source-MAC entry.
func (e *Entry) Source() bool { return e.Flags&SourceMAC != 0 }

// MACTable is the table that the Ethernet Manager gives a vport. It never
// changes: Set returns another one. A nil table is empty.
type MACTable struct {
	entries []Entry // by place; those behind are empty
	digest  uint32
	dest    macIndex
	source  macIndex
	sources int
}

// TableError says why a change of a MAC table is refused.
type TableError struct{ Reason string }

func (e *TableError) Error() string { return "vnic: MAC table: " + e.Reason }

// Set returns the table with the places from offset on replaced by entries
// (borrowed) and the digest given; all others are kept. An entry with the
// address zero empties its place.
func (t *MACTable) Set(offset int, entries []Entry, digest uint32) (*MACTable, error) {
	if offset < 0 || offset+len(entries) > MaxEntries {
		return nil, &TableError{fmt.Sprintf("places %d to %d of %d", offset, offset+len(entries)-1, MaxEntries)}
	}
	list := make([]Entry, max(len(t.all()), offset+len(entries)))
	copy(list, t.all())
	copy(list[offset:], entries)
	for i := range entries {
		e := &list[offset+i]
		if e.MAC.IsZero() {
			*e = Entry{}
		}
		if e.DLID > opa.Permissive {
			return nil, &TableError{fmt.Sprintf("place %d: DLID %v has more than 24 bits", offset+i, e.DLID)}
		}
	}
	for len(list) > 0 && list[len(list)-1].MAC.IsZero() {
		list = list[:len(list)-1]
	}
	next := &MACTable{entries: list, digest: digest}
	next.dest.build(list, func(e *Entry) bool { return !e.Source() })
	next.sources = next.source.build(list, (*Entry).Source)
	if next.sources > MaxSources {
		return nil, &TableError{fmt.Sprintf("%d source-MAC entries; at most %d", next.sources, MaxSources)}
	}
	return next, nil
}

func (t *MACTable) all() []Entry {
	if t == nil {
		return nil
	}
	return t.entries
}

// Digest is the number that came with the last Set, 0 for an empty table.
func (t *MACTable) Digest() uint32 {
	if t == nil {
		return 0
	}
	return t.digest
}

// At returns the entry in place i, the zero value if it is empty.
func (t *MACTable) At(i int) Entry {
	if list := t.all(); i >= 0 && i < len(list) {
		return list[i]
	}
	return Entry{}
}

// Len is the number of places up to the last one in use.
func (t *MACTable) Len() int { return len(t.all()) }

// Lookup returns the DLID of the station a and whether an entry names it. Of
// several entries the one with most mask bits wins, of those the first.
func (t *MACTable) Lookup(a ether.Addr) (opa.LID, bool) {
	if t == nil {
		return 0, false
	}
	i := t.dest.find(t.entries, macBits(a))
	if i < 0 {
		return 0, false
	}
	return t.entries[i].DLID, true
}

// Source returns the entry about source address a, if any. restricted tells
// whether the table has such entries at all: then no other address is allowed.
func (t *MACTable) Source(a ether.Addr) (lid opa.LID, allowed, restricted bool) {
	if t == nil || t.sources == 0 {
		return 0, true, false
	}
	i := t.source.find(t.entries, macBits(a))
	if i < 0 {
		return 0, false, true
	}
	return t.entries[i].DLID, true, true
}

// allMAC is the mask of the whole address.
const allMAC = 1<<48 - 1

func macBits(a ether.Addr) uint64 {
	return uint64(a[0])<<40 | uint64(a[1])<<32 | uint64(a[2])<<24 | uint64(a[3])<<16 | uint64(a[4])<<8 | uint64(a[5])
}

// mask is the entry's mask with its meaning.
func (e *Entry) mask() uint64 {
	if e.Mask.IsZero() {
		return allMAC
	}
	return macBits(e.Mask)
}

// macIndex finds entries by address: one hash table for each mask, that with
// most bits first.
type macIndex struct{ groups []maskGroup }

type maskGroup struct {
	mask  uint64
	shift uint8    // of the hash
	slots []uint16 // place of the entry + 1, or 0; at most half are in use
}

// build indexes the entries that want accepts and returns how many they are.
func (x *macIndex) build(list []Entry, want func(*Entry) bool) (n int) {
	var masks []uint64
	var counts []int
	for i := range list {
		e := &list[i]
		if e.MAC.IsZero() || !want(e) {
			continue
		}
		n++
		at := slices.Index(masks, e.mask())
		if at < 0 {
			masks, counts, at = append(masks, e.mask()), append(counts, 0), len(masks)
		}
		counts[at]++
	}
	for i, m := range masks {
		size := max(2, bits.Len(uint(2*counts[i]-1)))
		x.groups = append(x.groups, maskGroup{mask: m, shift: uint8(64 - size), slots: make([]uint16, 1<<size)})
	}
	slices.SortFunc(x.groups, func(a, b maskGroup) int {
		return cmp.Or(bits.OnesCount64(b.mask)-bits.OnesCount64(a.mask), cmp.Compare(b.mask, a.mask))
	})
	for i := range list {
		if e := &list[i]; !e.MAC.IsZero() && want(e) {
			x.group(e.mask()).add(list, i)
		}
	}
	return n
}

func (x *macIndex) group(mask uint64) *maskGroup {
	return &x.groups[slices.IndexFunc(x.groups, func(g maskGroup) bool { return g.mask == mask })]
}

// golden spreads addresses that differ in few bits.
const golden = 0x9e3779b97f4a7c15

func (g *maskGroup) add(list []Entry, place int) {
	key := macBits(list[place].MAC) & g.mask
	at := key * golden >> g.shift
	for ; g.slots[at] != 0; at = (at + 1) & uint64(len(g.slots)-1) {
		if macBits(list[g.slots[at]-1].MAC)&g.mask == key {
			return // an earlier place has the same
		}
	}
	g.slots[at] = uint16(place + 1)
}

// find returns the place of the entry for address mac, or -1.
func (x *macIndex) find(list []Entry, mac uint64) int {
	for i := range x.groups {
		g := &x.groups[i]
		key := mac & g.mask
		for at := key * golden >> g.shift; g.slots[at] != 0; at = (at + 1) & uint64(len(g.slots)-1) {
			if place := int(g.slots[at]) - 1; macBits(list[place].MAC)&g.mask == key {
				return place
			}
		}
	}
	return -1
}
