// Package roster lists objects in order of creation.
package roster

import "sort"

// keptSlots is how many slots an empty Roster keeps.
const keptSlots = 64

// Roster lists objects in order of creation. Adding and removing cost the
// same however many there are: a removed object leaves a hole, and holes go
// when objects are added.
type Roster[T any] struct {
	nums  []uint32 // rising, modulo 2^32
	list  []*T     // nil where removed
	holes int
}

// Add puts v, whose number is higher than any before, at the end.
func (r *Roster[T]) Add(num uint32, v *T) {
	if r.holes > 16 && r.holes > len(r.list)/2 {
		r.close()
	}
	r.nums, r.list = append(r.nums, num), append(r.list, v)
}

// Find returns the object with number num, nil if it is not in r.
func (r *Roster[T]) Find(num uint32) *T {
	if len(r.nums) == 0 {
		return nil
	}
	i := sort.Search(len(r.nums), func(i int) bool { return r.nums[i]-r.nums[0] >= num-r.nums[0] })
	if i == len(r.nums) || r.nums[i] != num {
		return nil
	}
	return r.list[i]
}

// Remove takes out the object with number num, which must be in r.
func (r *Roster[T]) Remove(num uint32) {
	i := sort.Search(len(r.nums), func(i int) bool { return r.nums[i]-r.nums[0] >= num-r.nums[0] })
	r.list[i] = nil
	r.holes++
	if r.holes < len(r.list) {
		return
	}
	if cap(r.list) > keptSlots {
		*r = Roster[T]{}
	}
	r.nums, r.list, r.holes = r.nums[:0], r.list[:0], 0
}

// close closes the holes.
func (r *Roster[T]) close() {
	kept := 0
	for i, v := range r.list {
		if v != nil {
			r.nums[kept], r.list[kept] = r.nums[i], v
			kept++
		}
	}
	clear(r.list[kept:])
	r.nums, r.list, r.holes = r.nums[:kept], r.list[:kept], 0
}

// All returns the objects, borrowed.
func (r *Roster[T]) All() []*T {
	if r.holes > 0 {
		r.close()
	}
	return r.list
}

// Len is how many objects there are.
func (r *Roster[T]) Len() int { return len(r.list) - r.holes }
