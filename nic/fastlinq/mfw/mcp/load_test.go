package mcp_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tapir/nic/fastlinq/mfw"
	"tapir/nic/fastlinq/mfw/mcp"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// IN-11 MF-07 The first of an engine, the first of a port, the others; on the
// way down the last ones.
func TestLoadOrder(t *testing.T) {
	r := newRig(t, board(2, 2, 2)) // functions 0-3 on engine 0, 4-7 on engine 1
	load := map[int]mcp.Load{0: mcp.LoadEngine, 1: mcp.LoadFunction, 2: mcp.LoadPort, 3: mcp.LoadFunction, 7: mcp.LoadEngine, 4: mcp.LoadPort}
	for _, fn := range []int{0, 1, 2, 3, 7, 4} {
		if got, err := r.load(fn, mcp.LoadParams{}); got != load[fn] || err != nil {
			t.Errorf("function %d: %v, %v", fn, got, err)
		}
		r.must(r.drv[fn].LoadDone)
	}
	unload := map[int]mcp.Load{0: mcp.LoadFunction, 1: mcp.LoadPort, 3: mcp.LoadFunction, 2: mcp.LoadEngine, 4: mcp.LoadPort, 7: mcp.LoadEngine}
	for _, fn := range []int{0, 1, 3, 2, 4, 7} {
		if got, err := r.unload(fn); got != unload[fn] || err != nil {
			t.Errorf("function %d: %v, %v", fn, got, err)
		}
		r.must(r.drv[fn].UnloadDone)
	}
}

// IN-15 C1 Whatever functions do: one ENGINE in an engine's epoch, one PORT or
// ENGINE in a port's; the mirror on the way down; nobody is let in while
// another one loads or unloads; LOAD_DONE is sent even if a phase fails.
func TestLoadUnloadMirror(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, board(2, 2, 2))
		state := make([]int, len(r.drv)) // 0 idle, 1 loading, 2 loaded, 3 unloading
		engine, port := func(fn int) int { return fn / 4 }, func(fn int) int { return fn / 2 }
		count := func(same func(int) int, fn int, states ...bool) (n int) {
			for i, s := range state {
				if same(i) == same(fn) && i != fn && states[s] {
					n++
				}
			}
			return n
		}
		model := func(fn int) mcp.Load {
			switch {
			case count(engine, fn, false, true, true, false) == 0:
				return mcp.LoadEngine
			case count(port, fn, false, true, true, false) == 0:
				return mcp.LoadPort
			}
			return mcp.LoadFunction
		}
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			fn := rapid.IntRange(0, len(r.drv)-1).Draw(rt, "function")
			switch state[fn] {
			case 0:
				got, err := r.load(fn, mcp.LoadParams{LockTimeout: mfw.LockNone})
				if count(engine, fn, false, true, false, true) > 0 {
					if status.Of(err) != status.Busy {
						rt.Fatalf("function %d was let in: %v", fn, state)
					}
					continue
				}
				if err != nil || got != model(fn) {
					rt.Fatalf("function %d of %v: %v, %v, want %v", fn, state, got, err, model(fn))
				}
				state[fn] = 1
			case 1: // done, failed and done, or given up
				state[fn] = 2
				if rapid.Bool().Draw(rt, "cancel") {
					r.must(r.drv[fn].CancelLoadReq)
					state[fn] = 0
				} else {
					r.must(r.drv[fn].LoadDone)
				}
			case 2:
				got, err := r.unload(fn)
				if err != nil || got != model(fn) {
					rt.Fatalf("function %d of %v: %v, %v, want %v", fn, state, got, err, model(fn))
				}
				state[fn] = 3
			case 3:
				r.must(r.drv[fn].UnloadDone)
				state[fn] = 0
			}
		}
	})
}

// IN-13 Each refusal is BUSY with its reason, and nothing is loaded.
func TestLoadRefused(t *testing.T) {
	for why, word := range map[mfw.Response]string{mfw.RefusedPDA: "PDA", mfw.RefusedDiag: "DIAG", mfw.RefusedHSI: "HSI", mfw.RefusedReject: "REJECT"} {
		r := newRig(t, board(1, 1, 1))
		r.fw.SetFaults(mfw.Faults{Refuse: why})
		_, err := r.load(0, mcp.LoadParams{})
		want(t, word, err, status.Busy)
		if !strings.Contains(err.Error(), word) || r.fw.Loaded(0) != mfw.RoleNone {
			t.Errorf("%s: %v", word, err)
		}
	}
	r := newRig(t, board(1, 1, 1))
	r.fw.SetFaults(mfw.Faults{HSI1: true})
	if got, err := r.load(0, mcp.LoadParams{}); got != mcp.LoadEngine || err != nil || r.drv[0].Stats().Commands != 2 {
		t.Errorf("once more, as version 1: %v, %v", got, err)
	}
	r = newRig(t, board(1, 1, 1))
	r.fw.SetFaults(mfw.Faults{DriverExists: true})
	_, err := r.load(0, mcp.LoadParams{})
	want(t, "a driver exists", err, status.Inval)
}

// IN-14 Who may push whom aside.
func TestForceMatrix(t *testing.T) {
	for _, c := range []struct {
		recorded mfw.Role
		crash    bool
		override mcp.Override
		may      bool
	}{
		{mfw.RolePreboot, false, mcp.OverrideNone, true},
		{mfw.RolePreboot, false, mcp.OverrideNever, false},
		{mfw.RoleOS, false, mcp.OverrideNone, false},
		{mfw.RoleOS, false, mcp.OverrideAlways, true},
		{mfw.RoleOS, true, mcp.OverrideNone, true},
		{mfw.RoleOS, true, mcp.OverrideNever, false},
		{mfw.RoleKDUMP, false, mcp.OverrideNone, false},
		{mfw.RoleKDUMP, true, mcp.OverrideNone, false},
		{mfw.RolePreboot, true, mcp.OverrideNone, false},
	} {
		r := newRig(t, board(1, 2, 2))
		r.record(0, c.recorded)
		r.record(3, mfw.RoleOS)
		got, err := r.load(0, mcp.LoadParams{CrashKernel: c.crash, Override: c.override})
		role := mfw.RoleOS
		if c.crash {
			role = mfw.RoleKDUMP
		}
		if c.may && (err != nil || got != mcp.LoadEngine || r.fw.Loaded(0) != role || r.fw.Loaded(3) != mfw.RoleNone) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		if !c.may && (status.Of(err) != status.Busy || r.fw.Loaded(0) != c.recorded || r.fw.Loaded(3) != mfw.RoleOS) {
			t.Errorf("%+v: %v, %v is recorded", c, err, r.fw.Loaded(0))
		}
	}
}

// record loads a function with a role, as another driver would.
func (r *rig) record(fn int, role mfw.Role) {
	r.t.Helper()
	req := mfw.LoadRequest{Role: role}
	var b [16]byte
	req.Encode(b[:])
	d := mcp.New(r.fw.Shared(), fn, 0, mcp.Hooks{})
	d.Cmd(mfw.CmdLoadReq, mfw.LoadReqHSI<<16, b[:], r.now, nil)
	r.fw.Poll(r.now)
	d.Poll(r.now)
	d.LoadDone(r.now, func(err error) {
		if err != nil {
			r.t.Fatal(err)
		}
	})
	r.fw.Poll(r.now)
	d.Poll(r.now)
	r.drv[fn].Init()
}

// A driver that loads and dies keeps the engine for as long as it said.
func TestLoadLockTimeout(t *testing.T) {
	for _, c := range []struct {
		timeout uint8
		ends    time.Duration
	}{{mfw.LockDefault, 10 * time.Second}, {3, 3 * time.Second}, {mfw.LockNone, 0}} {
		r := newRig(t, board(1, 1, 2))
		if _, err := r.load(0, mcp.LoadParams{LockTimeout: c.timeout}); err != nil {
			t.Fatal(err)
		}
		if c.ends == 0 {
			r.pass(24 * time.Hour)
		} else {
			if next := r.fw.Poll(r.now); next != r.now.Add(c.ends) {
				t.Errorf("time-out %d: next at %v", c.timeout, next.Sub(r.now))
			}
			r.pass(c.ends - 1)
		}
		_, err := r.load(1, mcp.LoadParams{})
		want(t, "locked", err, status.Busy)
		if c.ends == 0 {
			continue
		}
		r.pass(1)
		if got, err := r.load(1, mcp.LoadParams{}); got != mcp.LoadEngine || err != nil {
			t.Errorf("time-out %d: %v, %v", c.timeout, got, err)
		}
		want(t, "LOAD_DONE of the dead", r.do(r.drv[0].LoadDone), status.Inval)
	}
}

// XX-02 A process kill ends all drivers of an engine without a word to the
// firmware; they load again as if nothing had been there.
func TestRecovery(t *testing.T) {
	r := newRig(t, board(2, 1, 2))
	for fn := range r.drv {
		r.up(fn)
	}
	var aborted error
	r.fw.ProcessKill(0)
	r.drv[0].OVUpdateMTU(1400, r.now, func(err error) { aborted = err }) // waits, and the message comes
	if err := r.drv[0].HandleEvents(r.now); err != nil {
		t.Fatal(err)
	}
	want(t, "what waited", aborted, status.Aborted)
	r.attn[0] = false
	r.settle()
	if r.seen[0].recoveries != 1 || r.seen[1].recoveries != 1 || r.seen[2].recoveries != 0 || !r.drv[0].Recovering() {
		t.Errorf("%+v", r.seen)
	}
	if a, b := r.drv[0].ProcessKillCounter(0), r.drv[2].ProcessKillCounter(1); a != 1 || b != 0 {
		t.Errorf("counters %d, %d", a, b)
	}
	want(t, "a command in recovery", r.do(func(now frame.Time, done func(error)) { r.drv[1].OVUpdateMTU(1400, now, done) }), status.Aborted)
	for fn, load := range []mcp.Load{mcp.LoadEngine, mcp.LoadFunction} {
		r.drv[fn].Init()
		if got, err := r.load(fn, mcp.LoadParams{}); got != load || err != nil {
			t.Errorf("function %d: %v, %v", fn, got, err)
		}
		r.must(r.drv[fn].LoadDone)
	}
	r.must(r.drv[2].InitiatePFFLR)
	if r.fw.Loaded(2) != mfw.RoleNone || r.fw.Loaded(3) != mfw.RoleOS {
		t.Error("FLR")
	}
}
