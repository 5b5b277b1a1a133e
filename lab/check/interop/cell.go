// Package interop holds the NIC's TCP against a stranger's: verified byte
// streams over a TAP in a namespace of its own, through a bad cable.
package interop

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"tapir/lab/host/link"
)

// Cell is one combination of circumstances.
type Cell struct {
	Peer      string // who the stranger is, such as "linux"
	Active    bool   // the NIC opens the connection
	Way       Way
	IPv6      bool
	MTU       int // octets of IP
	GSO       bool
	Loss      int // of segments, each way, in parts per million
	Duplicate int
	Corrupt   int
	Depth     int // of reordering, which befalls 1 % of the segments; 0: none
	Jitter    time.Duration
}

// Way says who sends.
type Way uint8

// The ways of a stream. Who sends nothing closes at once.
const (
	Out Way = iota
	In
	Both
)

var wayNames = [...]string{"out", "in", "both"}

func (w Way) String() string { return wayNames[w] }

// The steps of each circumstance.
var (
	peers   = []string{"linux", "gvisor"}
	mtus    = []int{0, 1500, 9000} // 0: the smallest that the family allows
	losses  = []int{0, 1_000, 10_000, 50_000, 200_000}
	dups    = []int{0, 10_000}
	flips   = []int{0, 1_000}
	depths  = []int{0, 1, 10, 50}
	jitters = []time.Duration{0, 200 * time.Microsecond}
	steps   = []int{len(peers), 2, len(wayNames), 2, len(mtus), 2, len(losses), len(dups), len(flips), len(depths),
		len(jitters)}
)

// ends are the steps that Product takes: all, but of losses up to 1 % and of
// depths the least and the greatest, and of the ways the one that holds the
// other two. With those in between it would have 13,824 cells and take days.
var ends = [][]int{{0, 1}, {0, 1}, {int(Both)}, {0, 1}, {0, 1, 2}, {0, 1}, {0, 2}, {0, 1}, {0, 1}, {0, 3}, {0, 1}}

// cellAt is the cell with the given step of each circumstance.
func cellAt(at []int) Cell {
	c := Cell{
		Peer: peers[at[0]], Active: at[1] == 1, Way: Way(at[2]), IPv6: at[3] == 1, MTU: mtus[at[4]], GSO: at[5] == 1,
		Loss: losses[at[6]], Duplicate: dups[at[7]], Corrupt: flips[at[8]], Depth: depths[at[9]],
		Jitter: jitters[at[10]],
	}
	switch {
	case c.MTU == 0 && c.IPv6:
		c.MTU = 1280
	case c.MTU == 0:
		c.MTU = 576
	}
	return c
}

// Cells is how many cells Pairwise lists.
const Cells = 40

// Pairwise is a list of cells in which every step of every circumstance meets
// every step of every other one, as often as the length of the list allows.
func Pairwise() (cells []Cell) {
	rng := rand.New(rand.NewPCG(1, 2))
	open := map[[4]int]bool{}
	for len(cells) < Cells {
		if len(open) == 0 {
			open = allPairs()
		}
		best, most := []int(nil), 0
		for range 400 {
			if at, n := candidate(rng, open); n > most {
				best, most = at, n
			}
		}
		if best == nil {
			continue // nobody met a pair that is left
		}
		for pair := range pairs(best) {
			delete(open, pair)
		}
		cells = append(cells, cellAt(best))
	}
	return cells
}

// pairs yields every two circumstances of a cell with their steps.
func pairs(at []int) iter.Seq[[4]int] {
	return func(yield func([4]int) bool) {
		for i := range at {
			for j := range i {
				if !yield([4]int{i, at[i], j, at[j]}) {
					return
				}
			}
		}
	}
}

// allPairs is every pair that a cell can have.
func allPairs() map[[4]int]bool {
	all := map[[4]int]bool{}
	for i := range steps {
		for j := range i {
			for a := range steps[i] {
				for b := range steps[j] {
					all[[4]int{i, a, j, b}] = true
				}
			}
		}
	}
	return all
}

// candidate fills the circumstances in random order, each with the step that
// meets the most open pairs.
func candidate(rng *rand.Rand, open map[[4]int]bool) (at []int, met int) {
	at = make([]int, len(steps))
	order := rng.Perm(len(steps))
	for k, i := range order {
		most := -1
		for _, step := range rng.Perm(steps[i]) {
			n := 0
			for _, j := range order[:k] {
				pair := [4]int{i, step, j, at[j]}
				if i < j {
					pair = [4]int{j, at[j], i, step}
				}
				if open[pair] {
					n++
				}
			}
			if n > most {
				at[i], most = step, n
			}
		}
		met += most
	}
	return at, met
}

// Product lists every combination of the circumstances' ends, up to 1 % loss.
func Product() (cells []Cell) {
	at := make([]int, len(ends))
	var fill func(i int)
	fill = func(i int) {
		if i == len(ends) {
			cells = append(cells, cellAt(at))
			return
		}
		for _, at[i] = range ends[i] {
			fill(i + 1)
		}
	}
	fill(0)
	return cells
}

// Of is the part of cells that concerns one peer.
func Of(peer string, cells []Cell) (part []Cell) {
	for _, c := range cells {
		if c.Peer == peer {
			part = append(part, c)
		}
	}
	return part
}

// Octets is how much a cell carries each way in a short run: less where even
// a good TCP crawls.
func (c Cell) Octets() uint64 {
	switch {
	case c.Loss <= 10_000:
		return 64 << 20
	case c.Loss <= 50_000:
		return 1 << 20
	}
	return 64 << 10
}

// impairment is the cell's cable, the same both ways.
func (c Cell) impairment() link.Impairment {
	i := link.Impairment{Loss: c.Loss, Duplicate: c.Duplicate, Corrupt: c.Corrupt, Depth: c.Depth, Jitter: c.Jitter}
	if c.Depth > 0 {
		i.Reorder = 10_000
	}
	return i
}

// String names the cell, also for tests.
func (c Cell) String() string {
	role, family, frames := "passive", "ipv4", "wire"
	if c.Active {
		role = "active"
	}
	if c.IPv6 {
		family = "ipv6"
	}
	if c.GSO {
		frames = "gso"
	}
	parts := []string{c.Peer, role, c.Way.String(), family, fmt.Sprint("mtu", c.MTU), frames,
		fmt.Sprintf("loss%g%%", float64(c.Loss)/10_000)}
	for _, x := range []struct {
		on   bool
		name string
	}{
		{c.Duplicate > 0, "dup"}, {c.Corrupt > 0, "flip"}, {c.Depth > 0, fmt.Sprint("depth", c.Depth)},
		{c.Jitter > 0, "jitter"},
	} {
		if x.on {
			parts = append(parts, x.name)
		}
	}
	return strings.Join(parts, "-")
}
