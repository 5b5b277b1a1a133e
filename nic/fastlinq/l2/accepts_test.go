package l2

import (
	"testing"

	"tapir/wire/ether"
)

// TestAccepts asks about the same station again and again, as a flow does, while vports,
// filters and modes come and go: no answer outlives what it was made from.
func TestAccepts(t *testing.T) {
	w := newWorld(t, Config{})
	var q *RxQueue
	station := ether.Addr{2, 0, 0, 0, 0, 7}
	filter := UcastParams{Op: FilterAdd, Type: FilterMAC, Sides: Both, MAC: station}
	removed := filter
	removed.Op = FilterRemove
	for _, step := range []struct {
		name           string
		do             func()
		station, other bool // is accepted
	}{
		{"no vport", func() {}, false, false},
		{"a vport without filters", func() { q = w.start(StartParams{}, 0)[0]; w.run(0, Regular) }, false, false},
		{"a filter", func() { w.ok(w.FilterUcast(filter)) }, true, false},
		{"it is removed", func() { w.ok(w.FilterUcast(removed)) }, false, false},
		{"promiscuous", func() { w.run(0, Promisc) }, true, true},
		{"regular again", func() { w.run(0, Regular) }, false, false},
		{"the filter again", func() { w.ok(w.FilterUcast(filter)) }, true, false},
		{"the vport stops", func() { w.ok(w.RxQueueStop(q)); w.ok(w.VportStop(0)) }, false, false},
	} {
		step.do()
		for range 2 {
			for _, side := range []Sides{Rx, Tx} {
				for dst, want := range map[ether.Addr]bool{station: step.station, {}: step.other} {
					b := ether.Header{Dst: dst, Src: ether.Addr{2, 0, 0, 0, 0, 9}, Type: 0x88b5}.AppendTo(nil)
					f := w.frame(append(b, make([]byte, 46)...))
					if got := w.Accepts(side, f); got != want {
						t.Errorf("%s: a frame to %v on side %d is accepted: %v, want %v", step.name, dst, side, got, want)
					}
					f.Release()
				}
			}
		}
	}
}
