// Package ecore is the driver core of the NIC in the shape of FastLinQ's: a
// Dev is one PCI function with one hardware function (hwfn) for each engine
// that it sits on, and goes through the life cycle of the programming guide:
//
//	InitStruct HWPrepare SetPFParams RescAlloc RescSetup HWInit
//	... HWStop IntDisablePostISRRelease RescFree HWRemove
//
// A call out of order is refused with INVAL and changes nothing; one that
// fails half-way undoes what it did. The management firmware and the
// interrupts are others' (MFW, Interrupts); what they need the core for comes
// back through Hooks.
//
// A Dev is a state machine without clock, goroutine or lock. Where the guide
// sleeps, a call takes a function that it calls when it is done, perhaps
// within the call, else from Poll.
package ecore

import (
	"fmt"
	"slices"
	"time"

	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/ecore/hw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/status"
	"tapir/nic/msglog"
	"tapir/wire/frame"
)

// State is where a device stands in its life cycle.
type State uint8

// The states, each named after the call that leads to it.
const (
	Zeroed    State = iota
	Struct          // init_struct, hw_remove
	Prepared        // hw_prepare, resc_free
	Allocated       // resc_alloc
	Setup           // resc_setup
	Running         // hw_init
	Stopped         // hw_stop
	Quiet           // int_disable_post_isr_release
)

var stateNames = [...]string{"ZEROED", "STRUCT", "PREPARED", "ALLOCATED", "SETUP", "RUNNING", "STOPPED", "QUIET"}

// String is the state's name.
func (s State) String() string { return stateNames[s] }

// Done is told how a call ended.
type Done func(now frame.Time, err error)

// Config is what a device finds around it.
type Config struct {
	Name string
	Chip *Chip
	PF   int // of the function in each engine
	// MFW and Int are the management firmware's mailbox and the interrupts
	// of each engine that the function sits on.
	MFW []MFW
	Int []Interrupts
	// Fault fails a step of a call: "hw_init/pf_start" on hwfn 0 and so on; nil:
	// none fails. It needs Emulation.
	Fault func(hwfn int, step string) error
	Hooks Hooks
	// Log is told what happens; nil: nobody is.
	Log *msglog.Log
}

// Dev is a device: one PCI function.
type Dev struct {
	// Hwfns are the hardware functions, known from HWPrepare to HWRemove.
	Hwfns []*Hwfn

	cfg    Config
	state  State
	call   string // that is under way
	failed int    // hwfn of the step that failed last
	now    frame.Time
	timers []timer

	params   PrepareParams
	prepared Prepare
	fastpath bool // closed
	intMode  IntMode
	recovery bool
	health   Health
	image    *fw.Image  // of the storms, from hw_init on
	inflate  rt.Inflate // of its arrays
}

// Hwfn is the device's half on one engine.
type Hwfn struct {
	Index int
	BAR   *hw.BAR

	dev    *Dev
	engine *Engine
	storm  *storm
	mfw    MFW
	irq    Interrupts
	info   Info
	res    [NumResources]Share

	pf    *PFParams
	alloc *allocated
	load  Load
	done  bool // LOAD_DONE was sent
	isr   bool // the slowpath's interrupt is installed
	debug
}

// New returns a zeroed device.
func New(cfg Config) *Dev { return &Dev{cfg: cfg} }

// InitStruct gives a zeroed device its ids and back-pointers.
func (d *Dev) InitStruct() error {
	if d.state != Zeroed {
		return d.outOfOrder("init_struct")
	}
	d.state = Struct
	return nil
}

// State is where the device stands.
func (d *Dev) State() State { return d.state }

// Call is the call that is under way, "" if none is.
func (d *Dev) Call() string { return d.call }

func (d *Dev) outOfOrder(call string) error {
	return status.Inval.Errorf("%s in state %v", call, d.state)
}

// begin admits a call in one of the states from. BUSY: another call is under
// way; INVAL: not in this state.
func (d *Dev) begin(call string, now frame.Time, from ...State) error {
	d.now = now
	if d.call != "" {
		return status.Busy.Errorf("%s: %s is under way", call, d.call)
	}
	if !slices.Contains(from, d.state) {
		return d.outOfOrder(call)
	}
	d.call = call
	return nil
}

// steps admits a call as begin does and collects its steps; false: the call is
// refused, and done was told.
func (d *Dev) steps(call string, in State, now frame.Time, done Done, of func(*Hwfn) []step) (list []step, ok bool) {
	if err := d.begin(call, now, in); err != nil {
		done(now, err)
		return nil, false
	}
	for _, h := range d.Hwfns {
		list = append(list, of(h)...)
	}
	return list, true
}

// end is the other end of begin.
func (d *Dev) end(then State, now frame.Time, err error, done Done) {
	if err == nil {
		d.state = then
	} else {
		d.notice(msglog.Cmd, "%s: %v", d.call, err)
	}
	d.call = ""
	if done != nil {
		done(now, err)
	}
}

// simple is a call that takes no time.
func (d *Dev) simple(call string, then State, do func() error, from ...State) (err error) {
	if err := d.begin(call, d.now, from...); err != nil {
		return err
	}
	if err = d.fault(0, call); err == nil {
		err = do()
	}
	d.end(then, d.now, err, nil)
	return err
}

// step is a part of a call.
type step struct {
	hwfn int
	name string
	do   func(now frame.Time, done Done)
	undo func(now frame.Time, done func(now frame.Time)) // nil: nothing is to be undone
}

// instant is a step that takes no time.
func instant(hwfn int, name string, do func(now frame.Time) error, undo func(now frame.Time)) step {
	s := step{hwfn: hwfn, name: name, do: func(now frame.Time, done Done) { done(now, do(now)) }}
	if undo != nil {
		s.undo = func(now frame.Time, done func(frame.Time)) { undo(now); done(now) }
	}
	return s
}

// run does the steps one after the other. If one fails, those before it are
// undone, the last first.
func (d *Dev) run(steps []step, now frame.Time, done Done) { d.runFrom(steps, 0, now, done) }

func (d *Dev) runFrom(steps []step, i int, now frame.Time, done Done) {
	if i == len(steps) {
		done(now, nil)
		return
	}
	s := &steps[i]
	next := func(now frame.Time, err error) {
		if err != nil {
			d.failed = s.hwfn
			d.undo(steps[:i], now, func(now frame.Time) { done(now, err) })
			return
		}
		d.runFrom(steps, i+1, now, done)
	}
	if err := d.fault(s.hwfn, d.call+"/"+s.name); err != nil {
		next(now, err)
		return
	}
	s.do(now, next)
}

func (d *Dev) undo(steps []step, now frame.Time, done func(now frame.Time)) {
	for i := len(steps) - 1; i >= 0; i-- {
		if undo := steps[i].undo; undo != nil {
			undo(now, func(now frame.Time) { d.undo(steps[:i], now, done) })
			return
		}
	}
	done(now)
}

// timer is something to be done later.
type timer struct {
	at frame.Time
	fn func(now frame.Time)
}

func (d *Dev) after(now frame.Time, wait time.Duration, fn func(now frame.Time)) {
	d.timers = append(d.timers, timer{now.Add(wait), fn})
}

// Poll does what has become due, runs the firmware of the function, and
// returns when it wants to be called again.
func (d *Dev) Poll(now frame.Time) frame.Time {
	d.now = now
	for _, h := range d.Hwfns {
		h.storm.run(now)
	}
	var due []timer
	rest := d.timers[:0]
	for _, t := range d.timers {
		if t.at <= now {
			due = append(due, t)
		} else {
			rest = append(rest, t)
		}
	}
	d.timers = rest
	for _, t := range due {
		t.fn(now)
	}
	d.poll(now)
	next := d.poll(now) // again: what the first has ended may have begun something
	for _, t := range d.timers {
		next = min(next, t.at)
	}
	for _, h := range d.Hwfns {
		next = min(next, h.storm.next(now))
	}
	return next
}

func (d *Dev) poll(now frame.Time) frame.Time {
	next := frame.Never
	for _, h := range d.Hwfns {
		next = min(next, h.BAR.Poll(now))
		if h.alloc != nil {
			next = min(next, h.alloc.spq.Poll(now))
		}
	}
	return next
}

// String is the hwfn's name, as in messages.
func (h *Hwfn) String() string { return fmt.Sprintf("%s-%d", h.dev.cfg.Name, h.Index) }

// Lead is the hwfn that speaks for the device.
func (d *Dev) Lead() *Hwfn { return d.Hwfns[0] }
