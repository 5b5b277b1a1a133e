package vnic

import (
	"slices"

	"tapir/wire/ether"
)

// lists are the addresses of the interface that the Ethernet Manager can ask
// for. Each change that makes a difference has a number.
type lists struct {
	unicast, multicast []ether.Addr // of the operating system
	uc, mc             []ether.Addr // as told, with those found behind it
	ucGen, mcGen       uint16
}

// MAC is the interface's address.
func (n *Netdev) MAC() ether.Addr { return n.mac }

// SetMAC is the operating system giving the interface another address.
func (n *Netdev) SetMAC(a ether.Addr) error {
	if a.IsMulticast() || a.IsZero() {
		return ErrAddress
	}
	if !n.removed() {
		n.setMAC(a)
	}
	return nil
}

func (n *Netdev) setMAC(a ether.Addr) {
	if a == n.mac {
		return
	}
	n.mac = a
	n.lists.ucGen++
	n.notify(AddressChanged)
	n.relist()
}

// SetRxMode is the operating system telling which other stations (borrowed)
// and groups (borrowed) the interface is to receive.
func (n *Netdev) SetRxMode(unicast, multicast []ether.Addr) {
	if n.removed() {
		return
	}
	n.lists.unicast = append(n.lists.unicast[:0], unicast...)
	n.lists.multicast = append(n.lists.multicast[:0], multicast...)
	n.relist()
}

// UnicastMACs are the interface's addresses but for the base address, and the
// list's number, as IFACE_UCAST_MACS tells them: its own if the operating
// system chose another, then its secondary ones, then, with Policy.Report, the
// stations behind it. The list is borrowed until it changes.
func (n *Netdev) UnicastMACs() (list []ether.Addr, gen uint16) { return n.lists.uc, n.lists.ucGen }

// MulticastMACs are the interface's groups and the list's number, as
// IFACE_MCAST_MACS tells them: those of the operating system, then, with
// Policy.Snoop, those that stations behind it joined. The list is borrowed
// until it changes.
func (n *Netdev) MulticastMACs() (list []ether.Addr, gen uint16) { return n.lists.mc, n.lists.mcGen }

// relist makes both lists anew and tells of those that differ.
func (n *Netdev) relist() {
	l := &n.lists
	uc := make([]ether.Addr, 0, len(l.uc)+1)
	if n.mac != n.cfg.BaseMAC && !n.mac.IsZero() {
		uc = append(uc, n.mac)
	}
	uc = append(uc, l.unicast...)
	if n.policy.Report {
		uc = n.stations.appendLocal(uc, n.mac)
	}
	if !slices.Equal(uc, l.uc) {
		l.uc = uc
		l.ucGen++
		n.notify(UnicastChanged)
	}
	mc := slices.Clone(l.multicast)
	mc = n.groups.appendTo(mc)
	if !slices.Equal(mc, l.mc) {
		l.mc = mc
		l.mcGen++
		n.notify(MulticastChanged)
		n.listen()
	}
}

// listen tells the HFI port which multicast LIDs concern this vport: that for
// all, and those of the groups in the MAC table that have members here.
func (n *Netdev) listen() {
	mlids := n.groups.mlids[:0]
	if n.cfg.McastDLID.IsMulticast() {
		mlids = append(mlids, n.cfg.McastDLID)
	}
	all := n.policy.AllGroups || n.groups.router != 0
	for i := range n.table.all() {
		e := &n.table.entries[i]
		if e.DLID.IsMulticast() && !e.Source() && (all || n.member(e)) {
			mlids = append(mlids, e.DLID)
		}
	}
	slices.Sort(mlids)
	n.groups.mlids = slices.Compact(mlids)
	n.lower.SetMulticast(n.groups.mlids)
}

// member reports whether a group that entry e covers has members here.
func (n *Netdev) member(e *Entry) bool {
	mask := e.mask()
	group := macBits(e.MAC) & mask
	return group == allMAC&mask || slices.ContainsFunc(n.lists.mc, func(a ether.Addr) bool {
		return macBits(a)&mask == group
	})
}
