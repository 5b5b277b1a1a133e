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
	d     *Device
	waits bool // for one that is not answered
}

func (r *ramrods) lead() *ecore.Hwfn { return r.d.core.dev.Lead() }

// send posts a ramrod and lets the firmware work; done, which may come later, gets
// what has become of it.
func (r *ramrods) send(q spq.Request, cmd fmt.Stringer, done func(data uint64, err error)) {
	now, answered := r.d.now(), false
	q.Done = func(res spq.Result, _ frame.Time) {
		if answered = true; res.Err == nil && res.Code != 0 {
			res.Err = status.UnknownError.Errorf("ramrod %v: the firmware returns %d", cmd, res.Code)
		}
		done(res.Data, res.Err)
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
	if r.waits {
		return 0, status.Busy.Errorf("ramrod %v: one before it is not answered", cmd)
	}
	r.waits = true
	late := false
	r.send(q, cmd, func(got uint64, e error) {
		if r.waits, data, err = false, got, e; late {
			r.d.management.note(e)
		}
	})
	if late = r.waits; late {
		err = status.Busy.Errorf("ramrod %v is not answered", cmd)
	}
	return data, err
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
