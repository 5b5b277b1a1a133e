package refclock

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"tapir/lab/check/linuxptp"
	"tapir/lab/host/netns"
)

// A clock that runs 12 ppm fast, as chronyd sees it through either interface.
const fastPPM = 12

func fastClock() func(context.Context) (Sample, error) {
	start := time.Now()
	return func(context.Context) (Sample, error) {
		now := time.Since(start).Nanoseconds()
		system := start.UnixNano() + now
		return Sample{System: system, Clock: system + now*fastPPM/1e6}, nil
	}
}

func TestChronyTakesClock(t *testing.T) {
	t.Parallel()
	ns, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	for _, c := range []struct {
		name string
		open func(t *testing.T, h *linuxptp.Host) (Sink, string)
	}{
		{"SOCK", func(_ *testing.T, h *linuxptp.Host) (Sink, string) {
			path := h.Path("sock")
			return OpenSock(path), "refclock SOCK " + path
		}},
		{"SHM", func(t *testing.T, _ *linuxptp.Host) (Sink, string) {
			unit := freeUnit(t)
			m, err := OpenSHM(unit)
			if err != nil {
				t.Fatal(err)
			}
			return m, "refclock SHM " + strconv.Itoa(unit)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, err := linuxptp.NewHost(ns)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { h.Close() })
			sink, line := c.open(t, h)
			t.Cleanup(func() { sink.Close() })
			judge(t, h, sink, line)
		})
	}
}

// judge feeds the fast clock to chronyd until it has seen enough, and checks
// what chronyd makes of it.
func judge(t *testing.T, h *linuxptp.Host, sink Sink, line string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	chrony, err := h.Chrony(ctx, line+" refid TAPR noselect poll -3 dpoll -5 filter 4 maxsamples 24")
	if err != nil {
		t.Fatal(err)
	}
	feeding, stop := context.WithCancel(ctx)
	fed := make(chan error, 1)
	go func() {
		for { // the socket is there a moment after the daemon
			s, err := Feed(feeding, time.Second/40, fastClock(), sink)
			if err == nil || s.Written > 0 || ctx.Err() != nil {
				fed <- err
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	stats, err := chrony.AwaitSamples(ctx, "TAPR", 20)
	stop()
	if err = errors.Join(err, <-fed); err != nil {
		t.Fatal(err)
	}
	if f := math.Abs(stats.Frequency); math.Abs(f-fastPPM) > 0.01 || stats.StdDev > 50e-9 {
		t.Errorf("chronyd sees %+.4f ppm, standard deviation %.0f ns; want %d ppm, 50 ns at most", stats.Frequency, stats.StdDev*1e9, fastPPM)
	}
}
