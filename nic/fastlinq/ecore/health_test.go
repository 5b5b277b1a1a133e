package ecore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// OV-08, OV-09, OV-10, OV-01: of one device of two, and from then on.
func TestVerbosityAtRunTime(t *testing.T) {
	chip, b := newChip(t, AH, 1, 1, 2), new(board)
	x, y := newBed(t, chip, b, 0), newBed(t, chip, b, 1)
	x.to("resc_setup")
	y.d.InitDP(msglog.Msglvl(msglog.Errors))
	y.to("hw_init")
	x.d.InitDP(msglog.Msglvl(msglog.HW))
	if err := x.init(InitParams{}); err != nil {
		t.Fatal(err)
	}
	if len(y.lines()) != 1 || !strings.Contains(y.lines()[0], "VERBOSE [pf1-0] load response ENGINE") {
		t.Errorf("%q", y.lines())
	}
	phases := slices.DeleteFunc(slices.Clone(x.lines()), func(l string) bool { return !strings.Contains(l, "] phase ") })
	if len(phases) != 2 || !strings.Contains(phases[0], "phase PF") || !strings.Contains(x.lines()[0], "] wr 0x2a8200 0x1") {
		t.Errorf("%q", x.lines())
	}
}

// OV-02, IT-18, OV-13: a ramrod that is stuck on one engine is a hardware
// error of that hwfn; the other goes on.
func TestOneEngineFails(t *testing.T) {
	x := dual(t).to("hw_init")
	pfFaults(t, x.chip.Engines[1], 0).Stuck = true
	if err := x.wait(func(done Done) { x.d.Hwfns[1].Heartbeat(x.now, done) }); !errors.Is(err, status.Busy) {
		t.Errorf("the engine that is stuck: %v", err)
	}
	if !slices.Contains(x.mfw[1].log, "NIG_DRAIN") || slices.Contains(x.mfw[0].log, "NIG_DRAIN") {
		t.Error("the drain is not the failing engine's")
	}
	if err := x.wait(func(done Done) { x.d.Hwfns[0].Heartbeat(x.now, done) }); err != nil {
		t.Errorf("the other: %v", err)
	}
	if h := x.d.Health(); h.Errors[RamrodFail] != 1 || h.Hwfn != 1 || x.d.HealthState() != "error" || h.Total() != 1 {
		t.Errorf("%+v, %s", h, x.d.HealthState())
	}
	if !slices.Contains(x.said, "hw_error RAMROD_FAIL 1") {
		t.Errorf("%v", x.said)
	}
	for i, in := range x.d.Show() {
		if in.State != "RUNNING" || in.Hwfn != i || in.SPQ.Stuck != uint64(i) {
			t.Errorf("%+v", in)
		}
	}
}

// XX-01
func TestDoorbellRecovery(t *testing.T) {
	x := single(t).to("hw_init")
	h := x.d.Lead()
	pfFaults(t, x.chip.Engines[0], 0).DropBells = true
	answered := false
	h.Heartbeat(x.now, func(_ frame.Time, err error) { answered = err == nil })
	if x.d.Poll(x.now); answered {
		t.Error("a doorbell that was dropped is answered")
	}
	pfFaults(t, x.chip.Engines[0], 0).DropBells = false
	h.DoorbellOverflow(x.now)
	if x.d.Poll(x.now); !answered || !slices.Contains(x.said, "doorbell_recovery 0") {
		t.Errorf("answered %v, %v", answered, x.said)
	}
	for next := x.d.Poll(x.now); next != frame.Never; next = x.d.Poll(next) {
	}
	if n := h.Doorbells().Occurred(); n != bellTries {
		t.Errorf("rung %d times", n)
	}
}

// XX-02
func TestRecovery(t *testing.T) {
	x := single(t).to("hw_init")
	if err := x.d.Lead().StartRecovery(); err != nil || !slices.Contains(x.said, "schedule_recovery 0") {
		t.Errorf("%v, %v", err, x.said)
	}
	pfFaults(t, x.chip.Engines[0], 0).Stuck = true // nothing answers any more
	if err := x.d.RecoveryProlog(x.now); err != nil || !x.d.Recovering() || x.d.HealthState() != "recovering" {
		t.Fatalf("%v, %s", err, x.d.HealthState())
	}
	if err := x.d.RecoveryProlog(x.now); !errors.Is(err, status.Inval) {
		t.Errorf("twice: %v", err)
	}
	if err := x.d.Recovered(); !errors.Is(err, status.Inval) {
		t.Errorf("not yet: %v", err)
	}
	x.down()
	for _, line := range x.mfw[0].log {
		if strings.HasSuffix(line, "in recovery") {
			t.Errorf("%s", line)
		}
	}
	pfFaults(t, x.chip.Engines[0], 0).Stuck = false
	for _, c := range calls[1:6] {
		if err := c.do(x); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	if err := x.d.Recovered(); err != nil || x.d.Health().Recoveries != 1 || x.d.HealthState() != "healthy" {
		t.Errorf("%v, %+v", err, x.d.Health())
	}
	x.down()
	x.clean("after a recovery")
	if err := x.d.RecoveryProlog(x.now); !errors.Is(err, status.Inval) {
		t.Errorf("of a device that is down: %v", err)
	}
}

// XX-03, XX-04
func TestDump(t *testing.T) {
	x := single(t).to("hw_init")
	h := x.d.Lead()
	x.chip.Engines[0].Regs.Write(rt.PRS.Addr+8, 0xfeed)
	h.HWError(FWAssert, status.IO.Errorf("assert in the storm"))
	x.chip.Engines[0].Regs.Write(rt.PRS.Addr+8, 0)
	h.HWError(HWAttn, status.IO) // the dump stays that of the first
	dump := x.d.Health().Dump
	got := map[string][]uint32{}
	for len(dump) > 0 {
		name, rest := string(dump[1:1+dump[0]]), dump[1+dump[0]:]
		n := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		for range n {
			got[name] = append(got[name], binary.LittleEndian.Uint32(rest))
			rest = rest[4:]
		}
		dump = rest
	}
	if prs := got["PRS"]; len(prs) != 3 || prs[2] != 0xfeed || len(got["PSWRQ2_ILT"]) == 0 {
		t.Errorf("PRS %v, %d words of the ILT", prs, len(got["PSWRQ2_ILT"]))
	}
	if hd := x.d.Health(); hd.LastKind != FWAssert || hd.Total() != 2 || !bytes.Contains(hd.Dump, []byte("QM_PF")) {
		t.Errorf("%v, %d errors", hd.LastKind, hd.Total())
	}
	x.chip.Engines[0].Regs.StuckDMA = true
	x.down()
	for _, c := range calls[1:5] {
		if err := c.do(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.init(InitParams{}); !errors.Is(err, status.Timeout) || !slices.Contains(x.said, "hw_error DMAE_FAIL 0") || x.mfw[0].phase != idle {
		t.Errorf("a DMAE that does not finish: %v, %v", err, x.said)
	}
}
