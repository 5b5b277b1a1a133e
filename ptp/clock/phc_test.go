package clock

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/wire/frame"
)

func make37(t testing.TB, cfg Config) *PHC {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func preset(t testing.TB, name string, seed uint64) Oscillator {
	t.Helper()
	o, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	o.Seed = seed
	return o
}

func TestConstantOffset(t *testing.T) {
	p := make37(t, Config{Oscillator: Oscillator{PPB: 37000}, Start: 5, Initial: 1_000_000_000_000_000_000})
	day := frame.Time(24 * time.Hour)
	got := p.At(5+day) - 1_000_000_000_000_000_000
	if want := frame.Stamp(day + day/1_000_000*37); got-want > 1 || want-got > 1 {
		t.Fatalf("after a day %d, want %d", got, want)
	}
}

// A reading leaves nothing behind, however it is made and in what order.
func TestReadingsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Oscillator: Oscillator{PPB: 1000, WhiteFM: 1, FlickerFM: 1, RandomWalkFM: 1, Temperature: 9, Period: time.Minute, Seed: rapid.Uint64().Draw(t, "seed")},
			Quantum:    time.Duration(rapid.SampledFrom([]int{1, 8, 16}).Draw(t, "quantum")), Jitter: 3,
			DriftRegister: rapid.Bool().Draw(t, "drift"),
		}
		quiet, _ := New(cfg)
		asked, _ := New(cfg)
		now := frame.Time(0)
		for range rapid.IntRange(1, 20).Draw(t, "operations") {
			now += frame.Time(rapid.Int64Range(0, int64(300*time.Millisecond)).Draw(t, "wait"))
			for range rapid.IntRange(0, 5).Draw(t, "readings") {
				at := now + frame.Time(rapid.Int64Range(-int64(time.Second), 0).Draw(t, "when"))
				asked.At(at)
				asked.Now(at)
				asked.Exact(at)
				asked.CrossTimestamp(at)
				asked.NextPPS(at)
			}
			switch adj := rapid.Int64Range(-1e9, 1e9).Draw(t, "adj"); rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				quiet.AdjFine(now, adj)
				asked.AdjFine(now, adj)
			case 1:
				quiet.AdjTime(now, time.Duration(adj))
				asked.AdjTime(now, time.Duration(adj))
			case 2:
				quiet.SetTime(now, frame.Stamp(adj))
				asked.SetTime(now, frame.Stamp(adj))
			case 3:
				quiet.ResetCounter(now)
				asked.ResetCounter(now)
			}
			if a, b := quiet.Exact(now), asked.Exact(now); a != b {
				t.Fatalf("at %d: %v, and %v when asked before", now, a, b)
			}
			if a, b := quiet.At(now), asked.At(now); a != b {
				t.Fatalf("at %d: stamp %v, and %v when asked before", now, a, b)
			}
		}
	})
}

// What a clock showed before it was steered can be asked for afterwards.
func TestLateReadings(t *testing.T) {
	p := make37(t, Config{Oscillator: preset(t, "xo", 3), Quantum: 8, Jitter: 4})
	type reading struct {
		at    frame.Time
		stamp frame.Stamp
	}
	var seen []reading
	for i := range frame.Time(100) {
		now := i * frame.Time(3*time.Millisecond)
		seen = append(seen, reading{now, p.At(now)})
		switch i % 10 {
		case 4:
			p.AdjFine(now+1, int64(i)*65536)
		case 8:
			p.AdjTime(now+1, time.Duration(i)*time.Hour)
		}
	}
	for _, r := range seen {
		if got := p.At(r.at); got != r.stamp {
			t.Errorf("at %d: %d then, %d later", r.at, r.stamp, got)
		}
	}
}

// The steered clock is continuous under changes of frequency and monotonic.
func TestContinuity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := New(Config{Oscillator: Oscillator{PPB: -5e5, WhiteFM: 2, Seed: 1}})
		now, last := frame.Time(0), Exact{}
		for range 50 {
			step := rapid.Int64Range(0, int64(40*time.Millisecond)).Draw(t, "step")
			now += frame.Time(step)
			e := p.Exact(now)
			if d := e.Sub(last); d < float64(step)*0.7 || d > float64(step)*1.3+1 {
				t.Fatalf("%v ns of engine time, %v ns of the clock", step, d)
			}
			p.AdjFreq(now, rapid.Int64Range(-MaxAdj, MaxAdj).Draw(t, "ppb"))
			if p.Exact(now) != e {
				t.Fatalf("a change of frequency moved the clock")
			}
			last = e
		}
	})
}

func TestSetAndAdjust(t *testing.T) {
	p := make37(t, Config{Oscillator: preset(t, "xo", 1), Quantum: 16, Jitter: 0})
	now := frame.Time(12_345_678)
	counter := p.Counter(now)
	if err := p.SetTime(now, 1_700_000_000_123_456_789); err != nil || p.Now(now) != 1_700_000_000_123_456_789 {
		t.Fatalf("shows %d, %v", p.Now(now), err)
	}
	if err := p.AdjTime(now, -24*time.Hour); err != nil || p.Now(now) != 1_700_000_000_123_456_789-frame.Stamp(24*time.Hour) {
		t.Fatalf("shows %d, %v", p.Now(now), err)
	}
	if p.Counter(now) != counter {
		t.Fatal("a change of time moved the counter")
	}
	if err := p.SetTime(now, math.MaxInt64-10); err != nil {
		t.Fatal(err)
	}
	if err := p.AdjTime(now, 11); !errors.Is(err, ErrRange) {
		t.Fatalf("moved beyond the end of time: %v", err)
	}
	for _, ppb := range []int64{MaxAdj + 1, -MaxAdj - 1} {
		if err := p.AdjFreq(now, ppb); !errors.Is(err, ErrRange) {
			t.Errorf("%d ppb: %v", ppb, err)
		}
	}
	if err := p.AdjFreq(now, MaxAdj); err != nil || p.Frequency() != MaxAdj*65536/1000 {
		t.Errorf("largest correction: %v, reads %d", err, p.Frequency())
	}
}

func TestResetCounter(t *testing.T) {
	p := make37(t, Config{Initial: 1000})
	p.ResetCounter(500)
	if c, n := p.Counter(700), p.Now(700); c != 200 || n != 1700 {
		t.Fatalf("counter %d, clock %d", c, n)
	}
}

func TestGetTimeX(t *testing.T) {
	p := make37(t, Config{Initial: 100, ReadTime: 40})
	if x := p.GetTimeX(10); x != (TimeX{Before: 10, PHC: 130, After: 50}) {
		t.Fatalf("%+v", x)
	}
	if system, device := p.CrossTimestamp(10); system != 10 || device != 110 {
		t.Fatalf("%d %d", system, device)
	}
}

func TestPPS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Oscillator{PPB: rapid.Float64Range(-1e5, 1e5).Draw(t, "ppb")}
		if rapid.Bool().Draw(t, "noisy") {
			o.WhiteFM, o.RandomWalkFM = 5, 5
		}
		p, _ := New(Config{Oscillator: o, Initial: frame.Stamp(rapid.Int64Range(-1e12, 1e12).Draw(t, "initial"))})
		now := frame.Time(rapid.Int64Range(0, 3e9).Draw(t, "now"))
		ppb := rapid.Int64Range(-MaxAdj, MaxAdj).Draw(t, "steered")
		p.AdjFreq(now, ppb)
		shown := p.Now(now) // later the clock has gone on
		edge := p.NextPPS(now)
		before, after := p.Now(edge-1), p.Now(edge)
		sec := func(s frame.Stamp) int64 { return int64(math.Floor(float64(s) / 1e9)) }
		if edge <= now || sec(after) != sec(shown)+1 || sec(before) != sec(shown) {
			t.Fatalf("edge at %d (now %d): %d then %d", edge, now, before, after)
		}
	})
	if _, err := make37(t, Config{}).NextEdge(0, 0, 0); err == nil {
		t.Fatal("an output without a period")
	}
}

func TestExtTS(t *testing.T) {
	p := make37(t, Config{Initial: 1000})
	p.Edge(3, 1) // not enabled
	if err := p.EnableExtTS(3, true); err != nil {
		t.Fatal(err)
	}
	if err := p.EnableExtTS(ExtChannels, true); err == nil {
		t.Fatal("an input too many")
	}
	for i := range frame.Time(extQueue + 2) {
		p.Edge(3, 10+i)
		p.Edge(4, 10+i)
	}
	if e, ok := p.NextExtTS(); !ok || e != (ExtTS{3, 1012}) || p.ExtOverwritten() != 2 {
		t.Fatalf("%+v %v, %d overwritten", e, ok, p.ExtOverwritten())
	}
	n := 1
	for ok := true; ok; n++ {
		_, ok = p.NextExtTS()
	}
	if n-1 != extQueue {
		t.Fatalf("%d events", n-1)
	}
}

func TestQuantumAndJitter(t *testing.T) {
	p := make37(t, Config{Oscillator: Oscillator{PPB: 123}, Quantum: 16, Jitter: 30})
	var sum, squares float64
	const n = 20000
	for i := range frame.Time(n) {
		now := i * 1_000_003
		if p.At(now)%16 != 0 || p.Now(now)%16 != 0 {
			t.Fatalf("stamp %d", p.At(now))
		}
		d := float64(p.At(now)) + 7.5 - float64(p.Exact(now).NS)
		sum, squares = sum+d, squares+d*d
	}
	want := math.Sqrt(30*30 + 16*16/12.0)
	if mean, sd := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 1 || math.Abs(sd/want-1) > 0.03 {
		t.Fatalf("mean %.2f, deviation %.2f, want %.2f", mean, sd, want)
	}
}

func TestRefusedConfigs(t *testing.T) {
	for i, cfg := range []Config{
		{Oscillator: Oscillator{PPB: math.NaN()}}, {Oscillator: Oscillator{PPB: 2e8}}, {Oscillator: Oscillator{WhiteFM: -1}},
		{Oscillator: Oscillator{Temperature: 1}}, {Quantum: -1}, {Jitter: -1}, {Jitter: math.NaN()}, {MaxAdj: -1},
		{MaxAdj: MaxAdj + 1, DriftRegister: true}, {ReadTime: -1},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("config %d was accepted", i)
		}
	}
	if _, err := Preset("rubidium"); err == nil {
		t.Error("a preset that there is not")
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	p := make37(t, Config{Oscillator: preset(t, "xo", 1), Jitter: 2, DriftRegister: true})
	now := frame.Time(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 62_500_000
		p.At(now)
		p.NextPPS(now)
		p.AdjFine(now, int64(now%1000))
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkStamp(b *testing.B) {
	p := make37(b, Config{Oscillator: preset(b, "xo", 1), Quantum: 8, Jitter: 4})
	b.ReportAllocs()
	now := frame.Time(0)
	for b.Loop() {
		now += 100
		p.At(now)
	}
}

func BenchmarkAdvance62ms(b *testing.B) {
	p := make37(b, Config{Oscillator: preset(b, "xo", 1)})
	now := frame.Time(0)
	for b.Loop() {
		now += 62_500_000
		p.At(now)
	}
}
