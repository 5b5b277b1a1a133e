package verbs

import "sort"

// keptSlots is how many slots an empty roster keeps.
const keptSlots = 64

// roster lists objects in order of creation. Adding and removing cost the
// same however many there are: a removed object leaves a hole, and holes go
// when objects are added.
type roster[T any] struct {
	nums  []uint32 // rising
	list  []*T     // nil where removed
	holes int
}

func (r *roster[T]) add(num uint32, v *T) {
	if r.holes > 16 && r.holes > len(r.list)/2 {
		r.close()
	}
	r.nums, r.list = append(r.nums, num), append(r.list, v)
}

func (r *roster[T]) remove(num uint32) {
	i := sort.Search(len(r.nums), func(i int) bool { return r.nums[i] >= num })
	r.list[i] = nil
	r.holes++
	if r.holes < len(r.list) {
		return
	}
	if cap(r.list) > keptSlots {
		*r = roster[T]{}
	}
	r.nums, r.list, r.holes = r.nums[:0], r.list[:0], 0
}

// close closes the holes.
func (r *roster[T]) close() {
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

// all returns the objects, borrowed.
func (r *roster[T]) all() []*T {
	if r.holes > 0 {
		r.close()
	}
	return r.list
}
