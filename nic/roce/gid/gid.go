// Package gid is the GID table of a RoCE port (InfiniBand Architecture, annexes A16 and
// A17): each IP address of the NIC has an entry for every version of RoCE that is
// offered, behind those of the link-local address that follows from the MAC. An address of
// a VLAN interface has entries of its own, so an index also chooses the VLAN.
//
// Programs keep indices of the table, so an entry never moves: what an address leaves
// is a hole, which only a new address fills.
package gid

import (
	"fmt"
	"iter"
	"net/netip"

	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/icmp"
)

// Address is one of the NIC's, on the wire or on a VLAN interface.
type Address struct {
	Addr netip.Addr // IPv4 as such, not mapped
	VLAN uint16     // 802.1Q id; 0: untagged
}

// Entry is one of the table's, empty if its address is not valid.
type Entry struct {
	Address
	Type verbs.GIDType
}

// GID is the entry as a port's address, zero of an empty one.
func (e Entry) GID() verbs.GID {
	if !e.Addr.IsValid() {
		return verbs.GID{}
	}
	return verbs.GIDFromAddr(e.Addr)
}

// Table is the table of one port.
type Table struct {
	entries []Entry // verbs.MaxGIDs, from the first Update on: NICs without RoCE have none
	used    int     // no entry is used behind these
	v2Only  bool
	netdev  string // the interface of the wire
	vlan    uint16 // of its own frames
}

// SetV2Only chooses the versions: RoCE v2 alone, as rxe has it, or v1 and v2, as
// hardware has them. It is called before the first Update.
func (t *Table) SetV2Only(on bool) { t.v2Only = on }

// SetNetdev names the interface of the wire: those of VLANs are called as ip-link(8) does, tap0.100.
func (t *Table) SetNetdev(name string) { t.netdev = name }

// width is how many entries an address has.
func (t *Table) width() int {
	if t.v2Only {
		return 1
	}
	return 2
}

// Update makes the table that of a port with this MAC address and these IP addresses,
// each with its VLAN, and tells whether it has changed. vlan is that of the wire's own
// frames. Addresses that find no room are left out.
func (t *Table) Update(mac ether.Addr, vlan uint16, addrs iter.Seq2[netip.Addr, uint16]) (changed bool) {
	t.vlan = vlan
	want := []Address{{icmp.LinkLocal(mac), vlan}}
	for a, on := range addrs {
		if a := (Address{a.Unmap(), on}); a != want[0] {
			want = append(want, a)
		}
	}
	if t.entries == nil {
		t.entries = make([]Entry, verbs.MaxGIDs)
	}
	w := t.width()
	have := map[Address]bool{}
	for _, a := range want {
		have[a] = false
	}
	for i := 0; i < t.used; i += w {
		e := &t.entries[i]
		_, keep := have[e.Address]
		if keep = keep && (i == 0) == (e.Address == want[0]); keep {
			have[e.Address] = true
		} else if e.Addr.IsValid() {
			clear(t.entries[i : i+w])
			changed = true
		}
	}
	for i, a := range want {
		if !have[a] && t.add(a, i == 0) {
			changed = true
		}
		have[a] = true
	}
	for t.used > 0 && !t.entries[t.used-1].Addr.IsValid() {
		t.used--
	}
	return changed
}

// add enters an address; that of the MAC comes first.
func (t *Table) add(a Address, first bool) bool {
	w, i := t.width(), 0
	if !first {
		for i = w; i < len(t.entries) && t.entries[i].Addr.IsValid(); {
			i += w
		}
	}
	if i+w > len(t.entries) {
		return false
	}
	for j := range w {
		t.entries[i+j] = Entry{a, verbs.RoCEv2 - verbs.GIDType(w-1-j)}
	}
	t.used = max(t.used, i+w)
	return true
}

// Entry is the entry of an index; false: it is empty or there is none.
func (t *Table) Entry(i int) (Entry, bool) {
	if i < 0 || i >= t.used || !t.entries[i].Addr.IsValid() {
		return Entry{}, false
	}
	return t.entries[i], true
}

// Index is the index of an address in a version of RoCE, -1 if it has none.
func (t *Table) Index(a Address, v verbs.GIDType) int {
	a.Addr = a.Addr.Unmap()
	for i, e := range t.entries[:t.used] {
		if e.Address == a && e.Type == v {
			return i
		}
	}
	return -1
}

// Table are the entries as a port shows them.
func (t *Table) Table() []verbs.GIDEntry {
	list := make([]verbs.GIDEntry, t.used)
	for i, e := range t.entries[:t.used] {
		list[i] = verbs.GIDEntry{GID: e.GID(), Type: e.Type, VLAN: e.VLAN}
		if e.VLAN != t.vlan && e.Addr.IsValid() {
			list[i].Netdev = fmt.Sprintf("%s.%d", t.netdev, e.VLAN)
		}
	}
	return list
}

// Entries are the entries up to the last that is used, empty ones among them,
// borrowed.
func (t *Table) Entries() []Entry { return t.entries[:t.used] }
