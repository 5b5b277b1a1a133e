package script

import (
	"bytes"
	"fmt"
	"hash/fnv"
)

// guard is how many octets lie before and behind each region, watched like
// the region itself.
const guard = 64

// region is a memory region of the application. Its octets begin as a pattern
// of their own; known holds what they must be now.
type region struct {
	name  string
	mr    memory
	all   []byte // with its guards
	known []byte
}

// mem is the region without its guards.
func (g *region) mem() []byte { return g.all[guard : len(g.all)-guard] }

// expected is what the region must hold, without its guards.
func (g *region) expected() []byte { return g.known[guard : len(g.known)-guard] }

// newRegion makes the memory of a region of n octets.
func newRegion(name string, n int) *region {
	h := fnv.New64a()
	h.Write([]byte(name))
	g := &region{name: name, all: make([]byte, n+2*guard)}
	pattern(g.all, h.Sum64()&0xffff|1<<16, 0)
	g.known = bytes.Clone(g.all)
	return g
}

// find returns the region with that name, or nil.
func (w *world) find(name string) *region {
	for _, g := range w.regions {
		if g.name == name {
			return g
		}
	}
	return nil
}

// changed names the first octet that is not as the script says, "" if all are.
func (w *world) changed() string {
	for _, g := range w.regions {
		for i, b := range g.all {
			if b == g.known[i] {
				continue
			}
			n := 1
			for i+n < len(g.all) && g.all[i+n] != g.known[i+n] {
				n++
			}
			where := ""
			if i < guard || i >= len(g.all)-guard {
				where = ", which lies outside of it"
			}
			return fmt.Sprintf("memory changed: %s len %d%s", place(g.name, int64(i-guard)), n, where)
		}
	}
	return ""
}

// place writes an offset of a region as scripts do.
func place(name string, off int64) string {
	if off == 0 {
		return name
	}
	return fmt.Sprintf("%s%+d", name, off)
}

// nameSTag writes an STag as scripts do.
func (w *world) nameSTag(stag uint32) string {
	for _, g := range w.regions {
		if g.mr.RKey() == stag {
			return g.name
		}
	}
	return fmt.Sprintf("%#x", stag)
}

// nameTO writes a tagged offset as scripts do.
func (w *world) nameTO(to uint64) string {
	for _, g := range w.regions {
		if to >= g.mr.Addr()-guard && to <= g.mr.Addr()+g.mr.Len()+guard {
			return place(g.name, int64(to-g.mr.Addr()))
		}
	}
	return fmt.Sprintf("%#x", to)
}
