package fastlinq

import (
	"time"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/status"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// Health diagnoses the device.
func (d tools) Health() view.Health {
	h := d.core.dev.Health()
	out := view.Health{State: d.core.dev.HealthState(), Errors: h.Total(), Recoveries: h.Recoveries, Engine: h.Hwfn,
		Dump: len(h.Dump), Leaked: h.Leaked,
		AutoRecover: d.cfg.Health.AutoRecover, Grace: d.cfg.Health.Grace.Milliseconds()}
	for e, n := range h.Errors {
		out.Kinds = append(out.Kinds, view.HealthKind{Name: ecore.HWError(e).String(), Count: n})
	}
	if h.Last != nil {
		out.Last, out.LastKind = h.Last.Error(), h.LastKind.String()
	}
	return out
}

// HealthDump is the dump that the first error has left. Without one it is made
// now, and kept.
func (d tools) HealthDump() []byte { return d.core.dev.HealthDump() }

// ClearHealthDump forgets it.
func (d tools) ClearHealthDump() { d.core.dev.ClearHealthDump() }

// report takes a hardware error that the management firmware tells of to the
// health reporter.
func (d tools) report(kind mcp.HWError) {
	if dev := d.core.dev; len(dev.Hwfns) > 0 {
		dev.Lead().HWError(ecore.HWError(kind), status.IO.Errorf("%v", kind))
	}
}

// hwErrorOccurred is the client's part of a hardware error: a recovery, if it is to
// begin by itself. What a fan does is for the operator to mend.
func (d tools) hwErrorOccurred(kind ecore.HWError) {
	c, h := &d.core, d.cfg.Health
	if !h.AutoRecover || kind == ecore.FanFail || c.recovering ||
		c.recovered != 0 && d.now().Sub(c.recovered) < h.Grace {
		return
	}
	c.recovering = true
	d.nic.Schedule(d.now(), func(now frame.Time) {
		d.Recover(now, func(err error) {
			c.recovering = false
			d.management.note(err)
		})
	})
}

// How long a recovery may take, and how often it is looked at.
const (
	recoverTimeout = 10 * time.Second
	recoverLook    = 10 * time.Millisecond
)

// Recover starts a recovery: the process is killed, and the function loads
// anew. done is told when it has. INVAL: the function does not run. IO: the
// firmware does not answer. TIMEOUT: it does not come back.
func (d tools) Recover(now frame.Time, done func(error)) {
	dev := d.core.dev
	if d.cfg.Board.Stuck {
		done(status.IO.Errorf("the management firmware does not answer: reset it with mfw=running"))
		return
	}
	if len(dev.Hwfns) == 0 {
		done(status.Inval.Errorf("recovery in state %v", dev.State()))
		return
	}
	before := dev.Health().Recoveries
	if err := dev.Lead().StartRecovery(); err != nil {
		done(err)
		return
	}
	until := now.Add(recoverTimeout)
	var poll func(now frame.Time)
	poll = func(now frame.Time) {
		switch {
		case dev.State() == ecore.Running && dev.Health().Recoveries > before:
			done(nil)
		case now >= until:
			done(status.Timeout.Errorf("recovery: the function is in state %v", dev.State()))
		default:
			d.nic.Schedule(now.Add(recoverLook), poll)
		}
	}
	d.Manage(now)
	poll(now)
}
