package ptp

import (
	"testing"
	"time"

	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/timescale"
	"tapir/wire/frame"
)

// leap runs a grandmaster with a leap second pending and its slave over the
// end of the UTC day, and returns how UTC went on at the slave.
func leap(t *testing.T, set func(*timescale.Properties)) (utc []int64, end timescale.Properties) {
	const day = 86400
	midnight := frame.Stamp((int64(epoch)/1e9/day + 1) * day * 1e9) // of UTC
	start := midnight + frame.Stamp(37*time.Second-10*time.Second)  // TAI, 10 s before
	w := newWorld(t)
	a, b := fast(DefaultE2E, 1, 1), fast(DefaultE2E, 2, 1)
	a.Priority1, a.Time.UTCOffsetValid = 1, true
	set(&a.Time)
	phc := clock.Config{Initial: start}
	master := w.add("master", a, phc)
	slave := w.add("slave", b, phc)
	link(500*time.Nanosecond, master.ends[0], slave.ends[0])
	w.run(8500 * time.Millisecond)
	for range 5 {
		w.run(time.Second)
		now, ok := slave.UTC(w.now)
		if !ok {
			t.Fatal("the slave does not know UTC")
		}
		utc = append(utc, (int64(now)-int64(midnight))/1e9-flag64(now < midnight))
	}
	return utc, slave.Snapshot().Time
}

// flag64 is 1 if on: division rounds towards zero, seconds downwards.
func flag64(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

// TestLeapSecond: the UTC offset changes at midnight UTC, the PTP time goes
// on; a day of 86401 s has second -1 twice (23:59:59 and 23:59:60), one of
// 86399 s has none.
func TestLeapSecond(t *testing.T) {
	for _, tc := range []struct {
		name   string
		set    func(*timescale.Properties)
		utc    []int64
		offset int16
	}{
		{"none", func(p *timescale.Properties) {}, []int64{-1, 0, 1, 2, 3}, 37},
		{"leap61", func(p *timescale.Properties) { p.Leap61 = true }, []int64{-1, 0, 0, 1, 2}, 38},
		{"leap59", func(p *timescale.Properties) { p.Leap59 = true }, []int64{0, 1, 2, 3, 4}, 36},
	} {
		utc, end := leap(t, tc.set)
		for i := range utc {
			if utc[i] != tc.utc[i] {
				t.Errorf("%s: UTC after midnight %v, want %v", tc.name, utc, tc.utc)
				break
			}
		}
		if end.UTCOffset != tc.offset || end.Leap59 || end.Leap61 {
			t.Errorf("%s: %+v", tc.name, end)
		}
	}
}

// TestTimeProperties: what the grandmaster says reaches a slave behind a
// boundary clock, also when it changes.
func TestTimeProperties(t *testing.T) {
	want := timescale.Properties{UTCOffset: 40, UTCOffsetValid: true, Leap59: true, TimeTraceable: true, FrequencyTraceable: true, TimeSource: msg.SourceGNSS}
	w, nodes := chain(t, DefaultE2E, 1, func(i int, c *Config) {
		if i == 0 {
			c.Time = want
		}
	})
	w.until("lock", 20*time.Second, nodes[2].converged(nodes[0], 100))
	w.run(time.Second)
	if got := nodes[2].Snapshot().Time; got != want {
		t.Errorf("got %+v", got)
	}
	g, _ := nodes[0].Get(msg.IDGrandmasterSettings, 0)
	settings := *g.(*msg.GrandmasterSettings)
	settings.TimeFlags, settings.UTCOffset = uint8(msg.FlagPTPTimescale), 41
	if e := nodes[0].Set(msg.IDGrandmasterSettings, 0, &settings, w.now); e != 0 {
		t.Fatal(e)
	}
	w.run(2 * time.Second)
	if got := nodes[2].Snapshot().Time; got != (timescale.Properties{UTCOffset: 41, PTPTimescale: true, TimeSource: msg.SourceGNSS}) {
		t.Errorf("then %+v", got)
	}
}

// TestHoldover: a boundary clock that was locked and loses its master is
// grandmaster with the quality of holdover for a while, then with its own.
func TestHoldover(t *testing.T) {
	w, nodes := chain(t, G8275x1, 1, func(i int, c *Config) {
		switch i {
		case 0:
			c.Quality.Class, c.Time.UTCOffset, c.Time.TimeTraceable = 6, 39, true
		case 1:
			c.Quality.Class, c.HoldoverTime = 248, 20*time.Second
			c.HoldoverQuality.Class = 135
		case 2:
			c.Quality.Class, c.SlaveOnly = 255, true
		}
	})
	w.until("lock", 20*time.Second, nodes[2].converged(nodes[0], 100))
	nodes[0].ends[0].alter = func(*msg.Message) fate { return fate{drop: true} }
	class := func() uint8 { return nodes[2].Snapshot().Parent.Grandmaster.Quality.Class }
	w.until("holdover", 5*time.Second, func() bool { return class() == 135 })
	since := w.now
	if s := nodes[2].Snapshot(); s.Time.UTCOffset != 39 || !s.Time.TimeTraceable || !nodes[1].Snapshot().Holdover {
		t.Errorf("in holdover: %+v", s.Time)
	}
	w.until("the end of holdover", 30*time.Second, func() bool { return class() == 248 })
	if d := w.now.Sub(since); d < 19*time.Second || d > 21*time.Second {
		t.Errorf("holdover for %v", d)
	}
	if s := nodes[2].Snapshot(); s.Time.UTCOffset != 37 || s.Time.TimeTraceable {
		t.Errorf("after holdover: %+v", s.Time)
	}
	nodes[0].ends[0].alter = nil
	w.until("the master returns", 10*time.Second, func() bool { return class() == 6 })
	if nodes[1].Snapshot().Holdover {
		t.Error("still in holdover")
	}
}
