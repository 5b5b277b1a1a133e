package gid

import (
	"fmt"
	"iter"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/icmp"
)

var mac = ether.Addr{2, 0, 0, 0, 0, 1}

// addresses are those of the prefixes; one behind "@" is on that VLAN: 10.0.0.1/24@100.
func addresses(s string) iter.Seq2[netip.Addr, uint16] {
	return func(yield func(netip.Addr, uint16) bool) {
		for _, f := range strings.Fields(s) {
			p, vlan, _ := strings.Cut(f, "@")
			id, _ := strconv.Atoi(vlan)
			if !yield(netip.MustParsePrefix(p).Addr(), uint16(id)) {
				return
			}
		}
	}
}

func text(t *Table) string {
	var words []string
	for _, e := range t.Entries() {
		w := "-"
		if e.Addr.IsValid() {
			w = fmt.Sprintf("%v/%v", e.Addr, e.Type)
			if e.VLAN != 0 {
				w = fmt.Sprintf("%v@%d/%v", e.Addr, e.VLAN, e.Type)
			}
		}
		words = append(words, strings.ReplaceAll(w, "RoCE ", ""))
	}
	return strings.Join(words, " ")
}

// TestTable follows a port through changes of its addresses: IPv4 with v2 is entry 3,
// entries never move, and holes are filled by new addresses only.
func TestTable(t *testing.T) {
	const ll = "fe80::ff:fe00:1"
	pair := func(a string) string { return a + "/IB/v1 " + a + "/v2" }
	for _, v2 := range []bool{false, true} {
		var g Table
		g.SetV2Only(v2)
		for _, s := range []struct {
			addrs, want, only string
			changed           bool
		}{
			{"10.0.0.1/24", pair(ll) + " " + pair("10.0.0.1"), ll + "/v2 10.0.0.1/v2", true},
			{"10.0.0.1/24 " + ll + "/64", pair(ll) + " " + pair("10.0.0.1"), ll + "/v2 10.0.0.1/v2", false},
			{"10.0.0.1/24 fd00::1/64", pair(ll) + " " + pair("10.0.0.1") + " " + pair("fd00::1"),
				ll + "/v2 10.0.0.1/v2 fd00::1/v2", true},
			{"fd00::1/64", pair(ll) + " - - " + pair("fd00::1"), ll + "/v2 - fd00::1/v2", true},
			{"fd00::1/64 10.0.0.9/24", pair(ll) + " " + pair("10.0.0.9") + " " + pair("fd00::1"),
				ll + "/v2 10.0.0.9/v2 fd00::1/v2", true},
			{"10.0.0.9/24@100 10.0.0.9/24 " + ll + "/64@100", pair(ll) + " " + pair("10.0.0.9") + " " +
				pair("10.0.0.9@100") + " " + pair(ll+"@100"),
				ll + "/v2 10.0.0.9/v2 10.0.0.9@100/v2 " + ll + "@100/v2", true},
			{"", pair(ll), ll + "/v2", true},
		} {
			want := s.want
			if v2 {
				want = s.only
			}
			if changed := g.Update(mac, 0, addresses(s.addrs)); changed != s.changed || text(&g) != want {
				t.Errorf("v2 alone %v, addresses %q: changed %v, %s\nwant %v, %s", v2, s.addrs, changed, text(&g), s.changed, want)
			}
		}
	}
}

// TestLookups finds entries by index and by address, and a new MAC takes entry 0.
func TestLookups(t *testing.T) {
	var g Table
	g.Update(mac, 0, addresses("10.0.0.1/24"))
	a := netip.MustParseAddr("10.0.0.1")
	if e, ok := g.Entry(3); !ok || e != (Entry{Address{Addr: a}, verbs.RoCEv2}) ||
		e.GID().String() != "0000:0000:0000:0000:0000:ffff:0a00:0001" {
		t.Errorf("entry 3: %v %v", e, ok)
	}
	if i := g.Index(Address{Addr: netip.MustParseAddr("::ffff:10.0.0.1")}, verbs.RoCEv1); i != 2 {
		t.Errorf("v1 of %v: index %d", a, i)
	}
	for _, i := range []int{-1, 4, 128} {
		if e, ok := g.Entry(i); ok || e.GID() != (verbs.GID{}) {
			t.Errorf("entry %d: %v", i, e)
		}
	}
	other := ether.Addr{2, 0, 0, 0, 0, 2}
	if g.Update(other, 0, addresses("10.0.0.1/24")); g.Index(Address{Addr: icmp.LinkLocal(other)}, verbs.RoCEv2) != 1 ||
		g.Index(Address{Addr: icmp.LinkLocal(mac)}, verbs.RoCEv2) != -1 {
		t.Errorf("after a new MAC address: %s", text(&g))
	}
	many := "10.0.0.1/24"
	for i := range 100 {
		many += fmt.Sprintf(" 10.1.0.%d/24", i+1)
	}
	if g.Update(other, 0, addresses(many)); len(g.Entries()) != verbs.MaxGIDs {
		t.Errorf("%d entries of 102 addresses", len(g.Entries()))
	}
}
