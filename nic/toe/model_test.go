package toe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tapir/wire/tcp"
)

// modelSeeds is how many worlds TestModel plays through.
const modelSeeds = 10_000

// TestModel holds two engines against each other: faults, options, frame
// modes, sizes, the rhythm of writes and closes, falls of the path MTU and
// sources that vanish all come from the seed. In each world every octet
// arrives and both sides close, unless a source vanished, and nothing is left. A world that fails names its seed; the same seed plays
// the same trace again, octet for octet (TestModelReplays).
func TestModel(t *testing.T) {
	const parts = 8
	for part := range uint64(parts) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < modelSeeds; seed += parts {
				model(t, seed)
			}
		})
	}
}

// TestModelReplays plays some worlds twice.
func TestModelReplays(t *testing.T) {
	for seed := uint64(0); seed < modelSeeds; seed += modelSeeds / 100 {
		if model(t, seed) != model(t, seed) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
	if model(t, 1) == model(t, 2) {
		t.Fatal("the trace does not depend on the seed")
	}
}

// oneOf picks with the seed.
func oneOf[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// model plays the world of a seed and returns the hash of its trace.
func model(t *testing.T, seed uint64) (sum [32]byte) {
	r := rand.New(rand.NewPCG(seed, 99))
	defer func() {
		if t.Failed() {
			t.Logf("the world of seed %d", seed)
		}
	}()
	f := faults{
		loss: oneOf(r, 0, 1, 10, 50, 100, 200), dup: oneOf(r, 0, 0, 10, 50), reorder: oneOf(r, 0, 0, 10, 200),
		corrupt: oneOf(r, 0, 0, 10), merge: r.IntN(3) == 0,
		delay:  oneOf(r, 20*time.Microsecond, 500*time.Microsecond, 20*time.Millisecond),
		jitter: oneOf(r, 0, 0, 200*time.Microsecond),
	}
	cfg := func() Config {
		return Config{
			MTU: oneOf(r, 576, 1500, 9000), MaxSegs: oneOf(r, 1, 1, 8, 45), RcvWnd: oneOf(r, 64<<10, 1<<20),
			TailProbe: oneOf(r, 0, 0, time.Hour),
			// One segment in three gets no answer where a fifth is lost each
			// way: patience is what separates that from a dead peer.
			Retries: 40, SynRetries: 20, TimeWait: time.Hour,
			Params: Params{
				Nagle:      r.IntN(4) == 0,
				Congestion: oneOf(r, Cubic, Reno, DCTCP), ECN: oneOf(r, ECNAccept, ECNAsk),
			},
			PathMTUAge: oneOf(r, 0, time.Second),
		}
	}
	w := newWorld(t, seed, cfg(), cfg(), f, r.IntN(4) == 0)
	a, b := modelApp(r, seed), modelApp(r, seed+1)
	sack, ts, ws := r.IntN(4) > 0, r.IntN(4) > 0, r.IntN(4) > 0
	w.strip = func(o *tcp.Options) {
		o.SACKPermitted = o.SACKPermitted && sack
		o.HasTS, o.HasWS = o.HasTS && ts, o.HasWS && ws
	}
	if seed%2 == 0 {
		w.connect(runner{a.app}, b.app)
	} else {
		w.connect(a.app, b.app)
	}
	vanish := -1 // the round in which a's source goes away
	if r.IntN(16) == 0 {
		vanish = r.IntN(20)
	}
	for round := 0; !a.closed || !b.closed; round++ {
		if round == vanish && a.established && b.established {
			w.vanish(a, b)
			break
		}
		if w.now > 3600e9 {
			t.Fatalf("stuck: %+v\n%+v", a.conn.Info(), b.conn.Info())
		}
		w.run(time.Duration(r.IntN(20_000))*time.Microsecond, func() bool { return a.closed && b.closed })
		a.write(r)
		b.write(r)
		if r.IntN(20) == 0 {
			w.mtu = min(w.a.e.cfg.MTU, w.b.e.cfg.MTU, oneOf(r, 576, 600, 1280, 1400, 9000))
			if w.a.addr.Is6() {
				w.mtu = max(w.mtu, 1280)
			}
		}
	}
	if !a.vanished {
		if a.err != nil || b.err != nil {
			t.Fatal(a.err, b.err)
		}
		b.check(t, a.app)
		a.check(t, b.app)
	}
	w.runFor(time.Hour)
	w.rest()
	copy(sum[:], w.trace.Sum(nil))
	return sum
}

// writer is an application that writes in bursts and closes when it has
// written everything.
type writer struct {
	*app
	left     uint64
	closes   bool
	vanished bool
}

// vanish takes a's source away in the middle: the connection ends at once on
// this side, and soon on the other one unless the news got lost.
func (w *world) vanish(a, b *writer) {
	a.vanished = true
	a.conn.Abort()
	if !w.run(time.Second, func() bool { return a.closed }) {
		w.t.Fatal("an aborted connection lives on")
	}
	if !w.run(time.Minute, func() bool { return b.closed }) {
		b.conn.Abort()
		w.run(time.Second, func() bool { return b.closed })
	}
}

func modelApp(r *rand.Rand, seed uint64) *writer {
	w := &writer{app: newApp(0, seed), closes: true}
	w.closeOnFin = false
	if r.IntN(8) > 0 {
		w.left = r.Uint64N(1 << oneOf(r, 6, 12, 16, 18))
	}
	switch r.IntN(3) {
	case 0:
		w.record = func(off uint64) int { return 20 + int(octet(seed, off))*7 }
	case 1:
		w.record = func(off uint64) int { return 500 + int(octet(seed, off)) }
	}
	return w
}

// write makes some more octets ready, and closes behind the last.
func (w *writer) write(r *rand.Rand) {
	if !w.established || w.closed || !w.closes {
		return
	}
	n := min(w.left, r.Uint64N(128<<10))
	w.total, w.left = w.total+n, w.left-n
	w.conn.Kick()
	if w.left == 0 {
		w.conn.Close()
		w.closes = false
	}
}
