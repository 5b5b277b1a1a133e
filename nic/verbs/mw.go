package verbs

import (
	"fmt"

	"tapir/wire/list"
)

// MWKind is the type of a memory window.
type MWKind uint8

const (
	// MWType1 is bound by QP.BindMW and open to the protection domain's queue
	// pairs; it may be bound again while bound, each time with a new STag.
	MWType1 MWKind = iota
	// MWType2A is bound by OpBindMW and open to the binding queue pair alone,
	// whatever its protection domain. It has to be invalidated before it is
	// bound again.
	MWType2A
	// MWType2B is the same within the window's protection domain.
	MWType2B
	numMWKinds
)

var mwKindNames = [numMWKinds]string{"1", "2A", "2B"}

func (k MWKind) String() string { return mwKindNames[k] }

// MW is a memory window: an STag that opens a part of a region to the peer.
type MW struct {
	Region
	object
	kind MWKind
	next uint8 // key of the next binding, type 1

	node list.Node[MW] // in QP.windows
}

// AllocMW makes an unbound window.
func (p *PD) AllocMW(kind MWKind) (*MW, error) {
	d := p.dev
	if p.dead || kind >= numMWKinds {
		return nil, fmt.Errorf("allocate MW: PD destroyed or unknown type: %w", ErrInvalid)
	}
	o, err := d.add(kindMW, &p.object)
	if err != nil {
		return nil, err
	}
	w := &MW{object: o, kind: kind}
	w.pd, w.window, w.stag, w.node.Owner = p, w, d.allocSTag(), w
	w.next = uint8(w.stag)
	d.regions[w.stag>>8] = &w.Region
	d.mws.Add(w.num, w)
	return w, nil
}

// Kind is the type of the window.
func (w *MW) Kind() MWKind { return w.kind }

// Bound returns the region that the window is bound to, or nil.
func (w *MW) Bound() *MR { return w.mr }

// QP returns the queue pair that alone may use the window, nil if it is not
// bound or of type 1.
func (w *MW) QP() *QP { return w.qp }

// Dealloc unbinds and frees the window.
func (w *MW) Dealloc() error {
	if err := w.mayDestroy(); err != nil {
		return err
	}
	w.unbind()
	w.dev.forget(&w.Region)
	w.dev.mws.Remove(w.num)
	w.gone()
	return nil
}

func (w *MW) unbind() {
	if w.mr == nil {
		return
	}
	w.logWindow("unbind")
	w.mr.refs--
	w.node.Remove()
	w.mr, w.qp, w.mem, w.valid = nil, nil, nil, false
}

// bind opens what b says under stag, through q.
func (w *MW) bind(q *QP, b *Bind, stag uint32) {
	w.unbind()
	w.stag = stag
	if b.Length == 0 {
		return
	}
	m := b.MR
	w.mr, w.mem, w.base = m, m.mem, m.base+(b.Addr-m.addr)
	w.addr, w.length, w.access, w.valid, w.turn = b.Addr, b.Length, b.Access, true, w.dev.nextTurn()
	if b.Access&ZeroBased != 0 {
		w.addr = 0
	}
	m.refs++
	if w.kind != MWType1 {
		w.qp = q
		q.windows.Add(&w.node)
	}
	w.logWindow("bind")
}

// mayBind tells whether the binding is possible now, when its turn in the
// send queue has come.
func (b *Bind) mayBind(q *QP) bool {
	w, m := b.MW, b.MR
	switch {
	case w.dead:
		return false
	case w.kind != MWType2A && w.pd != q.pd, w.kind != MWType1 && w.valid:
		return false
	case b.Length == 0:
		return true
	case m.dead || !m.valid || m.pd != q.pd || m.access&MWBind == 0:
		return false
	case b.Access&(RemoteWrite|RemoteAtomic) != 0 && m.access&LocalWrite == 0:
		return false
	}
	return m.check(b.Addr, b.Length, 0) == FaultNone
}

// check refuses what can never be bound, when it is posted.
func (b *Bind) check(q *QP, verb bool) error {
	switch {
	case b == nil || b.MW == nil || b.MW.pd.dev != q.dev:
		return fmt.Errorf("no window of this device: %w", ErrInvalid)
	case verb != (b.MW.kind == MWType1):
		return fmt.Errorf("window of type %v: type 1 is bound by BindMW, type 2 by a work request: %w", b.MW.kind,
			ErrInvalid)
	case b.Length == 0 && !verb:
		return fmt.Errorf("window of type 2 is unbound by invalidation: %w", ErrInvalid)
	case b.Length > 0 && (b.MR == nil || b.MR.pd.dev != q.dev):
		return fmt.Errorf("no region of this device: %w", ErrInvalid)
	case b.Access&^(remoteAccess|ZeroBased) != 0:
		return fmt.Errorf("access %v of a window: remote rights only: %w", b.Access, ErrInvalid)
	}
	return nil
}

// BindMW posts the binding of a type 1 window and returns the STag that it
// will have when the request's turn has come. b.Key is not used; a Length of
// 0 unbinds.
func (q *QP) BindMW(id uint64, flags SendFlags, b Bind) (stag uint32, err error) {
	wr := SendWR{ID: id, Opcode: OpBindMW, Flags: flags, Bind: &b}
	err = q.maySend()
	if err == nil {
		err = q.checkSend(&wr, true)
	}
	if err != nil {
		return 0, fmt.Errorf("bind MW on QP %d, WR %d: %w", q.num, id, err)
	}
	b.MW.next++
	b.Key = b.MW.next
	q.enqueue(&wr)
	q.doorbell()
	return b.MW.stag&^0xff | uint32(b.Key), nil
}
