package verbs

import (
	"fmt"

	"tapir/nic/verbs/qpattr"
)

// Fabric is a Transport in the manner of InfiniBand: queue pairs have types,
// their owners connect them by moving them through RTR and RTS with attributes
// (QP.ModifyAttr), there are datagrams, address handles, multicast groups and
// XRC domains. A Transport that is no Fabric has queue pairs of type RC only,
// refuses these moves, and its connection manager makes the moves.
//
// Endpoints read what was set from QP.Attr when Endpoint.Modified is called.
// That is also called, with the present state, when only attributes changed.
type Fabric interface {
	Transport
	// QPTypes are the types that can be created. It is asked once.
	QPTypes() qpattr.Types
}

// Numbers of InfiniBand queue pairs: those below are reserved (0 for subnet
// management, 1 for general services), and so is the one of multicast.
const (
	firstQPN = 16
	maxQPN   = 1<<24 - 1
	// MulticastQPN is the destination of multicast datagrams.
	MulticastQPN = 0xffffff
)

// fabric is what a device has if its transport is a Fabric.
type fabric struct {
	types  qpattr.Types
	qpns   map[uint32]*QP
	groups map[GID][]*QP
	joined func()
}

// OnGroups sets what is called when a multicast group gets its first queue pair or loses
// its last one: the layer below the objects, which listens to Groups.
func (f *fabric) OnGroups(h func()) { f.joined = h }

// SetTransport binds the transport, before the first queue pair is created.
// Without one, queue pairs cannot leave the Init state.
func (d *Device) SetTransport(t Transport) {
	d.transport, d.ops = t, t.Opcodes()
	d.fabric = nil
	if f, ok := t.(Fabric); ok {
		d.fabric = &fabric{types: f.QPTypes(), qpns: map[uint32]*QP{}, groups: map[GID][]*QP{}}
	}
}

// Fabric tells whether the device's transport is a Fabric.
func (f *fabric) Fabric() bool { return f != nil }

// QPByNumber returns the queue pair with number qpn on the wire, nil if there
// is none or the transport is no Fabric.
func (f *fabric) QPByNumber(qpn uint32) *QP {
	if f == nil {
		return nil
	}
	return f.qpns[qpn]
}

// service is the part of a queue pair that only a Fabric uses.
type service struct {
	q      *QP
	qpn    uint32       // on the wire
	attr   qpattr.Attr  // as ModifyAttr has set them
	joined map[GID]bool // multicast groups
	xsrq   *SRQ         // of an XRC target: that of the message under way
	xpd    *PD          // of an XRC target: that of the shared receive queue selected last
}

// checkType refuses what the transport or the type of c does not allow.
func (c *QPConfig) checkType(d *Device) error {
	types := qpattr.Set(qpattr.RC)
	if d.fabric != nil {
		types = d.fabric.types
	}
	switch {
	case !types.Has(c.Type):
		return fmt.Errorf("type %v: %w", c.Type, ErrUnsupported)
	case (c.XRCD != nil) != (c.Type == qpattr.XRCTarget):
		return fmt.Errorf("XRC domain for type %v: %w", c.Type, ErrInvalid)
	case c.SRQ != nil && (c.SRQ.xrcd != nil || c.Type == qpattr.XRCInitiator || c.XRCD != nil):
		return fmt.Errorf("SRQ for type %v: %w", c.Type, ErrInvalid)
	case c.XRCD != nil && (c.XRCD.dead || c.XRCD.dev != d):
		return fmt.Errorf("XRC domain destroyed or of another device: %w", ErrInvalid)
	}
	return nil
}

// number gives q its number on the wire.
func (f *fabric) number(q *QP) error {
	qpn := q.num
	if f == nil {
		q.qpn = qpn
		return nil
	}
	for range maxQPN - firstQPN {
		n := firstQPN + qpn%(maxQPN-firstQPN)
		if f.qpns[n] == nil {
			q.qpn, f.qpns[n] = n, q
			return nil
		}
		qpn++
	}
	return fmt.Errorf("queue pair numbers: %w", ErrLimit)
}

// forget ends the use of q's number and its memberships.
func (f *fabric) forget(q *QP) {
	if f == nil {
		return
	}
	delete(f.qpns, q.qpn)
	for gid := range q.joined {
		f.leave(q, gid)
	}
}

// QPN is the queue pair's number on the wire, 24 bits.
func (s *service) QPN() uint32 { return s.qpn }

// Type is the transport service.
func (q *QP) Type() qpattr.Type { return q.cfg.Type }

// Attr are the attributes that ModifyAttr has set, borrowed.
func (s *service) Attr() *qpattr.Attr { return &s.attr }

// Access is what the peer may at most do through the queue pair.
func (q *QP) Access() Access { return q.access }

// ModifyAttr moves the queue pair to a state on its owner's behalf and sets the
// attributes that mask names, all or nothing. Bits that the move lacks or does
// not take, and values out of range, are ErrInvalid (EINVAL; the table is that
// of package qpattr). With qpattr.CurState the queue pair has to be in
// attr.CurState. ErrUnsupported unless the device's transport is a Fabric.
func (s *service) ModifyAttr(to State, attr *qpattr.Attr, mask qpattr.Mask) error {
	q := s.q
	if err := q.mayModify(to, attr, mask); err != nil {
		return fmt.Errorf("modify QP %d: %v to %v: %w", q.qpn, q.state, to, err)
	}
	next := q.attr
	if err := next.Merge(attr, mask); err != nil {
		return fmt.Errorf("modify QP %d: %w: %w", q.qpn, ErrInvalid, err)
	}
	q.attr = next
	if mask&qpattr.Access != 0 {
		q.access = Access(attr.Access) & remoteAccess
	}
	q.moveFabric(to)
	return nil
}

// mayModify judges a move.
func (s *service) mayModify(to State, attr *qpattr.Attr, mask qpattr.Mask) error {
	q := s.q
	d := q.dev
	switch {
	case q.dead:
		return ErrDestroyed
	case d.fabric == nil:
		return fmt.Errorf("the connection manager makes the moves: %w", ErrUnsupported)
	case to >= numStates:
		return ErrInvalid
	case mask&qpattr.CurState != 0 && State(attr.CurState) != q.state:
		return fmt.Errorf("the state is not %v: %w", State(attr.CurState%uint8(numStates)), ErrInvalid)
	case mask&qpattr.PKeyIndex != 0 && !d.Port.HasPKey(attr.PKeyIndex):
		return fmt.Errorf("P_Key index %d is empty: %w", attr.PKeyIndex, ErrInvalid)
	case mask&qpattr.MaxRdAtomic != 0 && int(attr.MaxRdAtomic) > d.limits.MaxORD,
		mask&qpattr.MaxDestRdAtomic != 0 && int(attr.MaxDestRdAtomic) > d.limits.MaxIRD:
		return fmt.Errorf("Reads and atomics outstanding: limits are %d and %d: %w", d.limits.MaxORD,
			d.limits.MaxIRD, ErrInvalid)
	case mask&qpattr.AV != 0 && !d.Port.hasGID(attr.Path.SGIDIndex):
		return fmt.Errorf("GID index %d is empty: %w", attr.Path.SGIDIndex, ErrInvalid)
	}
	if err := qpattr.Check(q.cfg.Type, uint8(q.state), uint8(to), mask&^qpattr.RateLimit); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// moveFabric makes a move that was judged.
func (s *service) moveFabric(to State) {
	q := s.q
	old := q.state
	if old != to {
		modify(q, to)
	}
	if to == Err || to == Reset {
		q.move(to)
		return
	}
	q.state = to
	q.sq.failed = q.sq.failed && old != SQE
	q.endpoint.Modified(old)
}

// modifyFabric is Modify with a Fabric: a move to Init takes the first P_Key, port 1
// and the rights of before; the other moves need attributes or are made without.
func (s *service) modifyFabric(to State) error {
	q := s.q
	if to == q.state && to != Init {
		return nil
	}
	var attr qpattr.Attr
	var mask qpattr.Mask
	if to == Init {
		attr = q.attr
		attr.Port, attr.Access = 1, uint8(q.access)
		mask = qpattr.PKeyIndex | qpattr.Port | qpattr.Access
		if q.cfg.Type == qpattr.UD {
			mask = qpattr.PKeyIndex | qpattr.Port | qpattr.QKey
		}
	}
	return q.ModifyAttr(to, &attr, mask)
}

// services are what queue pairs of each type carry beside local operations.
var services = [qpattr.NumTypes]OpSet{
	qpattr.RC:           ^OpSet(0),
	qpattr.UC:           LocalOps | Ops(OpSend, OpSendImm, OpWrite, OpWriteImm),
	qpattr.UD:           Ops(OpSend, OpSendImm),
	qpattr.XRCInitiator: ^OpSet(0),
}

// checkService refuses a request that the queue pair's type does not carry.
func (s *service) checkService(wr *SendWR) error {
	q := s.q
	switch {
	case !services[q.cfg.Type].Has(wr.Opcode):
		return fmt.Errorf("%v of a QP of type %v: %w", wr.Opcode, q.cfg.Type, ErrInvalid)
	case q.cfg.Type != qpattr.UD:
		return nil
	case wr.AH == nil || wr.AH.dead || wr.AH.pd != q.pd:
		return fmt.Errorf("no address handle of the protection domain: %w", ErrInvalid)
	case wr.RemoteQPN > MulticastQPN:
		return fmt.Errorf("remote QP %#x: %w", wr.RemoteQPN, ErrInvalid)
	}
	return nil
}

// hasGID tells whether an entry of the port's GID table is in use.
func (p *Port) hasGID(i uint8) bool { return int(i) < len(p.gids) && p.gids[i] != (GID{}) }
