package l2

import (
	"errors"
	"testing"

	"tapir/nic/fastlinq/status"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// The vectors of the firmware's hash.
//
// L2-10
func TestBins(t *testing.T) {
	for s, bin := range map[string]int{
		"01:00:5e:00:00:01": 212, "33:33:00:00:00:01": 119, "01:80:c2:00:00:0e": 57, "01:1b:19:00:00:00": 54,
		"01:00:5e:00:00:fb": 129, "33:33:ff:00:00:01": 250, "01:00:5e:7f:ff:fa": 67,
	} {
		a, err := ether.ParseAddr(s)
		if err != nil || Bin(a) != bin {
			t.Errorf("%s: bin %d, want %d", s, Bin(a), bin)
		}
	}
	if got := mcastCRC(ether.Addr{1, 0, 0x5e, 0, 0, 1}); got != 0xe4d050d4 {
		t.Errorf("CRC %#x", got)
	}
}

// L2-10
func TestMulticastFilters(t *testing.T) {
	w := newWorld(t, Config{})
	w.start(StartParams{}, 0)
	w.run(0, Regular)
	group := func(n int) ether.Addr { return ether.Addr{1, 0, 0x5e, 0, byte(n >> 8), byte(n)} }
	twin := 2
	for Bin(group(twin)) != Bin(group(1)) {
		twin++
	}
	in := func(a ether.Addr) bool { return w.receive(eth(a, outside, 60)) == frame.DropNone }
	if in(group(1)) {
		t.Fatal("accepted without a filter")
	}
	w.ok(w.FilterMcast(McastParams{Op: FilterAdd, MACs: []ether.Addr{group(1)}}))
	if !in(group(1)) || !in(group(twin)) || in(group(2)) {
		t.Errorf("bin of %v", group(1))
	}
	w.ok(w.FilterMcast(McastParams{Op: FilterAdd, MACs: []ether.Addr{group(2)}}))
	if in(group(1)) || !in(group(2)) {
		t.Error("a list does not take the place of the one before")
	}
	w.ok(w.FilterMcast(McastParams{Op: FilterFlush}))
	if in(group(2)) {
		t.Error("accepted after a flush")
	}
	w.want(status.Inval, w.FilterMcast(McastParams{MACs: make([]ether.Addr, 65)}))
	w.want(status.Inval, w.FilterMcast(McastParams{MACs: []ether.Addr{addr(1)}}))
	w.want(status.NotImpl, w.FilterMcast(McastParams{Op: FilterMove}))
	w.want(status.Inval, w.FilterMcast(McastParams{Vport: 3}))
}

func code(err error) FilterCode {
	var c FilterCode
	if errors.As(err, &c) {
		return c
	}
	return FilterOK
}

// All answers of the firmware, and that a refused command changes nothing.
//
// L2-09 L2-11 L2-12
func TestFilterCodes(t *testing.T) {
	w := newWorld(t, Config{})
	for id := range 3 {
		w.start(StartParams{Vport: id})
	}
	do := func(op Opcode, typ FilterType, a ether.Addr, vlan uint16, from, to int) error {
		return w.FilterUcast(UcastParams{Op: op, Type: typ, Sides: Both, MAC: a, VLAN: vlan, Remove: from, Add: to})
	}
	add := func(typ FilterType, n int, vlan uint16, to int) error {
		return do(FilterAdd, typ, addr(n), vlan, 0, to)
	}
	check := func(err error, c FilterCode, s status.Code) {
		t.Helper()
		if code(err) != c || status.Of(err) != s {
			t.Errorf("%v, want %v", err, c)
		}
	}
	check(do(FilterAdd, FilterMAC, ether.Addr{}, 0, 0, 0), MACAddZero, status.Inval)
	check(do(FilterReplace, FilterMACVLAN, ether.Addr{}, 4, 0, 0), PairAddZero, status.Inval)
	w.ok(add(FilterMAC, 1, 0, 0))
	check(add(FilterMAC, 1, 0, 0), MACAddDupSTT2, status.Exists)
	check(do(FilterRemove, FilterMAC, addr(1), 0, 1, 0), MACDelNOFSTT2, status.NoEnt)
	w.ok(add(FilterMAC, 1, 0, 1))
	check(add(FilterMAC, 1, 0, 0), MACAddDupMTT2, status.Exists)
	check(do(FilterRemove, FilterMAC, addr(1), 0, 2, 0), MACDelNOFMTT2, status.NoEnt)
	check(do(FilterRemove, FilterMAC, addr(2), 0, 0, 0), MACDelNOF, status.NoEnt)
	check(do(FilterMove, FilterMAC, addr(2), 0, 0, 1), MACDelNOF, status.NoEnt)
	check(do(FilterMove, FilterMAC, addr(1), 0, 0, 1), MACAddDupMTT2, status.Exists)
	w.ok(do(FilterMove, FilterMAC, addr(1), 0, 1, 2))

	w.ok(add(FilterVLAN, 0, 7, 0))
	check(add(FilterVLAN, 0, 7, 0), VLANAddDup, status.Exists)
	check(do(FilterRemove, FilterVLAN, addr(0), 8, 0, 0), VLANDelNOF, status.NoEnt)
	check(do(FilterRemove, FilterVLAN, addr(0), 7, 1, 0), VLANDelNOFTT1, status.NoEnt)
	w.ok(add(FilterMACVLAN, 1, 7, 0))
	check(add(FilterMACVLAN, 1, 7, 0), PairAddDup, status.Exists)
	check(do(FilterRemove, FilterMACVLAN, addr(1), 8, 0, 0), PairDelNOF, status.NoEnt)
	check(do(FilterRemove, FilterMACVLAN, addr(1), 7, 1, 0), PairDelNOFTT1, status.NoEnt)

	// 64 addresses: two are those on vports 0 and 2, one is the pair's.
	for n := range 61 {
		w.ok(add(FilterMAC, 100+n, 0, n%3))
	}
	check(add(FilterMAC, 300, 0, 1), MACAddFull, status.NoResources)
	check(add(FilterMACVLAN, 300, 9, 1), PairAddFullMAC, status.NoResources)
	for n := range 63 {
		w.ok(add(FilterVLAN, 0, uint16(100+n), 1))
	}
	check(add(FilterVLAN, 0, 99, 1), VLANAddFull, status.NoResources)
	w.ok(add(FilterVLAN, 0, 0, 1)) // costs nothing
	w.ok(do(FilterReplace, FilterMAC, addr(300), 0, 0, 1))
	w.ok(add(FilterMAC, 301, 0, 1)) // there is room again
	check(w.FilterUcast(UcastParams{Sides: Tx, MAC: addr(300), Add: 1}), MACAddDupSTT2|codeTx, status.Exists)
	w.ok(do(FilterFlush, FilterMAC, ether.Addr{}, 0, 1, 0))
	check(do(FilterRemove, FilterMAC, addr(300), 0, 1, 0), MACDelNOF, status.NoEnt)

	// Sides of a filter come and go one by one.
	w.ok(w.FilterUcast(UcastParams{Sides: Rx, MAC: addr(400)}))
	w.ok(w.FilterUcast(UcastParams{Sides: Tx, MAC: addr(400)}))
	check(w.FilterUcast(UcastParams{Op: FilterRemove, Sides: Both, MAC: addr(401)}), MACDelNOF, status.NoEnt)
	w.ok(w.FilterUcast(UcastParams{Op: FilterRemove, Sides: Rx, MAC: addr(400)}))
	check(w.FilterUcast(UcastParams{Op: FilterRemove, Sides: Both, MAC: addr(400)}), MACDelNOFSTT2, status.NoEnt)

	w.want(status.NotImpl, do(5, FilterMAC, addr(1), 0, 0, 0))
	w.want(status.NotImpl, do(FilterAdd, 200, addr(1), 0, 0, 0))
	w.want(status.Inval, do(FilterAdd, FilterMAC, addr(1), 0, 0, 20))
	w.want(status.Inval, do(FilterAdd, FilterVLAN, addr(1), 4096, 0, 0))
	w.want(status.Inval, do(FilterAdd, FilterMAC, ether.Broadcast, 0, 0, 0))
	w.want(status.Inval, w.FilterUcast(UcastParams{MAC: addr(1)}))
	if len(w.asserts) != 0 {
		t.Errorf("asserted %q", w.asserts)
	}
	w.want(status.Inval, w.FilterUcast(UcastParams{Sides: Both, MAC: addr(1), AssertOnError: true}))
	w.want(status.Inval, do(FilterAdd, FilterMAC, addr(1), 0, 0, 9)) // vport 9 is not started
	if len(w.asserts) != 2 {
		t.Errorf("asserted %q", w.asserts)
	}
}
