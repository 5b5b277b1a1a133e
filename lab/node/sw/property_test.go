package sw

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tapir/nic/linkmode"
	"tapir/wire/frame"
	"tapir/wire/pause"
)

// Whatever the shares, rates and lengths: classes together never pass the line, and fill it if
// one of them may; no class passes its rate; full ETS classes without a rate share what the
// others leave by weight, within a point.
func TestSharesProperty(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 16 {
		var weights [3]uint8
		var octets [3]int
		left := 100
		for tc := range weights[:2] {
			if weights[tc] = uint8(1 + rng.IntN(left-2+tc)); tc == 1 {
				weights[tc] = uint8(left)
			}
			left -= int(weights[tc])
		}
		cfg := classes(weights[:2]...) // class 2 is strict
		for tc := range octets {
			if octets[tc] = 64 + rng.IntN(1400); rng.IntN(4) == 0 {
				octets[tc] = 0
			}
			if tc == 2 || rng.IntN(2) == 0 {
				cfg.MaxRate[tc] = 500 + rng.IntN(4000)
			}
		}
		f := newFabric(t, 5, linkmode.Speed10G, cfg)
		for prio, n := range octets {
			if n > 0 {
				f.add(prio, prio, n)
			}
		}
		f.pass(time.Millisecond)
		f.wires[4].take()
		const measured = 4 * time.Millisecond
		f.pass(measured)
		got := octetsOf(f.wires[4].take())
		line := measured.Seconds() * 10e9 / 8
		sum, weight, shared, unlimited := 0.0, 0.0, 0.0, false
		for tc, n := range octets {
			sum += got[tc]
			if most := float64(cfg.MaxRate[tc]) / 10_000 * line; most > 0 && got[tc] > most+burst+2000 {
				t.Errorf("%v of %v, rates %v: class %d sent %.0f octets, at most %.0f", octets, weights, cfg.MaxRate, tc, got[tc], most)
			}
			if n > 0 && cfg.MaxRate[tc] == 0 {
				unlimited = true
				if tc < 2 {
					weight, shared = weight+float64(weights[tc]), shared+got[tc]
				}
			}
		}
		if sum > line+2000 || unlimited && sum < 0.99*line {
			t.Errorf("%v of %v, rates %v: %.1f %% of the line", octets, weights, cfg.MaxRate, 100*sum/line)
		}
		for tc, n := range octets[:2] {
			if want := shared * float64(weights[tc]) / weight; n > 0 && cfg.MaxRate[tc] == 0 && math.Abs(got[tc]-want) > line/100 {
				t.Errorf("%v of %v, rates %v: class %d has %.1f %%, want %.1f", octets, weights, cfg.MaxRate, tc,
					100*got[tc]/line, 100*want/line)
			}
		}
	}
}

// Whatever PFC frames come, one that ends a pause or makes it longer or shorter: no frame of the
// priority leaves during a pause, and the first leaves when its quanta are over.
func TestPauseProperty(t *testing.T) {
	const octets = 1500
	const one = (octets + gap) * 8 / 10 * time.Nanosecond // of the line at 10 Gb/s
	rng := rand.New(rand.NewPCG(7, 8))
	f := newFabric(t, 3, linkmode.Speed10G, lossless())
	f.wires[2].room = 1 << 30
	var until frame.Time
	held := 0
	for range 2000 {
		for range 40 - f.s.ClassCounts(2)[3].Queued {
			f.send(0, tagged(host(2), host(1), 3, octets))
		}
		if rng.IntN(3) == 0 {
			quanta := uint16(rng.IntN(400)) // 20 µs at most
			if rng.IntN(4) == 0 {
				quanta = 0
			}
			f.pfc(2, nil, map[int]uint16{3: quanta})
			until = f.now.Add(pause.Duration(quanta, 10_000))
		}
		free := max(until, f.now)
		f.run(time.Duration(rng.IntN(15_000)))
		got := f.wires[2].take()
		for _, x := range got {
			if x.at < until {
				t.Fatalf("a frame left at %v, in a pause until %v", x.at, until)
			}
		}
		if len(got) == 0 && f.now.Sub(free) > one {
			t.Fatalf("nothing left from %v to %v: the pause was over at %v", free, f.now, until)
		}
		if len(got) == 0 {
			held++
		}
	}
	if held < 200 || f.s.PriorityCounts(2)[3].TxFrames < 2000 {
		t.Errorf("held %d times, %d frames left", held, f.s.PriorityCounts(2)[3].TxFrames)
	}
}
