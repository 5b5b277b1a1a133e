package suite

import (
	"math"
	"testing"
	"time"

	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	run(t, defaults()).inSync(t)
}

func TestSoftwareStamps(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.limits.End = 2000 * time.Second
	s.syncBetween(10*time.Second, 300*time.Second)
	s.slave = func(c *ptp.Config) { c.Servo.Software = true }
	run(t, s).inSync(t)
	// A master that counts TAI, and slaves judged by UTC.
	s.taiOffset = 37 * time.Second
	run(t, s).outOfSync(t)
}

func TestManyNodes(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.subnets = [][]int{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}
	run(t, s).inSync(t)
}

func TestLateReselect(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.masterStart, s.slaveStart = 100*time.Second, 0
	s.syncBetween(100*time.Second, 180*time.Second)
	w := run(t, s)
	w.inSync(t)
	for n := 2; n <= 3; n++ {
		if d := w.nodes[n].longest; d > 3*time.Millisecond {
			t.Errorf("node %d measured a path delay of %v", n, d)
		}
	}
}

func TestLargeFrequency(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.91, 1.09} {
		s := defaults()
		s.syncBetween(10*time.Second, 80*time.Second)
		s.freq, s.maxAdj = (1/rate-1)*1e9, 1e8 // as the system clock's
		s.slave = func(c *ptp.Config) { c.Servo.Kp, c.Servo.Ki = 0.7, 0.3 }
		run(t, s).inSync(t)
	}
}

func TestLargeOffset(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{1e9 * time.Second, -1e9 * time.Second} {
		s := defaults()
		s.offset = offset
		run(t, s).inSync(t)
	}
}

func TestLargeSlew(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{10 * time.Second, -10 * time.Second} {
		s := defaults()
		s.syncBetween(330*time.Second, 360*time.Second)
		s.offset = offset
		s.slave = func(c *ptp.Config) {
			c.Servo.FirstStep = 0
		}
		run(t, s).inSync(t)
	}
}

func TestSyncIntervals(t *testing.T) {
	t.Parallel()
	for log := -4; log <= 4; log += 2 {
		s := defaults()
		s.scale(log, 320)
		s.limits.FreqMax = 2000 / math.Sqrt(math.Exp2(float64(log)))
		s.master = func(c *ptp.Config) { c.Ports[0].LogSyncInterval = int8(log) }
		run(t, s).inSync(t)
	}
}

func TestBaseDelays(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{100, 1e3, 10e3, 100e3, 1e6, 10e6, 100e6} {
		s := defaults()
		s.scale(-4, 320)
		s.delay = delay
		s.master = func(c *ptp.Config) { c.Ports[0].LogSyncInterval, c.Ports[0].LogMinDelayReqInterval = -4, -4 }
		run(t, s).inSync(t)
	}
}

func TestDelayedFollowUp(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.subnets = [][]int{{1, 2}}
	s.limits.End = 67000 * time.Second
	s.delay, s.jitter, s.wander = time.Microsecond, 0, 0
	s.generalDelay = 500 * time.Millisecond
	run(t, s).inSync(t)
}

func TestLargeJitter(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.offset, s.jitter = time.Second, 100*time.Millisecond
	s.limits.TimeMax, s.limits.FreqMax, s.limits.TimeRMS, s.limits.FreqRMS = 5e8, 5e8, 1e8, 1e8
	run(t, s).inSync(t)
}

func TestLargeWander(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.wander = 1e5
	s.limits.TimeMax, s.limits.FreqMax, s.limits.TimeRMS, s.limits.FreqRMS = 1e6, 1e6, 2e5, 2e5
	run(t, s).inSync(t)
}

func TestPIServo(t *testing.T) {
	t.Parallel()
	const wander = 1e-9
	for _, jitter := range []float64{1e-8, 1e-7, 1e-6, 1e-5} {
		s := peers()
		s.jitter = time.Duration(jitter * 1e9)
		s.limits.TimeRMS = 15 * math.Pow(jitter/1e-8, 0.75)
		s.limits.FreqRMS = 15 * math.Pow(jitter/1e-8, 0.5)
		s.limits.TimeMax, s.limits.FreqMax = 8*s.limits.TimeRMS, 8*s.limits.FreqRMS
		s.slave = func(c *ptp.Config) {
			c.Servo.Kp = min(1.5/math.Sqrt(jitter/wander), 0.7)
			c.Servo.Ki = min(1.2/(jitter/wander), 0.3)
		}
		run(t, s).inSync(t)
	}
}

func TestLinreg(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jitter                             time.Duration
		timeMax, freqMax, timeRMS, freqRMS float64 // ns, ppb
	}{
		{10000, 4.0e4, 4.8e4, 6.1e3, 1.5e3},
		{1000, 4.2e3, 4.4e3, 7.0e2, 1.8e2},
		{100, 5.1e2, 7.5e2, 1.1e2, 3.3e1},
		{10, 9.5e1, 9.3e1, 1.9e1, 1.3e1},
	} {
		s := peers()
		s.jitter = c.jitter
		s.limits.TimeMax, s.limits.FreqMax, s.limits.TimeRMS, s.limits.FreqRMS = c.timeMax, c.freqMax, c.timeRMS, c.freqRMS
		s.slave = func(c *ptp.Config) { c.Servo.Kind = servo.KindLinReg }
		run(t, s).inSync(t)
	}
}

// peers are two clocks that measure their link, for 4000 s.
func peers() scenario {
	s := defaults()
	s.subnets = [][]int{{1, 2}}
	s.limits.End = 4000 * time.Second
	s.syncBetween(10*time.Second, 2000*time.Second)
	s.all = mechanism(msg.DelayP2P)
	return s
}

func TestExternalStep(t *testing.T) {
	t.Parallel()
	for _, kind := range []servo.Kind{servo.KindPI, servo.KindLinReg} {
		s := defaults()
		s.subnets = [][]int{{1, 2, 3, 4, 5, 6}}
		s.freq, s.masterStart = 0, 900*time.Millisecond
		s.syncBetween(100*time.Second, 110*time.Second)
		s.slave = func(c *ptp.Config) { c.Servo.Kind, c.Servo.Step, c.Servo.DelayFilterLength = kind, 10e9, 20 }
		s.stepAt, s.step = 99*time.Second, 100*time.Second
		run(t, s).inSync(t)
	}
}

func TestLockedStable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		within   float64
		count    int
		from, to int // samples in s2, and in s3
	}{{290, 10, 90, 400}, {10000, 240, 230, 250}} {
		s := defaults()
		s.subnets = [][]int{{1, 2}}
		s.slave = func(p *ptp.Config) { p.Servo.StableOffset, p.Servo.StableCount = c.within, c.count }
		o := run(t, s)
		o.inSync(t)
		for _, state := range []servo.State{servo.Locked, servo.LockedStable} {
			if n := o.samples(2, state); n < c.from || n > c.to {
				t.Errorf("within %.0f ns, %d values: %d samples %v, want %d to %d", c.within, c.count, n, state, c.from, c.to)
			}
		}
	}
}
