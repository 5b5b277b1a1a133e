package interop

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPairwiseMeetsEveryPair(t *testing.T) {
	cells := Pairwise()
	if len(cells) != Cells || !slices.Equal(cells, Pairwise()) {
		t.Fatalf("%d cells, or others each time", len(cells))
	}
	left := allPairs()
	at := make([]int, len(steps))
	known := map[Cell][]int{}
	for {
		known[cellAt(at)] = slices.Clone(at)
		i := 0
		for ; i < len(at); i++ {
			if at[i]++; at[i] < steps[i] {
				break
			}
			at[i] = 0
		}
		if i == len(at) {
			break
		}
	}
	for _, c := range cells {
		for pair := range pairs(known[c]) {
			delete(left, pair)
		}
	}
	if len(left) > 0 {
		t.Errorf("%d pairs never meet", len(left))
	}
	if n := len(Of("linux", cells)) + len(Of("gvisor", cells)); n != len(cells) {
		t.Errorf("%d cells have a peer", n)
	}
}

func TestProductHasEveryCombinationOfEnds(t *testing.T) {
	cells := map[Cell]bool{}
	for _, c := range Product() {
		cells[c] = true
		if c.Loss > 10_000 || c.Way != Both {
			t.Errorf("%v", c)
		}
	}
	if want := 1 << 9 * 3; len(cells) != want || len(Product()) != want {
		t.Errorf("%d different of %d cells, want %d", len(cells), len(Product()), want)
	}
}

func TestPatternIsOnePerSeed(t *testing.T) {
	p, q := newPattern(1), newPattern(2)
	if p.sum(5<<20) == q.sum(5<<20) || p.sum(100) != newPattern(1).sum(100) {
		t.Error("the seed does not decide the pattern")
	}
	b := make([]byte, 3*patternLen)
	p.render(0, b)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		off, n := rng.IntN(patternLen*2), rng.IntN(5000)
		piece := make([]byte, n)
		if p.render(uint64(off), piece); !slices.Equal(piece, b[off:off+n]) {
			t.Fatalf("octets %d-%d differ each time", off, off+n)
		}
	}
}
