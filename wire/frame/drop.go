package frame

import (
	"fmt"
	"iter"
	"strings"

	"tapir/wire/enum"
)

// DropReason says why a frame or its content was discarded. Every drop is
// counted under its reason and noted in the NIC's own capture. A package that
// has reasons gives them constant numbers and registers their names.
type DropReason uint8

const (
	// DropNone is the reason of a frame that was not discarded.
	DropNone DropReason = 0
	// MaxDropReasons is above the number of every reason.
	MaxDropReasons = 96
)

var dropNames = [MaxDropReasons]string{DropNone: "none"}

// RegisterDrops names the reasons first, first+1 and so on. It is called while
// packages are initialized; numbers that overlap another package's panic.
func RegisterDrops(first DropReason, names ...string) {
	for i, name := range names {
		r := int(first) + i
		if r >= MaxDropReasons || dropNames[r] != "" || name == "" {
			panic(fmt.Sprintf("frame: drop reason %d cannot be registered as %q", r, name))
		}
		dropNames[r] = name
	}
}

// DropReasons are the registered reasons in the order of their numbers, without
// DropNone.
func DropReasons() iter.Seq[DropReason] {
	return func(yield func(DropReason) bool) {
		for r := DropNone + 1; r < MaxDropReasons; r++ {
			if dropNames[r] != "" && !yield(r) {
				return
			}
		}
	}
}

func (r DropReason) String() string {
	return enum.Name(dropNames[:], r, "unknown")
}

// Counter is the reason as a part of a counter's name: "host_queue_full".
func (r DropReason) Counter() string {
	return strings.ReplaceAll(strings.ToLower(r.String()), " ", "_")
}

// Drops counts discarded frames by reason.
type Drops [MaxDropReasons]uint64

// Count adds one drop for reason r.
func (d *Drops) Count(r DropReason) { d[r]++ }

// Add adds the counts of more.
func (d *Drops) Add(more *Drops) {
	for r, n := range more {
		d[r] += n
	}
}

// Counted are the reasons that were counted, in the order of their numbers, with
// the counts.
func (d *Drops) Counted() iter.Seq2[DropReason, uint64] {
	return func(yield func(DropReason, uint64) bool) {
		for r := range DropReasons() {
			if d[r] > 0 && !yield(r, d[r]) {
				return
			}
		}
	}
}

// Total is the sum over all reasons.
func (d *Drops) Total() (n uint64) {
	for _, c := range d[1:] {
		n += c
	}
	return n
}
