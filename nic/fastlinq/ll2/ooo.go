package ll2

import (
	"slices"
	"sort"

	"tapir/wire/enum"
)

// Event is what the firmware tells of a TCP segment on a connection that has
// received some out of order (tcp_ooo events).
type Event uint8

// The events. What is in order is the peninsula; an isle is data beyond a gap.
const (
	AddPen Event = iota // the peninsula grows
	AddNewIsle
	AddIsleRight
	AddIsleLeft
	Join // two isles, or the first and the peninsula, have become one
	DeleteIsles
	Nop // nothing that is new
	NumEvents
)

var eventNames = [NumEvents]string{"ADD_PEN", "ADD_NEW_ISLE", "ADD_ISLE_RIGHT", "ADD_ISLE_LEFT", "JOIN", "DELETE_ISLES",
	"NOP"}

// String is the event's name.
func (e Event) String() string { return enum.Name(eventNames[:], e, "Event(%d)") }

// Isles is how many a function has, beside one for each connection.
const Isles = 256

// Archipelagos are the isles of all connections of a function, and the buffers of
// their OOO connection: each segment on an isle whose data is held takes one. It keeps no
// data itself.
type Archipelagos struct {
	buffers, free   int
	isles, maxIsles int
	conns           map[uint64][]isle
	events          [NumEvents]uint64
	dropped         uint64
}

// isle is data of offsets [left, right).
type isle struct {
	left, right uint64
	buffers     int
}

// NewArchipelagos returns some for connections that have so many buffers together.
func NewArchipelagos(buffers, conns int) *Archipelagos {
	return &Archipelagos{buffers: buffers, free: buffers, maxIsles: Isles + conns, conns: map[uint64][]isle{}}
}

// place is where data lies: the isles [from, to) that it touches.
func place(list []isle, left, right uint64) (from, to int) {
	from = sort.Search(len(list), func(i int) bool { return list[i].right >= left })
	for to = from; to < len(list) && list[to].left <= right; to++ {
	}
	return from, to
}

// Room tells whether a segment with data of offsets [left, right) can be kept: there is a
// buffer and, unless it touches another isle, an isle. What cannot is counted.
func (a *Archipelagos) Room(conn, left, right uint64) bool {
	from, to := place(a.conns[conn], left, right)
	if a.free > 0 && (from < to || a.isles < a.maxIsles) {
		return true
	}
	a.dropped++
	return false
}

// Add takes a segment that Room has found room for. It has a buffer if it is held.
func (a *Archipelagos) Add(conn, left, right uint64, held bool) Event {
	buffers := 0
	if held {
		buffers = 1
	}
	list := a.conns[conn]
	from, to := place(list, left, right)
	if from == to {
		a.isles++
		a.free -= buffers
		a.conns[conn] = slices.Insert(list, from, isle{left, right, buffers})
		return a.note(AddNewIsle)
	}
	i, e := &list[from], AddIsleLeft
	switch {
	case to-from > 1:
		e = Join
	case left >= i.left && right <= i.right:
		return a.note(Nop)
	case left >= i.left:
		e = AddIsleRight
	}
	a.free -= buffers
	i.buffers += buffers
	i.left, i.right = min(i.left, left), max(right, list[to-1].right)
	for _, o := range list[from+1 : to] {
		i.buffers += o.buffers
		a.isles--
	}
	a.conns[conn] = slices.Delete(list, from+1, to)
	return a.note(e)
}

// Reached says that all octets before next are in order now. It returns whether
// isles are left.
func (a *Archipelagos) Reached(conn, next uint64) (left bool) {
	list, n := a.conns[conn], 0
	for n < len(list) && list[n].left <= next {
		a.give(list[n])
		a.note(Join)
		n++
	}
	if n == 0 {
		a.note(AddPen)
	}
	if n > 0 {
		a.conns[conn] = slices.Delete(list, 0, n)
	}
	return n < len(list)
}

// Gone deletes the isles of a connection.
func (a *Archipelagos) Gone(conn uint64) {
	for _, i := range a.conns[conn] {
		a.give(i)
	}
	if len(a.conns[conn]) > 0 {
		a.note(DeleteIsles)
	}
	delete(a.conns, conn)
}

// give takes the buffers of an isle back.
func (a *Archipelagos) give(i isle) {
	a.free += i.buffers
	a.isles--
}

func (a *Archipelagos) note(e Event) Event {
	a.events[e]++
	return e
}

// ArchipelagoStats tell how many isles and buffers are in use, of how many.
type ArchipelagoStats struct {
	Isles, MaxIsles int
	Used, Buffers   int
	Events          [NumEvents]uint64
	Dropped         uint64 // segments without room
}

// Stats counts.
func (a *Archipelagos) Stats() ArchipelagoStats {
	return ArchipelagoStats{Isles: a.isles, MaxIsles: a.maxIsles, Used: a.buffers - a.free, Buffers: a.buffers,
		Events: a.events, Dropped: a.dropped}
}
