package stock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tapir/lab/conf/swconf"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queueing is what makes a plain switch useless for clocks.
var queueing = swconf.Delay{Dist: swconf.Uniform, Max: 500 * time.Microsecond}

// both measures a plain switch and a transparent clock side by side.
func both(t *testing.T, cfg Config) (plain, clock *Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg.Switch.Delay, cfg.Switch.Seed = queueing, 1
	without := cfg
	without.Switch.Mode, without.Switch.OneStep = swconf.Plain, false
	without.Switch.GroupFwdMask = 1 << 0xe // peer delay messages cross it
	var wg sync.WaitGroup
	var errs [2]error
	wg.Go(func() { plain, errs[0] = Measure(ctx, without) })
	wg.Go(func() { clock, errs[1] = Measure(ctx, cfg) })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return plain, clock
}

// Two stock clocks across a transparent clock do not notice the queueing that
// spoils them across a plain switch.
func TestTransparentClocks(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"L2 E2E":    {Transport: "L2"},
		"L2 P2P":    {Transport: "L2", P2P: true},
		"UDPv4 E2E": {Transport: "UDPv4"},
		"UDPv6 P2P": {Transport: "UDPv6", P2P: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.Switch.Mode = swconf.E2ETransparent
			if cfg.P2P {
				cfg.Switch.Mode = swconf.P2PTransparent
			}
			if cfg.Transport == "UDPv6" {
				cfg.Switch.Transport = transport.UDPv6
			}
			cfg.Samples = 60
			plain, clock := both(t, cfg)
			p, c := plain.Quantile(0.5), clock.Quantile(0.5)
			t.Logf("median of |offset|: plain %d ns, transparent %d ns", p, c)
			if c*8 > p {
				t.Errorf("median of |offset|: plain %d ns, transparent %d ns, %+v", p, c, clock.Clock)
			}
			if clock.Clock.Corrected == 0 || clock.Ports[0].RxFrames == 0 || clock.Ports[0].TxFrames == 0 {
				t.Errorf("%+v", clock)
			}
		})
	}
}

// A stock slave behind a boundary clock follows it, as that follows a stock
// master: alone it would be off by a millisecond every other second.
func TestBoundaryClock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg := Config{Transport: "UDPv4", Samples: 60}
	cfg.Switch.Transport = transport.UDPv4
	r, err := behind(ctx, cfg, 500)
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Quantile(0.5); m > 100_000 {
		t.Errorf("median of |offset|: %d ns, %+v", m, r)
	}
}

// behind measures a slave behind a boundary clock whose own oscillator is ppm
// too fast and whose master is a stock ptp4l. What the slave reports is by how
// much the boundary clock differs from the machine's.
func behind(ctx context.Context, cfg Config, ppm float64) (*Result, error) {
	c := ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{}, 1)
	if cfg.P2P {
		c = ptp.NewConfig(ptp.DefaultP2P, msg.ClockIdentity{}, 1)
	}
	p := &c.Ports[0]
	p.LogAnnounceInterval, p.LogSyncInterval, p.LogMinDelayReqInterval, p.LogMinPdelayReqInterval = logAnnounce,
		logSync, logSync, logSync+1
	cfg.Switch.Mode, cfg.Switch.PTP, cfg.Switch.Hardware.Oscillator.PPB = swconf.Boundary, &c, 1000*ppm
	return Measure(ctx, cfg)
}
