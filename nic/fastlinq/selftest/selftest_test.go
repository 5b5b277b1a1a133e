package selftest

import (
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// engine is one whose completions come after a while.
type engine struct {
	stuck   bool
	masked  bool
	pending []func(frame.Time)
	busy    error
	memory  error
	skewed  bool
	rate    int64 // of a module's clock, ppb off
}

func (e *engine) Heartbeat(_ frame.Time, done func(frame.Time, error)) {
	e.pending = append(e.pending, func(now frame.Time) { done(now, e.busy) })
}

func (e *engine) TestContext(_, spoil bool, _ frame.Time, done func(frame.Time, error)) {
	err := e.memory
	if spoil {
		err = status.IO
	}
	e.pending = append(e.pending, func(now frame.Time) { done(now, err) })
}

func (e *engine) Clocks(now frame.Time) []ModuleClock {
	ns := uint64(int64(now) + int64(now)/1_000_000*e.rate/1000)
	if e.skewed {
		ns += ns / 100
	}
	return []ModuleClock{{"MAIN", 1000, ns}}
}

func (e *engine) SkewClock(on bool) { e.skewed = on }

func (e *engine) MaskSlowpath(on bool, _ frame.Time) { e.masked = on }

func (e *engine) StickRegister(on bool) { e.stuck = on }

// rig is a device whose parts may be broken.
type rig struct {
	Device
	engines [2]*engine
	looped  bool
	wire    [][]byte // payloads sent and not yet heard
	heard   func([]byte)
	rate    int64 // of the clock, ppb off
	ppb     int64
	images  []Image
	bists   int
}

// firmware answers at once whether a register is stuck.
func (r *rig) firmware(t Test, _ frame.Time, done func(error)) {
	r.bists++
	if t == Registers && r.engines[0].stuck || r.engines[1].stuck {
		done(status.IO.Errorf("a register is stuck"))
		return
	}
	done(nil)
}

func newRig() *rig {
	r := &rig{engines: [2]*engine{{}, {}}}
	r.images = []Image{{"MFW", []byte("firmware"), crc32.ChecksumIEEE([]byte("firmware")), false}, {"MDUMP", []byte("dump"), 0, true}}
	r.Device = Device{
		Engines:     []Engine{r.engines[0], r.engines[1]},
		BIST:        r.firmware,
		Counter:     func(now frame.Time) (int64, int64) { return int64(now) + int64(now)/1_000_000*r.rate/1000, r.ppb },
		Images:      func() ([]Image, error) { return r.images, nil },
		SetLoopback: func(on bool, _ frame.Time) { r.looped = on },
		Send: func(b []byte, heard func([]byte), _ frame.Time) error {
			r.wire, r.heard = append(r.wire, b), heard
			return nil
		},
	}
	return r
}

// run runs the tests to their end: events come with each step of 1 ms.
func (r *rig) run(t *testing.T, offline bool, f Fault) Report {
	t.Helper()
	var report Report
	calls := 0
	run := Start(&r.Device, offline, f, func(got Report, _ frame.Time) { report = got; calls++ })
	now := frame.Time(time.Hour)
	for range 16000 {
		next := run.Poll(now)
		if next == frame.Never {
			if calls != 1 || r.looped || r.engines[0].masked || r.engines[1].stuck || r.engines[1].skewed || run.Poll(now) != frame.Never {
				t.Fatalf("done was called %d times, or something is not given back", calls)
			}
			return report
		}
		if next <= now {
			t.Fatal("it spins")
		}
		now = now.Add(time.Millisecond)
		for _, e := range r.engines {
			for _, done := range e.pending {
				if !e.masked {
					done(now)
				}
			}
			e.pending = nil
		}
		for _, b := range r.wire {
			if r.looped {
				r.heard(b)
			}
		}
		r.wire = nil
	}
	t.Fatal("it never ends")
	return nil
}

// failed are the tests of a report that did, with their errors.
func failed(r Report) map[Test]error {
	m := map[Test]error{}
	for _, t := range r {
		if t.Err != nil {
			m[t.Test] = t.Err
		}
	}
	return m
}

// ST-01 ST-02 ST-03 ST-04 ST-05 ST-06
func TestAllPass(t *testing.T) {
	r := newRig()
	if rep := r.run(t, true, 0); len(rep) != int(NumTests) || !rep.Passed() {
		t.Fatalf("%v", rep)
	}
	rep := r.run(t, false, 0)
	if len(rep) != int(NumTests)-1 || rep[0].Test != Interrupt || !rep.Passed() {
		t.Fatalf("online: %v", rep)
	}
	if r.bists != 4 {
		t.Errorf("the firmware was asked %d times", r.bists)
	}
}

// Each fault fails its test and no other, and what it broke is whole afterwards.
func TestEachFaultFailsItsTest(t *testing.T) {
	r := newRig()
	for test := range NumTests {
		rep := r.run(t, true, 1<<test)
		if bad := failed(rep); len(bad) != 1 || bad[test] == nil || rep.Passed() {
			t.Errorf("%v: failed are %v", test, bad)
		}
		if rep := r.run(t, true, 0); !rep.Passed() {
			t.Errorf("after the fault of %v: %v", test, failed(rep))
		}
	}
	if bad := failed(r.run(t, true, 1<<NumTests-1)); len(bad) != int(NumTests) {
		t.Errorf("all faults at once: %v", bad)
	}
}

// What may be wrong with the model itself is found, too.
func TestBrokenModels(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(r *rig)
		test Test
		code status.Code
	}{
		{"a completion comes twice", func(r *rig) { r.engines[0].pending = nil; double(r) }, Interrupt, status.IO},
		{"the slowpath refuses", func(r *rig) { r.engines[1].busy = status.Busy }, Interrupt, status.Busy},
		{"the second engine says nothing", func(r *rig) { r.Engines[1] = &mute{engine: *r.engines[1]} }, Interrupt, status.Timeout},
		{"a context is not what was written", func(r *rig) { r.engines[1].memory = status.IO }, Memory, status.IO},
		{"no context is free", func(r *rig) { r.engines[0].memory = status.NoResources }, Memory, status.NoResources},
		{"a module's clock is 2000 ppm slow", func(r *rig) { r.engines[1].rate = -2_000_000 }, Clock, status.IO},
		{"a register is broken", func(r *rig) { r.engines[0].stuck = true }, Registers, status.IO},
		{"the firmware says nothing", func(r *rig) { r.BIST = func(Test, frame.Time, func(error)) {} }, Registers, status.Timeout},
		{"the clock is 2000 ppm fast", func(r *rig) { r.rate = 2_000_000 }, Clock, status.IO},
		{"the clock stands", func(r *rig) { r.rate = -1_000_000_000 }, Clock, status.IO},
		{"an image is damaged", func(r *rig) { r.images[0].Data = []byte("Firmware") }, NVM, status.IO},
		{"no images", func(r *rig) { r.images = nil }, NVM, status.NoEnt},
		{"the wire eats the frame", func(r *rig) { r.Send = func([]byte, func([]byte), frame.Time) error { return nil } }, Loopback, status.Timeout},
		{"the frame is cut", func(r *rig) {
			r.Send = func(b []byte, heard func([]byte), _ frame.Time) error { heard(b[:len(b)-1]); return nil }
		}, Loopback, status.IO},
	} {
		r := newRig()
		c.make(r)
		bad := failed(r.run(t, true, 0))
		if err := bad[c.test]; status.Of(err) != c.code {
			t.Errorf("%s: %v, want %v", c.name, err, c.code)
		}
	}
	// A clock that is off by what a crystal may be, or steered, is good.
	for _, ok := range []func(r *rig){
		func(r *rig) { r.rate = 100_000 },
		func(r *rig) { r.rate, r.ppb = 200_000_000, 200_000_000 },
		func(r *rig) { r.rate, r.ppb = -200_000_000, -200_000_000 },
	} {
		r := newRig()
		ok(r)
		if bad := failed(r.run(t, false, 0)); len(bad) > 0 {
			t.Errorf("rate %d ppb, set to %d: %v", r.rate, r.ppb, bad)
		}
	}
}

// double has the first engine complete each element twice.
func double(r *rig) { r.Engines[0] = &twice{engine: r.engines[0]} }

type twice struct{ *engine }

func (e *twice) Heartbeat(now frame.Time, done func(frame.Time, error)) {
	e.engine.Heartbeat(now, done)
	e.engine.Heartbeat(now, done)
}

func (e *twice) MaskSlowpath(on bool, now frame.Time) { e.engine.MaskSlowpath(on, now) }

type mute struct{ engine }

func (*mute) Heartbeat(frame.Time, func(frame.Time, error)) {}

func TestNames(t *testing.T) {
	if Registers.String() != "Register (online)" || NumTests.String() != "Test(6)" || !strings.HasSuffix(Loopback.String(), "(offline)") {
		t.Error(Registers, NumTests, Loopback)
	}
}
