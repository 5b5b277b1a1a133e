package ecore

import (
	"cmp"
	"time"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// Timers are stopped by asking ten times, a millisecond apart, whether their
// last scan is over.
const (
	timerTries = 10
	timerEvery = time.Millisecond
)

// HWStop takes the function out of service and tells the management firmware.
// It goes on after errors and returns UNKNOWN_ERROR with the first one in the
// end; the device is stopped all the same. During a recovery the management
// firmware is not asked.
func (d *Dev) HWStop(now frame.Time, done Done) {
	if steps, ok := d.steps("hw_stop", Running, now, done, (*Hwfn).stopSteps); ok {
		d.runAll(steps, nil, now, func(now frame.Time, err error) {
			d.state = Stopped
			d.end(Stopped, now, err, done)
		})
	}
}

// runAll does all steps, whatever becomes of them.
func (d *Dev) runAll(steps []step, first error, now frame.Time, done Done) {
	if len(steps) == 0 {
		if first != nil {
			first = status.UnknownError.Errorf("%v", first)
		}
		done(now, first)
		return
	}
	s := &steps[0]
	// A fault that is set comes after the step, so that nothing half-done
	// remains of it.
	s.do(now, func(now frame.Time, err error) {
		if err == nil {
			err = d.fault(s.hwfn, d.call+"/"+s.name)
		}
		if err != nil {
			d.notice(msglog.Down, "%s/%s: %v", d.call, s.name, err)
		}
		d.runAll(steps[1:], cmp.Or(first, err), now, done)
	})
}

func (h *Hwfn) stopSteps() []step {
	return []step{
		{h.Index, "unload_req", h.unloadReq, nil},
		{h.Index, "pf_stop", h.pfStop, nil},
		instant(h.Index, "parser", func(frame.Time) error { return h.gate(0) }, nil),
		{h.Index, "timers", h.timersStop, nil},
		instant(h.Index, "igu", func(frame.Time) error { h.irq.IntDisable(); return nil }, nil),
		instant(h.Index, "qm_usage", func(frame.Time) error { return h.idle() }, nil),
		instant(h.Index, "pglue", func(frame.Time) error { return h.wr(regPGlueEnable, 0) }, nil),
		{h.Index, "unload_done", h.unloadDone, nil},
	}
}

func (h *Hwfn) unloadReq(now frame.Time, done Done) {
	if h.dev.recovery {
		done(now, nil)
		return
	}
	h.mfw.UnloadReq(now, func(l Load, err error, now frame.Time) {
		h.verbose(msglog.Errors, "unload response %v", l)
		done(now, err)
	})
}

func (h *Hwfn) unloadDone(now frame.Time, done Done) {
	h.load = NotLoaded
	if h.dev.recovery {
		done(now, nil)
		return
	}
	h.mfw.UnloadDone(now, done)
}

func (h *Hwfn) pfStop(now frame.Time, done Done) {
	if !h.storm.started && !h.dev.recovery { // hw_init was told not to start it
		done(now, nil)
		return
	}
	h.common(RamrodPFStop, nil, now, func(now frame.Time, err error) {
		if hook := h.dev.cfg.Hooks.AfterPFStop; hook != nil {
			hook(h)
		}
		done(now, err)
	})
}

// timersStop disables the timers and waits for their scan.
func (h *Hwfn) timersStop(now frame.Time, done Done) {
	at := regTimers + 8*uint32(h.storm.pf)
	if err := h.wr(at, 0); err != nil {
		done(now, err)
		return
	}
	h.timersScan(at+4, 0, now, done)
}

func (h *Hwfn) timersScan(reg uint32, tries int, now frame.Time, done Done) {
	v, err := h.BAR.Rd(h.BAR.Main(), reg)
	switch {
	case err != nil || v == 0:
		done(now, err)
	case tries == timerTries:
		done(now, status.Timeout.Errorf("%v: the timers still scan", h))
	default:
		h.dev.after(now, timerEvery, func(now frame.Time) { h.timersScan(reg, tries+1, now, done) })
	}
}

// HWTimersStopAll stops the timers of all hwfns of a running device.
func (d *Dev) HWTimersStopAll(now frame.Time, done Done) {
	steps, ok := d.steps("hw_timers_stop_all", Running, now, done, func(h *Hwfn) []step {
		return []step{{h.Index, "timers", h.timersStop, nil}}
	})
	if ok {
		d.runAll(steps, nil, now, func(now frame.Time, err error) { d.end(Running, now, err, done) })
	}
}

// idle tells what keeps a queue in use.
func (h *Hwfn) idle() error {
	a := h.alloc
	if h.dev.recovery {
		return nil
	}
	if n := a.spq.Stats().InUse; n > 0 {
		return status.Busy.Errorf("%v: %d ramrods are not answered", h, n)
	}
	for _, u := range a.cxt.CIDs(-1) {
		used := u.Used
		if u.Protocol == cxt.Core {
			used-- // the slowpath's own
		}
		if used > 0 {
			return status.Busy.Errorf("%v: %d connections of %v are open", h, used, u.Protocol)
		}
	}
	return nil
}

// HWStopFastpath closes the parser: nothing is received any more, and the
// function stays loaded. HWStartFastpath opens it.
func (d *Dev) HWStopFastpath() error { return d.setFastpath("hw_stop_fastpath", true) }

// HWStartFastpath ends HWStopFastpath.
func (d *Dev) HWStartFastpath() error { return d.setFastpath("hw_start_fastpath", false) }

func (d *Dev) setFastpath(call string, closed bool) error {
	return d.simple(call, Running, func() error {
		open := uint32(1)
		if closed {
			open = 0
		}
		for _, h := range d.Hwfns {
			if err := h.gate(open); err != nil {
				return err
			}
		}
		d.fastpath = closed
		return nil
	}, Running)
}

// FastpathOpen tells whether the function receives.
func (d *Dev) FastpathOpen() bool { return d.state == Running && !d.fastpath }

// ReleaseSlowpathIRQ takes the slowpath's interrupt service routines out, after
// HWStop.
func (d *Dev) ReleaseSlowpathIRQ() error {
	return d.simple("slowpath_irq_free", Stopped, func() error {
		for _, h := range d.Hwfns {
			h.freeIRQ()
		}
		return nil
	}, Stopped)
}

// IntDisablePostISRRelease forgets the state of interrupts. INVAL: a slowpath
// interrupt is still installed.
func (d *Dev) IntDisablePostISRRelease() error {
	return d.simple("int_disable_post_isr_release", Quiet, func() error {
		for _, h := range d.Hwfns {
			if h.isr {
				return status.Inval.Errorf("%v: the slowpath's interrupt is still installed", h)
			}
		}
		for _, h := range d.Hwfns {
			h.irq.IntDisable()
		}
		return nil
	}, Stopped)
}

// Phases lists the phases that ran since the load, if the build has Debug.
func (h *Hwfn) Phases() []string { return h.debug.ran() }

// RT is the runtime array, nil while there is none.
func (h *Hwfn) RT() *rt.Array {
	if h.alloc == nil {
		return nil
	}
	return &h.alloc.rt
}
