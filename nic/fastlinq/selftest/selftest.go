// Package selftest has the selftests of the NIC: samples, not full coverage, of
// what the driver core of FastLinQ tests, with the names that qede gives them.
//
// A Run is a state machine without clock or goroutine: Poll does what is due,
// the report comes by callback. Every wait is bounded. What is tested is behind
// small interfaces; a Fault breaks one of them, and its test has to notice.
package selftest

import (
	"time"

	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
	"tapir/wire/frame"
)

// Test is one of the selftests, in qede's order.
type Test uint8

// The tests.
const (
	Loopback  Test = iota // frames through the port's own pipe; takes the link
	Interrupt             // the ramrod EMPTY, which ends by the slowpath's interrupt, on each engine
	Memory                // the same, for which the firmware checks patterns in the memory of contexts
	Registers             // the management firmware's test of those of each engine; values are restored
	Clock                 // the hardware clock and those of the modules of each engine against the time
	NVM                   // the checksums of the images in the flash
	NumTests
)

var names = [NumTests]string{"Internal loopback (offline)", "Interrupt (online)", "Memory (online)",
	"Register (online)", "Clock (online)", "Nvram (online)"}

// String is the test's name in the output of ethtool -t.
func (t Test) String() string {
	return enum.Name(names[:], t, "Test(%d)")
}

// Fault is a set of tests, 1 << Test, that are to meet a fault.
type Fault uint8

// Has tells whether a test is to meet one.
func (f Fault) Has(t Test) bool { return f>>t&1 != 0 }

// Engine is a hwfn.
type Engine interface {
	// Heartbeat posts the ramrod EMPTY; done runs from the interrupt of its
	// completion.
	Heartbeat(now frame.Time, done func(now frame.Time, err error))
	// TestContext has the firmware check a pattern in the context of a connection;
	// with spoil a bit of that memory is wrong.
	TestContext(flip, spoil bool, now frame.Time, done func(now frame.Time, err error))
	// Clocks are those of its modules. SkewClock has one run 1 % fast, for fault
	// injection.
	Clocks(now frame.Time) []ModuleClock
	SkewClock(on bool)
	// MaskSlowpath keeps the slowpath's interrupts away, for fault injection.
	MaskSlowpath(on bool, now frame.Time)
	// StickRegister has a bit of a register stuck, for fault injection.
	StickRegister(on bool)
}

// ModuleClock is the clock of a module.
type ModuleClock struct {
	Module string
	MHz    int
	Ticks  uint64
}

// Device is what is tested. It has all of these parts.
type Device struct {
	Engines []Engine
	// BIST has the management firmware test the registers, or the clocks, of all
	// engines.
	BIST func(t Test, now frame.Time, done func(error))
	// Counter is the hardware clock in nanoseconds, and what its frequency is
	// set to, in parts per billion of the time's.
	Counter func(now frame.Time) (ns, ppb int64)
	// Images are those of the flash.
	Images func() ([]Image, error)
	// SetLoopback has the port hear what it sends; false gives it back to the
	// wire.
	SetLoopback func(on bool, now frame.Time)
	// Send sends the payload of a test frame to the NIC's own station, and
	// heard gets what comes back, borrowed.
	Send func(payload []byte, heard func(payload []byte), now frame.Time) error
}

// Image is an image of the flash, and the CRC-32 that its directory has.
type Image struct {
	Name string
	Data []byte
	CRC  uint32
	Skip bool // crash dumps change
}

// Result is the outcome of a test; nil: passed.
type Result struct {
	Test Test
	Err  error
}

// Report is what a Run found, of the tests that it did.
type Report []Result

// Passed tells whether all have.
func (r Report) Passed() bool {
	for _, t := range r {
		if t.Err != nil {
			return false
		}
	}
	return true
}

// Bounds in time.
const (
	answerWait = time.Second           // for a completion
	bistWait   = 6 * time.Second       // for the management firmware, which has 5 s to answer
	clockWait  = 10 * time.Millisecond // that the clock is watched
	frameWait  = 100 * time.Millisecond
)

// Run is a run of the tests, one after the other.
type Run struct {
	dev    *Device
	fault  Fault
	done   func(Report, frame.Time)
	left   []Test
	report Report

	until   frame.Time // the bound of the test that runs; Never: none does
	waits   func(now frame.Time) (over bool, err error)
	leave   func(now frame.Time) // undoes what the test did
	started bool
}

// Start begins a run; done gets its report. Only with offline is the link taken
// for the loopback test.
func Start(dev *Device, offline bool, fault Fault, done func(Report, frame.Time)) *Run {
	r := &Run{dev: dev, fault: fault, done: done, until: frame.Never}
	for t := range NumTests {
		if t != Loopback || offline {
			r.left = append(r.left, t)
		}
	}
	return r
}

// Poll goes on and returns when it wants to be called again: at once when
// something has happened that it may wait for, at the latest then. Never: the
// run is over, and done was called.
func (r *Run) Poll(now frame.Time) frame.Time {
	for len(r.left) > 0 {
		if !r.started {
			r.started = true
			r.begin(r.left[0], now)
		}
		over, err := r.waits(now)
		if !over && now < r.until {
			return r.until
		}
		if !over && err == nil {
			err = status.Timeout.Errorf("nothing within the time")
		}
		r.end(err, now)
	}
	return frame.Never
}

func (r *Run) begin(t Test, now frame.Time) {
	r.until = now
	r.leave = func(frame.Time) {}
	start := [NumTests]func(*Run, frame.Time) error{Loopback: (*Run).loopback, Interrupt: (*Run).interrupt,
		Memory: (*Run).memory, Registers: (*Run).registers, Clock: (*Run).clock, NVM: (*Run).nvm}[t]
	r.waits = func(frame.Time) (bool, error) { return true, nil }
	if err := start(r, now); err != nil {
		r.waits = func(frame.Time) (bool, error) { return true, err }
	}
}

func (r *Run) end(err error, now frame.Time) {
	r.leave(now)
	r.report = append(r.report, Result{r.left[0], err})
	r.left, r.started = r.left[1:], false
	if len(r.left) == 0 {
		r.done(r.report, now)
	}
}
