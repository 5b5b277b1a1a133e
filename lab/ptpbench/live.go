package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"tapir/lab/linuxptp/interop"
	"tapir/lab/node"
	"tapir/lab/ptpsim"
	"tapir/lab/report"
	"tapir/lab/sw"
	"tapir/lab/sw/stock"
	"tapir/nic"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// patience bounds one measurement; it only ends one that is stuck.
const patience = time.Minute

func live() []row {
	return []row{
		{"R1", "ptp4l follows a NIC on a TAP", masterQuality},
		{"R2", "constant error of that, as it is and with the port's latencies set", calibration},
		{"R3", "the fabric switch between two ptp4l, queueing up to 500 us", fabric},
		{"R4", "a NIC, 37 ppm and 1.23 ms off, follows ptp4l", slaveQuality},
		{"R5", "unmodified ptp4l -H with a NIC's clock, 100 ppm off, over veth", hardware},
		{"R6", "chronyd and a NIC's clock, 12 ppm off", chrony},
		{"R7", "the codec", codec},
		{"R8", "a stamp of the hardware clock", stamp},
		{"R10", "cells against stock ptp4l", matrix},
		{"R11", "stock pmc, over the wire", management},
		{"R12", "scenarios of linuxptp-testsuite", scenarios},
	}
}

// e2e is the cell of the rows that measure quality.
func e2e(role interop.Role) interop.Cell {
	return interop.Cell{Transport: transport.Ethernet, Delay: msg.DelayE2E, Role: role}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return math.NaN()
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// deviation is the standard deviation.
func deviation(v []float64) float64 {
	s := report.Summarize(v)
	return math.Sqrt(max(s.RMS*s.RMS-s.Mean*s.Mean, 0))
}

// rounds runs measure some times and returns the medians of its values.
func (b *bench) medians(measure func(ctx context.Context) ([]float64, error)) ([]float64, error) {
	var all [][]float64
	for range b.rounds {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		v, err := measure(ctx)
		cancel()
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	var out []float64
	for i := range all[0] {
		var column []float64
		for _, v := range all {
			column = append(column, v[i])
		}
		out = append(out, median(column))
	}
	return out, nil
}

const samples = 200

func masterQuality(b *bench) ([]ptpsim.Check, error) {
	v, err := b.medians(func(ctx context.Context) ([]float64, error) {
		kernel, err := interop.Run(ctx, e2e(interop.Master), samples)
		if err != nil {
			return nil, err
		}
		loop, err := interop.RunOn(ctx, e2e(interop.Master), samples, func(c *node.Config) { c.LoopStamps = true }, nil)
		if err != nil {
			return nil, err
		}
		sd := deviation(kernel.Offsets)
		return []float64{sd, kernel.Summary().P99, deviation(loop.Offsets) / sd}, nil
	})
	if err != nil {
		return nil, err
	}
	return []ptpsim.Check{
		{What: "standard deviation of offsets", Value: v[0] / 1e3, Limit: 1, Unit: "µs"},
		{What: "99th percentile", Value: v[1] / 1e3, Limit: 5, Unit: "µs"},
		{What: "stamps of read and write deviate more by", Value: v[2], Limit: 100, AtLeast: true, Unit: "times"},
	}, nil
}

func calibration(b *bench) ([]ptpsim.Check, error) {
	v, err := b.medians(func(ctx context.Context) ([]float64, error) {
		as, err := interop.Run(ctx, e2e(interop.Master), samples)
		if err != nil {
			return nil, err
		}
		bias := median(as.Offsets)
		set, err := interop.RunOn(ctx, e2e(interop.Master), samples, nil, func(c *nic.PTPConfig) {
			// What the slave sees too late left too late, and came too early.
			c.Ports[0].EgressLatency = msg.IntervalOf(time.Duration(bias))
			c.Ports[0].IngressLatency = -msg.IntervalOf(time.Duration(bias))
		})
		return []float64{math.Abs(bias), math.Abs(median(set.Offsets))}, err
	})
	if err != nil {
		return nil, err
	}
	return []ptpsim.Check{
		{What: "median offset", Value: v[0] / 1e3, Limit: 5, Unit: "µs"},
		{What: "after calibration", Value: v[1] / 1e3, Limit: 0.5, Unit: "µs"},
	}, nil
}

func fabric(b *bench) ([]ptpsim.Check, error) {
	v, err := b.medians(func(ctx context.Context) ([]float64, error) {
		cfg := stock.Config{Transport: "L2", Samples: samples}
		plain, err := stock.Measure(ctx, cfg)
		if err != nil {
			return nil, err
		}
		cfg.Switch.Mode, cfg.Switch.Seed = sw.E2ETransparent, 1
		cfg.Switch.Delay = sw.Delay{Dist: sw.Uniform, Max: 500 * time.Microsecond}
		clock, err := stock.Measure(ctx, cfg)
		if err != nil {
			return nil, err
		}
		p99 := float64(clock.Quantile(0.99))
		return []float64{float64(clock.Quantile(0.5)), p99, float64(plain.Quantile(0.99)) / p99}, nil
	})
	if err != nil {
		return nil, err
	}
	return []ptpsim.Check{
		{What: "two-step transparent clock, median", Value: v[0] / 1e3, Limit: 2, Unit: "µs"},
		{What: "99th percentile", Value: v[1] / 1e3, Limit: 10, Unit: "µs"},
		{What: "that of a plain switch without queueing is larger by", Value: v[2], Limit: 30, AtLeast: true, Unit: "times"},
	}, nil
}

// looks is how many looks in a row must be good for a clock to be there.
const looks = 8

func slaveQuality(b *bench) ([]ptpsim.Check, error) {
	v, err := b.medians(func(ctx context.Context) ([]float64, error) {
		r, err := interop.Run(ctx, e2e(interop.Slave), samples)
		if err != nil {
			return nil, err
		}
		for i, good := 0, 0; i < len(r.Truth); i++ {
			if good++; math.Abs(r.Truth[i]) > 5e3 {
				good = 0
			}
			if good == looks {
				return []float64{report.Summarize(r.Truth[i:]).RMS, r.Looks[i].Seconds()}, nil
			}
		}
		return nil, fmt.Errorf("never within 5 us for %d looks: %.0f", looks, r.Truth)
	})
	if err != nil {
		return nil, err
	}
	return []ptpsim.Check{
		{What: "true error, rms", Value: v[0] / 1e3, Limit: 5, Unit: "µs"},
		{What: "until it is there", Value: v[1], Limit: 10, Unit: "s"},
	}, nil
}

func matrix(b *bench) ([]ptpsim.Check, error) {
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
	checks := []ptpsim.Check{{What: "transport, delay mechanism, role and steps, half of the offsets within 50 µs", Value: float64(green),
		Limit: float64(len(cells)), AtLeast: true, Unit: "cells"}}
	if len(failed) > 0 {
		return checks, fmt.Errorf("not %v", failed)
	}
	return checks, nil
}
