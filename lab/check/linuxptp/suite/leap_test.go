package suite

import (
	"testing"
	"time"

	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/servo"
	"tapir/wire/frame"
)

// TestLeapSecond follows UTC over the end of 2030, 37 s behind TAI until then,
// with an Announce and a Sync every 1024 s. At noon the grandmaster is told of
// the leap second.
func TestLeapSecond(t *testing.T) {
	t.Parallel()
	const (
		utcOffset = 37
		midnight  = 24 * time.Hour
		noon      = 12 * time.Hour
		known     = noon + 4096*time.Second // two Announces later
		within    = time.Millisecond
	)
	start := time.Date(2030, 12, 31, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		leap  time.Duration
		flags msg.Flags
	}{{time.Second, msg.FlagLeap61}, {-time.Second, msg.FlagLeap59}} {
		s := defaults()
		s.subnets = [][]int{{1, 2}} // the third node of the suite is pmc
		s.epoch = frame.Stamp(start.Add(utcOffset * time.Second).UnixNano())
		s.limits.End, s.limits.Interval = 30*time.Hour, time.Minute
		s.all = func(p *ptp.Config) {
			p.Ports[0].LogAnnounceInterval, p.Ports[0].LogSyncInterval, p.Ports[0].LogMinDelayReqInterval = 10, 10, 10
		}
		s.slave = func(p *ptp.Config) { p.Servo.Kind = servo.KindLinReg }
		checked := 0
		check := func(w *world) {
			at := time.Duration(w.now)
			leapt := max(c.leap, 0) // an inserted second is over
			if at >= midnight && at < midnight+leapt {
				return // 23:59:60 has no number
			}
			want := start.Add(at)
			if at >= midnight+min(c.leap, 0) {
				want = want.Add(-c.leap)
			}
			for _, n := range w.nodes[1:] {
				utc, ok := n.instance.UTC(w.now)
				if off := time.Duration(int64(utc) - want.UnixNano()); !ok || off.Abs() > within {
					t.Errorf("%v, node %d, %v: UTC is off by %v (known: %v)", c.leap, n.number, at, off, ok)
				}
			}
			checked++
		}
		s.setup = func(w *world) {
			w.at(frame.Time(noon), func() {
				settings := &msg.GrandmasterSettings{
					Quality: msg.ClockQuality{Class: 6, Accuracy: 0xfe, Variance: 0xffff}, UTCOffset: utcOffset, Source: 0xa1,
					TimeFlags: uint8(c.flags | msg.FlagUTCOffsetValid | msg.FlagPTPTimescale | msg.FlagTimeTraceable | msg.FlagFrequencyTraceable),
				}
				if e := w.nodes[1].instance.Set(msg.IDGrandmasterSettings, 0, settings, w.now); e != 0 {
					t.Fatal(e)
				}
			})
			for at := known + time.Second/2; at < s.limits.End; at += 15 * time.Second {
				w.at(frame.Time(at), func() { check(w) })
			}
			for at := midnight - 5*time.Second + time.Second/8; at < midnight+5*time.Second; at += time.Second / 4 {
				w.at(frame.Time(at), func() { check(w) })
			}
		}
		w := run(t, s)
		for _, n := range w.nodes[1:] {
			if p := n.instance.Snapshot().Time; p.UTCOffset != utcOffset+int16(c.leap/time.Second) || p.Leap59 || p.Leap61 {
				t.Errorf("%v, node %d: in the end %+v", c.leap, n.number, p)
			}
		}
		if checked < 4000 {
			t.Errorf("%v: looked %d times", c.leap, checked)
		}
	}
}
