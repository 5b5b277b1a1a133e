package ecore

import (
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// HWPrepare reads what the device is and what is its function's: the chip, the
// management firmware, the NVM, the shares. The device has its hwfns from then
// on. NODEV: the chip or its NVM does not answer; what the mailbox and the
// interrupts have against it comes as they say it. With Relaxed set a mailbox or
// interrupts that do not answer are told by Prepared only.
func (d *Dev) HWPrepare(p PrepareParams, now frame.Time, done Done) {
	if err := d.begin("hw_prepare", now, Struct); err != nil {
		done(now, err)
		return
	}
	d.params, d.prepared, d.recovery = p, PrepareSuccess, false
	n := len(d.cfg.Chip.Engines)
	if p.Personality > Default || len(d.cfg.MFW) < n || len(d.cfg.Int) < n || d.cfg.PF < 0 ||
		d.cfg.PF >= d.cfg.Chip.Engines[0].Functions {
		d.end(Prepared, now,
			status.Inval.Errorf("personality %v, function %d of %d, %d mailboxes and %d interrupts of %d engines",
				p.Personality, d.cfg.PF, d.cfg.Chip.Engines[0].Functions, len(d.cfg.MFW), len(d.cfg.Int), n), done)
		return
	}
	var steps []step
	for i := range n {
		steps = append(steps, d.prepareHwfn(i)...)
	}
	d.run(steps, now, func(now frame.Time, err error) {
		if err != nil {
			switch d.Hwfns = nil; {
			case d.failed > 0:
				d.prepared = FailedEng2
			case d.prepared == PrepareSuccess:
				d.prepared = FailedMem
			}
		}
		d.end(Prepared, now, err, done)
	})
}

// Prepared tells how hw_prepare found the device.
func (d *Dev) Prepared() Prepare { return d.prepared }

// failed notes why hw_prepare fails.
func (h *Hwfn) failed(why Prepare, err error) error {
	if err != nil {
		h.dev.prepared = why
	}
	return err
}

// bad is an error that a relaxed probe goes on with.
func (h *Hwfn) bad(why Prepare, err error) error {
	if err != nil && h.dev.params.Relaxed {
		h.dev.prepared = why
		h.notice(msglog.Probe, "%v: %v", why, err)
		return nil
	}
	return h.failed(why, err)
}

func (d *Dev) prepareHwfn(i int) []step {
	e := d.cfg.Chip.Engines[i]
	h := &Hwfn{Index: i, dev: d, engine: e, storm: &e.storms[d.cfg.PF], mfw: d.cfg.MFW[i], irq: d.cfg.Int[i]}
	return []step{
		instant(i, "ptt_pool", func(frame.Time) error {
			h.BAR = hw.NewBAR(i, &e.Regs)
			h.BAR.Bell = h.storm.bell
			h.BAR.Trace = func(a hw.Access) {
				if d.cfg.Log.On(msglog.HW) {
					h.verbose(msglog.HW, "%v", a)
				}
			}
			h.BAR.Warn = func(err error) { h.notice(msglog.HW, "%v", err) }
			d.Hwfns = append(d.Hwfns[:i], h)
			return nil
		}, func(frame.Time) { d.Hwfns = d.Hwfns[:i] }),
		instant(i, "me_register", func(frame.Time) error {
			if v, err := h.BAR.Rd(h.BAR.Main(), regME); err != nil || v == 0xffffffff {
				return h.failed(FailedME, status.NoDev.Errorf("%v: the ME register reads %#x: the chip does not answer",
					h, v))
			}
			return nil
		}, nil),
		instant(i, "mcp_init", func(frame.Time) error { return h.bad(BadMCP, h.mfw.Init()) }, nil),
		instant(i, "hw_info", h.hwInfo, nil),
		{i, "flr", h.flr, nil},
		instant(i, "igu_info", func(frame.Time) error {
			if h.irq.SBs() < 1 {
				return h.bad(BadIGU, status.NoResources.Errorf("%v: no status block beside the slowpath's", h))
			}
			return nil
		}, nil),
		{i, "resources", h.shares, nil},
	}
}

// regME says which function the reader is.
const regME = 0x2a8100

// hwInfo reads the function's own data and decides on its personality.
func (h *Hwfn) hwInfo(frame.Time) error {
	f, err := h.mfw.FuncInfo()
	if err != nil {
		if err = h.bad(BadMCP, err); err != nil {
			return err
		}
		f = FuncInfo{Caps: CapEth}
	}
	if f.NoNVM {
		return h.failed(FailedNVM, status.NoDev.Errorf("%v: the NVM cannot be read", h))
	}
	if f.MTU == 0 {
		f.MTU = 1500
	}
	if p := h.dev.params.Personality; p != Default {
		f.Personality = p
	}
	if f.Personality >= Default {
		return h.failed(FailedNVM, status.Inval.Errorf("%v: the NVM has no personality", h))
	}
	if need := f.Personality.needs(); f.Caps&need != need {
		return h.failed(FailedDev, status.Inval.Errorf("%v: personality %v: the board cannot do that", h,
			f.Personality))
	}
	h.info = Info{f, h.engine.Functions}
	h.verbose(msglog.Probe, "personality %v, MTU %d, %d functions on the engine", f.Personality, f.MTU,
		h.info.Functions)
	return nil
}

func (h *Hwfn) flr(now frame.Time, done Done) {
	if !h.dev.params.InitiateFLR {
		done(now, nil)
		return
	}
	h.mfw.InitiatePFFLR(now, func(now frame.Time, err error) {
		if err == nil {
			h.storm.cleanup()
		}
		done(now, soft(err))
	})
}

// soft is an error, unless the firmware does not know the command.
func soft(err error) error {
	if status.Of(err) == status.NotImpl {
		return nil
	}
	return err
}

// shares finds what is the function's of every resource. Meanwhile no other function of
// the chip asks.
func (h *Hwfn) shares(now frame.Time, done Done) {
	if h.defaultShares() {
		h.share(0, now, done)
		return
	}
	h.mfw.LockShares(now, func(now frame.Time, err error) {
		if soft(err) != nil {
			done(now, h.failed(FailedDev, err))
			return
		}
		h.share(0, now, func(now frame.Time, err error) {
			h.mfw.UnlockShares(now, func(now frame.Time, _ error) { done(now, err) }) // a lock ends by itself
		})
	})
}

// defaultShares tells whether the driver takes what it thinks is its own.
func (h *Hwfn) defaultShares() bool { return h.dev.params.DriverShares || h.dev.prepared == BadMCP }

func (h *Hwfn) share(r Resource, now frame.Time, done Done) {
	if r == NumResources {
		done(now, nil)
		return
	}
	chip, d := h.dev.cfg.Chip, h.dev
	def := defaultShare(chip.Kind, r, h.info.Functions, d.cfg.PF, h.info.Personality)
	if h.defaultShares() {
		h.res[r] = def
		h.share(r+1, now, done)
		return
	}
	h.mfw.Share(r, now, func(now frame.Time, s Share, err error) {
		switch {
		case status.Of(err) == status.NotImpl:
			s = def
		case err != nil:
			done(now, h.failed(FailedDev, err))
			return
		case !s.fits(chip.Kind, r):
			done(now,
				h.failed(FailedDev, status.Inval.Errorf("%v: the MFW gives %v %d to %d, which the engine does not have",
					h, r, s.Start, s.Start+s.Num-1)))
			return
		}
		h.res[r] = s
		h.share(r+1, now, done)
	})
}

// Share is what the function has of a resource.
func (h *Hwfn) Share(r Resource) Share { return h.res[r] }

// Info is what hw_prepare has found.
func (h *Hwfn) Info() Info { return h.info }

// HWRemove tells the management firmware that there is no driver, and forgets
// the hwfns.
func (d *Dev) HWRemove(now frame.Time) error {
	d.now = now
	return d.simple("hw_remove", Struct, func() error {
		if !d.recovery && d.prepared != BadMCP {
			d.Lead().mfw.DriverState(DriverNotLoaded, now)
		}
		d.Hwfns, d.image, d.inflate = nil, nil, nil
		return nil
	}, Prepared)
}
