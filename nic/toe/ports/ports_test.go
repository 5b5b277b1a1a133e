package ports

import (
	"errors"
	"net/netip"
	"testing"
)

var local = netip.MustParseAddr("10.0.0.1")

// TestPick gives every port once, then those that wait, then none; another
// secret begins elsewhere.
func TestPick(t *testing.T) {
	b := Allocator{First: 100, Last: 103}
	used, waits := map[uint16]bool{}, uint16(102)
	free := func(a netip.AddrPort, waiting bool) bool {
		return !used[a.Port()] && (waiting || a.Port() != waits)
	}
	var order []uint16
	for {
		a, _, ok, err := b.Pick(local, 5, free)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		used[a.Port()] = true
		order = append(order, a.Port())
	}
	if len(order) != 4 || order[0] != 101 || order[3] != waits {
		t.Fatalf("%v", order)
	}
}

// TestRefused passes over ports of the operating system, and tells why there is
// none.
func TestRefused(t *testing.T) {
	mine, held := errors.New("mine"), 0
	b := Allocator{First: 100, Last: 101, Take: func(a netip.AddrPort) (func(), error) {
		if a.Port() == 100 {
			return nil, mine
		}
		held++
		return func() { held-- }, nil
	}}
	all := func(netip.AddrPort, bool) bool { return true }
	a, r, ok, err := b.Pick(local, 0, all)
	if !ok || err != nil || a.Port() != 101 || held != 1 {
		t.Fatalf("%v, %v, held %d", a, err, held)
	}
	r.Share().Drop()
	if held != 1 {
		t.Fatal("given back with a user left")
	}
	if r.Drop(); held != 0 {
		t.Fatal("kept")
	}
	b.Last = 100
	if _, _, ok, err := b.Pick(local, 0, all); ok || err != mine {
		t.Fatalf("%v", err)
	}
	var none *Reservation
	none.Share().Drop()
}

// TestSharedWithFormerConnections: who listens again where connections of the
// former listener remain takes nothing from the operating system.
func TestSharedWithFormerConnections(t *testing.T) {
	taken := map[netip.AddrPort]int{}
	b := Allocator{Take: func(a netip.AddrPort) (func(), error) {
		if taken[a] > 0 {
			return nil, errors.New("taken twice")
		}
		taken[a]++
		return func() { taken[a]-- }, nil
	}}
	every := netip.AddrPortFrom(netip.IPv4Unspecified(), 80)
	listener, err := b.Reserve(every)
	if err != nil {
		t.Fatal(err)
	}
	conn := listener.Share()
	listener.Drop()
	again, err := b.Reserve(netip.AddrPortFrom(local, 80))
	if err != nil {
		t.Fatal(err)
	}
	if conn.Drop(); taken[every] != 1 {
		t.Fatal("given back while somebody listens")
	}
	if again.Drop(); taken[every] != 0 {
		t.Fatal("kept")
	}
	if r, err := b.Reserve(every); err != nil || taken[every] != 1 {
		t.Fatal(err)
	} else if r.Drop(); taken[every] != 0 {
		t.Fatal("kept")
	}
}

// TestWidened: connections of a listener on one address remain when someone
// listens on all, for which the operating system must find the port free.
func TestWidened(t *testing.T) {
	taken, foreign := map[netip.AddrPort]bool{}, false
	b := Allocator{Take: func(a netip.AddrPort) (func(), error) {
		if len(taken) > 0 || foreign && a.Addr().IsUnspecified() {
			return nil, errors.New("taken")
		}
		taken[a] = true
		return func() { delete(taken, a) }, nil
	}}
	one, all := netip.AddrPortFrom(local, 80), netip.AddrPortFrom(netip.IPv4Unspecified(), 80)
	conn, err := b.Reserve(one)
	if err != nil {
		t.Fatal(err)
	}
	foreign = true
	if _, err := b.Reserve(all); err == nil || !taken[one] {
		t.Fatalf("%v, taken %v", err, taken)
	}
	foreign = false
	listener, err := b.Reserve(all)
	if err != nil || !taken[all] {
		t.Fatalf("%v, taken %v", err, taken)
	}
	if listener.Drop(); !taken[all] {
		t.Fatal("given back with a connection left")
	}
	if conn.Drop(); len(taken) > 0 || len(b.held) > 0 {
		t.Fatalf("left: %v, %v", taken, b.held)
	}
}
