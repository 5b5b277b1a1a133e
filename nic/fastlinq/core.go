package fastlinq

import (
	"errors"
	"fmt"
	"slices"

	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/hardware"
	"tapir/nic/msglog"
	"tapir/nic/param"
	"tapir/nic/verbs"
	"tapir/nic/view"
	"tapir/wire/frame"
)

// driverCore is the NIC's driver core: it has the function's life cycle, from
// init_struct, when the NIC is made, to hw_remove, when it is closed.
type driverCore struct {
	chip   *ecore.Chip
	dev    *ecore.Dev
	queues [cmt.Engines][]int // connection ids of the Ethernet queues of each hwfn
	lost   bool               // the firmware was, since the last load
	up     bool               // hw_init has ended
	open   bool               // the netdev of the host function is

	recovered  frame.Time // when the last recovery was over; 0: never
	recovering bool       // one has begun by itself

	overflow [cmt.Engines]bool // the doorbell queue has lost one
	held     []*hw.PTT         // windows that nobody else gets, by a fault
}

// The limits that a NIC knows are those of the driver core.
var (
	_ = [1]int{}[hardware.DefaultQPs-ecore.DefaultQPs]
	_ = [1]int{}[hardware.MaxQPs-ecore.MaxQPs]
	_ = [1]int{}[hardware.DefaultSRQs-ecore.DefaultSRQs]
	_ = [1]int{}[hardware.MaxSRQs-ecore.MaxSRQs]
	_ = [1]int{}[hardware.MaxTasks-ecore.MaxTasks]
)

// composeCore makes the driver core of the function.
func (d driver) composeCore() error {
	c := &d.core
	c.chip = d.adapter.chips[d.path]
	var mailboxes []ecore.MFW
	var interrupts []ecore.Interrupts
	for e, m := range []*mcp.MCP{d.management.mcp, d.management.second}[:d.cfg.Engines] {
		mailboxes = append(mailboxes, &coreMFW{mcp: m, eSwitch: d.eSwitch, port: d.port / d.adapter.cfg.Mode.paths(),
			caps: ecore.CapEth | ecore.CapIWARP | ecore.CapRoCE | ecore.CapISCSI | ecore.CapFCoE,
			note: d.management.note,
			now:  d.now})
		interrupts = append(interrupts, coreIRQ{d.interrupts.dev.Hwfns[e]})
	}
	c.dev = ecore.New(ecore.Config{
		Name: d.cfg.Name, Chip: c.chip, PF: d.pf, MFW: mailboxes, Int: interrupts,
		Hooks: ecore.Hooks{
			SlowpathIRQReq:  d.slowpathIRQ,
			SlowpathIRQFree: func(h *ecore.Hwfn) { d.interrupts.slowpath[h.Index] = false },
			BeforePFStart:   func(h *ecore.Hwfn) error { d.resetFirmware(h); return nil },
			AfterPFStop:     func(h *ecore.Hwfn) { d.onVport(h.Index, (*l2.Function).Reset) },
			HWError:         func(_ *ecore.Hwfn, kind ecore.HWError, _ error) { d.hwErrorOccurred(kind) },
			ScheduleRecovery: func(h *ecore.Hwfn) {
				d.management.fw.ProcessKill(d.path + h.Index)
			},
			DoorbellRecovery: func(h *ecore.Hwfn) {
				d.log.Say(msglog.Notice, msglog.HW, "[%v] doorbells were lost, all are rung again", h)
			},
		}, Log: d.log,
	})
	d.contexts.compose()
	d.light.compose()
	if d.iscsi != nil {
		d.iscsi.compose()
	}
	d.fcoe.compose()
	return c.dev.InitStruct()
}

// slowpathIRQ is the client's part of the slowpath's interrupt: the service
// routine is that of the device, if it has a vector.
func (d *Device) slowpathIRQ(h *ecore.Hwfn) error {
	if i := d.interrupts.dev; i.Vectors() == 0 && i.Mode() != irq.Poll || i.Mode() == irq.MSIX &&
		i.Vectors() <= h.Index {
		return fmt.Errorf("%v: no vector", i.Mode())
	}
	d.interrupts.slowpath[h.Index] = true
	return nil
}

// Core is the NIC's driver core. After a call to it, Manage lets it work.
func (d *Device) Core() *ecore.Dev { return d.core.dev }

// Chip is the hardware below it, with its faults.
func (d *Device) Chip() *ecore.Chip { return d.core.chip }

// pfParams are the parameters of the function: contexts for all that the
// configuration allows.
func (d driver) pfParams() (p ecore.PFParams) {
	l := d.verbs.Limits()
	p.Eth.Cons = 2 * d.queuePairs()
	if d.cfg.RDMA.RDMA() {
		p.RDMA.QPs, p.RDMA.MRs, p.RDMA.SRQs = l.MaxQP, 1+max(l.MaxMR, l.MaxMW), l.MaxSRQ
	}
	if v, _ := d.cfg.Storage(); v != nil {
		p.Storage.Cons, p.Storage.Tasks = v.Conns, v.Tasks
		if d.cfg.RDMA == verbs.FCoE {
			p.Storage.Cons++ // dummy_icid
		}
	}
	return p
}

func (d *Device) queuePairs() int { return max(1, d.cfg.Queues) }

func (d driver) personality() ecore.Personality {
	return [...]ecore.Personality{verbs.IWARP: ecore.EthIWARP, verbs.RoCE: ecore.EthRoCE,
		verbs.Ethernet: ecore.Eth,
		verbs.ISCSI:    ecore.ISCSI, verbs.FCoE: ecore.FCoE}[d.cfg.RDMA]
}

// coreUp loads the function: hw_prepare to hw_init. If that fails it is as
// before.
func (d driver) coreUp(p ecore.LoadParams, now frame.Time, done ecore.Done) {
	dev := d.core.dev
	end := func(now frame.Time, err error) {
		if d.core.up = err == nil; err != nil {
			d.coreFree(now)
		}
		done(now, err)
	}
	init := ecore.InitParams{Tunnels: ecore.DefaultTunnels(), IntMode: ecore.IntMode(d.interrupts.dev.Mode()), Load: p}
	initialised := func(now frame.Time, err error) {
		if err == nil {
			err = d.openQueues()
		}
		if err == nil && d.core.lost {
			d.core.lost = false
			err = dev.Recovered()
			d.core.recovered = now
		}
		end(now, err)
	}
	allocated := func(now frame.Time, err error) {
		if err == nil {
			err = dev.RescSetup()
		}
		if err != nil {
			end(now, err)
			return
		}
		dev.HWInit(init, now, initialised)
	}
	fetched := func(now frame.Time, err error) {
		if err != nil {
			end(now, err)
			return
		}
		dev.RescAlloc(now, allocated)
	}
	prepare := ecore.PrepareParams{Personality: d.personality(),
		InitiateFLR: len(d.adapter.functions) > 1 && !p.CrashKernel} // a predecessor may have crashed
	dev.HWPrepare(prepare, now, func(now frame.Time, err error) {
		if err == nil {
			err = dev.SetPFParams(d.pfParams())
		}
		if err != nil {
			end(now, err)
			return
		}
		d.coreFirmware(&init, now, fetched)
	})
}

// openQueues takes a connection id for each Ethernet queue.
func (d driver) openQueues() error {
	for e, h := range d.core.dev.Hwfns {
		for range 2 * d.queuePairs() {
			cid, err := h.Contexts().Acquire(cxt.Eth)
			if err != nil {
				return err
			}
			d.core.queues[e] = append(d.core.queues[e], cid)
		}
	}
	return nil
}

// coreDown unloads the function: RDMA and the netdev are closed, then hw_stop to hw_remove.
// It goes on after errors.
func (d driver) coreDown(now frame.Time, done ecore.Done) {
	c := &d.core
	if c.dev.State() != ecore.Running {
		done(now, nil)
		return
	}
	c.up, c.held = false, nil
	bad := d.open(false)
	for e, h := range c.dev.Hwfns {
		for _, cid := range slices.Backward(c.queues[e]) {
			d.management.note(h.Contexts().Release(cid))
		}
		c.queues[e] = nil
	}
	c.dev.HWStop(now, func(now frame.Time, err error) {
		d.coreFree(now)
		done(now, errors.Join(bad, err))
	})
}

// coreFree goes back from wherever the function stands, but from running, to
// hw_remove.
func (d driver) coreFree(now frame.Time) {
	dev := d.core.dev
	for _, call := range []struct {
		in []ecore.State
		do func() error
	}{
		{[]ecore.State{ecore.Stopped}, dev.ReleaseSlowpathIRQ},
		{[]ecore.State{ecore.Stopped}, dev.IntDisablePostISRRelease},
		{[]ecore.State{ecore.Allocated, ecore.Setup, ecore.Quiet}, dev.RescFree},
		{[]ecore.State{ecore.Prepared}, func() error { return dev.HWRemove(now) }},
	} {
		if slices.Contains(call.in, dev.State()) {
			d.management.note(call.do())
		}
	}
}

// DeviceRows implements hardware.View: the driver core.
func (d display) DeviceRows() (rows []view.DeviceRow) {
	rows = []view.DeviceRow{textRow("core_state", "%v", d.core.dev.State()),
		textRow("core_health", "%s", d.core.dev.HealthState())}
	policy := param.Find(d.Config().Params(), "fw_load_policy").Get()
	for _, h := range d.core.dev.Show() {
		rows = append(rows, d.hwfnRows(&h, policy)...)
	}
	rows = append(append(rows, d.contexts.rows()...), d.sriov.rows()...)
	rows = append(append(append(rows, d.light.rows()...), d.iscsi.rows()...), d.fcoe.rows()...)
	health := d.core.dev.Health()
	for e, n := range health.Errors {
		if n > 0 {
			rows = append(rows, countRow("hw_error", ecore.HWError(e).String(), n))
		}
	}
	return rows
}

func textRow(name, format string, args ...any) view.DeviceRow {
	return view.DeviceRow{Name: name, Value: fmt.Sprintf(format, args...)}
}

func useRow(name string, used, limit, ever int) view.DeviceRow {
	return view.DeviceRow{Name: name, Used: new(used), Limit: new(limit), Ever: new(ever)}
}

func partRow(name, what string, used, limit int) view.DeviceRow {
	return view.DeviceRow{Name: name, Value: what, Used: new(used), Limit: new(limit)}
}

func countRow(name, what string, n uint64) view.DeviceRow {
	return view.DeviceRow{Name: name, Value: what, Ever: new(int(n))}
}

// hwfnRows describes a hwfn, which takes its firmware by a policy.
func (d display) hwfnRows(h *ecore.HwfnInfo, policy string) []view.DeviceRow {
	rows := []view.DeviceRow{
		textRow("hwfn", "%s-%d: %v, function %d, MF mode %v", h.Device, h.Hwfn, h.Chip, h.PF, h.MF),
		textRow("core_personality", "%v", h.Personality),
		textRow("int_mode", "%v", h.IntMode),
		textRow("load", "%v", h.Load),
		textRow("storm_firmware", "%v as %v, fw_load_policy %s", h.Firmware, h.Form, policy),
	}
	for _, ph := range h.Phases {
		rows = append(rows, textRow("phase", "%s", ph))
	}
	for t, on := range h.Tunnels.On {
		if on {
			rows = append(rows, textRow("tunnel", "%v", ecore.Tunnel(t)))
		}
	}
	for _, s := range d.shares(h) {
		rows = append(rows, view.DeviceRow{Name: "share", Value: s.of.String(), Used: s.used, Limit: new(s.limit)})
	}
	rows = append(rows, useRow("ptt", hw.Allocatable-h.PTT.Free, hw.Allocatable, int(h.PTT.Lent)))
	for _, c := range h.CIDs {
		rows = append(rows, partRow("cid", c.Protocol.String(), c.Used, c.Count))
	}
	if h.SRQs[1] > 0 {
		rows = append(rows, partRow("srq_contexts", "", h.SRQs[0], h.SRQs[1]))
	}
	for c, l := range h.Lines {
		rows = append(rows, partRow("ilt", cxt.Client(c).String(), l.Count, h.ILTLimit))
	}
	rows = append(rows,
		partRow("ilt", "lines", h.ILTUsed, h.ILTLimit), partRow("ilt", "mapped on use", h.ILTMapped, h.ILTUsed),
		partRow("rdma_tasks", "", min(d.verbs.Tasks(), h.Tasks), h.Tasks),
		partRow("rt_slots", "", h.RTValid, rt.Slots),
		useRow("spq", h.SPQ.InUse, spq.Elements, int(h.SPQ.Posted)),
		countRow("spq_completed", "", h.SPQ.Completed), countRow("spq_waited", "", h.SPQ.Unlimited),
		countRow("spq_stuck", "", h.SPQ.Stuck), countRow("eq_async", "", h.EQ.Async),
		countRow("doorbell_recoveries", "", h.BellsAgain), countRow("ptt_failed", "", h.PTT.Failed))
	for _, c := range h.ByCommand {
		rows = append(rows, countRow("ramrod", RamrodName(c), c.Count))
	}
	return append(rows, useRow("eq", int(h.EQ.Waiting), h.EQ.Elements, int(h.EQ.Events)))
}

// coreLost is the end of a function whose firmware is gone: nothing is asked of
// it on the way down, and the next load is a recovery.
func (d driver) coreLost(now frame.Time) {
	if d.core.dev.State() == ecore.Running && !d.core.dev.Recovering() {
		d.management.note(d.core.dev.RecoveryProlog(now))
	}
	d.core.lost = true
	d.coreDown(now, func(_ frame.Time, err error) { d.management.note(err) })
}

// doorbellLost handles the attention of the doorbell queue of an engine.
func (d driver) doorbellLost(engine int, now frame.Time) {
	d.interrupts.dev.Hwfns[engine].AttnDeassert(irq.AttnDORQ, now)
	if engine < len(d.core.dev.Hwfns) {
		d.core.dev.Hwfns[engine].DoorbellOverflow(now)
	}
}

// chipFaults gives the chip its faults.
func (d driver) chipFaults(f settings.ChipFaults) {
	c := &d.core
	all := f
	d.adapter.neighbours(d.Device, func(o *Device) { all |= o.cfg.Board.Chip })
	for _, e := range c.chip.Engines {
		e.Regs.StuckDMA = all&settings.FaultDMA != 0
		d.management.note(e.Inject(d.pf, ecore.PFFaults{Stuck: f&settings.FaultStorm != 0,
			LoseBells: f&settings.FaultDoorbells != 0}))
	}
	for _, p := range c.held {
		d.management.note(p.Release())
	}
	c.held = nil
	for _, h := range c.dev.Hwfns {
		for f&settings.FaultWindows != 0 {
			p := h.BAR.TryAcquire("chip_fault")
			if p == nil {
				break
			}
			c.held = append(c.held, p)
		}
	}
	to := d.management.fw.Faults()
	if to.Refuse = 0; all&settings.FaultLoad != 0 {
		to.Refuse = mfw.RefusedReject
	}
	d.management.fw.SetFaults(to)
}

// pollCore lets the core work; in mode POLL nobody else looks at its
// interrupts.
func (d driver) pollCore(now frame.Time) frame.Time {
	for e, lost := range d.core.overflow {
		if lost {
			d.core.overflow[e] = false
			d.interrupts.dev.Hwfns[e].AttnAssert(irq.AttnDORQ, now)
		}
	}
	next := d.core.dev.Poll(now)
	if i := d.interrupts.dev; i.Mode() == irq.Poll && i.Look(now) {
		return now
	}
	return next
}
