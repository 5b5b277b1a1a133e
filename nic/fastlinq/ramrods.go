package fastlinq

import (
	"fmt"

	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// ramrods is the way of ramrods on the leading hwfn that are executed at once, unless
// the firmware is stuck. A code other than 0 is the firmware's error.
type ramrods struct {
	d *Device
	// waiting is the one that is expected to be answered at once, and its answer.
	waiting struct {
		on, late bool
		cmd      fmt.Stringer
		answer   func(res spq.Result, now frame.Time)
		data     uint64
		err      error
	}
}

func (r *ramrods) lead() *ecore.Hwfn { return r.d.core.dev.Lead() }

// failure is the error of an answer.
func failure(cmd fmt.Stringer, res spq.Result) error {
	if res.Err == nil && res.Code != 0 {
		return status.UnknownError.Errorf("ramrod %v: the firmware returns %d", cmd, res.Code)
	}
	return res.Err
}

// send posts a ramrod and lets the firmware work; done, which may come later, gets
// what has become of it.
func (r *ramrods) send(q spq.Request, cmd fmt.Stringer, done func(data uint64, err error)) {
	now, answered := r.d.now(), false
	q.Done = func(res spq.Result, _ frame.Time) {
		answered = true
		done(res.Data, failure(cmd, res))
	}
	if err := r.lead().Post(q, now); err != nil {
		done(0, err)
		return
	}
	if r.work(now); !answered {
		r.d.nic.Schedule(now, r.d.Manage) // which waits on
	}
}

// post sends a ramrod and expects it to be answered at once. BUSY: it is not; the
// slowpath queue waits on, and reports a hardware error when the ramrod's time has
// come.
func (r *ramrods) post(q spq.Request, cmd fmt.Stringer) (data uint64, err error) {
	w, now := &r.waiting, r.d.now()
	if w.on {
		return 0, status.Busy.Errorf("ramrod %v: one before it is not answered", cmd)
	}
	if w.answer == nil {
		w.answer = r.answered
	}
	w.on, w.late, w.cmd, q.Done = true, false, cmd, w.answer
	if err := r.lead().Post(q, now); err != nil {
		w.on = false
		return 0, err
	}
	if r.work(now); w.on {
		w.late = true
		r.d.nic.Schedule(now, r.d.Manage) // which waits on
		return 0, status.Busy.Errorf("ramrod %v is not answered", cmd)
	}
	return w.data, w.err
}

// answered takes the answer that post waits for, or has waited for.
func (r *ramrods) answered(res spq.Result, _ frame.Time) {
	w := &r.waiting
	w.on, w.data, w.err = false, res.Data, failure(w.cmd, res)
	if w.late {
		r.d.management.note(w.err)
	}
}

// work lets the firmware execute ramrods and tell of events.
func (r *ramrods) work(now frame.Time) {
	r.lead().Work(now)
	r.look(now)
}

// look has the slowpath look at its status block in mode POLL, where nobody else does.
func (r *ramrods) look(now frame.Time) {
	if i := r.d.interrupts.dev; i.Mode() == irq.Poll {
		i.Hwfns[0].Look(now)
	}
}
