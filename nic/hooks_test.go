package nic

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/nic/view"
)

// The driver core calls each of its client's hooks, and the NIC does what they are for:
// the slowpath's vector is the driver's while it is loaded; the firmware of the function
// begins afresh, also after a driver that has crashed; the vport stops with the function; a
// hardware error and lost doorbells are told, and a recovery loads the function anew.
//
// OV-06
func TestClientHooks(t *testing.T) {
	e := newEthernetHost(t, Config{})
	passes := func() bool { return len(e.in(e.frame(e.n.dev.cfg.MAC, 0, 80))) == 1 }
	slowpath := func() bool {
		return slices.ContainsFunc(e.n.dev.ShowIRQ(), func(i view.IRQInfo) bool { return i.User == "slowpath" })
	}
	if !slowpath() || !passes() {
		t.Error("loaded: no vector of the slowpath, or nothing passes")
	}
	e.n.set("driver=unloaded")
	if slowpath() || passes() {
		t.Error("unloaded: the slowpath has a vector, or frames pass")
	}
	e.n.set("driver=loaded")
	e.n.set("driver=crashed")
	e.n.set("driver_role=kdump", "driver=loaded")
	if !slowpath() || !passes() || len(e.n.dev.ShowLL2()) != 2 {
		t.Errorf("after a crash: %+v", e.n.dev.ShowLL2())
	}
	if !ecore.Emulation {
		return // the build has no faults
	}
	e.n.set("dprint=all", "chip_fault=doorbells")
	e.set("rx_mode", "promisc")
	e.w.run(time.Second)
	if !slices.ContainsFunc(e.n.dev.ShowLog(0), func(l view.LineInfo) bool { return strings.Contains(l.Text, "all are rung again") }) {
		t.Error("nobody tells of lost doorbells")
	}
}

// With auto_recover a hardware error is recovered from at once, but not within the grace
// period of the last recovery, nor is that of a fan; without it errors wait.
//
// OV-06 XX-05
func TestAutoRecover(t *testing.T) {
	e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Health: fastlinq.Health{Grace: time.Minute}}})
	health := func(state string, errs, recoveries uint64) {
		t.Helper()
		e.w.run(time.Second)
		if h := e.n.dev.Health(); h.State != state || h.Errors != errs || h.Recoveries != recoveries {
			t.Errorf("%+v, want %s, %d errors, %d recoveries", h, state, errs, recoveries)
		}
		if len(e.in(e.frame(e.n.dev.cfg.MAC, 0, 80))) != 1 {
			t.Error("the vport stands still")
		}
	}
	fail := func() {
		t.Helper()
		e.n.dev.begin(e.w.now)
		if err := e.slowpath(0).VportStart(l2.StartParams{MTU: 1500}); !errors.Is(err, status.Inval) {
			t.Error(err)
		}
	}
	fail()
	health("error", 1, 0)
	e.n.set("auto_recover=1")
	fail()
	health("healthy", 2, 1)
	e.w.run(time.Second)
	fail() // too soon
	health("error", 3, 1)
	e.w.run(time.Minute)
	fail()
	health("healthy", 4, 2)
	e.n.set("grace_period=0ms")
	fail()
	health("healthy", 5, 3)
	e.n.set("temperature=110")
	e.w.run(time.Second)
	if h := e.n.dev.Health(); h.LastKind != ecore.FanFail.String() || h.Recoveries != 3 {
		t.Errorf("a fan: %+v", h)
	}
}
