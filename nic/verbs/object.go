package verbs

import "fmt"

type kind uint8

const (
	kindContext kind = iota
	kindPD
	kindMR
	kindMW
	kindCQ
	kindQP
	kindSRQ
	kindAH
	kindXRCD
	numKinds
)

var kindNames = [numKinds]string{"context", "PD", "MR", "MW", "CQ", "QP", "SRQ", "AH", "XRCD"}

// most are the limits of each kind.
func (l *Limits) most() [numKinds]int {
	return [numKinds]int{l.MaxContext, l.MaxPD, l.MaxMR, l.MaxMW, l.MaxCQ, l.MaxQP, l.MaxSRQ, l.MaxAH, l.MaxXRCD}
}

// object is what all objects of a device have.
type object struct {
	dev    *Device
	parent *object // the PD or context that it was made through; nil: the driver's own
	kind   kind
	num    uint32
	refs   int // objects that use it
	dead   bool
}

// Num is the object's number within its device and kind, from 1.
func (o *object) Num() uint32 { return o.num }

// Tasks is how many tasks of the hardware are in use: one is reserved, and each
// memory region and window has one.
func (d *Device) Tasks() int { return 1 + d.objects[kindMR] + d.objects[kindMW] }

// LimitTasks says how many there are.
func (d *Device) LimitTasks(n int) { d.tasks = n }

// add counts a new object, which its parent must outlive.
func (d *Device) add(k kind, parent *object) (object, error) {
	limit := d.limits.most()[k]
	switch err := d.state.err(); {
	case err != nil:
		return object{}, fmt.Errorf("%s: %w", kindNames[k], err)
	case parent != nil && parent.dead:
		return object{}, fmt.Errorf("%s: %s %d: %w", kindNames[k], kindNames[parent.kind], parent.num, ErrDestroyed)
	case d.objects[k] >= limit:
		return object{}, fmt.Errorf("%s: %d exist: %w", kindNames[k], limit, ErrLimit)
	case (k == kindMR || k == kindMW) && d.tasks > 0 && d.Tasks() >= d.tasks:
		return object{}, fmt.Errorf("%s: all %d tasks are in use: %w", kindNames[k], d.tasks, ErrLimit)
	}
	d.objects[k]++
	d.nextNum[k]++
	if parent != nil {
		parent.refs++
	}
	d.logObject("create", k, d.nextNum[k])
	return object{dev: d, parent: parent, kind: k, num: d.nextNum[k]}, nil
}

// mayDestroy is the common condition of every destroy call.
func (o *object) mayDestroy() error {
	return o.dev.mayDestroy(kindNames[o.kind], o.num, o.dead, o.refs)
}

// gone counts an object that was destroyed.
func (o *object) gone() {
	o.dead = true
	o.dev.objects[o.kind]--
	if o.parent != nil {
		o.parent.refs--
	}
	o.dev.logObject("destroy", o.kind, o.num)
}

// unmade takes back an object that could not be made to its end.
func (o *object) unmade() {
	o.gone()
	o.dev.nextNum[o.kind]--
}

// mayDestroy is the same for what has no number.
func (d *Device) mayDestroy(what string, num uint32, dead bool, refs int) error {
	switch {
	case d.callbacks > 0:
		return fmt.Errorf("destroy %s %d: %w", what, num, ErrInCallback)
	case dead:
		return fmt.Errorf("destroy %s %d: %w", what, num, ErrDestroyed)
	case refs > 0:
		return fmt.Errorf("destroy %s %d: %w by %d objects", what, num, ErrBusy, refs)
	}
	return nil
}
