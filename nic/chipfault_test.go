package nic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// passes tells whether a frame of the wire reaches the operating system.
func (e *ethernetHost) passes() bool { return len(e.in(e.frame(e.n.dev.cfg.MAC, 0, 80))) == 1 }

// has is the number of a row of the device, how often it was.
func (e *ethernetHost) ever(name, what string) int {
	e.Helper()
	return *value(e.T, e.n.dev.ShowDevice(), name, what).Ever
}

// A doorbell that gets lost is an attention of the doorbell queue; all are rung again,
// ten times within a second, and what was asked of the device happens all the same.
//
// XX-01 HW-06 IT-15
func TestLostDoorbells(t *testing.T) {
	if !ecore.Emulation {
		t.Skip("the build has no faults")
	}
	for _, mode := range []string{"msix", "inta", "poll"} {
		e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: mode}}})
		e.n.set("chip_fault=doorbells")
		e.n.set("rx_mode=regular", "rx_vlans=5")
		if len(e.in(e.frame(e.n.dev.cfg.MAC, 7, 80))) != 0 || len(e.in(e.frame(e.n.dev.cfg.MAC, 5, 80))) != 1 {
			t.Errorf("%s: the filters are not set", mode)
		}
		if s := e.n.dev.Core().Show()[0]; s.SPQ.InUse != 0 || s.SPQ.Posted != s.SPQ.Completed || e.ever("doorbell_recoveries", "") == 0 {
			t.Errorf("%s: %+v", mode, s.SPQ)
		}
		e.n.set("chip_fault=none")
		e.w.run(2 * time.Second)
		before := e.ever("doorbell_recoveries", "")
		e.n.set("rx_vlans=all")
		if e.w.run(2 * time.Second); e.ever("doorbell_recoveries", "") != before || len(e.in(e.frame(e.n.dev.cfg.MAC, 7, 80))) != 1 {
			t.Errorf("%s: doorbells are rung again that were not lost", mode)
		}
	}
}

// Eight windows are lent; who needs one more waits, a second at most, and doorbells
// need none. A ramrod that is stuck has the chip drained, for which the driver needs a
// window.
//
// HW-01 HW-02 HW-03 HW-06
func TestWindowsAreTaken(t *testing.T) {
	if !ecore.Emulation {
		t.Skip("the build has no faults")
	}
	ptt := func(e *ethernetHost) (used int) { return *value(t, e.n.dev.ShowDevice(), "ptt", "").Used }
	failure := func(faults string) (time.Duration, int) {
		e := newEthernetHost(t, Config{})
		e.n.set("chip_fault=" + faults)
		if want := 8 * strings.Count(faults, "windows"); ptt(e) != want {
			t.Errorf("%s: %d windows are lent", faults, ptt(e))
		}
		start := e.w.now
		if err := e.n.dev.Set(Setting{"rx_mode", "regular"}); !errors.Is(err, status.Busy) {
			t.Errorf("%s: %v", faults, err)
		}
		e.w.until(20*time.Second, func() bool { return e.n.dev.Core().HealthState() == "error" })
		took, failed := e.w.now.Sub(start), e.ever("ptt_failed", "")
		e.n.set("chip_fault=none")
		e.n.dev.Recover(e.w.now, func(err error) {
			if err != nil || ptt(e) != 0 || !e.passes() {
				t.Errorf("%s: %v, %d windows are still lent", faults, err, ptt(e))
			}
		})
		e.w.run(time.Second)
		return took, failed
	}
	free, none := failure("storm")
	taken, failed := failure("storm,windows")
	if none != 0 || failed != 1 || min(free, taken) < time.Second || max(free, taken) > 3*time.Second {
		t.Errorf("with windows %v, %d failed; without %v, %d failed", free, none, taken, failed)
	}
	e := newEthernetHost(t, Config{})
	e.n.set("chip_fault=windows")
	if e.n.set("rx_mode=regular", "rx_vlans=5"); len(e.in(e.frame(e.n.dev.cfg.MAC, 7, 80))) != 0 {
		t.Error("a doorbell needs a window")
	}
}

// A load that the management firmware refuses, or that the chip does not survive, is
// taken back: nothing passes, the firmware's books are as before, and when the fault
// has gone the driver loads.
//
// IN-13 IN-15
func TestLoadFails(t *testing.T) {
	for fault, want := range map[string]string{"load": "REJECT", "dma": "DMAE"} {
		e := newEthernetHost(t, Config{})
		e.n.set("driver=unloaded")
		e.n.set("chip_fault=" + fault)
		e.n.set("driver=loaded")
		if e.passes() || e.n.management("driver_role") != "NONE" || !strings.Contains(e.n.management("last_error"), want) {
			t.Errorf("%s: %v", fault, e.n.dev.ShowMFW(e.w.now))
		}
		if n := e.n.dev.Core().Health().Errors[ecore.DMAEFail]; (n > 0) != (fault == "dma") {
			t.Errorf("%s: %d errors of the DMA engine", fault, n)
		}
		e.n.set("chip_fault=none", "driver=unloaded")
		if e.n.set("driver=loaded"); !e.passes() || e.n.management("driver_role") != "OS" {
			t.Errorf("%s has gone: %v", fault, e.n.dev.ShowMFW(e.w.now))
		}
	}
}

// A driver that crashes leaves its record in the management firmware, which does not
// let another operating system's push it aside, but that of a crash kernel.
//
// IN-13 IN-14
func TestCrashedDriver(t *testing.T) {
	e := newEthernetHost(t, Config{})
	e.n.set("driver=crashed")
	if e.passes() || e.n.management("driver_role") != "OS" {
		t.Errorf("crashed: %v", e.n.dev.ShowMFW(e.w.now))
	}
	e.n.set("driver=loaded")
	if e.passes() || !strings.Contains(e.n.management("last_error"), "may not push aside") {
		t.Errorf("an operating system after it: %v", e.n.dev.ShowMFW(e.w.now))
	}
	e.n.set("driver=unloaded")
	e.n.set("driver_role=kdump", "driver=loaded")
	if !e.passes() || e.n.management("driver_role") != "KDUMP" {
		t.Errorf("a crash kernel: %v", e.n.dev.ShowMFW(e.w.now))
	}
	e.n.set("driver=unloaded")
	e.n.set("driver_role=os", "driver=loaded")
	if !e.passes() || e.n.management("driver_role") != "OS" {
		t.Errorf("after the crash kernel: %v", e.n.dev.ShowMFW(e.w.now))
	}
}

// The log of the topic hw has every access to the chip, in the order of the life
// cycle: the function is read, resc_setup writes nothing, the phases of the init tool
// write the runtime array, which is empty then.
//
// HW-05 HW-07 HW-12 HW-13 IN-02 IN-07
func TestAccessesAreLogged(t *testing.T) {
	e := newEthernetHost(t, Config{})
	e.n.set("driver=unloaded")
	e.n.set("dprint=hw")
	e.n.set("driver=loaded")
	var lines []string
	for _, l := range e.n.dev.ShowLog(0) {
		if l.Topic == "hw" {
			lines = append(lines, l.Text)
		}
	}
	at := -1
	for _, want := range []string{"rd 0x2a8100", "wr 0x2a8200 0x1, window of main", "phase ENGINE: ", "phase PORT: ",
		"phase PF: ", "phase QM_PF: ", "wr 0x1f0100 0x1, window of main", "db ", "gtt-rd "} {
		next := slices.IndexFunc(lines[at+1:], func(l string) bool { return strings.Contains(l, want) })
		if next < 0 {
			t.Fatalf("no %q behind line %d of %q", want, at, lines)
		}
		if want == "wr 0x2a8200 0x1, window of main" && next != 0 {
			t.Errorf("before the load: %q", lines[at+1:at+1+next])
		}
		if at += 1 + next; strings.HasPrefix(want, "phase") && strings.Contains(lines[at], " 0 words") {
			t.Errorf("%s", lines[at])
		}
		if (want == "db " || want == "gtt-rd ") && strings.Contains(lines[at], "window") {
			t.Errorf("%s", lines[at])
		}
	}
	if n := *value(t, e.n.dev.ShowDevice(), "rt_slots", "").Used; n != 0 {
		t.Errorf("%d slots of the runtime array are left", n)
	}
	before := len(e.n.dev.ShowLog(0))
	e.n.set("dprint=none")
	e.n.set("rx_mode=regular")
	if got := len(e.n.dev.ShowLog(0)); got != before {
		t.Errorf("%d lines more without the topic", got-before)
	}
}

// The rings of the slowpath wrap, and the sequence of the mailbox does.
//
// HW-15 MF-02 MF-03
func TestRingsWrap(t *testing.T) {
	e := newEthernetHost(t, Config{})
	for i := range 200 {
		e.set("rx_vlans", fmt.Sprint(1+i%2))
	}
	s := e.n.dev.Core().Show()[0]
	if s.SPQ.Posted < 1000 || s.EQ.Events != s.SPQ.Posted || s.SPQ.InUse != 0 {
		t.Errorf("%+v %+v", s.SPQ, s.EQ)
	}
	if len(e.in(e.frame(e.n.dev.cfg.MAC, 2, 80))) != 1 {
		t.Error("the last setting does not count")
	}
	commands := func() uint64 { return e.n.dev.MFW().Stats().Commands }
	for from := commands(); commands() < from+1<<16+10; {
		e.n.dev.MCP().SetLED(mfw.LEDOn, e.w.now, func(error) {})
		e.n.dev.Manage(e.w.now)
	}
	if e.n.management("mailbox") != "ready" || e.n.management("timeouts") != "0" {
		t.Errorf("%v", e.n.dev.ShowMFW(e.w.now))
	}
}

// One interrupt for several queues: the mask that the service routine reads names
// them all.
//
// IT-10 IT-12
func TestOneInterruptForAll(t *testing.T) {
	e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: "inta"}}})
	e.learn()
	for range 3 {
		e.h.got, e.h.queues = nil, nil
		before := e.n.dev.IRQ().ShowVectors()[0].Interrupts
		e.inbound(0, 3)
		e.inbound(2, 3)
		e.w.run(time.Millisecond)
		if n := e.n.dev.IRQ().ShowVectors()[0].Interrupts - before; len(e.h.got) != 6 || n == 0 || n > 2 {
			t.Errorf("%d frames, %d interrupts", len(e.h.got), n)
		}
	}
}

// CM-09
func TestInterruptsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		hw   fastlinq.Config
		want string
	}{
		{fastlinq.Config{Engines: 2, Interrupts: fastlinq.Interrupts{Mode: "msi"}}, "msi"},
	} {
		_, err := newNIC(Config{Name: "nic0", Hardware: &c.hw, Addrs: prefixes("10.0.0.1/24")}, Env{Pool: newWorld(t).pool, Wire: sink{}})
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), c.want) {
			t.Errorf("%+v: %v", c.hw, err)
		}
	}
}

// A driver that is quiet keeps its slowpath and stops its fastpath.
//
// IN-29
func TestQuietDriver(t *testing.T) {
	e := newEthernetHost(t, Config{})
	heartbeat := func() (err error) {
		err = status.Busy
		e.n.dev.Core().Lead().Heartbeat(e.w.now, func(_ frame.Time, got error) { err = got })
		e.n.dev.Manage(e.w.now)
		return err
	}
	for range 2 {
		e.n.set("driver=quiet")
		if e.passes() || len(e.out(e.frame(e.s.mac, 0, 9))) != 0 || heartbeat() != nil || e.n.management("driver_role") != "OS" {
			t.Errorf("quiet: %v", e.n.dev.ShowMFW(e.w.now))
		}
		e.n.set("driver=loaded")
		if !e.passes() || len(e.out(e.frame(e.s.mac, 0, 9))) != 1 || heartbeat() != nil {
			t.Errorf("loaded: %v", e.n.dev.ShowMFW(e.w.now))
		}
	}
	e.n.set("driver=quiet")
	e.n.set("driver=unloaded")
	if e.n.set("driver=loaded"); !e.passes() {
		t.Error("it does not load after it was quiet")
	}
}

// The management firmware asks for statistics and is told the mode of the switch
// between vports; a critical error of its own is a hardware error and leaves a dump.
//
// MF-34 MF-43 MF-45
func TestFirmwareIsTold(t *testing.T) {
	e := newEthernetHost(t, Config{})
	for _, c := range [][3]string{{"rx_mode=regular", "vports=none", "none"}, {"vports=" + macvlan1.String(), "tx_switching=0", "vepa"},
		{"tx_switching=1", "rx_ring=256", "veb"}} {
		if e.n.set(c[0], c[1]); e.n.management("eswitch") != c[2] {
			t.Errorf("%v: %s", c, e.n.management("eswitch"))
		}
	}
	e.n.set("driver=unloaded")
	if e.n.set("driver=loaded"); e.n.management("eswitch") != "veb" {
		t.Errorf("loaded again: %s", e.n.management("eswitch"))
	}
	e.passes()
	info := e.n.dev.ShowNIC()
	if got, want := e.n.management("lan_stats"), fmt.Sprintf("%d frames received, %d sent", info.RxPackets, info.TxPackets); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := e.n.management("mdump"); got != "on, 0 of 4 logs" {
		t.Errorf("mdump: %s", got)
	}
	e.n.set("chip_fault=critical")
	if got := e.n.management("mdump") + "; " + e.n.management("mdump_retained"); !strings.HasPrefix(got, "on, 1 of 4 logs; valid, epoch 3600,") {
		t.Errorf("mdump: %s", got)
	}
	if h := e.n.dev.Health(); h.State != "error" || h.Errors != 1 {
		t.Errorf("%+v", h)
	}
}

// A ring holds as many frames as is set: more to send are dropped while the wire has no
// room, and received ones that fill half of it do not wait for their interrupt.
func TestRingsAreBounded(t *testing.T) {
	for _, size := range []int{128, 512} {
		e := newEthernetHost(t, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{RxUsecs: 511}}})
		e.n.set(fmt.Sprintf("tx_ring=%d", size), fmt.Sprintf("rx_ring=%d", size))
		e.learn()
		e.n.room = 0
		for range 600 {
			b := e.frame(e.s.mac, 0, 9)
			f := e.w.pool.Get(len(b))
			f.Append(b)
			e.n.dev.Receive(frame.Host, []*frame.Frame{f}, e.w.now)
		}
		if n := e.n.dev.Netdev(0).Queues()[0].TxWaiting; n != size {
			t.Errorf("tx_ring=%d holds %d frames", size, n)
		}
		e.s.take()
		e.n.room = 4096
		if e.w.run(10 * time.Millisecond); len(e.s.take()) != size {
			t.Errorf("tx_ring=%d", size)
		}
		e.h.got = nil
		e.inbound(0, 100)
		e.inbound(0, 1)
		if e.w.run(time.Microsecond); len(e.h.got) != map[int]int{128: 101}[size] {
			t.Errorf("rx_ring=%d: %d frames do not wait for their interrupt", size, len(e.h.got))
		}
		if e.w.run(time.Millisecond); len(e.h.got) != 101 {
			t.Errorf("rx_ring=%d: %d frames arrive", size, len(e.h.got))
		}
	}
}
