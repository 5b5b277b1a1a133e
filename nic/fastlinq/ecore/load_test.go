package ecore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// IN-11, IN-23. C1: whatever functions load and unload in whatever order, one
// of an engine's epoch is told ENGINE, one of a port's PORT; the same mirrored;
// nobody is let in while another loads, and LOAD_DONE follows every grant.
func TestLoadMirror(t *testing.T) {
	needEmulation(t)
	rapid.Check(t, func(rt *rapid.T) {
		chip := newChip(t, AH, 1, rapid.SampledFrom([]int{1, 2, 4}).Draw(rt, "ports"), rapid.IntRange(1, 6).Draw(rt, "functions"))
		b := &board{delay: true}
		var beds []*bed
		for pf := range chip.Engines[0].Functions {
			b.delay = false
			x := newBed(t, chip, b, pf).to("resc_setup")
			b.delay = true
			beds = append(beds, x)
		}
		ended := make([]int, len(beds))
		begin := func(i int) {
			x := beds[i]
			done := func(now frame.Time, err error) { ended[i]++ }
			switch x.d.State() {
			case Setup:
				if rapid.IntRange(0, 4).Draw(rt, "breaks") == 0 {
					at := rapid.SampledFrom([]string{"init_engine", "init_pf", "pf_start", "load_done"}).Draw(rt, "where")
					x.fault = func(_ int, step string) error {
						if step == "hw_init/"+at {
							return status.IO
						}
						return nil
					}
				}
				x.d.HWInit(InitParams{}, 0, done)
			case Running:
				x.d.HWStop(0, done)
			case Stopped:
				for _, c := range []func() error{x.d.ReleaseSlowpathIRQ, x.d.IntDisablePostISRRelease, x.d.RescFree} {
					if err := c(); err != nil {
						rt.Fatal(err)
					}
				}
				b.delay = false
				for _, c := range calls[2:5] {
					if err := c.do(x); err != nil {
						rt.Fatal(err)
					}
				}
				b.delay = true
			}
		}
		on := func() {
			for _, x := range beds {
				x.d.Poll(0)
			}
			if n := len(b.queue); n > 0 {
				i := rapid.IntRange(0, n-1).Draw(rt, "answer")
				fn := b.queue[i]
				b.queue = slices.Delete(b.queue, i, i+1)
				fn()
			}
			check(rt, chip, b, beds)
		}
		for range rapid.IntRange(5, 60).Draw(rt, "moves") {
			if i := rapid.IntRange(0, 2*len(beds)-1).Draw(rt, "who"); i < len(beds) && beds[i].d.Call() == "" {
				beds[i].fault = nil
				begin(i)
			} else {
				on()
			}
		}
		for busy := true; busy; {
			on()
			busy = len(b.queue) > 0
			for _, x := range beds {
				busy = busy || x.d.Call() != ""
			}
		}
		for i, x := range beds {
			if running := x.d.State() == Running; running != (x.mfw[0].phase == loaded) {
				rt.Fatalf("function %d: state %v, books %d", i, x.d.State(), x.mfw[0].phase)
			}
		}
	})
}

// check holds the books against the logs.
func check(t *rapid.T, chip *Chip, b *board, beds []*bed) {
	holders := 0
	for _, m := range b.fns {
		if m.phase == loading {
			holders++
		}
	}
	if holders > 1 {
		t.Fatalf("%d functions load at once", holders)
	}
	engine, unloads := 0, 0
	for _, x := range beds {
		log := x.mfw[0].log
		owed := 0
		for _, line := range log {
			switch line {
			case "ENGINE":
				engine++
				owed++
			case "PORT", "FUNCTION":
				owed++
			case "LOAD_DONE":
				owed--
			case "unENGINE":
				unloads++
			case "UNLOAD_REQ":
				if owed > 0 {
					t.Fatalf("UNLOAD_REQ before LOAD_DONE: %q", log)
				}
			}
			if owed < 0 || owed > 1 {
				t.Fatalf("LOAD_DONE does not follow each grant: %q", log)
			}
		}
	}
	up := 0
	if slices.ContainsFunc(b.fns, func(m *mailbox) bool { return m.phase == loaded || m.phase == loading }) {
		up = 1
	}
	if engine != unloads+up {
		t.Fatalf("%d times first on the engine, %d times last, %d now", engine, unloads, up)
	}
}

// IN-13
func TestLoadRefused(t *testing.T) {
	x := single(t).to("resc_setup")
	x.mfw[0].refuse = status.Busy.Errorf("LOAD_REQ: a diagnostic agent owns the device (PDA)")
	if err := x.init(InitParams{}); !errors.Is(err, status.Busy) || !strings.Contains(err.Error(), "PDA") {
		t.Errorf("%v", err)
	}
	if want := []string{"LOAD_REQ"}; !slices.Equal(x.mfw[0].log, want) || x.d.State() != Setup {
		t.Errorf("%q, state %v", x.mfw[0].log, x.d.State())
	}
	x.mfw[0].refuse = nil
	if err := x.init(InitParams{}); err != nil {
		t.Error(err)
	}
}

// crash leaves a running function behind as a driver does that dies: its
// device is gone, and firmware and books know nothing of that.
func crash(x *bed) { x.chip.Engines[0].storms[x.d.cfg.PF].detach() }

// IN-14, IN-16
func TestCrashedPredecessor(t *testing.T) {
	chip, b := newChip(t, AH, 1, 1, 2), new(board)
	newBed(t, chip, b, 0).to("hw_init") // has the engine up
	crash(newBed(t, chip, b, 1).to("hw_init"))
	old := b.fns[1]
	next := func() *bed {
		x := newBed(t, chip, b, 1)
		b.fns = b.fns[:2]
		x.mfw[0], x.d.cfg.MFW[0] = old, old
		return x
	}
	x := next().to("resc_setup")
	if err := x.init(InitParams{}); !errors.Is(err, status.Busy) || !slices.Contains(old.log, "CANCEL_LOAD_REQ") {
		t.Errorf("an OS over an OS: %v", err)
	}
	for _, p := range []LoadParams{{Override: OverrideAlways}, {CrashKernel: true}} {
		faults := pfFaults(t, chip.Engines[0], 1)
		faults.NoCleanup = true
		start := x.now
		if err := x.init(InitParams{Load: p}); !errors.Is(err, status.Timeout) || x.now.Sub(start) != time.Second || old.phase != idle {
			t.Errorf("%+v, no clean-up: %v after %v, phase %d", p, err, x.now.Sub(start), old.phase)
		}
		faults.NoCleanup = false
		if !chip.Engines[0].storms[1].started {
			t.Error("the predecessor is gone without a clean-up")
		}
		if err := x.init(InitParams{Load: p}); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
		crash(x)
		x = next().to("resc_setup")
	}
	x = next()
	if err := x.d.InitStruct(); err != nil {
		t.Fatal(err)
	}
	if err := x.wait(func(done Done) {
		x.d.HWPrepare(PrepareParams{Personality: Default, InitiateFLR: true}, x.now, done)
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls[2:6] { // an FLR needs no force
		if err := c.do(x); err != nil {
			t.Errorf("%s after an FLR: %v", c.name, err)
		}
	}
}

// Without the clean-up, the firmware refuses to start a function that it has
// started.
func TestStartedTwice(t *testing.T) {
	x := single(t).to("hw_init")
	if err := x.wait(func(done Done) { x.d.Lead().common(RamrodPFStart, PFStart{}, x.now, done) }); status.Of(err) != status.UnknownError {
		t.Errorf("%v", err)
	}
}
