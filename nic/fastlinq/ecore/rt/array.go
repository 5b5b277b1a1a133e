// Package rt is the runtime array and the init tool of the driver core: what
// the driver decides before it may touch the chip is stored in the array, and
// the init tool, a list of operations that comes with the firmware, writes it
// to the chip in the firmware's own order, phase by phase.
package rt

import "tapir/nic/fastlinq/status"

// Slots is the number of values that the array holds, of 32 bits each.
const Slots = 34472

// page is how many slots come into being at once.
const page = 256

// Array is the runtime array. The zero value is empty; memory for a slot
// exists from Store to Clear.
type Array struct {
	pages   []*slots // nil: empty
	valid   int
	refused uint64
}

type slots struct {
	value [page]uint32
	valid [page / 64]uint64
}

// Store keeps a value until the array is cleared. INVAL, and counted: the slot
// lies beyond the end.
func (a *Array) Store(slot int, v uint32) error {
	if slot < 0 || slot >= Slots {
		a.refused++
		return status.Inval.Errorf("runtime slot %d of %d", slot, Slots)
	}
	if a.pages == nil {
		a.pages = make([]*slots, (Slots+page-1)/page)
	}
	p := a.pages[slot/page]
	if p == nil {
		p = new(slots)
		a.pages[slot/page] = p
	}
	i := slot % page
	p.value[i] = v
	if p.valid[i/64]>>(i%64)&1 == 0 {
		p.valid[i/64] |= 1 << (i % 64)
		a.valid++
	}
	return nil
}

// StoreAll keeps consecutive values. INVAL, and none is kept: they reach
// beyond the end.
func (a *Array) StoreAll(slot int, values []uint32) error {
	if slot < 0 || slot+len(values) > Slots {
		a.refused++
		return status.Inval.Errorf("runtime slots %d to %d of %d", slot, slot+len(values)-1, Slots)
	}
	for i, v := range values {
		_ = a.Store(slot+i, v) // cannot fail: checked above
	}
	return nil
}

// Load is the value of a slot; ok is false if none is valid there.
func (a *Array) Load(slot int) (v uint32, ok bool) {
	if slot < 0 || slot >= Slots || a.pages == nil || a.pages[slot/page] == nil {
		return 0, false
	}
	p, i := a.pages[slot/page], slot%page
	return p.value[i], p.valid[i/64]>>(i%64)&1 != 0
}

// from is the first slot at or after one that may hold a value.
func (a *Array) from(slot int) int {
	for slot < Slots && (a.pages == nil || a.pages[slot/page] == nil) {
		slot = slot/page*page + page
	}
	return slot
}

// Valid is the number of slots that hold a value, Refused that of the stores
// beyond the end.
func (a *Array) Valid() int      { return a.valid }
func (a *Array) Refused() uint64 { return a.refused }

// Clear forgets all values.
func (a *Array) Clear() {
	a.pages, a.valid = nil, 0
}
