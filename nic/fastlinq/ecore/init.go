package ecore

import (
	"cmp"
	"time"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// Final clean-up: how often and how far apart the firmware is asked whether
// it is done.
const (
	cleanupTries = 100
	cleanupEvery = 10 * time.Millisecond
)

// Registers of a function that the core writes itself.
const (
	regPGlueEnable = 0x2a8200 // master enable of PCI requests
	regParser      = 0x1f0100 // searches and gates of the parser, 4 octets for each PF
	regTimers      = 0x2c0100 // enable of the timers, and whether a scan is active: 8 octets for each PF
)

// HWInit loads the function: asks the management firmware, runs the phases
// that are up to it, has the slowpath's interrupt installed, and starts the
// function in the firmware, which answers by an interrupt. LOAD_DONE is sent
// however that ends; after a failure the load is taken back, so that the books
// of the management firmware are as before.
//
// INVAL: MSI with two engines, tunnels that cannot be, or a firmware that is
// damaged or not the one; NORESOURCES: the
// interrupt could not be installed; BUSY: the load is refused, or the function
// does not start; TIMEOUT: a predecessor cannot be cleaned up.
func (d *Dev) HWInit(p InitParams, now frame.Time, done Done) {
	steps, ok := d.steps("hw_init", Setup, now, done, func(h *Hwfn) []step { return h.initSteps(&p) })
	if !ok {
		return
	}
	image, err := d.checkInit(&p)
	if err != nil {
		d.end(Running, now, err, done)
		return
	}
	d.intMode, d.image, d.inflate = p.IntMode, image, p.Inflate
	for _, h := range d.Hwfns {
		h.alloc.spq.SetTimeout(p.SPQTimeout)
	}
	d.run(steps, now, func(now frame.Time, err error) {
		if err == nil {
			d.fastpath = false
			h := d.Lead()
			h.mfw.Push(uint32(h.Firmware()), h.info.MTU, now)
			h.mfw.DriverState(DriverDisabled, now)
		} else {
			d.image = nil
			d.refill()
		}
		d.end(Running, now, err, done)
	})
}

// refill makes the runtime arrays again what resc_setup left.
func (d *Dev) refill() {
	for _, h := range d.Hwfns {
		h.alloc.rt.Clear()
		h.fillRT()
	}
}

// checkInit is the firmware that the parameters name, unless something is wrong with
// them.
func (d *Dev) checkInit(p *InitParams) (*fw.Image, error) {
	switch {
	case p.IntMode == MSI && len(d.Hwfns) > 1:
		return nil, status.Inval.Errorf("MSI with %d engines: use MSIX or INTA", len(d.Hwfns))
	case p.IntMode > Poll:
		return nil, status.Inval.Errorf("interrupt mode %d", p.IntMode)
	}
	if err := cmp.Or(d.cfg.Chip.emulation.validate(), p.Tunnels.validate()); err != nil {
		return nil, err
	}
	return d.firmware(p)
}

func (h *Hwfn) initSteps(p *InitParams) []step {
	steps := []step{
		{h.Index, "load_req", func(now frame.Time, done Done) { h.loadReq(p.Load, now, done) }, h.unload},
		{h.Index, "capabilities", func(now frame.Time, done Done) {
			h.mfw.Capabilities(now, func(now frame.Time, err error) { done(now, soft(err)) })
		}, nil},
		{h.Index, "final_cleanup", h.finalCleanup, nil},
		instant(h.Index, "pglue", func(frame.Time) error {
			return h.wr(regPGlueEnable, 1)
		}, func(frame.Time) { h.wr(regPGlueEnable, 0) }), {h.Index, "init_engine", h.phase(rt.Engine, LoadEngine), nil},
		{h.Index, "init_port", h.phase(rt.Port, LoadPort), nil},
		{h.Index, "init_pf", h.phase(rt.PF, LoadFunction), nil},
		{h.Index, "init_qm_pf", h.phase(rt.QMPF, LoadFunction), nil},
		instant(h.Index, "slowpath_irq", func(frame.Time) error {
			return h.requestIRQ()
		}, func(frame.Time) {
			h.freeIRQ()
		}), instant(h.Index, "igu", func(now frame.Time) error {
			h.irq.IntEnable(now)
			return nil
		}, func(frame.Time) { h.irq.IntDisable() }),
		instant(h.Index, "parser", func(frame.Time) error { return h.gate(1) }, func(frame.Time) { h.gate(0) }),
	}
	if !p.NoStart {
		steps = append(steps, step{h.Index, "pf_start", h.pfStart(p), h.undoStart})
	}
	return append(steps, step{h.Index, "load_done", h.loadDone, nil})
}

// wr writes a register through the window that is reserved for the life
// cycle.
func (h *Hwfn) wr(addr, v uint32) error { return h.BAR.Wr(h.BAR.Main(), addr, v) }

func (h *Hwfn) gate(open uint32) error { return h.wr(regParser+4*uint32(h.storm.pf), open) }

func (h *Hwfn) loadReq(p LoadParams, now frame.Time, done Done) {
	h.mfw.LoadReq(p, now, func(l Load, err error, now frame.Time) {
		if err == nil {
			h.load, h.done = l, false
			h.debug.load()
			h.verbose(msglog.Errors, "load response %v", l)
			if l == LoadEngine {
				h.engine.reset()
			}
		}
		done(now, err)
	})
}

// loadDone ends the load; it comes once, whatever else happens.
func (h *Hwfn) loadDone(now frame.Time, done Done) {
	h.done = true
	h.mfw.LoadDone(now, done)
}

// unload takes a load back: LOAD_DONE if that is still owed, then as hw_stop.
func (h *Hwfn) unload(now frame.Time, done func(now frame.Time)) {
	unloadReq := func(now frame.Time, _ error) {
		h.mfw.UnloadReq(now, func(_ Load, _ error, now frame.Time) {
			h.mfw.UnloadDone(now, func(now frame.Time, _ error) {
				h.load = NotLoaded
				done(now)
			})
		})
	}
	if h.done {
		unloadReq(now, nil)
		return
	}
	h.loadDone(now, unloadReq)
}

// finalCleanup has the firmware forget a predecessor that crashed, where
// nobody has reset the engine.
func (h *Hwfn) finalCleanup(now frame.Time, done Done) {
	if h.load == LoadEngine {
		done(now, nil)
		return
	}
	h.cleanup(0, now, done)
}

func (h *Hwfn) cleanup(tries int, now frame.Time, done Done) {
	switch {
	case h.storm.cleanup():
		done(now, nil)
	case tries == cleanupTries:
		done(now, status.Timeout.Errorf("%v: the firmware does not acknowledge the final clean-up", h))
	default:
		h.dev.after(now, cleanupEvery, func(now frame.Time) { h.cleanup(tries+1, now, done) })
	}
}

// chipAccess is the init tool's way to the chip.
type chipAccess struct {
	h   *Hwfn
	err error
}

func (c *chipAccess) Read(addr uint32) uint32 {
	v, err := c.h.BAR.Rd(c.h.BAR.Main(), addr)
	c.note(err)
	return v
}

func (c *chipAccess) Write(addr, v uint32) { c.note(c.h.wr(addr, v)) }

func (c *chipAccess) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Copy copies by DMA; that it does not end is a hardware error.
func (c *chipAccess) Copy(addr uint32, words []uint32) error {
	err := c.h.BAR.HostToGRC(c.h.BAR.Main(), words, addr)
	if status.Of(err) == status.Timeout {
		c.h.HWError(DMAEFail, err)
	}
	return err
}

// phase is a step that runs a phase of the init tool, if the answer to
// LOAD_REQ asks for it: ENGINE asks for all, PORT for those from the port's on.
func (h *Hwfn) phase(ph rt.Phase, from Load) func(frame.Time, Done) {
	return func(now frame.Time, done Done) {
		if h.load > from {
			done(now, nil)
			return
		}
		h.runPhase(ph, [...]int{rt.Engine: rt.AnyID, rt.Port: h.info.Port, rt.PF: h.storm.pf, rt.QMPF: h.storm.pf}[ph],
			now, done)
	}
}

// runPhase runs a phase to its end; then the runtime array has been applied.
func (h *Hwfn) runPhase(ph rt.Phase, id int, now frame.Time, done Done) {
	end, err := h.BAR.Claim(h.BAR.Main(), "init phase "+ph.String())
	if err != nil {
		done(now, err)
		return
	}
	chip := &chipAccess{h: h}
	run := h.dev.image.Program.Start(ph, id, h.dev.cfg.Chip.modes(), &h.alloc.rt, chip, h.dev.inflate)
	h.debug.phase(ph.String())
	var on func(now frame.Time)
	on = func(now frame.Time) {
		until, err := run.Step(now)
		if !run.Done() {
			h.dev.after(now, until.Sub(now), on)
			return
		}
		if end(); err == nil {
			err = chip.err
		}
		h.verbose(msglog.HW, "phase %v: %d words, %v", ph, run.Written(), err)
		if ph == rt.QMPF || err != nil {
			h.alloc.rt.Clear()
		}
		done(now, err)
	}
	on(now)
}

// RunPhase runs the VF or QM_PF phase alone, as the enabling of a VF and a new
// configuration of queues do, with what values stores before. INVAL: another
// phase, or a device that is not running.
func (h *Hwfn) RunPhase(ph rt.Phase, id int, values func(a *rt.Array) error, now frame.Time, done Done) {
	if h.dev.state != Running || ph != rt.VF && ph != rt.QMPF {
		done(now, status.Inval.Errorf("phase %v alone in state %v", ph, h.dev.state))
		return
	}
	if err := values(&h.alloc.rt); err != nil {
		h.alloc.rt.Clear()
		done(now, err)
		return
	}
	h.runPhase(ph, id, now, func(now frame.Time, err error) {
		h.alloc.rt.Clear()
		done(now, err)
	})
}

func (h *Hwfn) requestIRQ() error {
	if hook := h.dev.cfg.Hooks.SlowpathIRQReq; hook != nil {
		if err := hook(h); err != nil {
			return status.NoResources.Errorf("%v: no slowpath interrupt: %v", h, err)
		}
	}
	h.isr = true
	return nil
}

func (h *Hwfn) freeIRQ() {
	h.isr = false
	if hook := h.dev.cfg.Hooks.SlowpathIRQFree; hook != nil {
		hook(h)
	}
}

// pfStart starts the function in the firmware.
func (h *Hwfn) pfStart(p *InitParams) func(frame.Time, Done) {
	return func(now frame.Time, done Done) {
		if hook := h.dev.cfg.Hooks.BeforePFStart; hook != nil {
			if err := hook(h); err != nil {
				done(now, err)
				return
			}
		}
		data := PFStart{Personality: h.info.Personality.firmware(), MF: h.dev.cfg.Chip.MF, Outer: h.outer(),
			Tunnels: p.Tunnels,
			Events:  h.alloc.eq.Stats().Elements, TxSwitch: p.NPARTx && h.dev.cfg.Chip.MF == NPAR}
		h.common(RamrodPFStart, data, now, done)
	}
}

// undoStart stops it again.
func (h *Hwfn) undoStart(now frame.Time, done func(now frame.Time)) {
	h.common(RamrodPFStop, nil, now, func(now frame.Time, _ error) { done(now) })
}

// common sends a ramrod of COMMON and waits for it.
func (h *Hwfn) common(cmd uint8, data any, now frame.Time, done Done) {
	err := h.alloc.spq.Post(spq.Request{CID: h.alloc.spqCID, Cmd: cmd, Protocol: cxt.Common, Data: data,
		Done: func(r spq.Result, now frame.Time) {
			if r.Err == nil && r.Code != codeDone {
				r.Err = status.UnknownError.Errorf("%v: ramrod %d of COMMON: the firmware returns %d", h, cmd, r.Code)
			}
			done(now, r.Err)
		}}, now)
	if err != nil {
		done(now, err)
	}
}
