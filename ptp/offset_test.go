package ptp

import (
	"testing"
	"time"

	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
)

// asymmetric makes the way to the slave longer than the way back by a.
func asymmetric(master *node, a time.Duration) {
	master.ends[0].alter = func(m *msg.Message) fate {
		if m.Type.Event() {
			return fate{late: a}
		}
		return fate{}
	}
}

// TestAsymmetry: a way to the slave that is longer by A makes it late by A/2;
// delayAsymmetry A/2 cancels that, with both delay mechanisms.
func TestAsymmetry(t *testing.T) {
	const a = 1000
	for _, p := range []Profile{DefaultE2E, DefaultP2P} {
		for _, cancel := range []bool{false, true} {
			w, master, slave := pairOf(t, p, func(_, s *Config) {
				if cancel {
					s.Ports[0].DelayAsymmetry = msg.IntervalOf(a / 2)
				}
			})
			asymmetric(master, a)
			w.until("lock", 10*time.Second, slave.converged(master, 600))
			w.run(10 * time.Second)
			want := time.Duration(-a / 2)
			if cancel {
				want = 0
			}
			if off := slave.off(master); off < want-2 || off > want+2 {
				t.Errorf("%v, cancelled %v: offset %v, want %v", p, cancel, off, want)
			}
			if d := slave.samples[len(slave.samples)-1].Delay.Duration(); d < 998 || d > 1002 {
				t.Errorf("%v, cancelled %v: delay %v", p, cancel, d)
			}
		}
	}
}

// TestLatencies: stamps that are taken late on the way in and early on the way
// out are corrected.
func TestLatencies(t *testing.T) {
	for _, twoStep := range []bool{true, false} {
		w, master, slave := pair(t, func(m, s *Config) {
			m.TwoStep = twoStep
			m.Ports[0].EgressLatency, m.Ports[0].IngressLatency = msg.IntervalOf(300), msg.IntervalOf(100)
		})
		// The master's stamps are 300 ns early on the way out and 100 ns late
		// on the way in: for the slave, ways of 800 and 600 ns.
		master.ends[0].alter = only(msg.Sync, 1, 1<<30, fate{late: 300})
		slave.ends[0].alter = only(msg.DelayReq, 1, 1<<30, fate{late: 100})
		w.until("lock", 10*time.Second, slave.converged(master, 200))
		w.run(10 * time.Second)
		if off := slave.off(master); off < -2 || off > 2 {
			t.Errorf("two-step %v: offset %v", twoStep, off)
		}
		if d := slave.samples[len(slave.samples)-1].Delay.Duration(); d < 498 || d > 502 {
			t.Errorf("two-step %v: delay %v", twoStep, d)
		}
	}
}

// TestServos: every servo follows; nullf keeps the frequency.
func TestServos(t *testing.T) {
	for _, kind := range []servo.Kind{servo.KindPI, servo.KindLinReg} {
		w, master, slave := pair(t, func(_, s *Config) { s.Servo.Kind = kind })
		w.until("lock", 60*time.Second, slave.converged(master, 100))
		w.run(20 * time.Second)
		if off := slave.off(master); off < -20 || off > 20 {
			t.Errorf("%v: offset %v", kind, off)
		}
	}
	w, master, slave := pair(t, func(_, s *Config) { s.Servo.Kind = servo.KindNull })
	w.run(10 * time.Second)
	if off := slave.off(master); off < 1500*time.Microsecond || slave.state(0) != msg.StateSlave {
		t.Errorf("nullf: offset %v, %v", off, slave.state(0))
	}
}

// TestLuckyPackets: where three of four Syncs are delayed by much, taking the
// luckiest of eight is far better than taking all.
func TestLuckyPackets(t *testing.T) {
	spread := func(lucky int) (worst time.Duration) {
		w, master, slave := pair(t, func(_, s *Config) { s.Servo.Lucky, s.Servo.FirstStep = lucky, 20_000 })
		n := 0
		master.ends[0].alter = func(m *msg.Message) fate {
			if m.Type != msg.Sync {
				return fate{}
			}
			n++
			return fate{late: time.Duration(n*7919%4) * 20 * time.Microsecond}
		}
		w.run(30 * time.Second)
		for range 100 {
			w.run(300 * time.Millisecond)
			worst = max(worst, slave.off(master).Abs())
		}
		return worst
	}
	all, lucky := spread(0), spread(8)
	if lucky > 20*time.Microsecond || lucky*2 > all {
		t.Errorf("worst offset %v with lucky packets, %v without", lucky, all)
	}
}

// TestSanity: a clock that suddenly runs much too fast has its servo started
// anew.
func TestSanity(t *testing.T) {
	w := newWorld(t)
	a, b := fast(DefaultE2E, 1, 1), fast(DefaultE2E, 2, 1)
	a.Priority1, b.Servo.SanityFreqLimit = 1, 200_000
	c := clockOff(0, 0)
	c.Oscillator.Steps = []clock.Step{{After: 10 * time.Second, PPB: 900_000}}
	master, slave := w.add("master", a, clockOff(0, 0)), w.add("slave", b, c)
	link(500*time.Nanosecond, master.ends[0], slave.ends[0])
	w.until("lock", 9*time.Second, slave.converged(master, 100))
	w.until("the servo begins anew", 20*time.Second, func() bool { return slave.state(0) == msg.StateUncalibrated })
	if at := w.now; at < 10_000_000_000 {
		t.Errorf("at %v", at)
	}
}
