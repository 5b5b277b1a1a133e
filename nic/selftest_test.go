package nic

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/selftest"
	"tapir/nic/fastlinq/status"
)

// selftests runs them to their end.
func selftests(t *testing.T, w *world, n *node, offline bool) (report selftest.Report) {
	t.Helper()
	if err := n.dev.Selftest(offline, func(r selftest.Report) { report = r }); err != nil {
		t.Fatal(err)
	}
	if err := n.dev.Selftest(offline, nil); status.Of(err) != status.Busy {
		t.Errorf("a second at the same time: %v", err)
	}
	if w.run(20 * time.Millisecond); report == nil {
		if w.run(2 * time.Second); report == nil {
			t.Fatal("no report")
		}
	}
	return report
}

// The tests pass on a NIC in every interrupt mode, coalescing or not, and the
// NIC works as before.
//
// ST-01 ST-02 ST-03 ST-04 ST-05 ST-06
func TestSelftests(t *testing.T) {
	for _, i := range []fastlinq.Interrupts{{}, {Mode: "inta"}, {Mode: "msi"}, {Mode: "poll"}, {RxUsecs: 300, TxUsecs: 20}} {
		w, n, s := pair(t, Config{Hardware: &fastlinq.Config{Interrupts: i}})
		before := answered(w, n, s)
		for _, offline := range []bool{true, false} {
			r := selftests(t, w, n, offline)
			if want := int(selftest.NumTests); !r.Passed() || offline && len(r) != want || !offline && len(r) != want-1 {
				t.Errorf("%+v, offline %v: %v", i, offline, r)
			}
		}
		if after := answered(w, n, s); after > before {
			t.Errorf("%+v: a ping takes %v, before the tests %v", i, after, before)
		}
	}
}

// Each fault that the parameter names fails its test alone; without it all pass
// again.
//
// ST-01 ST-02 ST-03 ST-04 ST-05 ST-06
func TestSelftestFaults(t *testing.T) {
	for _, i := range []fastlinq.Interrupts{{}, {Mode: "poll"}} {
		w, n, s := pair(t, Config{Hardware: &fastlinq.Config{Interrupts: i}})
		for name, test := range map[string]selftest.Test{"loopback": selftest.Loopback, "interrupt": selftest.Interrupt,
			"memory": selftest.Memory, "register": selftest.Registers, "clock": selftest.Clock, "nvram": selftest.NVM} {
			for _, value := range []string{name, "none"} {
				if err := n.dev.Set(Setting{"selftest_fault", value}); err != nil {
					t.Fatal(err)
				}
				for _, r := range selftests(t, w, n, true) {
					if (r.Err != nil) != (value != "none" && r.Test == test) {
						t.Errorf("fault %s: %v: %v", value, r.Test, r.Err)
					}
				}
			}
		}
		answered(w, n, s)
	}
}

// What is tested is the NIC's own flash, as it is now.
//
// ST-05
func TestSelftestReadsTheFlash(t *testing.T) {
	w, n, _ := pair(t, Config{})
	nvram := func() error {
		for _, r := range selftests(t, w, n, true) {
			if r.Test == selftest.NVM {
				return r.Err
			}
		}
		t.Fatal("the NVM was not tested")
		return nil
	}
	im, err := n.dev.MFW().NVM()
	if err != nil {
		t.Fatal(err)
	}
	n.dev.MFW().DamageNVM(int(im.Entries()[0].Offset))
	if nvram() == nil {
		t.Error("a damaged flash passes")
	}
	n.dev.MFW().SetNVM(nil)
	if err := nvram(); err != nil {
		t.Errorf("the factory's: %v", err)
	}
}

// Selftests under load take nothing from a connection.
func TestSelftestsBesideTraffic(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	c, s := dial(w, a, b, peer4, 64<<10)
	reports := 0
	var again func(r selftest.Report)
	again = func(r selftest.Report) {
		if reports++; !r.Passed() {
			t.Errorf("%v", r)
		}
		if reports < 5 {
			_ = a.dev.Selftest(true, again) // none runs: this one has just ended
		}
	}
	if err := a.dev.Selftest(true, again); err != nil {
		t.Fatal(err)
	}
	exercise(w, c, s, 5)
	if w.run(100 * time.Millisecond); reports != 5 {
		t.Errorf("%d reports of 5", reports)
	}
	closeBoth(w, a, b)
}

// The registers are tested by the management firmware, those of every engine,
// and have their values again; without the firmware the test fails.
//
// ST-03
func TestRegisterTestAsksTheFirmware(t *testing.T) {
	w, n, s := pair(t, Config{})
	answered(w, n, s)
	values := func() (all []uint32) {
		for _, h := range n.dev.IRQ().Hwfns {
			for _, r := range h.Registers() {
				all = append(all, r.Read())
			}
		}
		return all
	}
	register := func() error {
		for _, r := range selftests(t, w, n, false) {
			if r.Test == selftest.Registers {
				return r.Err
			}
		}
		return nil
	}
	// alone is that test without the others, which use the registers.
	alone := func() (err error) {
		err = status.Again
		n.dev.MCP().BIST(mfw.BISTRegister, w.now, func(e error) { err = e })
		n.dev.Manage(w.now)
		return err
	}
	before := values()
	if err := alone(); err != nil || !slices.Equal(values(), before) || len(before) < 100 {
		t.Errorf("%v, %d registers", err, len(before))
	}
	commands := n.dev.MFW().Stats().Commands
	if err := register(); err != nil {
		t.Error(err)
	}
	if now := n.dev.MFW().Stats().Commands; now != commands+2 { // registers, clocks
		t.Errorf("%d commands", now-commands)
	}
	if err := n.dev.Set(Setting{"selftest_fault", "register"}); err != nil {
		t.Fatal(err)
	}
	if err := register(); status.Of(err) != status.IO || !strings.Contains(err.Error(), "was written, not ") {
		t.Errorf("with a fault: %v", err)
	}
	before = values()
	n.dev.StickRegister(0, true)
	if err := alone(); status.Of(err) != status.IO {
		t.Errorf("a register that is stuck: %v", err)
	}
	if n.dev.StickRegister(0, false); !slices.Equal(values(), before) {
		t.Error("values are not restored after a fault")
	}
	if err := n.dev.Set(Setting{"selftest_fault", "none"}); err != nil {
		t.Fatal(err)
	}
	n.set("mfw=stuck")
	var report selftest.Report
	if err := n.dev.Selftest(false, func(r selftest.Report) { report = r }); err != nil {
		t.Fatal(err)
	}
	w.run(10 * time.Second)
	for _, r := range report {
		if r.Test == selftest.Registers && status.Of(r.Err) != status.Timeout {
			t.Errorf("a firmware that is stuck: %v", r.Err)
		}
	}
	if report == nil {
		t.Error("no report")
	}
}

// The tests of interrupt and memory send the ramrod EMPTY on each engine, and fail on
// the one whose firmware is stuck; clocks are those of its modules.
//
// ST-01 ST-02 ST-04
func TestSelftestsSendRamrods(t *testing.T) {
	e := newTwoEngines(t, 2, Config{})
	d := e.n.dev
	empty := func(engine int) (n int) {
		do := d.Chip().Engines[engine].Handler(cxt.Common)
		d.Chip().Engines[engine].Handle(cxt.Common, func(pf int, el spq.Element) (uint8, uint64) {
			if el.Cmd == ecore.RamrodEmpty {
				n++
			}
			return do(pf, el)
		})
		if r := selftests(t, e.w, e.n, false); engine == 1 && !r.Passed() {
			t.Errorf("%v", r)
		}
		d.Chip().Engines[engine].Handle(cxt.Common, do)
		return n
	}
	for engine := range 2 {
		if n := empty(engine); n != 3 {
			t.Errorf("engine %d: %d ramrods", engine, n)
		}
	}
	used := d.Core().Show()[1].CIDs
	d.Chip().Engines[1].Faults(0).Stuck = true
	for _, r := range selftests(t, e.w, e.n, false) {
		want := map[selftest.Test]status.Code{selftest.Interrupt: status.Timeout, selftest.Memory: status.Timeout}[r.Test]
		if status.Of(r.Err) != want {
			t.Errorf("stuck: %v: %v", r.Test, r.Err)
		}
	}
	d.Chip().Engines[1].Faults(0).Stuck = false
	e.w.run(5 * time.Second)
	if now := d.Core().Show()[1].CIDs; !slices.Equal(now, used) {
		t.Errorf("connection ids %v, were %v", now, used)
	}
	e.n.set("driver=unloaded")
	for _, r := range selftests(t, e.w, e.n, false) {
		if (r.Test == selftest.Interrupt || r.Test == selftest.Memory) && status.Of(r.Err) != status.Inval {
			t.Errorf("unloaded: %v: %v", r.Test, r.Err)
		}
	}
}
