package clock

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/wire/frame"
)

func driftPPB(r DriftRegister) float64 { return float64(r.Value()) / float64(r.Period()) * 1e9 }

// The register comes as near to a correction as the device can.
func TestDriftResolution(t *testing.T) {
	for _, c := range []struct{ upTo, worst float64 }{{10, 1e-6}, {1000, 2e-3}, {50_000, 3}, {1_000_000, 1200}} {
		rapid.Check(t, func(t *rapid.T) {
			ppb := int64(rapid.Float64Range(1, c.upTo).Draw(t, "ppb"))
			if rapid.Bool().Draw(t, "slower") {
				ppb = -ppb
			}
			r := Drift(int64(math.Round(float64(ppb) * 65.536)))
			asked := math.Round(float64(ppb)*65.536) / 65.536
			if miss := math.Abs(driftPPB(r) - asked); miss > c.worst {
				t.Fatalf("%d ppb: register %#x makes %v", ppb, uint32(r), driftPPB(r))
			}
		})
	}
}

func TestDriftIsTheNearest(t *testing.T) {
	for _, scaled := range []int64{1, 7, 65, 66, 65536, -65536, 37 * 65536, 900 * 65536, -250_000 * 65536} {
		best := Drift(scaled)
		want := float64(scaled) / 65.536
		for v := DriftRegister(1); v <= 7; v++ {
			exact := (float64(v)*1e9/math.Abs(want) - 8) / 16
			for d := -3.0; d <= 3; d++ {
				n := math.Max(1, math.Min(driftPeriods, math.Floor(exact)+d))
				r := best&driftFaster | v<<28 | DriftRegister(n)
				if math.Abs(driftPPB(r)-want) < math.Abs(driftPPB(best)-want)*(1-1e-9) {
					t.Errorf("%d: %#x (%v) is nearer than %#x (%v)", scaled, uint32(r), driftPPB(r), uint32(best), driftPPB(best))
				}
			}
		}
	}
	if got := driftPPB(Drift(MaxAdj * 65536 / 1000)); math.Abs(got-7e9/24) > 1 {
		t.Errorf("largest correction: %v", got)
	}
	if r := Drift(0); r.Value() != 0 {
		t.Errorf("no correction: %#x", uint32(r))
	}
}

func TestDriftSequence(t *testing.T) {
	p := make37(t, Config{DriftRegister: true})
	if err := p.AdjFreq(0, 291_666_666); err != nil {
		t.Fatal(err)
	}
	if got := p.Exact(24_000).Sub(Exact{NS: 31_000}); math.Abs(got) > 1e-6 {
		t.Fatalf("7 ns in 24: %v beside 31000", got)
	}
	if err := p.DriftWrite(0); !errors.Is(err, ErrDriftReset) {
		t.Fatalf("written while it ran: %v", err)
	}
	p.DriftReset(24_000)
	if !p.DriftInReset() || math.Abs(p.Exact(25_000).Sub(Exact{NS: 32_000})) > 1e-6 {
		t.Fatalf("in reset: %v", p.Exact(25_000))
	}
	slower := DriftRegister(1<<28 | 12) // 1 ns in 200
	if err := p.DriftWrite(slower); err != nil {
		t.Fatal(err)
	}
	p.DriftRelease(25_000)
	if p.DriftInReset() || p.DriftRead() != slower || math.Abs(p.Exact(27_000).Sub(Exact{NS: 33_990})) > 1e-6 {
		t.Fatalf("released: %v", p.Exact(27_000))
	}
}

func TestDriftIsUsed(t *testing.T) {
	const ppb = 1_000_000 // the register is off by hundreds here
	free, device := make37(t, Config{}), make37(t, Config{DriftRegister: true})
	free.AdjFreq(0, ppb)
	device.AdjFreq(0, ppb)
	sec := frame.Time(time.Second)
	for p, want := range map[*PHC]float64{free: ppb, device: driftPPB(Drift(ppb * 65536 / 1000))} {
		if got := p.Exact(sec).Sub(Exact{NS: int64(sec)}); math.Abs(got-want) > 1e-3 || math.Abs(p.Rate(sec)-want) > 1e-3 {
			t.Errorf("gained %v ns in a second at a rate of %v ppb, want %v", got, p.Rate(sec), want)
		}
	}
}

// The words that the driver core writes, of corrections that scaled ppm can
// express.
//
// PT-05
func TestDriftVectors(t *testing.T) {
	for ppb, want := range map[int64]DriftRegister{
		0: 0x0fffffff, 1000: 0x7006acfc, 10_000: 0x7000aae6, 100_000: 0x70001117, 1_000_000: 0x700001b5, 100_000_000: 0x40000002,
	} {
		scaled := ppb * 65536 / 1000
		if got := Drift(scaled) &^ driftFaster; got != want {
			t.Errorf("%d ppb: %#x, want %#x", ppb, uint32(got), uint32(want))
		}
		if ppb != 0 && Drift(scaled)&driftFaster == Drift(-scaled)&driftFaster {
			t.Errorf("%d ppb: both directions are one", ppb)
		}
	}
	if Drift(65536)&driftFaster == 0 || driftFaster != 1<<31 {
		t.Error("bit 31 is not that of faster")
	}
}
