package fastlinq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// coreBoard is a board with functions, its management firmware, and the
// interrupts of each function: all real.
type coreBoard struct {
	t    *testing.T
	fw   *mfw.Firmware
	devs []*ecore.Dev
	mcps []*mcp.MCP
	irqs []*irq.Device
	now  frame.Time
	said []string
}

func newCoreBoard(t *testing.T, mode irq.Mode, ports, functions int) *coreBoard {
	t.Helper()
	b := &coreBoard{t: t}
	cfg := mfw.Config{Ports: make([]mfw.PortConfig, ports)}
	for i := range functions {
		cfg.Funcs = append(cfg.Funcs, mfw.FuncConfig{Port: i % ports, MTU: 1500})
	}
	b.fw = mfw.New(cfg)
	chip, err := ecore.NewChip(ecore.AH, 1, ports, functions, ecore.SingleFunction)
	if err != nil {
		t.Fatal(err)
	}
	for i := range functions {
		m := mcp.New(b.fw.Shared(), i, i%ports, mcp.Hooks{})
		lines, err := irq.New(irq.Config{SBs: 4, Mode: mode, Platform: irq.Platform{Vectors: 8}})
		if err != nil {
			t.Fatal(err)
		}
		mailbox := &coreMFW{mcp: m, eSwitch: func() mfw.ESwitch { return mfw.ESwitchNone }, port: i % ports, caps: ecore.CapEth | ecore.CapIWARP, note: func(err error) { b.say(err) }, now: func() frame.Time { return b.now }}
		b.mcps, b.irqs = append(b.mcps, m), append(b.irqs, lines)
		b.devs = append(b.devs, ecore.New(ecore.Config{Name: fmt.Sprint("pf", i), Chip: chip, PF: i, MFW: []ecore.MFW{mailbox}, Int: []ecore.Interrupts{coreIRQ{lines.Hwfns[0]}}}))
	}
	return b
}

func (b *coreBoard) say(err error) {
	if err != nil {
		b.said = append(b.said, err.Error())
	}
}

// wait lets all of it work until a call has ended.
func (b *coreBoard) wait(call func(done ecore.Done)) (err error) {
	b.t.Helper()
	ended := false
	call(func(_ frame.Time, e error) { err, ended = e, true })
	for range 5000 {
		next := b.poll()
		if ended && (b.fw.Faults().Hang || !slices.ContainsFunc(b.mcps, func(m *mcp.MCP) bool { return m.Pending() > 0 })) {
			return err
		}
		if next == frame.Never {
			break
		}
		b.now = max(b.now, next)
	}
	b.t.Fatal("a call does not end")
	return nil
}

func (b *coreBoard) poll() frame.Time {
	b.pollOnce()
	return b.pollOnce() // what the first has ended may have begun something
}

func (b *coreBoard) pollOnce() frame.Time {
	before := b.fw.Stats().Commands
	next := b.fw.Poll(b.now)
	for i, d := range b.devs {
		next = min(next, b.mcps[i].Poll(b.now), d.Poll(b.now), b.irqs[i].Poll(b.now))
		if b.irqs[i].Mode() == irq.Poll && b.irqs[i].Look(b.now) {
			next = b.now
		}
	}
	for _, m := range b.mcps {
		if m.Pending() > 0 && !b.fw.Faults().Hang {
			return b.now
		}
	}
	if b.fw.Stats().Commands != before {
		return b.now
	}
	return next
}

func (b *coreBoard) up(i int, p ecore.InitParams) error {
	d := b.devs[i]
	var pf ecore.PFParams
	pf.Eth.Cons, pf.RDMA.QPs, pf.RDMA.MRs = 16, 64, 256
	for _, call := range []func() error{
		func() error {
			if d.State() == ecore.Struct {
				return nil
			}
			return d.InitStruct()
		},
		func() error {
			return b.wait(func(done ecore.Done) { d.HWPrepare(ecore.PrepareParams{Personality: ecore.EthIWARP}, b.now, done) })
		},
		func() error { return d.SetPFParams(pf) },
		func() error { return b.wait(func(done ecore.Done) { d.RescAlloc(b.now, done) }) },
		d.RescSetup,
		func() error { return b.wait(func(done ecore.Done) { d.HWInit(p, b.now, done) }) },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

func (b *coreBoard) down(i int) error {
	d := b.devs[i]
	err := b.wait(func(done ecore.Done) { d.HWStop(b.now, done) })
	return errors.Join(err, d.ReleaseSlowpathIRQ(), d.IntDisablePostISRRelease(), d.RescFree(), d.HWRemove(b.now), b.wait(func(done ecore.Done) { done(b.now, nil) }))
}

// IN-10, IN-11, IN-23, IN-28: functions of one board load and unload, in every
// mode of interrupts.
func TestCoreOnBoard(t *testing.T) {
	for _, mode := range []irq.Mode{irq.MSIX, irq.MSI, irq.INTA, irq.Poll} {
		b := newCoreBoard(t, mode, 2, 4)
		for i, want := range []string{"ENGINE PORT PF QM_PF", "PORT PF QM_PF", "PF QM_PF", "PF QM_PF"} {
			if err := b.up(i, ecore.InitParams{Tunnels: ecore.DefaultTunnels()}); err != nil {
				t.Fatalf("%v: function %d: %v", mode, i, err)
			}
			h := b.devs[i].Lead()
			if got := strings.Join(h.Phases(), " "); ecore.Debug && got != want {
				t.Errorf("%v: function %d runs %s, want %s", mode, i, got, want)
			}
			if s := h.Share(ecore.VPort); s != (ecore.Share{Start: 52 * i, Num: 52}) {
				t.Errorf("vports %+v", s)
			}
			if p := b.fw.Pushed(i); p.MTU != 1500 || b.fw.Loaded(i) != mfw.RoleOS {
				t.Errorf("the MFW knows of %+v, %v", p, b.fw.Loaded(i))
			}
		}
		for i := range b.devs {
			if err := b.down(i); err != nil {
				t.Errorf("%v: function %d: %v", mode, i, err)
			}
			if b.fw.Loaded(i) != mfw.RoleNone || b.devs[i].State() != ecore.Struct {
				t.Errorf("function %d: %v, %v", i, b.fw.Loaded(i), b.devs[i].State())
			}
		}
		err := b.up(3, ecore.InitParams{})
		if p := b.devs[3].Lead().Phases(); err != nil || ecore.Debug && len(p) != 4 || len(b.said) != 0 {
			t.Errorf("%v: the first again: %v, %v, %q", mode, err, p, b.said)
		}
	}
}

// IN-13, IN-14, IN-15: what the management firmware has against a load, the
// core says, and its books are as before.
func TestCoreRefused(t *testing.T) {
	for _, c := range []struct {
		faults mfw.Faults
		code   status.Code
		word   string
	}{
		{mfw.Faults{Refuse: mfw.RefusedPDA}, status.Busy, "PDA"},
		{mfw.Faults{Refuse: mfw.RefusedReject}, status.Busy, "REJECT"},
		{mfw.Faults{HSI1: true}, status.Success, ""},
	} {
		b := newCoreBoard(t, irq.MSIX, 1, 1)
		b.fw.SetFaults(c.faults)
		err := b.up(0, ecore.InitParams{})
		if status.Of(err) != c.code || err != nil && !strings.Contains(err.Error(), c.word) {
			t.Errorf("%+v: %v", c.faults, err)
		}
		if loaded := b.fw.Loaded(0) != mfw.RoleNone; loaded != (err == nil) {
			t.Errorf("%+v: loaded %v", c.faults, loaded)
		}
	}
	b := newCoreBoard(t, irq.MSIX, 1, 1)
	if err := b.up(0, ecore.InitParams{Tunnels: ecore.Tunnels{VXLANPort: 9, GenevePort: 9}}); !errors.Is(err, status.Inval) || b.fw.Loaded(0) != mfw.RoleNone {
		t.Errorf("tunnels that cannot be: %v", err)
	}
	if err := b.wait(func(done ecore.Done) {
		b.devs[0].HWInit(ecore.InitParams{IntMode: ecore.MSIX, Load: ecore.LoadParams{CrashKernel: true}}, b.now, done)
	}); err != nil || b.fw.Loaded(0) != mfw.RoleKDUMP {
		t.Errorf("a crash kernel: %v, %v", err, b.fw.Loaded(0))
	}
}

// A management firmware that does not answer ends every call in time: the
// first after 5 s with TIMEOUT, those after it at once.
func TestCoreStuckMFW(t *testing.T) {
	b := newCoreBoard(t, irq.MSIX, 1, 1)
	if err := b.up(0, ecore.InitParams{}); err != nil {
		t.Fatal(err)
	}
	b.fw.SetFaults(mfw.Faults{Hang: true})
	start := b.now
	if err := b.wait(func(done ecore.Done) { b.devs[0].HWStop(b.now, done) }); status.Of(err) != status.UnknownError || !strings.Contains(err.Error(), "TIMEOUT") {
		t.Errorf("%v", err)
	}
	if took := b.now.Sub(start); took < mcp.Timeout || took > 3*mcp.Timeout || b.devs[0].State() != ecore.Stopped {
		t.Errorf("after %v in state %v", took.Round(time.Second), b.devs[0].State())
	}
	if !slices.Equal(b.said, nil) {
		t.Errorf("%q", b.said)
	}
}
