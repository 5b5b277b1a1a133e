package verbs

import (
	"fmt"
	"maps"
	"slices"

	"tapir/nic/verbs/qpattr"
)

// AH is an address handle: where a datagram goes.
type AH struct {
	object
	pd   *PD
	path qpattr.Path

	// Private leads a layer above from the object to its own.
	Private any
}

// CreateAH makes an address handle. ErrUnsupported without a Fabric.
func (p *PD) CreateAH(path qpattr.Path) (*AH, error) {
	d := p.dev
	switch {
	case d.fabric == nil:
		return nil, fmt.Errorf("create AH: an RNIC has no datagrams to address: %w", ErrUnsupported)
	case !d.Port.hasGID(path.SGIDIndex) || path.SL > 7 || path.FlowLabel >= 1<<20 || path.DGID == [16]byte{}:
		return nil, fmt.Errorf("create AH: GID index %d, SL %d, flow label %#x, GID %v: %w", path.SGIDIndex, path.SL,
			path.FlowLabel, GID(path.DGID), ErrInvalid)
	}
	o, err := d.add(kindAH, &p.object)
	if err != nil {
		return nil, err
	}
	a := &AH{object: o, pd: p, path: path}
	d.ahs.Add(a.num, a)
	return a, nil
}

// AHs returns a device's address handles in order of creation, borrowed.
func AHs(d *Device) []*AH { return d.ahs.All() }

// AHOf is the address handle of a device with a number, nil if there is none.
func AHOf(d *Device, num uint32) *AH { return d.ahs.Find(num) }

// Path is the address, borrowed.
func (a *AH) Path() *qpattr.Path { return &a.path }

// PD is the protection domain.
func (a *AH) PD() *PD { return a.pd }

// Alive tells whether the handle has not been destroyed.
func (a *AH) Alive() bool { return !a.dead }

// Destroy frees the handle; datagrams that name it and were not sent fail.
func (a *AH) Destroy() error {
	if err := a.mayDestroy(); err != nil {
		return err
	}
	a.gone()
	a.dev.ahs.Remove(a.num)
	return nil
}

// AttachMcast has a UD queue pair receive what is sent to a multicast group.
// A second attachment is no error and counts once.
func (s *service) AttachMcast(gid GID) error {
	q := s.q
	f := q.dev.fabric
	switch {
	case q.dead:
		return fmt.Errorf("attach QP %d: %w", q.num, ErrDestroyed)
	case f == nil:
		return fmt.Errorf("attach QP %d to a multicast group: an RNIC has none: %w", q.num, ErrUnsupported)
	case q.cfg.Type != qpattr.UD || !gid.Multicast():
		return fmt.Errorf("attach QP %d of type %v to %v: %w", q.qpn, q.cfg.Type, gid, ErrInvalid)
	case q.joined[gid]:
		return nil
	case len(f.groups) >= q.dev.limits.MaxMcast && f.groups[gid] == nil,
		len(f.groups[gid]) >= q.dev.limits.MaxMcastQP:
		return fmt.Errorf("attach QP %d to %v: %w", q.qpn, gid, ErrLimit)
	}
	if q.joined == nil {
		q.joined = map[GID]bool{}
	}
	q.joined[gid] = true
	f.groups[gid] = append(f.groups[gid], q)
	f.joinedFirst(gid, 1)
	return nil
}

// DetachMcast ends what AttachMcast began; ErrInvalid if it did not.
func (s *service) DetachMcast(gid GID) error {
	q := s.q
	switch {
	case q.dev.fabric == nil:
		return fmt.Errorf("detach QP %d from a multicast group: an RNIC has none: %w", q.num, ErrUnsupported)
	case !q.joined[gid]:
		return fmt.Errorf("detach QP %d from %v: not attached: %w", q.qpn, gid, ErrInvalid)
	}
	q.dev.fabric.leave(q, gid)
	return nil
}

func (f *fabric) leave(q *QP, gid GID) {
	delete(q.joined, gid)
	f.groups[gid] = slices.DeleteFunc(f.groups[gid], func(p *QP) bool { return p == q })
	if len(f.groups[gid]) == 0 {
		delete(f.groups, gid)
		f.joinedFirst(gid, 0)
	}
}

// joinedFirst tells of a group that has just as many queue pairs.
func (f *fabric) joinedFirst(gid GID, members int) {
	if f.joined != nil && len(f.groups[gid]) == members {
		f.joined()
	}
}

// Group returns the queue pairs attached to a multicast group in order of
// attachment, borrowed.
func (f *fabric) Group(gid GID) []*QP {
	if f == nil {
		return nil
	}
	return f.groups[gid]
}

// Groups returns the multicast groups that queue pairs are attached to, sorted.
func (f *fabric) Groups() []GID {
	if f == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(f.groups), func(a, b GID) int { return slices.Compare(a[:], b[:]) })
}

// Multicast tells whether g names a group: ff00::/8, or 224.0.0.0/4 mapped into
// IPv6 as RoCE v2 has it.
func (g GID) Multicast() bool {
	mapped := [12]byte{10: 0xff, 11: 0xff}
	return g[0] == 0xff || [12]byte(g[:12]) == mapped && g[12]>>4 == 0xe
}
