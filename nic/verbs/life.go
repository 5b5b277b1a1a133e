package verbs

import (
	"fmt"

	"tapir/wire/frame"
)

type deviceState uint8

const (
	deviceStarted deviceState = iota
	deviceStopped
	deviceRemoved
)

// err is why no object can be made.
func (s deviceState) err() error {
	return [...]error{nil, ErrNotStarted, ErrRemoved}[s]
}

// Start makes RDMA available with cnqs completion notification queues, all
// that the limits allow if 0. ErrLimit means that there are fewer,
// ErrUnsupported that the personality has no RDMA.
func (d *Device) Start(cnqs int) error {
	switch {
	case d.state == deviceRemoved:
		return fmt.Errorf("start RDMA: %w", ErrRemoved)
	case !d.identity.Personality.RDMA():
		return fmt.Errorf("start RDMA: personality %v: %w", d.identity.Personality, ErrUnsupported)
	case d.state == deviceStarted && d.inUse():
		return fmt.Errorf("start RDMA: %w", ErrBusy)
	case cnqs < 0 || cnqs > d.limits.MaxCNQ:
		return fmt.Errorf("start RDMA: %d CNQs desired, the device has %d: %w", cnqs, d.limits.MaxCNQ, ErrLimit)
	case cnqs == 0:
		cnqs = d.limits.MaxCNQ
	}
	d.state, d.cnqs = deviceStarted, make([]uint64, cnqs)
	return nil
}

// Started tells whether objects can be made.
func (d *Device) Started() bool { return d.state == deviceStarted }

// Removed tells whether Fail was called.
func (d *Device) Removed() bool { return d.state == deviceRemoved }

// Notifications returns, for each CNQ, how many CQ notifications it passed.
// Borrowed.
func (d *Device) Notifications() []uint64 { return d.cnqs }

func (d *Device) inUse() bool {
	return d.objects != [numKinds]int{}
}

// Leak is an object that was left when it should have been destroyed.
type Leak struct {
	Kind    string // "QP"
	Num     uint32
	Context uint32 // its DPI; 0: made by the driver itself
	Detail  string
}

func (l Leak) String() string {
	s := fmt.Sprintf("%s %d", l.Kind, l.Num)
	if l.Context != 0 && l.Kind != kindNames[kindContext] {
		s += fmt.Sprintf(" of context %d", l.Context)
	}
	if l.Detail != "" {
		s += " (" + l.Detail + ")"
	}
	return s
}

// Objects names every object that exists, children before their parents.
func (d *Device) Objects() []Leak {
	var list []Leak
	add := func(k kind, num uint32, c *Context, format string, args ...any) {
		l := Leak{Kind: kindNames[k], Num: num, Detail: fmt.Sprintf(format, args...)}
		if c != nil {
			l.Context = c.num
		}
		list = append(list, l)
	}
	for _, q := range d.qps.All() {
		add(kindQP, q.num, q.pd.ctx, "%v", q.state)
	}
	for _, a := range d.ahs.All() {
		add(kindAH, a.num, a.pd.ctx, "%v", GID(a.path.DGID))
	}
	for _, s := range d.srqs.All() {
		add(kindSRQ, s.num, s.pd.ctx, "%d receives", s.Len())
	}
	for _, w := range d.mws.All() {
		add(kindMW, w.num, w.pd.ctx, "type %v, STag %#x", w.kind, w.stag)
	}
	for _, m := range d.mrs.All() {
		add(kindMR, m.num, m.pd.ctx, "STag %#x, %d octets", m.stag, m.length)
	}
	for _, c := range d.cqs.All() {
		add(kindCQ, c.num, c.ctx, "%d completions", c.count)
	}
	for _, x := range d.xrcds.All() {
		add(kindXRCD, x.num, x.Owner(), "")
	}
	for _, p := range d.pds.All() {
		add(kindPD, p.num, p.ctx, "")
	}
	for _, c := range d.contexts.All() {
		add(kindContext, c.num, c, "")
	}
	return list
}

// Reclaim destroys everything that was made through c, and c itself: the one
// place to clean up after an owner that went without doing so. Queue pairs go
// first, so that peers are told. A nil c stands for all contexts and for what
// the driver made itself. It must not be called from within a callback.
func (d *Device) Reclaim(c *Context) error {
	if d.callbacks > 0 {
		return fmt.Errorf("reclaim: %w", ErrInCallback)
	}
	reclaim(d.qps.All(), func(q *QP) bool { return c == nil || q.pd.ctx == c }, (*QP).Destroy)
	reclaim(d.ahs.All(), func(a *AH) bool { return c == nil || a.pd.ctx == c }, (*AH).Destroy)
	reclaim(d.srqs.All(), func(s *SRQ) bool { return c == nil || s.pd.ctx == c }, (*SRQ).Destroy)
	reclaim(d.mws.All(), func(w *MW) bool { return c == nil || w.pd.ctx == c }, (*MW).Dealloc)
	reclaim(d.mrs.All(), func(m *MR) bool { return c == nil || m.pd.ctx == c }, (*MR).Dereg)
	reclaim(d.cqs.All(), func(q *CQ) bool { return c == nil || q.ctx == c }, (*CQ).Destroy)
	reclaim(d.xrcds.All(), func(x *XRCD) bool { return c == nil || x.Owner() == c }, (*XRCD).Dealloc)
	reclaim(d.pds.All(), func(p *PD) bool { return c == nil || p.ctx == c }, (*PD).Dealloc)
	reclaim(d.contexts.All(), func(x *Context) bool { return c == nil || x == c }, (*Context).Close)
	return nil
}

// reclaim destroys those objects of list that are chosen. An object that a
// foreign object still uses stays: the leak check names it.
func reclaim[T any](list []T, chosen func(T) bool, destroy func(T) error) {
	for _, o := range append([]T(nil), list...) {
		if chosen(o) {
			_ = destroy(o)
		}
	}
}

// Stop ends RDMA. It returns what nobody had destroyed, and destroys it.
// Further objects are refused with ErrNotStarted until Start. It must not be
// called from within a callback.
func (d *Device) Stop() (leaks []Leak, err error) {
	leaks = d.Objects()
	if err := d.Reclaim(nil); err != nil {
		return nil, err
	}
	if d.state == deviceStarted {
		d.state = deviceStopped
	}
	return leaks, nil
}

// Fail marks the device as gone: every queue pair goes to error, where its
// work requests are flushed, and EventDeviceFatal is raised with why. Nothing
// can be made any more; destroying never fails for that reason.
func (d *Device) Fail(why error) {
	if d.state == deviceRemoved {
		return
	}
	d.state = deviceRemoved
	d.Port.carrier = false
	d.Async(AsyncEvent{Type: EventDeviceFatal, Err: why})
	d.retrain()
	d.Defer(func(frame.Time) {
		for _, q := range d.qps.All() {
			if q.state != Err && ownerMoves[q.state]&(1<<Err) != 0 {
				q.move(Err)
			}
		}
	})
}

// Usage is how much of a limited resource is taken.
type Usage struct {
	Name  string `json:"name"`
	Used  int    `json:"used"`
	Limit int    `json:"limit"`
	Ever  uint32 `json:"ever"` // made since the device exists
}

// Usage returns the use of every resource, in a fixed order.
func (d *Device) Usage() []Usage {
	most := d.limits.most()
	list := make([]Usage, 0, numKinds+1)
	for k, name := range kindNames {
		if d.fabric == nil && kind(k) > kindSRQ {
			break
		}
		list = append(list, Usage{name, d.objects[k], most[k], d.nextNum[k]})
	}
	icids := d.identity.Personality.ICIDsPerQP()
	return append(list,
		Usage{"ICID", icids * d.objects[kindQP], icids * d.limits.MaxQP, uint32(icids) * d.nextNum[kindQP]})
}
