package interop

import (
	"context"
	"fmt"
	"time"

	"tapir/lab/check/linuxptp"
	"tapir/lab/check/stock"
	"tapir/lab/conf/nicconf"
	"tapir/lab/conf/swconf"
	"tapir/lab/node"
	"tapir/lab/run/result"
	unit "tapir/nic/ptp"
	"tapir/ptp"
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Result is what a slave measured of its master.
type Result struct {
	Offsets []float64 // ns, as the slave measured them once its servo ran
	// The true error of a NIC's clock that follows, against the system's, in
	// ns, and when it was looked at, from the start of its instance on.
	Truth []float64
	Looks []time.Duration
}

// Summary is that of the measured offsets.
func (r *Result) Summary() result.Stats { return result.Summarize(r.Offsets) }

// The clock of a NIC that follows: 37 ppm fast, and ahead at the start.
const (
	slavePPB   = 37000
	slaveAhead = 1230 * time.Microsecond
)

// Run runs a cell until its slave has made so many measurements.
func Run(ctx context.Context, c Cell, samples int) (Result, error) {
	if c.Role == Transparent || c.Role == Boundary {
		return runSwitch(ctx, c, samples)
	}
	return RunOn(ctx, c, samples, nil, nil)
}

// RunOn is Run of a cell with a NIC, changed by bed and instance, which may be
// nil.
func RunOn(ctx context.Context, c Cell, samples int, bed func(*node.Env),
	instance func(*unit.InstanceConfig)) (Result, error) {
	if instance == nil {
		instance = func(*unit.InstanceConfig) {}
	}
	b, err := NewBed(ctx, func(n *nicconf.Config, env *node.Env) {
		if c.Role == Slave {
			n.NIC.PHC.PPB = slavePPB
		}
		if bed != nil {
			bed(env)
		}
	})
	if err != nil {
		return Result{}, err
	}
	defer b.Close()
	if c.Role == Master {
		return runMaster(ctx, b, c, samples, instance)
	}
	return runSlave(ctx, b, c, samples, instance)
}

func runMaster(ctx context.Context, b *Bed, c Cell, samples int,
	change func(*unit.InstanceConfig)) (r Result, err error) {
	if _, err = b.StartPTP(ptp.DefaultE2E, 1, func(p *unit.InstanceConfig) {
		c.tapir(p)
		p.Priority1 = 1
		change(p)
	}); err != nil {
		return r, err
	}
	o := c.options()
	o["slaveOnly"] = "1"
	slave, err := b.Host.PTP4L(ctx, linuxptp.PTP4L{Options: o, Sections: sections()})
	if err != nil {
		return r, err
	}
	err = slave.Await(ctx, fmt.Sprintf("%d measurements", samples), func(l linuxptp.Log) bool {
		return len(l.Samples()) >= samples
	})
	for _, s := range slave.Log().Samples() {
		r.Offsets = append(r.Offsets, float64(s.Offset))
	}
	return r, err
}

func runSlave(ctx context.Context, b *Bed, c Cell, samples int,
	change func(*unit.InstanceConfig)) (r Result, err error) {
	if err := b.step(slaveAhead); err != nil {
		return r, err
	}
	o := c.options()
	o["priority1"] = "1"
	if _, err = b.Host.PTP4L(ctx, linuxptp.PTP4L{Options: o, Sections: sections()}); err != nil {
		return r, err
	}
	start := time.Now()
	w, err := b.StartPTP(ptp.DefaultE2E, samples, func(p *unit.InstanceConfig) {
		c.tapir(p)
		p.SlaveOnly, p.Quality.Class = true, msg.ClassSlaveOnly
		change(p)
	})
	if err != nil {
		return r, err
	}
	for {
		select {
		case <-w.reached:
			b.Close()
			for _, s := range w.Samples {
				r.Offsets = append(r.Offsets, float64(s.Offset))
			}
			return r, nil
		case <-time.After(time.Second / 16):
			off, err := b.ClockError()
			if err != nil {
				return r, err
			}
			r.look(time.Since(start), off)
		case <-ctx.Done():
			b.Close()
			return r, fmt.Errorf("%v: %w: states %q, %d measurements", c, ctx.Err(), w.States, len(w.Samples))
		}
	}
}

// look notes a true error.
func (r *Result) look(at, off time.Duration) {
	r.Truth, r.Looks = append(r.Truth, float64(off)), append(r.Looks, at)
}

// step moves the NIC's clock.
func (b *Bed) step(by time.Duration) (err error) {
	if e := b.NIC.DoWait(func(now frame.Time) { err = b.NIC.Device.PTP.PHC().AdjTime(now, by) }); e != nil {
		return e
	}
	return err
}

// runSwitch puts the fabric switch between two ptp4l.
func runSwitch(ctx context.Context, c Cell, samples int) (r Result, err error) {
	cfg := stock.Config{Transport: transportNames[c.Transport], P2P: c.Delay == msg.DelayP2P, Samples: samples}
	cfg.Switch.OneStep, cfg.Switch.Transport = c.OneStep, c.Transport
	switch {
	case c.Role == Boundary:
		p := unit.InstanceConfig{Config: ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{}, 1)}
		c.tapir(&p)
		p.Ports[0].LogAnnounceInterval = -3 // as the slave's, whose timeout hangs on it
		cfg.Switch.Mode, cfg.Switch.PTP = swconf.Boundary, &p.Config
	case cfg.P2P:
		cfg.Switch.Mode = swconf.P2PTransparent
	default:
		cfg.Switch.Mode = swconf.E2ETransparent
	}
	m, err := stock.Measure(ctx, cfg)
	if err != nil {
		return r, err
	}
	for _, o := range m.Offsets {
		r.Offsets = append(r.Offsets, float64(o))
	}
	return r, nil
}
