package ecore

import (
	"tapir/nic/fastlinq/ecore/chain"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// allocated is what resc_alloc makes for a hwfn.
type allocated struct {
	bells  *hw.Recovery
	cxt    *cxt.Manager
	rt     rt.Array
	spq    *spq.SPQ
	spqCID int
	eq     *spq.EQ
	eqPI   int
	consQ  *chain.Chain
}

// SetPFParams says what a hwfn shall be able to do; all of them need it before
// RescAlloc. INVAL: too late or too early.
func (d *Dev) SetPFParams(p PFParams) error {
	return d.simple("pf_params", Prepared, func() error {
		for _, h := range d.Hwfns {
			h.pf = &p
		}
		return nil
	}, Prepared)
}

// RescAlloc makes the contexts, queues and tables that the parameters ask for.
// INVAL: there are no parameters, or they do not fit the function's shares.
func (d *Dev) RescAlloc(now frame.Time, done Done) {
	if steps, ok := d.steps("resc_alloc", Prepared, now, done, (*Hwfn).allocSteps); ok {
		d.run(steps, now, func(now frame.Time, err error) { d.end(Allocated, now, err, done) })
	}
}

func (h *Hwfn) allocSteps() []step {
	a := &allocated{}
	var c cxt.Config
	return []step{
		instant(h.Index, "doorbell_recovery", func(frame.Time) error {
			a.bells = hw.NewRecovery(h.BAR)
			return nil
		}, nil),
		instant(h.Index, "pf_params", func(frame.Time) (err error) {
			if h.pf == nil {
				return status.Inval.Errorf("%v: no pf_params", h)
			}
			c, err = h.contexts()
			return err
		}, nil),
		instant(h.Index, "cxt", func(frame.Time) (err error) {
			a.cxt, err = cxt.New(c)
			return err
		}, nil),
		instant(h.Index, "spq", func(frame.Time) (err error) {
			a.spq, err = spq.New(spq.Config{Bell: h.ringSPQ, Drain: h.drain, Stuck: func(err error) {
				h.HWError(RamrodFail, err)
			}})
			return err
		}, nil),
		instant(h.Index, "eq", func(frame.Time) (err error) {
			a.eq, err = spq.NewEQ(a.spq, h.events(&c))
			return err
		}, nil),
		instant(h.Index, "int", func(frame.Time) (err error) {
			a.eqPI, err = h.irq.RegisterCB(h.eqCompletion)
			return err
		}, func(frame.Time) { h.unregister(a) }),
		instant(h.Index, "consq", func(frame.Time) (err error) {
			a.consQ, err = chain.New(chain.Config{Mode: chain.PBL, Use: chain.ToProduce, Elems: consQElements,
				Size: consQSize})
			return err
		}, nil),
		instant(h.Index, "attach", func(frame.Time) error {
			h.alloc = a
			h.storm.attach(h)
			return nil
		}, func(frame.Time) { h.storm.detach(); h.alloc = nil }),
	}
}

func (h *Hwfn) unregister(a *allocated) {
	if err := h.irq.UnregisterCB(a.eqPI); err != nil {
		h.notice(msglog.Intr, "%v", err)
	}
}

// RescSetup prepares what was allocated. It writes to the runtime array only:
// the chip may be in reset.
func (d *Dev) RescSetup() error {
	return d.simple("resc_setup", Setup, func() error {
		for i, h := range d.Hwfns {
			if err := h.setup(); err != nil {
				for _, g := range d.Hwfns[:i] {
					g.unsetup()
				}
				return err
			}
		}
		return nil
	}, Allocated)
}

// setup takes the slowpath's connection and fills the runtime array.
func (h *Hwfn) setup() error {
	a := h.alloc
	if err := h.dev.fault(h.Index, "resc_setup/spq_cid"); err != nil {
		return err
	}
	cid, err := a.cxt.Acquire(cxt.Core)
	if err != nil {
		return err
	}
	a.spqCID = cid
	info, err := a.cxt.CIDInfo(cid)
	if err == nil {
		clear(info.Context)
		err = a.bells.Add(hw.DoorbellAddr(cid), 4, func() uint64 { return uint64(a.spq.Prod()) })
	}
	if err != nil {
		h.unsetup()
		return err
	}
	h.fillRT()
	a.eq.Reset()
	h.mfw.ReadShadow()
	return nil
}

// unsetup is the other end of setup.
func (h *Hwfn) unsetup() {
	a := h.alloc
	a.rt.Clear()
	if err := a.cxt.Release(a.spqCID); err != nil {
		h.notice(msglog.Obj, "%v", err)
	}
	if err := a.bells.Delete(hw.DoorbellAddr(a.spqCID)); err != nil {
		h.notice(msglog.HW, "%v", err)
	}
}

// fillRT stores what the phases of the init tool will write.
func (h *Hwfn) fillRT() {
	a, chip := h.alloc, h.dev.cfg.Chip
	for _, part := range []struct {
		block  rt.Block
		values []uint32
	}{
		{rt.PGlue, []uint32{uint32(chip.Kind), uint32(h.info.Functions)}},
		{rt.QMCommon, []uint32{uint32(h.res[PQ].Start), uint32(h.res[PQ].Num), uint32(h.res[RL].Start),
			uint32(h.res[RL].Num)}},
		{rt.NIGPort, []uint32{uint32(h.info.Port), uint32(chip.MF), uint32(h.info.OuterVLAN.ID)}},
		{rt.PRSPort, []uint32{uint32(h.info.MTU)}},
		{rt.IGU, []uint32{uint32(h.res[SB].Start), uint32(h.irq.SBs())}},
		{rt.CAU, []uint32{uint32(a.eqPI)}},
		{rt.DORQ, []uint32{uint32(a.spqCID)}},
		{rt.PRS, []uint32{uint32(h.info.Personality.firmware()), 1}},
		{rt.QM, []uint32{uint32(min(pfQueues, h.res[PQ].Num))}},
	} {
		h.store(part.block.Slot, part.values...)
	}
	h.fillILT()
}

// store keeps values for slots that blocks have.
func (h *Hwfn) store(slot int, values ...uint32) {
	if err := h.alloc.rt.StoreAll(slot, values); err != nil {
		panic("ecore: " + err.Error())
	}
}

// fillILT stores the lines of each client: their bounds, and an address for
// each page that is there from the beginning.
func (h *Hwfn) fillILT() {
	for c := range cxt.NumClients {
		l := h.alloc.cxt.Lines(c)
		h.store(rt.PSWRQ2.Slot+2*int(c), uint32(l.First), uint32(l.First+l.Count))
		from, to := h.alloc.cxt.Dynamic(c)
		for i := range l.Count {
			if i < from || i >= to {
				entry := iltEntry(l.First + i)
				h.store(rt.ILT.Slot+2*(l.First+i), entry[:]...)
			}
		}
	}
}

// iltEntry is a line as the chip has it: the address of its page, and that it
// is valid.
func iltEntry(line int) [2]uint32 {
	addr := uint64(line) * cxt.PageSize >> 12
	return [2]uint32{uint32(addr), uint32(addr>>32) | iltValid}
}

// mapLine gives a line its page on first use, for which it needs a window.
// BUSY: none is free.
func (h *Hwfn) mapLine(line int) error {
	p := h.BAR.TryAcquire("dynamic ILT")
	if p == nil {
		return status.Busy.Errorf("%v: no PTT window for ILT line %d", h, line)
	}
	entry := iltEntry(line)
	err := h.BAR.HostToGRC(p, entry[:], rt.ILT.Addr+uint32(8*line))
	if bad := h.BAR.Release(p); err == nil {
		err = bad
	}
	return err
}

// iltValid marks a line, bit 52 of its 64.
const iltValid = 1 << 20

// RescFree gives back what RescAlloc made. Connection ids that nobody released
// are told and counted.
func (d *Dev) RescFree() error {
	return d.simple("resc_free", Prepared, func() error {
		for _, h := range d.Hwfns {
			h.free()
		}
		return nil
	}, Allocated, Setup, Quiet)
}

func (h *Hwfn) free() {
	a := h.alloc
	if h.dev.state != Allocated {
		h.unsetup()
	}
	for _, u := range a.cxt.CIDs(-1) {
		if u.Used > 0 {
			h.notice(msglog.Obj, "%d connection ids of %v not released", u.Used, u.Protocol)
		}
	}
	h.dev.health.Leaked += a.cxt.Leaked()
	h.unregister(a)
	h.storm.detach()
	h.alloc, h.pf = nil, nil
}

// Contexts is the context manager, nil while there is none.
func (h *Hwfn) Contexts() *cxt.Manager {
	if h.alloc == nil {
		return nil
	}
	return h.alloc.cxt
}

// Doorbells is the list for doorbell recovery, nil while there is none.
func (h *Hwfn) Doorbells() *hw.Recovery {
	if h.alloc == nil {
		return nil
	}
	return h.alloc.bells
}
