package discipline

import (
	"math"
	"testing"
	"time"

	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/wire/frame"
)

const ns = msg.TimeInterval(1 << 16)

func config() Config {
	return Config{Config: servo.DefaultConfig(), DelayFilterLength: 1, SanityFreqLimit: 1_000_000}
}

func newDiscipline(t *testing.T, change func(*Config)) *Discipline {
	t.Helper()
	cfg := config()
	if change != nil {
		change(&cfg)
	}
	d, err := New(cfg, 100_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPathDelay: with both clocks at the same rate, the delay is known with the
// first Sync whose rate is, also for an exchange made before it, and has the
// corrections of all messages.
func TestPathDelay(t *testing.T) {
	d := newDiscipline(t, nil)
	if !d.Delay(1, 2, 0) {
		t.Error("an exchange before any Sync is a fault")
	}
	d.Sync(Sync{1000, 5000 + 500 + 30, 30 * ns}) // the slave is 4000 ahead; 500 ns away
	d.Delay(7000, 3000+500+20, 20*ns)
	if _, ok := d.MeanDelay(); ok {
		t.Fatal("a delay before the rate of the master is known")
	}
	d.Sync(Sync{2000, 6500, 0})
	if got, ok := d.MeanDelay(); !ok || got < 499*ns || got > 501*ns {
		t.Errorf("delay %v, %v", got, ok)
	}
	if d.Delay(1<<60, 0, 0) {
		t.Error("an exchange over years is computed with")
	}
	if d.Delay(7000, 3500, msg.MaxInterval) {
		t.Error("an infinite correction is computed with")
	}
}

// TestPathDelayRatio: 100 ppm between the clocks and 10 ms between Sync and
// Delay_Req would make half a microsecond.
func TestPathDelayRatio(t *testing.T) {
	const ratio = 1.0001 // our clock runs faster
	ours := func(at float64) frame.Stamp { return frame.Stamp(at * ratio) }
	d := newDiscipline(t, nil)
	d.Sync(Sync{0, ours(500), 0})
	d.Sync(Sync{1e9, ours(1e9 + 500), 0})
	d.Delay(ours(1.01e9), 1.01e9+500, 0)
	if got, _ := d.MeanDelay(); got < 498*ns || got > 502*ns {
		t.Errorf("delay %v", got)
	}
}

// TestOffset: exact to a fraction of a nanosecond nearby, whole far away, and
// refused where it overflows.
func TestOffset(t *testing.T) {
	for _, tc := range []struct {
		sync  Sync
		delay msg.TimeInterval
		ns    int64
		exact float64
		ok    bool
	}{
		{Sync{1000, 1500, ns / 2}, 499 * ns, 0, 0.5, true},
		{Sync{1000, 1400, 0}, 500 * ns, -100, -100, true},
		{Sync{0, 1 << 60, 0}, 500 * ns, 1<<60 - 500, 1<<60 - 500, true},
		{Sync{math.MaxInt64, math.MinInt64, 0}, 0, 0, 0, false},
		{Sync{math.MinInt64, math.MaxInt64, 0}, 0, 0, 0, false},
	} {
		got, ok := tc.sync.Offset(tc.delay)
		if ok != tc.ok || ok && (got.NS != tc.ns || got.Exact != tc.exact) {
			t.Errorf("%+v less %v: %+v, %v", tc.sync, tc.delay, got, ok)
		}
	}
	far, _ := (&Sync{0, 1 << 60, 0}).Offset(0)
	if far.Interval != msg.MaxInterval {
		t.Errorf("interval %v", far.Interval)
	}
}

// sample gives an offset and returns the correction.
func sample(d *Discipline, at *frame.Stamp, ns float64) (float64, servo.State) {
	*at += 1_000_000_000
	return d.Sample(Offset{int64(ns), ns, msg.TimeInterval(ns) << 16}, *at)
}

// TestHoldover: what a clock runs on with is the mean of the corrections while
// it followed closely, not the last one.
func TestHoldover(t *testing.T) {
	d := newDiscipline(t, nil)
	at := frame.Stamp(0)
	sample(d, &at, 0)
	if ppb, s := sample(d, &at, 10_000); s != servo.Locked || math.Abs(ppb+10_000) > 1 {
		t.Fatalf("%v, %v", ppb, s) // 10 us in a second: 10 ppm fast
	}
	for i := range 20 {
		sample(d, &at, float64(10*(i%2))-5)
	}
	close := d.Frequency()
	sample(d, &at, 5_000_000) // something is wrong
	if ppb := d.Frequency(); ppb > close-1_000_000 {
		t.Errorf("the servo corrects by %v", ppb)
	}
	if ppb := d.Release(); math.Abs(ppb+10_000) > 50 || d.Frequency() != ppb || d.State() != servo.Unlocked {
		t.Errorf("runs on with %v, %v", ppb, d.State())
	}
	// The servo goes on from there.
	sample(d, &at, 0)
	if ppb, _ := sample(d, &at, 0); math.Abs(ppb+10_000) > 50 {
		t.Errorf("with no offset it corrects by %v", ppb)
	}
}

// TestImplausible: a correction far from the last that is followed by a large
// offset was wrong, and is not held over.
func TestImplausible(t *testing.T) {
	d := newDiscipline(t, nil)
	at := frame.Stamp(0)
	sample(d, &at, 50_000_000)
	if ppb, s := sample(d, &at, 10); s != servo.Locked || ppb < 40_000_000 {
		t.Fatalf("%v, %v", ppb, s)
	}
	sample(d, &at, 50_000_000)
	if ppb := d.Release(); ppb != 0 {
		t.Errorf("runs on with %v", ppb)
	}
}

// TestSane: a clock may run off by the limit, besides what it is corrected by.
func TestSane(t *testing.T) {
	for off, want := range map[float64]bool{0: true, 900e-6: true, -900e-6: true, 1100e-6: false, -1100e-6: false, -2: false} {
		d := newDiscipline(t, nil)
		d.Sane(0, 0)
		if !d.Sane(1, 1) {
			t.Error("nothing can be told of 1 ns")
		}
		rx := frame.Stamp(1e9 + off*1e9)
		if got := d.Sane(rx, frame.Time(time.Second)); got != want {
			t.Errorf("off by %v: %v", off, got)
		}
	}
	d := newDiscipline(t, func(c *Config) { c.SanityFreqLimit = 0 })
	d.Sane(0, 0)
	if !d.Sane(1<<60, frame.Time(time.Second)) {
		t.Error("a check that is off finds something")
	}
}

// TestLucky: of four Syncs the least delayed is used, with its own times.
func TestLucky(t *testing.T) {
	d := newDiscipline(t, func(c *Config) { c.Lucky = 4 })
	for i, delay := range []frame.Stamp{900, 500, 700, 800} {
		at := frame.Stamp(i * 1000)
		s, ok := d.Sync(Sync{at, at + delay, 0})
		if ok != (i == 3) {
			t.Fatalf("Sync %d: %v", i, ok)
		}
		if ok && (s.Ingress != 1500 || s.Origin != 1000) {
			t.Errorf("used %+v", s)
		}
	}
}

// TestNew: the clock's limit bounds the servo, and bad configurations are
// refused.
func TestNew(t *testing.T) {
	d := newDiscipline(t, func(c *Config) { c.MaxFrequency = 500_000_000 })
	at := frame.Stamp(0)
	sample(d, &at, 0)
	if ppb, _ := sample(d, &at, -400_000_000); ppb != 100_000_000 {
		t.Errorf("corrects by %v, the clock can do 1e8", ppb)
	}
	for name, spoil := range map[string]func(*Config){
		"servo":  func(c *Config) { c.Ki = math.NaN() },
		"filter": func(c *Config) { c.DelayFilterLength = 0 },
		"lucky":  func(c *Config) { c.Lucky = -1 },
	} {
		cfg := config()
		spoil(&cfg)
		if _, err := New(cfg, 0); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
