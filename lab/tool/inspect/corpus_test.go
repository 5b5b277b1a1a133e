package inspect

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// corpusSeeds is how many traces TestEngineTracesAreNotAccused makes by itself;
// with TAPIR_SOAK set it makes all.
const (
	corpusSeeds = 60
	corpusAll   = 1000
)

// TestEngineTracesAreNotAccused: whatever the engine says to itself, in every way
// to start up and to end, over good cables and bad, breaks no rule.
func TestEngineTracesAreNotAccused(t *testing.T) {
	t.Parallel()
	n, first := uint64(corpusSeeds), uint64(time.Now().YearDay())*corpusSeeds%corpusAll
	if os.Getenv("TAPIR_SOAK") != "" {
		n, first = corpusAll, 0
	}
	var mu sync.Mutex
	seen := map[string]int{}
	const parts = 4
	t.Run("seeds", func(t *testing.T) {
		for part := range uint64(parts) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+n; seed += parts {
					p, r := planOf(seed)
					list, err := p.play(r, nil)
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					gso := p.side[0].IWARP.GSO || p.side[1].IWARP.GSO
					report := check(t, fmt.Sprint("seed ", seed), list, gso)
					for name, worse := range degraded(r, list) {
						check(t, fmt.Sprintf("seed %d, %s", seed, name), worse, gso)
					}
					mu.Lock()
					count(seen, report)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d traces: %v", n, seen)
}

// check judges a conversation of peers that break no rule, but for siw's bit.
func check(t *testing.T, name string, list []Packet, gso bool) *Report {
	t.Helper()
	in := New(Options{Ladder: 1000})
	for k := range list {
		in.Packet(&list[k])
	}
	r := in.Finish()
	for _, f := range r.Findings {
		if !f.Note && !(gso && f.Says == mpaGSO.Says) {
			t.Errorf("%s: %v", name, f)
		}
	}
	return r
}

// degraded are worse captures of the same: that lack packets, ends or the
// beginning, that have cut packets short or brought them in another order.
func degraded(r *rand.Rand, list []Packet) map[string][]Packet {
	list = slices.Clone(list)
	some, holes := pick(r, 2, 10, 50), []Packet(nil)
	for _, p := range list {
		if r.IntN(some) > 0 {
			holes = append(holes, p)
		}
	}
	n := r.IntN(len(list) + 1)
	short, order := slices.Clone(list), slices.Clone(list)
	for k, snap := range short {
		short[k].Data = snap.Data[:min(len(snap.Data), pick(r, 60+r.IntN(90), 200))]
	}
	for range 1 + len(order)/20 {
		if k := r.IntN(len(order)); k > 0 {
			order[k], order[k-1] = order[k-1], order[k]
		}
	}
	from, to := r.IntN(n+1), n+r.IntN(len(list)-n+1)
	pause := append(slices.Clone(list[:from]), list[n:]...)
	return map[string][]Packet{"with holes": holes, "from the middle": list[n:], "up to the middle": list[:n], "cut short": short,
		"out of order": order, "with a pause": pause, "of the middle": list[from:to]}
}

// count notes what a report shows.
func count(seen map[string]int, r *Report) {
	for _, f := range r.Flows {
		seen[string(f.State)]++
		for _, s := range f.Sides {
			for name, n := range s.Messages {
				seen[name] += n
			}
			if s.Retransmissions > 0 {
				seen["with retransmissions"]++
			}
		}
	}
	for _, e := range r.Ladder {
		if e.Name == "Terminate" {
			seen["Terminate "+e.Detail]++
		}
	}
	for _, f := range r.Findings {
		if f.Note {
			seen["note: "+f.Detail]++
		}
	}
}
