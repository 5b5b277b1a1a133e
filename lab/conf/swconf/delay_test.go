package swconf

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Delays have the distribution that was asked for, the same for one seed.
func TestDelays(t *testing.T) {
	for text, want := range map[string]struct{ min, max, mean time.Duration }{
		"0":             {},
		"250us":         {250 * time.Microsecond, 250 * time.Microsecond, 250 * time.Microsecond},
		"0-500us":       {0, 500 * time.Microsecond, 250 * time.Microsecond},
		"100us-300us":   {100 * time.Microsecond, 300 * time.Microsecond, 200 * time.Microsecond},
		"exp:10us":      {0, math.MaxInt64, 10 * time.Microsecond},
		"exp:5us+100us": {5 * time.Microsecond, math.MaxInt64, 105 * time.Microsecond},
		"gauss:10us":    {0, 80 * time.Microsecond, 7979 * time.Nanosecond}, // root of 2/pi
	} {
		d, err := ParseDelay(text)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseDelay(d.String()); err != nil || again != d {
			t.Errorf("%s: %v is read as %v", text, d, again)
		}
		const n = 20000
		var sum time.Duration
		beyond := 0 // twice the mean
		rng, twin := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
		for range n {
			v := d.Draw(rng)
			if v < want.min || v > want.max || v != d.Draw(twin) {
				t.Fatalf("%s: %v", text, v)
			}
			if v-d.Min > 2*(want.mean-d.Min) {
				beyond++
			}
			sum += v
		}
		if mean := sum / n; (mean - want.mean).Abs() > want.mean/40 {
			t.Errorf("%s: mean %v", text, mean)
		}
		// e^-2 of exponential delays are that long, and what is beyond 1.596
		// deviations of a normal distribution.
		tail := map[Distribution]float64{Exponential: 0.1353, Gaussian: 0.1105}
		if share := float64(beyond) / n; tail[d.Dist] > 0 && math.Abs(share-tail[d.Dist]) > 0.01 {
			t.Errorf("%s: %v beyond twice the mean", text, share)
		}
	}
	for _, bad := range []string{"", "x", "5", "-1us", "5us-1us", "exp:", "exp:0s", "exp:-1us", "exp:1us+", "log:1us", "1us-2us-3us"} {
		if d, err := ParseDelay(bad); err == nil {
			t.Errorf("%q is read as %v", bad, d)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	two := []PortConfig{{TAP: "tap0"}, {TAP: "tap1"}}
	for want, c := range map[string]Config{
		"2 to 4096":                       {Ports: two[:1]},
		"called tap0":                     {Ports: append(two[:1:1], two[0])},
		"another mode":                    {Ports: two, OneStep: true},
		"follows its":                     {Ports: two, Mode: Boundary, Syntonize: true},
		"never":                           {Ports: two, GroupFwdMask: 1},
		"queue":                           {Ports: two, Queue: 1 << 17},
		"ecn_kmin 5 is beyond ecn_kmax 4": {Ports: two, ECN: ECN{Kmin: 5, Kmax: 4}},
		"port tap0: ecn_kmin 5":           {Ports: []PortConfig{{TAP: "tap0", ECN: ECN{Kmax: 4}}, two[1]}, ECN: ECN{Kmin: 5, Kmax: 9}},
		"at most 15":                      {Ports: append(two[:1:1], PortConfig{TAP: "a-name-that-is-too-long"})},
		"mode 9":                          {Ports: two, Mode: 9},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
