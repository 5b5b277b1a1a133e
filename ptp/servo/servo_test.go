package servo

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/ptp/clock"
	"tapir/wire/frame"
)

func build(t testing.TB, cfg Config) Servo {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConstantsFollowTheInterval(t *testing.T) {
	for _, c := range []struct {
		software         bool
		interval, kp, ki float64
	}{
		{false, 1, 0.70, 0.30}, {false, 0.125, 1.31, 0.131}, {true, 1, 0.1, 0.001}, {true, 0.0625, 0.2297, 0.00033},
		{false, 16, 0.04375, 0.01875}, // bounded by the interval
	} {
		p := newPI(Config{Software: c.software})
		p.SetInterval(c.interval)
		if math.Abs(p.kp/c.kp-1) > 0.01 || math.Abs(p.ki/c.ki-1) > 0.01 {
			t.Errorf("%+v: kp %v ki %v", c, p.kp, p.ki)
		}
	}
	p := newPI(Config{Kp: 0.5, Ki: 0.2})
	if p.kp != 0.5 || p.ki != 0.2 {
		t.Errorf("given constants: %v %v", p.kp, p.ki)
	}
}

// Frequency estimation takes as long as linuxptp's.
func TestEstimationTime(t *testing.T) {
	for _, c := range []struct {
		software bool
		interval time.Duration
		seconds  float64
	}{{true, time.Second, 16}, {true, time.Second / 16, 48.5}, {false, time.Second, 1}, {false, time.Second / 8, 0.125}} {
		s := build(t, Config{Software: c.software})
		s.SetInterval(c.interval.Seconds())
		local, state := frame.Stamp(0), Unlocked
		for ; state == Unlocked && local < 1e12; local += frame.Stamp(c.interval) {
			_, state = s.Sample(5, local, 1)
		}
		if got := float64(local-frame.Stamp(c.interval)) / 1e9; math.Abs(got-c.seconds) > 0.1 {
			t.Errorf("%+v: locked after %v s", c, got)
		}
	}
}

// loop runs a servo against a clock and returns the states and the last
// offsets.
func loop(t testing.TB, s Servo, cfg clock.Config, interval time.Duration, samples int) (states []State, offsets []float64) {
	t.Helper()
	p, err := clock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.SetInterval(interval.Seconds())
	for i := range samples {
		now := frame.Time(i+1) * frame.Time(interval)
		stamp := p.At(now)
		offset := float64(int64(stamp) - int64(now))
		ppb, state := s.Sample(offset, stamp, 1)
		switch state {
		case Jump:
			p.AdjTime(now, time.Duration(-offset))
			fallthrough
		case Locked, LockedStable:
			if err := p.AdjFine(now, -int64(ppb*65.536)); err != nil {
				t.Fatal(err)
			}
		}
		states = append(states, state)
		offsets = append(offsets, p.Exact(now).Sub(clock.Exact{NS: int64(now)}))
	}
	return states, offsets
}

func rms(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum / float64(len(v)))
}

func TestServosLock(t *testing.T) {
	for _, c := range []struct {
		kind     Kind
		interval time.Duration
		states   []State // at the start
		rms      float64
	}{
		{KindPI, time.Second, []State{Unlocked, Jump, Locked}, 3},
		{KindPI, time.Second / 8, []State{Unlocked, Jump, Locked}, 1.5},
		{KindLinReg, time.Second, []State{Unlocked, Unlocked, Unlocked, Jump, Locked}, 4},
		{KindLinReg, time.Second / 8, []State{Unlocked, Unlocked, Unlocked, Jump, Locked}, 1.5},
	} {
		o := clock.Oscillator{PPB: 37_000, RandomWalkFM: 1, Seed: 7}
		states, offsets := loop(t, build(t, Config{Kind: c.kind, FirstStep: DefaultFirstStep}),
			clock.Config{Oscillator: o, Initial: 1_230_000}, c.interval, 900)
		for i, want := range c.states {
			if states[i] != want {
				t.Errorf("%v at %v: states %v", c.kind, c.interval, states[:8])
				break
			}
		}
		if got := rms(offsets[300:]); got > c.rms {
			t.Errorf("%v at %v: rms %.2f ns", c.kind, c.interval, got)
		}
	}
}

func TestSmallFirstOffsetIsSlewed(t *testing.T) {
	for _, kind := range []Kind{KindPI, KindLinReg} {
		states, offsets := loop(t, build(t, Config{Kind: kind, FirstStep: DefaultFirstStep}), clock.Config{Initial: 15_000}, time.Second, 60)
		for _, s := range states {
			if s == Jump {
				t.Fatalf("%v stepped 15 us", kind)
			}
		}
		if got := offsets[len(offsets)-1]; math.Abs(got) > 5 {
			t.Errorf("%v: %v ns left", kind, got)
		}
	}
}

// A later step happens only beyond its own threshold, and by way of s0.
func TestStepThreshold(t *testing.T) {
	for _, kind := range []Kind{KindPI, KindLinReg} {
		for _, step := range []float64{0, 1000} {
			s := build(t, Config{Kind: kind, FirstStep: 100, Step: step})
			local := frame.Stamp(0)
			sample := func(offset float64) State {
				local += 1e9
				_, state := s.Sample(offset, local, 1)
				return state
			}
			for range 8 {
				sample(0)
			}
			if got := sample(999); got != Locked {
				t.Errorf("%v below the threshold: %v", kind, got)
			}
			got := sample(1_000_000)
			for i := 0; i < 4 && got == Unlocked; i++ {
				got = sample(1_000_000)
			}
			if want := map[bool]State{true: Jump, false: Locked}[step > 0]; got != want {
				t.Errorf("%v, step threshold %v: %v, want %v", kind, step, got, want)
			}
		}
	}
}

func TestStableState(t *testing.T) {
	s := build(t, Config{StableOffset: 10, StableCount: 3})
	local := frame.Stamp(0)
	var got []State
	for _, offset := range []float64{0, 0, 0, 0, 0, 0, 11, 0, 0, 0} {
		local += 1e9
		_, state := s.Sample(offset, local, 1)
		got = append(got, state)
	}
	want := []State{Unlocked, Locked, Locked, LockedStable, LockedStable, LockedStable, Locked, Locked, Locked, LockedStable}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("states %v, want %v", got, want)
		}
	}
}

func TestNullLeavesTheClockAlone(t *testing.T) {
	s := build(t, Config{Kind: KindNull})
	for i := range frame.Stamp(10) {
		if ppb, state := s.Sample(1e6, i*1e9, 1); ppb != 0 || state != Locked {
			t.Fatalf("%v %v", ppb, state)
		}
	}
}

// Whatever is measured, the correction is a number within the limit.
func TestCorrectionsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Float64Range(1, 1e9).Draw(t, "limit")
		s, err := New(Config{Kind: Kind(rapid.IntRange(0, 2).Draw(t, "kind")), MaxFrequency: min(limit, 9e8), FirstStep: 20_000,
			Step: rapid.SampledFrom([]float64{0, 1e6}).Draw(t, "step")})
		if err != nil {
			t.Fatal(err)
		}
		local := frame.Stamp(0)
		for range 80 {
			local += frame.Stamp(rapid.Int64Range(-1e9, 4e9).Draw(t, "elapsed"))
			ppb, state := s.Sample(rapid.Float64Range(-1e14, 1e14).Draw(t, "offset"), local, 1)
			if math.IsNaN(ppb) || math.Abs(ppb) > limit || state > LockedStable {
				t.Fatalf("%v ppb, %v", ppb, state)
			}
		}
	})
}

func TestRefusedConfigs(t *testing.T) {
	for i, cfg := range []Config{{Kind: 9}, {Kp: -1}, {Step: math.NaN()}, {FirstStep: math.Inf(1)}, {Frequency: 1e10}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("config %d was accepted", i)
		}
	}
	for k := KindPI; k <= KindNull; k++ {
		if got, err := ParseKind(k.String()); err != nil || got != k {
			t.Errorf("%v: %v %v", k, got, err)
		}
	}
	if _, err := ParseKind("kalman"); err == nil {
		t.Error("a servo that there is not")
	}
}

func TestExpLog(t *testing.T) {
	for _, x := range []float64{1e-9, 0.0078125, 0.5, 0.7, 1, 1.4, 2, 16, 1e6} {
		if got := log(x); math.Abs(got-math.Log(x)) > 1e-13*max(1, math.Abs(got)) {
			t.Errorf("log %v = %v", x, got)
		}
		if got := pow(x, 0.4); math.Abs(got/math.Pow(x, 0.4)-1) > 1e-12 {
			t.Errorf("%v^0.4 = %v", x, got)
		}
	}
}
