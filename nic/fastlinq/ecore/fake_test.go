package ecore

import (
	"fmt"
	"strings"
	"testing"

	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// phase is where a function is in the fake firmware's books.
type phase uint8

const (
	idle phase = iota
	loading
	loaded
	unloading
)

// board is a management firmware of a few lines: its books over all functions.
type board struct {
	fns   []*mailbox
	delay bool // answers wait for answer()
	queue []func()
	now   frame.Time
}

// mailbox is one function's on one engine.
type mailbox struct {
	b            *board
	engine, port int
	phase        phase
	role         string
	info         FuncInfo
	shares       map[Resource]Share
	dead         error // of Init and FuncInfo
	refuse       error
	log          []string
	state        DriverState
	down         bool
	stuckDrain   bool
}

func (m *mailbox) answer(now frame.Time, what string, fn func(now frame.Time)) {
	if m.down {
		m.log = append(m.log, what+" in recovery")
	}
	m.log = append(m.log, what)
	if m.b.delay {
		m.b.queue = append(m.b.queue, func() { fn(m.b.now) })
		return
	}
	fn(now)
}

// others counts loaded functions on the engine and on the port, and tells
// whether one of the engine holds its lock.
func (m *mailbox) others() (engine, port int, locked bool) {
	for _, o := range m.b.fns {
		if o == m || o.engine != m.engine {
			continue
		}
		if o.phase == loading || o.phase == unloading {
			locked = true
		}
		if o.phase == loaded || o.phase == loading {
			engine++
			if o.port == m.port {
				port++
			}
		}
	}
	return engine, port, locked
}

func (m *mailbox) kind() Load {
	switch engine, port, _ := m.others(); {
	case engine == 0:
		return LoadEngine
	case port == 0:
		return LoadPort
	}
	return LoadFunction
}

func (m *mailbox) Init() error                 { m.down = false; return m.dead }
func (m *mailbox) FuncInfo() (FuncInfo, error) { return m.info, m.dead }
func (m *mailbox) ReadShadow()                 {}
func (m *mailbox) SetRecovery(frame.Time)      { m.down = true; m.phase = idle } // the chip is reset under it

func (m *mailbox) LoadReq(p LoadParams, now frame.Time, done func(Load, error, frame.Time)) {
	m.answer(now, "LOAD_REQ", func(now frame.Time) {
		_, _, locked := m.others()
		role := "OS"
		if p.CrashKernel {
			role = "KDUMP"
		}
		switch {
		case m.refuse != nil:
			done(NotLoaded, m.refuse, now)
			return
		case m.phase != idle && !(p.Override == OverrideAlways || p.Override == OverrideNone && role == "KDUMP"):
			m.log = append(m.log, "CANCEL_LOAD_REQ")
			done(NotLoaded, status.Busy, now)
			return
		case locked:
			done(NotLoaded, status.Busy, now)
			return
		}
		l := m.kind()
		m.phase, m.role = loading, role
		m.log = append(m.log, l.String())
		done(l, nil, now)
	})
}

func (m *mailbox) LoadDone(now frame.Time, done Done) {
	m.answer(now, "LOAD_DONE", func(now frame.Time) {
		var err error
		if m.phase != loading {
			err = status.Inval.Errorf("LOAD_DONE without LOAD_REQ")
		}
		m.phase = loaded
		done(now, err)
	})
}

func (m *mailbox) UnloadReq(now frame.Time, done func(Load, error, frame.Time)) {
	m.answer(now, "UNLOAD_REQ", func(now frame.Time) {
		m.phase = unloading
		l := m.kind()
		m.log = append(m.log, "un"+l.String())
		done(l, nil, now)
	})
}

func (m *mailbox) UnloadDone(now frame.Time, done Done) {
	m.answer(now, "UNLOAD_DONE", func(now frame.Time) { m.phase, m.role = idle, ""; done(now, nil) })
}

func (m *mailbox) Capabilities(now frame.Time, done Done) {
	m.answer(now, "FEATURE_SUPPORT", func(now frame.Time) { done(now, status.NotImpl) })
}

func (m *mailbox) InitiatePFFLR(now frame.Time, done Done) {
	m.answer(now, "INITIATE_PF_FLR", func(now frame.Time) { m.phase = idle; done(now, nil) })
}

func (m *mailbox) Drain(now frame.Time, done Done) {
	m.answer(now, "NIG_DRAIN", func(now frame.Time) {
		if m.stuckDrain {
			done(now, status.Timeout)
			return
		}
		done(now, nil)
	})
}

func (m *mailbox) LockShares(now frame.Time, done Done)   { done(now, nil) }
func (m *mailbox) UnlockShares(now frame.Time, done Done) { done(now, nil) }

func (m *mailbox) Share(r Resource, now frame.Time, done func(frame.Time, Share, error)) {
	s, ok := m.shares[r]
	if !ok {
		done(now, Share{}, status.NotImpl)
		return
	}
	done(now, s, nil)
}

func (m *mailbox) DriverState(s DriverState, now frame.Time) {
	m.state = s
	m.answer(now, fmt.Sprint("DRIVER_STATE ", s), func(frame.Time) {})
}

func (m *mailbox) Push(storm uint32, mtu int, now frame.Time) {
	m.answer(now, fmt.Sprint("PUSH ", mtu), func(frame.Time) {})
}

// lines are the interrupts of a hwfn.
type lines struct {
	cbs     [12]func(frame.Time)
	enabled bool
	isr     bool
	pending [12]bool
	fired   int
	sbs     int
}

func (l *lines) RegisterCB(fn func(frame.Time)) (int, error) {
	for i := range l.cbs {
		if l.cbs[i] == nil {
			l.cbs[i] = fn
			return i, nil
		}
	}
	return 0, status.NoMem
}

func (l *lines) UnregisterCB(pi int) error {
	if l.cbs[pi] == nil {
		return status.NoMem
	}
	l.cbs[pi] = nil
	return nil
}

func (l *lines) Event(pi int, now frame.Time) {
	l.pending[pi] = true
	l.fire(now)
}

func (l *lines) IntEnable(now frame.Time) { l.enabled = true; l.fire(now) }
func (l *lines) IntDisable()              { l.enabled = false }
func (l *lines) SBs() int                 { return l.sbs }

func (l *lines) fire(now frame.Time) {
	for i := range l.pending {
		if l.pending[i] && l.enabled && l.isr {
			l.pending[i] = false
			l.fired++
			l.cbs[i](now)
		}
	}
}

// registered counts what nobody has taken back.
func (l *lines) registered() (n int) {
	for _, cb := range l.cbs {
		if cb != nil {
			n++
		}
	}
	return n
}

// bed is one device with all around it.
type bed struct {
	t     testing.TB
	d     *Dev
	chip  *Chip
	board *board
	mfw   []*mailbox
	irq   []*lines
	now   frame.Time
	fault func(hwfn int, step string) error
	said  []string
	log   msglog.Log
}

// needEmulation ends a test in which steps fail, in builds without that.
func needEmulation(t testing.TB) {
	if !Emulation {
		t.Skip("faults need emulation")
	}
}

// ran compares the phases that ran, where the build remembers them.
func ran(t testing.TB, h *Hwfn, want string) {
	t.Helper()
	if got := strings.Join(h.Phases(), " "); Debug && got != want {
		t.Errorf("%v: phases %s, want %s", h, got, want)
	}
}

func newChip(t testing.TB, kind Kind, engines, ports, functions int) *Chip {
	t.Helper()
	c, err := NewChip(kind, engines, ports, functions, SingleFunction)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newBed puts function pf into a chip and a board.
func newBed(t testing.TB, chip *Chip, b *board, pf int) *bed {
	t.Helper()
	x := &bed{t: t, chip: chip, board: b}
	cfg := Config{Name: fmt.Sprint("pf", pf), Chip: chip, PF: pf, Fault: func(hwfn int, step string) error {
		if x.fault == nil {
			return nil
		}
		return x.fault(hwfn, step)
	}}
	for i := range chip.Engines {
		m := &mailbox{b: b, engine: i, port: pf % chip.Ports, info: FuncInfo{Personality: EthIWARP, Caps: CapEth | CapIWARP | CapRoCE, Port: pf % chip.Ports}}
		b.fns = append(b.fns, m)
		l := &lines{sbs: 8}
		x.mfw, x.irq = append(x.mfw, m), append(x.irq, l)
		cfg.MFW, cfg.Int = append(cfg.MFW, m), append(cfg.Int, l)
	}
	say := func(what string) func(*Hwfn) {
		return func(h *Hwfn) { x.said = append(x.said, fmt.Sprint(what, " ", h.Index)) }
	}
	cfg.Hooks = Hooks{
		SlowpathIRQReq:   func(h *Hwfn) error { x.irq[h.Index].isr = true; say("irq_req")(h); return nil },
		SlowpathIRQFree:  func(h *Hwfn) { x.irq[h.Index].isr = false; say("irq_free")(h) },
		BeforePFStart:    func(h *Hwfn) error { say("before_pf_start")(h); return nil },
		AfterPFStop:      say("after_pf_stop"),
		HWError:          func(h *Hwfn, kind HWError, err error) { say(fmt.Sprint("hw_error ", kind))(h) },
		ScheduleRecovery: say("schedule_recovery"),
		DoorbellRecovery: say("doorbell_recovery"),
	}
	cfg.Log = &x.log
	x.d = New(cfg)
	return x
}

// lines is what the log holds.
func (x *bed) lines() (all []string) {
	for _, l := range x.log.Since(0) {
		all = append(all, fmt.Sprint(l.Level, " ", l.Text))
	}
	return all
}

// wait polls until a call has ended.
func (x *bed) wait(call func(Done)) (err error) {
	x.t.Helper()
	ended := 0
	call(func(_ frame.Time, e error) { err = e; ended++ })
	for range 10000 {
		if ended > 0 && x.d.Call() == "" {
			break
		}
		next := x.d.Poll(x.now)
		if next == frame.Never {
			break
		}
		x.now = max(x.now, next)
	}
	if ended != 1 {
		x.t.Fatalf("a call ended %d times; %s is under way", ended, x.d.Call())
	}
	return err
}

func params() PFParams {
	var p PFParams
	p.Eth.Cons, p.RDMA.QPs, p.RDMA.MRs, p.RDMA.SRQs = 64, 192, 256, 16
	return p
}

// calls are the life cycle in order.
var calls = []struct {
	name string
	from State
	do   func(x *bed) error
}{
	{"init_struct", Zeroed, func(x *bed) error { return x.d.InitStruct() }},
	{"hw_prepare", Struct, func(x *bed) error {
		return x.wait(func(done Done) { x.d.HWPrepare(PrepareParams{Personality: Default}, x.now, done) })
	}},
	{"pf_params", Prepared, func(x *bed) error { return x.d.SetPFParams(params()) }},
	{"resc_alloc", Prepared, func(x *bed) error { return x.wait(func(done Done) { x.d.RescAlloc(x.now, done) }) }},
	{"resc_setup", Allocated, func(x *bed) error { return x.d.RescSetup() }},
	{"hw_init", Setup, func(x *bed) error { return x.init(InitParams{Tunnels: DefaultTunnels(), IntMode: MSIX}) }},
	{"hw_stop_fastpath", Running, func(x *bed) error { return x.d.HWStopFastpath() }},
	{"hw_start_fastpath", Running, func(x *bed) error { return x.d.HWStartFastpath() }},
	{"hw_timers_stop_all", Running, func(x *bed) error { return x.wait(func(done Done) { x.d.HWTimersStopAll(x.now, done) }) }},
	{"hw_stop", Running, func(x *bed) error { return x.wait(func(done Done) { x.d.HWStop(x.now, done) }) }},
	{"slowpath_irq_free", Stopped, func(x *bed) error { return x.d.ReleaseSlowpathIRQ() }},
	{"int_disable_post_isr_release", Stopped, func(x *bed) error { return x.d.IntDisablePostISRRelease() }},
	{"resc_free", Quiet, func(x *bed) error { return x.d.RescFree() }},
	{"hw_remove", Prepared, func(x *bed) error { return x.d.HWRemove(x.now) }},
}

func (x *bed) init(p InitParams) error {
	return x.wait(func(done Done) { x.d.HWInit(p, x.now, done) })
}

// to takes the device through its life up to a call.
func (x *bed) to(last string) *bed {
	x.t.Helper()
	for _, c := range calls {
		if err := c.do(x); err != nil {
			x.t.Fatalf("%s: %v", c.name, err)
		}
		if c.name == last {
			return x
		}
	}
	x.t.Fatalf("no call %s", last)
	return nil
}

// down takes a running device to its end.
func (x *bed) down() {
	x.t.Helper()
	for _, c := range calls[9:] {
		if err := c.do(x); err != nil {
			x.t.Fatalf("%s: %v", c.name, err)
		}
	}
}

func single(t testing.TB) *bed {
	t.Helper()
	return newBed(t, newChip(t, AH, 1, 2, 4), new(board), 0)
}

func dual(t testing.TB) *bed {
	t.Helper()
	return newBed(t, newChip(t, BB, 2, 1, 1), new(board), 0)
}
