package ecore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// clean fails unless nothing of a device is left around it (C5).
func (x *bed) clean(when string) {
	x.t.Helper()
	for i, m := range x.mfw {
		if m.phase != idle {
			x.t.Errorf("%s: the books have hwfn %d in phase %d", when, i, m.phase)
		}
		if n := x.irq[i].registered(); n != 0 || x.irq[i].enabled || x.irq[i].isr {
			x.t.Errorf("%s: hwfn %d: %d indices, enabled %v, ISR %v", when, i, n, x.irq[i].enabled, x.irq[i].isr)
		}
		if s := &x.chip.Engines[i].storms[x.d.cfg.PF]; s.started || s.hwfn != nil {
			x.t.Errorf("%s: the firmware of hwfn %d: started %v, attached %v", when, i, s.started, s.hwfn != nil)
		}
	}
	if n := x.d.Health().Leaked; n != 0 {
		x.t.Errorf("%s: %d connection ids leaked", when, n)
	}
}

// IN-01, IN-02, IN-04, IN-06, IN-08, IN-25, IN-26, OV-06
func TestLife(t *testing.T) {
	for _, x := range []*bed{single(t), dual(t)} {
		for turn := range 2 {
			for i, c := range calls {
				if turn > 0 && i == 0 {
					continue // hw_remove leads back behind init_struct
				}
				if err := c.do(x); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if n := len(x.d.Hwfns); c.from >= Prepared && c.name != "hw_remove" && n != len(x.chip.Engines) {
					t.Errorf("%d hwfns after %s", n, c.name)
				}
				for _, h := range x.d.Hwfns {
					if s := h.BAR.Stats(); s.Free != hw.Allocatable || s.Misused != 0 {
						t.Errorf("%s: windows %+v", c.name, s)
					}
				}
			}
			if x.d.State() != Struct || len(x.d.Hwfns) != 0 {
				t.Errorf("state %v, %d hwfns", x.d.State(), len(x.d.Hwfns))
			}
			x.clean("in the end")
		}
		want := []string{"irq_req 0", "before_pf_start 0", "after_pf_stop 0", "irq_free 0"}
		if len(x.irq) == 2 {
			want = []string{"irq_req 0", "before_pf_start 0", "irq_req 1", "before_pf_start 1", "after_pf_stop 0", "after_pf_stop 1", "irq_free 0", "irq_free 1"}
		}
		if !slices.Equal(x.said, append(want, want...)) {
			t.Errorf("hooks %v, want twice %v", x.said, want)
		}
	}
}

// Every call in every state in which it is not to be: INVAL, and the state
// stays. OV-04
func TestOutOfOrder(t *testing.T) {
	for i := range calls {
		x := single(t)
		for _, c := range calls[:i] {
			if err := c.do(x); err != nil {
				t.Fatal(err)
			}
		}
		state := x.d.State()
		if state == Stopped && x.irq[0].isr {
			if err := x.d.IntDisablePostISRRelease(); !errors.Is(err, status.Inval) {
				t.Errorf("int_disable_post_isr_release before the ISR is released: %v", err)
			}
		}
		for _, c := range calls {
			if c.from == state || c.name == "resc_free" && (state == Allocated || state == Setup) {
				continue
			}
			if err := c.do(x); !errors.Is(err, status.Inval) {
				t.Errorf("%s in state %v: %v", c.name, state, err)
			}
			if x.d.State() != state || x.d.Call() != "" {
				t.Fatalf("%s in state %v led to %v, call %q", c.name, state, x.d.State(), x.d.Call())
			}
		}
	}
}

// A call within a call is BUSY.
func TestBusy(t *testing.T) {
	x := single(t).to("resc_setup")
	x.board.delay = true
	var err error
	x.d.HWInit(InitParams{}, 0, func(_ frame.Time, e error) { err = e })
	for _, again := range []error{x.d.RescFree(), x.wait(func(done Done) { x.d.HWStop(0, func(now frame.Time, e error) { done(now, e); x.d.call = "" }) })} {
		if !errors.Is(again, status.Busy) {
			t.Errorf("in the middle of hw_init: %v", again)
		}
		x.d.call = "hw_init"
	}
	for x.board.delay = false; len(x.board.queue) > 0; x.board.queue = x.board.queue[1:] {
		x.board.queue[0]()
	}
	for x.d.Poll(0) == 0 {
	}
	if err != nil || x.d.State() != Running {
		t.Errorf("%v, state %v", err, x.d.State())
	}
}

// IN-07
func TestSetupTouchesNoChip(t *testing.T) {
	x := single(t).to("resc_alloc")
	h := x.d.Lead()
	touched := 0
	h.BAR.Trace = func(hw.Access) { touched++ }
	if err := x.d.RescSetup(); err != nil || touched != 0 || h.RT().Valid() < 30 {
		t.Errorf("%v: %d accesses, %d slots", err, touched, h.RT().Valid())
	}
	last := h.Contexts().Lines(cxt.SRC).First
	v, ok := h.RT().Load(rt.ILT.Slot + 2*last + 1)
	if !ok || v&iltValid == 0 {
		t.Errorf("ILT line %d: %#x, %v", last, v, ok)
	}
	if err := x.init(InitParams{Tunnels: DefaultTunnels()}); err != nil || touched == 0 {
		t.Errorf("hw_init: %v, %d accesses", err, touched)
	}
	if v := x.chip.Engines[0].Regs.Read(rt.ILT.Addr + 4*uint32(2*last+1)); v&iltValid == 0 || h.RT().Valid() != 0 {
		t.Errorf("ILT in the chip: %#x, %d slots left", v, h.RT().Valid())
	}
}

// HW-03, HW-08: a line of RDMA is mapped through a window when it is first
// used, and BUSY without one.
func TestDynamicILT(t *testing.T) {
	x := single(t).to("hw_init")
	h := x.d.Lead()
	var cid int
	for range 64 { // ids 80 to 143, the last of which are in line 2
		var err error
		if cid, err = h.Contexts().Acquire(cxt.IWARP); err != nil {
			t.Fatal(err)
		}
	}
	addr := rt.ILT.Addr + uint32(8*(cid/64)+4)
	if v := x.chip.Engines[0].Regs.Read(addr); v != 0 {
		t.Fatalf("line %d is mapped already: %#x", cid/64, v)
	}
	var windows []*hw.PTT
	for p := h.BAR.TryAcquire("hoarder"); p != nil; p = h.BAR.TryAcquire("hoarder") {
		windows = append(windows, p)
	}
	if _, err := h.Contexts().CIDInfo(cid); !errors.Is(err, status.Busy) {
		t.Errorf("without a window: %v", err)
	}
	for _, p := range windows {
		h.BAR.Release(p)
	}
	if _, err := h.Contexts().CIDInfo(cid); err != nil || x.chip.Engines[0].Regs.Read(addr)&iltValid == 0 {
		t.Errorf("%v", err)
	}
	for cid := 80; cid < 144; cid++ {
		if err := h.Contexts().Release(cid); err != nil {
			t.Fatal(err)
		}
	}
	x.down()
	x.clean("dynamic ILT")
}

// IN-05
func TestNoPFParams(t *testing.T) {
	x := single(t).to("hw_prepare")
	if err := calls[3].do(x); !errors.Is(err, status.Inval) || !strings.Contains(err.Error(), "no pf_params") || x.d.State() != Prepared {
		t.Errorf("%v, state %v", err, x.d.State())
	}
	x.clean("after a refused resc_alloc")
	for what, set := range map[string]func(p *PFParams){
		"QPs":     func(p *PFParams) { p.RDMA.QPs = -1 },
		"VFs":     func(p *PFParams) { p.VFs = 193 },
		"cons":    func(p *PFParams) { p.Eth.Cons = 1 << 23 },
		"too big": func(p *PFParams) { p.Eth.Cons = 1 << 20 },
	} {
		p := params()
		set(&p)
		if err := x.d.SetPFParams(p); err != nil {
			t.Fatal(err)
		}
		if err := calls[3].do(x); !errors.Is(err, status.Inval) {
			t.Errorf("%s: %v", what, err)
		}
		x.clean(what)
	}
}

// The unwinding, at every step of every call: the state is that before, and
// the same call works afterwards. B 3: "hw prepare failed" and a crash behind
// it. IN-15, IN-09
func TestUnwind(t *testing.T) {
	needEmulation(t)
	steps := map[string]bool{}
	for _, make := range []func(testing.TB) *bed{single, dual} {
		x := make(t)
		var all []string
		x.fault = func(hwfn int, step string) error { all = append(all, fmt.Sprint(step, " ", hwfn)); return nil }
		x.to("hw_remove")
		for _, at := range all {
			steps[at] = true
			x := make(t)
			failed := false
			x.fault = func(hwfn int, step string) error {
				if !failed && fmt.Sprint(step, " ", hwfn) == at {
					failed = true
					return status.NoMem.Errorf("injected at %s", at)
				}
				return nil
			}
			for _, c := range calls {
				state := x.d.State()
				err := c.do(x)
				if err == nil {
					continue
				}
				if !strings.Contains(err.Error(), "injected") {
					t.Fatalf("%s: %s: %v", at, c.name, err)
				}
				if c.name == "hw_stop" { // goes on, and is stopped
					if x.d.State() != Stopped || status.Of(err) != status.UnknownError {
						t.Errorf("%s: %v, state %v", at, err, x.d.State())
					}
					continue
				}
				if x.d.State() != state {
					t.Fatalf("%s leaves state %v, was %v", at, x.d.State(), state)
				}
				if c.name == "hw_init" {
					for i, m := range x.mfw {
						if m.phase != idle || slices.Contains(m.log, "LOAD_REQ") != slices.Contains(m.log, "LOAD_DONE") || x.irq[i].isr {
							t.Errorf("%s: hwfn %d: phase %d, ISR %v, %q", at, i, m.phase, x.irq[i].isr, m.log)
						}
					}
				}
				if err := c.do(x); err != nil {
					t.Fatalf("%s: the second %s: %v", at, c.name, err)
				}
			}
			if !failed {
				t.Errorf("%s was never reached", at)
			}
			x.clean(at)
		}
	}
	if len(steps) < 80 {
		t.Errorf("only %d steps", len(steps))
	}
}

// IN-09, IN-10
func TestSlowpathInterrupt(t *testing.T) {
	x := single(t).to("resc_setup")
	x.d.cfg.Hooks.SlowpathIRQReq = func(*Hwfn) error { return errors.New("no vector") }
	if err := x.init(InitParams{}); !errors.Is(err, status.NoResources) || !strings.Contains(err.Error(), "no vector") {
		t.Errorf("a client without an interrupt: %v", err)
	}
	if want := "LOAD_REQ ENGINE FEATURE_SUPPORT LOAD_DONE UNLOAD_REQ unENGINE UNLOAD_DONE"; strings.Join(x.mfw[0].log, " ") != want {
		t.Errorf("%q, want %q", x.mfw[0].log, want)
	}
	x.d.cfg.Hooks.SlowpathIRQReq = nil // agrees, and nobody serves it
	if err := x.init(InitParams{}); !errors.Is(err, status.Busy) || !strings.Contains(err.Error(), "ramrod is stuck") {
		t.Errorf("an interrupt that nobody serves: %v", err)
	}
	if x.irq[0].fired != 0 || !slices.Contains(x.said, "hw_error RAMROD_FAIL 0") {
		t.Errorf("%d interrupts, %v", x.irq[0].fired, x.said)
	}
	x = single(t).to("hw_init")
	if x.irq[0].fired != 1 || !x.chip.Engines[0].storms[0].started {
		t.Errorf("PF_START: %d interrupts", x.irq[0].fired)
	}
}

// IN-23
func TestStopGoesOn(t *testing.T) {
	x := single(t).to("hw_init")
	x.d.InitDP(0)
	pfFaults(t, x.chip.Engines[0], 0).Stuck = true
	x.chip.Engines[0].Regs.Write(regTimers+4, 1)
	cid, err := x.d.Lead().Contexts().Acquire(cxt.IWARP)
	if err != nil {
		t.Fatal(err)
	}
	err = calls[9].do(x)
	if status.Of(err) != status.UnknownError || !strings.Contains(err.Error(), "ramrod is stuck") || x.d.State() != Stopped {
		t.Errorf("%v, state %v", err, x.d.State())
	}
	if log := x.mfw[0].log; log[len(log)-1] != "UNLOAD_DONE" || x.mfw[0].phase != idle {
		t.Errorf("%q", log)
	}
	text := strings.Join(x.lines(), "\n")
	for _, want := range []string{"ramrod is stuck", "the timers still scan", "1 ramrods are not answered"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	for _, c := range calls[10:] {
		if err := c.do(x); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	if n := x.d.Health().Leaked; n != 1 {
		t.Errorf("%d leaked, %d was", n, cid)
	}
}

// IN-24, IN-29
func TestFastpath(t *testing.T) {
	x := single(t).to("hw_init")
	regs := &x.chip.Engines[0].Regs
	open := func() bool { return regs.Read(regParser) == 1 }
	if !open() || !x.d.FastpathOpen() {
		t.Error("closed after hw_init")
	}
	if err := x.d.HWStopFastpath(); err != nil || open() || x.d.FastpathOpen() || x.mfw[0].phase != loaded {
		t.Errorf("stop_fastpath: %v, open %v", err, open())
	}
	if err := x.d.HWStartFastpath(); err != nil || !open() {
		t.Errorf("start_fastpath: %v", err)
	}
	regs.Write(regTimers, 1)
	regs.Write(regTimers+4, 1)
	before := x.now
	if err := calls[8].do(x); status.Of(err) != status.UnknownError || !strings.Contains(err.Error(), "timers still scan") || regs.Read(regTimers) != 0 {
		t.Errorf("timers: %v", err)
	}
	if took := x.now.Sub(before); took != timerTries*timerEvery {
		t.Errorf("asked for %v", took)
	}
	regs.Write(regTimers+4, 0)
	x.down()
	if open() {
		t.Error("open after hw_stop")
	}
}

// IN-12, HW-13
func TestPhases(t *testing.T) {
	chip, b := newChip(t, AH, 1, 2, 4), new(board)
	var beds []*bed
	for pf, want := range []string{"ENGINE PORT PF QM_PF", "PORT PF QM_PF", "PF QM_PF", "PF QM_PF"} {
		x := newBed(t, chip, b, pf).to("hw_init")
		ran(t, x.d.Lead(), want)
		beds = append(beds, x)
	}
	h := beds[0].d.Lead()
	run := func(ph rt.Phase, slot int) error {
		return beds[0].wait(func(done Done) {
			h.RunPhase(ph, 3, func(a *rt.Array) error { return a.Store(slot, 77) }, 0, done)
		})
	}
	if err := run(rt.VF, rt.VFZone.Slot); err != nil || chip.Engines[0].Regs.Read(rt.VFZone.Addr) != 77 || h.RT().Valid() != 0 {
		t.Errorf("VF: %v", err)
	}
	if err := run(rt.QMPF, rt.QM.Slot+5); err != nil || chip.Engines[0].Regs.Read(rt.QM.Addr+20) != 77 {
		t.Errorf("QM_PF: %v", err)
	}
	if err := run(rt.Engine, 0); !errors.Is(err, status.Inval) {
		t.Errorf("ENGINE alone: %v", err)
	}
	if err := run(rt.VF, rt.Slots); !errors.Is(err, status.Inval) {
		t.Errorf("a slot beyond the end: %v", err)
	}
	ran(t, h, "ENGINE PORT PF QM_PF VF QM_PF")
}

// IN-27
func TestTunnels(t *testing.T) {
	needEmulation(t)
	x := dual(t).to("hw_init")
	want := DefaultTunnels()
	for _, h := range x.d.Hwfns {
		if h.Tunnels() != want {
			t.Errorf("%v: %+v", h, h.Tunnels())
		}
	}
	update := func(tunn Tunnels) error { return x.wait(func(done Done) { x.d.UpdateTunnels(tunn, x.now, done) }) }
	want.VXLANPort, want.On[IPGRE], want.Class[VXLAN] = 8472, false, ClassInnerMACVNI
	if err := update(want); err != nil || x.d.Hwfns[0].Tunnels() != want || x.d.Hwfns[1].Tunnels() != want {
		t.Errorf("%v: %+v", err, x.d.Hwfns[1].Tunnels())
	}
	for what, set := range map[string]func(*Tunnels){
		"no port":   func(u *Tunnels) { u.VXLANPort = 0 },
		"no port 2": func(u *Tunnels) { u.GenevePort = 0 },
		"same port": func(u *Tunnels) { u.GenevePort = u.VXLANPort },
		"class":     func(u *Tunnels) { u.Class[L2GRE] = numClasses },
	} {
		bad := want
		set(&bad)
		if err := update(bad); !errors.Is(err, status.Inval) || x.d.Lead().Tunnels() != want {
			t.Errorf("%s: %v", what, err)
		}
		y := single(t).to("resc_setup")
		if err := y.init(InitParams{Tunnels: bad}); !errors.Is(err, status.Inval) || len(y.mfw[0].log) != 0 {
			t.Errorf("%s at hw_init: %v, %q", what, err, y.mfw[0].log)
		}
	}
	x.fault = func(hwfn int, step string) error {
		if hwfn == 1 {
			return status.IO
		}
		return nil
	}
	if err := update(DefaultTunnels()); !errors.Is(err, status.IO) || x.d.Hwfns[0].Tunnels() != want {
		t.Errorf("one engine refuses: %v, the other has %+v", err, x.d.Hwfns[0].Tunnels())
	}
}

func TestIntModes(t *testing.T) {
	x := dual(t).to("resc_setup")
	if err := x.init(InitParams{IntMode: MSI}); !errors.Is(err, status.Inval) || len(x.mfw[0].log) != 0 {
		t.Errorf("MSI on two engines: %v", err)
	}
	if err := x.init(InitParams{IntMode: Poll + 1}); !errors.Is(err, status.Inval) {
		t.Errorf("no mode: %v", err)
	}
	if err := x.init(InitParams{IntMode: INTA}); err != nil {
		t.Error(err)
	}
	if err := single(t).to("resc_setup").init(InitParams{IntMode: MSI}); err != nil {
		t.Errorf("MSI on one engine: %v", err)
	}
}

// A function that is not started, as for a diagnosis.
func TestNoStart(t *testing.T) {
	x := single(t).to("resc_setup")
	if err := x.init(InitParams{NoStart: true}); err != nil || x.chip.Engines[0].storms[0].started {
		t.Errorf("%v", err)
	}
	x.down()
	x.clean("without PF_START")
}

// IT-16: ramrods of a protocol's own firmware, and the empty one.
func TestRamrods(t *testing.T) {
	x := single(t).to("hw_init")
	h := x.d.Lead()
	x.chip.Engines[0].Handle(cxt.Eth, func(pf int, el spq.Element) (uint8, uint64) { return 3, uint64(el.Data.(int)) })
	var got spq.Result
	post := func(p cxt.Protocol) error {
		return x.wait(func(done Done) {
			err := h.Post(spq.Request{Protocol: p, Cmd: 1, Data: 42, Done: func(r spq.Result, now frame.Time) { got = r; done(now, nil) }}, x.now)
			if err != nil {
				done(x.now, err)
			}
		})
	}
	if err := post(cxt.Eth); err != nil || got != (spq.Result{Code: 3, Data: 42}) {
		t.Errorf("%v, %+v", err, got)
	}
	if err := post(cxt.FCoE); err != nil || got.Code != codeNotSupported {
		t.Errorf("%v, %+v", err, got)
	}
	if err := x.wait(func(done Done) { h.Heartbeat(x.now, done) }); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	if by := fmt.Sprint(x.d.Show()[0].ByCommand); Debug && by != "[FCOE 1 ETH 1 COMMON PF_START COMMON EMPTY]" {
		t.Errorf("ramrods by command: %s", by)
	}
	for _, c := range x.d.Show()[0].ByCommand {
		if c.Count != 1 {
			t.Errorf("%v: %d times", c, c.Count)
		}
	}
	x.down()
	if err := h.Post(spq.Request{Protocol: cxt.Eth}, 0); !errors.Is(err, status.Inval) {
		t.Errorf("ramrod of a function that is down: %v", err)
	}
	if err := x.wait(func(done Done) { h.Heartbeat(x.now, done) }); !errors.Is(err, status.Inval) {
		t.Errorf("heartbeat of a function that is down: %v", err)
	}
}

// IT-17: what the firmware tells of itself comes through the interrupt.
func TestAsyncEvent(t *testing.T) {
	x := single(t).to("hw_init")
	var got []spq.Event
	h := x.d.Lead()
	if err := h.RegisterAsync(cxt.IWARP, func(e spq.Event, _ frame.Time) error { got = append(got, e); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := x.chip.Engines[0].Async(0, spq.Event{Protocol: cxt.IWARP, Opcode: 7}); err != nil {
		t.Fatal(err)
	}
	if x.d.Poll(0); len(got) != 1 || got[0].Opcode != 7 || x.irq[0].fired != 2 {
		t.Errorf("%v, %d interrupts", got, x.irq[0].fired)
	}
	if err := x.chip.Engines[0].Async(1, spq.Event{}); !errors.Is(err, status.NoDev) {
		t.Errorf("a function that is not there: %v", err)
	}
	h.UnregisterAsync(cxt.IWARP)
	x.down()
	if err := h.RegisterAsync(cxt.IWARP, nil); !errors.Is(err, status.Inval) {
		t.Errorf("after the end: %v", err)
	}
}
