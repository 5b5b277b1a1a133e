package inspect

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"tapir/mpa"
	"tapir/nic"
)

// corpusAll are the seeds whose variants of start-up differ; of them a test plays
// corpusSeeds, others each day, or the first SOAK_SEEDS.
const (
	corpusAll   = 1000
	corpusSeeds = 60
)

// seeds are the first seed and how many follow.
func seeds(t *testing.T) (first, n uint64) {
	if v := os.Getenv("SOAK_SEEDS"); v != "" {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return 0, n
	}
	return 327 * corpusSeeds % corpusAll, corpusSeeds // the same every day: SOAK_SEEDS has all
}

// TestEngineTracesAreNotAccused: whatever the engine says to itself, in every way
// to start up and to end, over good cables and bad, breaks no rule.
func TestEngineTracesAreNotAccused(t *testing.T) {
	t.Parallel()
	first, n := seeds(t)
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
					report := check(t, fmt.Sprint("seed ", seed), list, p.breaks()...)
					for name, worse := range degraded(r, list) {
						check(t, fmt.Sprintf("seed %d, %s", seed, name), worse, p.breaks()...)
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

// drawn is the report on a capture, with its steps.
func drawn(list []Packet) *Report {
	in := New(Options{Ladder: 1000})
	for k := range list {
		in.Packet(&list[k])
	}
	return in.Finish()
}

// breaks are the rules that the plan has its NICs break.
func (p *plan) breaks() (list []*Rule) {
	if p.side[0].IWARP.GSO || p.side[1].IWARP.GSO {
		list = append(list, mpaGSO)
	}
	if p.fault == wraps {
		list = append(list, ddpWrap)
	}
	return list
}

// check judges a conversation of peers that break no rules but those.
func check(t *testing.T, name string, list []Packet, but ...*Rule) *Report {
	t.Helper()
	r := drawn(list)
	for _, f := range r.Findings {
		if !f.Note && !slices.ContainsFunc(but, func(r *Rule) bool { return r.Clause == f.Clause && r.Says == f.Says }) {
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

// live are the fields that are altered in what a NIC sends to another.
func live() (list []*field) {
	for k := range fields {
		switch f := &fields[k]; f.name {
		case "key", "PD_Length above 512", "MPA reserved", "R of a request", "MPA revision", "CRC", "payload", "DDP version",
			"DDP reserved", "T", "L of a Read Request", "RDMAP version", "RDMAP reserved", "opcode", "Invalidate STag",
			"queue number", "MSN", "MO":
			list = append(list, f)
		}
	}
	return list
}

// TestLiveMutants: a NIC that sends one field wrong is accused of that, and the
// other, which answers with a Terminate or not at all, of nothing.
func TestLiveMutants(t *testing.T) {
	t.Parallel()
	list := live()
	first, n := seeds(t)
	seen, altered, clauses := map[string]int{}, 0, 0
	for seed := first; seed < first+n; seed++ {
		p, r := planOf(seed)
		p.cable, p.fault, p.reject, p.posts = cable{}, 0, false, p.posts+4
		for k := range p.side {
			c := &p.side[k]
			c.Frames, c.IWARP.Markers, c.IWARP.GSO, c.TCP.Params.Nagle = nic.Wire, false, false, false
		}
		crc := p.side[0].IWARP.CRC == mpa.CRCRequired || p.side[1].IWARP.CRC == mpa.CRCRequired
		f, skip := list[seed%uint64(len(list))], r.IntN(3)
		var wrong []byte
		capture, err := p.play(r, func(b []byte) []byte {
			for _, c := range places(0, []Packet{{Data: b}}, crc) {
				if wrong != nil || c.layer != f.on || f.where != nil && !f.where(&c, b[c.at:c.at+c.n]) {
					continue
				}
				if skip--; skip < 0 || f.on == onStart {
					b = mutate(f, &c, []Packet{{Data: b}}, r)[0].Data
					wrong = b
				}
			}
			return b
		})
		if err != nil {
			t.Fatal(err)
		}
		if wrong == nil {
			continue
		}
		altered++
		report := drawn(capture)
		count(seen, report)
		packet := 1 + slices.IndexFunc(capture, func(p Packet) bool { return bytes.Equal(p.Data, wrong) })
		found := fresh(report, nil)
		for k, x := range found {
			if x.Packet != packet {
				t.Errorf("seed %d, %s in packet %d: %v", seed, f.name, packet, x)
			} else if k == 0 && x.Says == f.rule.Says {
				clauses++
			}
		}
		if len(found) == 0 {
			t.Errorf("seed %d, %s in packet %d: nothing found", seed, f.name, packet)
		}
	}
	t.Logf("%d conversations, %d with the clause of the field: %v", altered, clauses, seen)
	if altered == 0 || clauses < altered*9/10 {
		t.Errorf("%d of %d with the clause of the field", clauses, altered)
	}
}
