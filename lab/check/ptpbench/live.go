package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"time"

	"tapir/lab/check/figures"
	"tapir/lab/check/linuxptp/interop"
	"tapir/lab/check/stock"
	"tapir/lab/conf/swconf"
	"tapir/lab/node"
	"tapir/lab/run/result"
	"tapir/nic/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// patience bounds one measurement; it only ends one that is stuck.
const patience = 2 * time.Minute

func live() []row {
	return []row{
		{"R1", "ptp4l follows a NIC on a TAP", measured(masterQuality,
			check{what: "standard deviation of offsets", limit: 1, unit: "µs"},
			check{what: "99th percentile", limit: 5, unit: "µs"},
			check{what: "beside busy programs, stamps of read and write deviate more by", limit: 100, atLeast: true,
				unit: "times"})},
		{"R2", "constant error of that, as it is and with the port's latencies set", measured(calibration,
			check{what: "median offset", limit: 5, unit: "µs"},
			check{what: "after calibration", limit: 0.5, unit: "µs"})},
		{"R3", "the fabric switch between two ptp4l, queueing up to 500 us", measured(fabric,
			check{what: "two-step transparent clock, median", limit: 2, unit: "µs"},
			check{what: "99th percentile", limit: 10, unit: "µs"},
			check{what: "that of a plain switch without queueing is larger by", limit: 30, atLeast: true,
				unit: "times"})},
		{"R4", "a NIC, 37 ppm and 1.23 ms off, follows ptp4l", measured(slaveQuality,
			check{what: "true error, rms", limit: 5, unit: "µs"},
			check{what: "until it is there", limit: 10, unit: "s"})},
		{"R5", "unmodified ptp4l -H with a NIC's clock, 100 ppm off, over veth", measured(hardware,
			check{what: "true error, rms", limit: 300, unit: "ns"},
			check{what: "95th percentile", limit: 600, unit: "ns"},
			check{what: "most", limit: 1000, unit: "ns"})},
		{"R6", "chronyd and a NIC's clock, 12 ppm off", chrony},
		{"R7", "the codec", codec},
		{"R8", "a stamp of the hardware clock", stamp},
		{"R9", "one Tx stamp at a time", oneStamp},
		{"R10", "cells against stock ptp4l", matrix},
		{"R11", "stock pmc, over the wire", management},
		{"R12", "scenarios of linuxptp-testsuite", scenarios},
	}
}

// e2e is the cell of the rows that measure quality.
func e2e(role interop.Role) interop.Cell {
	return interop.Cell{Transport: transport.Ethernet, Delay: msg.DelayE2E, Role: role}
}

// deviation is the standard deviation.
func deviation(v []float64) float64 {
	s := result.Summarize(v)
	return math.Sqrt(max(s.RMS*s.RMS-s.Mean*s.Mean, 0))
}

// measured returns what measures a row some times: checks with the medians of
// the values that measure returns.
func measured(measure func(context.Context, *bench) ([]float64, error), checks ...check) func(*bench) ([]check, error) {
	return func(b *bench) ([]check, error) {
		columns := make([][]float64, len(checks))
		for range b.rounds {
			ctx, cancel := context.WithTimeout(b.ctx, patience)
			values, err := measure(ctx, b)
			cancel()
			if err != nil {
				return nil, err
			}
			for i, v := range values {
				columns[i] = append(columns[i], v)
			}
		}
		for i := range checks {
			checks[i].value = figures.Median(columns[i])
		}
		return checks, nil
	}
}

const (
	samples     = 200
	manySamples = 400 // where outliers, which are rare, decide
)

func masterQuality(ctx context.Context, _ *bench) ([]float64, error) {
	kernel, err := interop.Run(ctx, e2e(interop.Master), samples)
	if err != nil {
		return nil, err
	}
	better, err := stampsUnderLoad(ctx)
	return []float64{deviation(kernel.Offsets) / 1e3, kernel.Summary().P99 / 1e3, better}, err
}

// stampsUnderLoad is how many times more the offsets deviate if the NIC takes
// its stamps when it reads and writes, while all processors have other work.
func stampsUnderLoad(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range runtime.NumCPU() {
		busy := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			return 0, err
		}
		defer busy.Wait()
		defer cancel()
	}
	kernel, err := interop.Run(ctx, e2e(interop.Master), manySamples)
	if err != nil {
		return 0, err
	}
	loop, err := interop.RunOn(ctx, e2e(interop.Master), manySamples, func(env *node.Env) {
		env.LoopStamps = true
	}, nil)
	return deviation(loop.Offsets) / deviation(kernel.Offsets), err
}

func calibration(ctx context.Context, _ *bench) ([]float64, error) {
	as, err := interop.Run(ctx, e2e(interop.Master), samples)
	if err != nil {
		return nil, err
	}
	bias := figures.Median(as.Offsets)
	set, err := interop.RunOn(ctx, e2e(interop.Master), samples, nil, func(c *ptp.InstanceConfig) {
		// What the slave sees too late left too late, and came too early.
		c.Ports[0].EgressLatency = msg.IntervalOf(time.Duration(bias))
		c.Ports[0].IngressLatency = -msg.IntervalOf(time.Duration(bias))
	})
	return []float64{math.Abs(bias) / 1e3, math.Abs(figures.Median(set.Offsets)) / 1e3}, err
}

func fabric(ctx context.Context, _ *bench) ([]float64, error) {
	cfg := stock.Config{Transport: "L2", Samples: samples}
	plain, err := stock.Measure(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cfg.Switch.Mode, cfg.Switch.Seed = swconf.E2ETransparent, 1
	cfg.Switch.Delay = swconf.Delay{Dist: swconf.Uniform, Max: 500 * time.Microsecond}
	clock, err := stock.Measure(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p99 := float64(clock.Quantile(0.99))
	return []float64{float64(clock.Quantile(0.5)) / 1e3, p99 / 1e3, float64(plain.Quantile(0.99)) / p99}, nil
}

// looks is how many looks in a row must be good for a clock to be there.
const looks = 8

func slaveQuality(ctx context.Context, _ *bench) ([]float64, error) {
	r, err := interop.Run(ctx, e2e(interop.Slave), samples)
	if err != nil {
		return nil, err
	}
	for i, good := 0, 0; i < len(r.Truth); i++ {
		if good++; math.Abs(r.Truth[i]) > 5e3 {
			good = 0
		}
		if good == looks {
			return []float64{result.Summarize(r.Truth[i:]).RMS / 1e3, r.Looks[i].Seconds()}, nil
		}
	}
	return nil, fmt.Errorf("never within 5 us for %d looks: %.0f", looks, r.Truth)
}

func matrix(b *bench) ([]check, error) {
	green := 0
	var failed []string
	cells := interop.Matrix()
	for _, c := range cells {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		r, err := interop.Run(ctx, c, 48)
		cancel()
		if err != nil || r.Summary().P50 > 50e3 {
			failed = append(failed, c.String())
			continue
		}
		green++
	}
	checks := []check{{what: "transport, delay mechanism, role and steps, half of the offsets within 50 µs",
		value: float64(green),
		limit: float64(len(cells)), atLeast: true, unit: "cells"}}
	if len(failed) > 0 {
		return checks, fmt.Errorf("not %v", failed)
	}
	return checks, nil
}

// oneStamp asks the PTP unit for stamps in pairs, the second while the first,
// whose stamp is lost, is waited for.
func oneStamp(*bench) ([]check, error) {
	const pairs = 100
	phc, err := clock.New(clock.Config{})
	if err != nil {
		return nil, err
	}
	u := ptp.New(&ptp.Port{}, nicName, phc)
	if err := u.Enable(0); err != nil {
		return nil, err
	}
	if _, err := u.Configure(ptp.HWConfig{TxType: ptp.TxOn, Filter: ptp.FilterV2Event}); err != nil {
		return nil, err
	}
	u.Faults.LoseEvery = 2
	u.Sent(ptp.Packet{Version: 2, Event: true}, 0) // so that the first of each pair is lost
	var now frame.Time
	var delivered, counted, waited float64
	for i := range uint16(pairs) {
		first := ptp.Packet{ID: ptp.ID{Type: msg.DelayReq, Sequence: 2 * i}, Version: 2, Event: true}
		second := first
		second.Sequence++
		if !u.Request(first, now) {
			return nil, fmt.Errorf("pair %d: refused after the give-up", i)
		}
		u.Sent(first, now)
		before := u.Stats().TxSkipped
		u.Request(second, now)
		u.Sent(second, now)
		counted += float64(u.Stats().TxSkipped - before)
		if _, ok, _ := u.TxStamp(second.ID); ok {
			delivered++
		}
		until := u.Poll(now)
		waited = max(waited, until.Sub(now).Seconds())
		now = until
		u.Poll(now)
	}
	return []check{
		{what: "stamps of a second packet while one is waited for", value: delivered, limit: 0},
		{what: "counted as skipped", value: counted, limit: pairs, atLeast: true, unit: "of 100"},
		{what: "until a lost one is given up", value: waited, limit: ptp.GiveUp.Seconds(), unit: "s"},
	}, nil
}
