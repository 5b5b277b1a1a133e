package verbs

import (
	"fmt"

	"tapir/wire/list"
)

const (
	pageShift = 12
)

// MR is a registered memory region.
type MR struct {
	Region
	object
	maxPages int           // of a fast registration; 0 = registered by verb
	pages    *pageMemory   // of a fast registration
	via      *QP           // whose send queue fast-registered it
	shared   bool          // its memory has several STags
	loans    list.List[QP] // by those whose requests are lent to the transport
}

// LKey returns the STag, for local use; RKey is the same.
func (m *MR) LKey() uint32 { return m.stag }

// Memory returns what the region covers; nil before the first fast
// registration.
func (m *MR) Memory() Memory { return m.mem }

// Windows is the number of memory windows bound to the region.
func (m *MR) Windows() int { return m.refs }

// RegMR registers buf at an address of the device's choice, or at 0 with
// ZeroBased.
func (p *PD) RegMR(buf []byte, access Access) (*MR, error) {
	addr := p.dev.nextAddr
	mr, err := p.RegMemory(Bytes(buf), addr, access)
	if err == nil {
		pages := (uint64(len(buf)) >> pageShift) + 2 // a guard page behind each region
		p.dev.nextAddr += pages << pageShift
	}
	return mr, err
}

// RegMemory registers mem; its first octet has address iova, or 0 with
// ZeroBased. RemoteWrite and RemoteAtomic ask for LocalWrite too, as in
// ibv_reg_mr.
func (p *PD) RegMemory(mem Memory, iova uint64, access Access) (*MR, error) {
	if err := access.check(); err != nil {
		return nil, fmt.Errorf("register MR: %w", err)
	}
	if access&ZeroBased != 0 {
		iova = 0
	}
	if iova+mem.Len() < iova {
		return nil, fmt.Errorf("register MR: addresses wrap: %w", ErrInvalid)
	}
	mr, err := p.newMR()
	if err != nil {
		return nil, err
	}
	mr.set(mem, iova, access)
	return mr, nil
}

// RegPages registers a list of pages. Its first octet has address iova, or 0
// with ZeroBased. The list is copied.
func (p *PD) RegPages(list PageList, iova uint64, access Access) (*MR, error) {
	if err := list.check(len(list.Pages)); err != nil {
		return nil, fmt.Errorf("register MR: %w", err)
	}
	mem := &pageMemory{}
	mem.set(&list)
	return p.RegMemory(mem, iova, access)
}

// RegShared registers the memory of mr once more, with an STag, address and
// rights of its own. The STags of shared memory cannot be invalidated.
func (p *PD) RegShared(mr *MR, iova uint64, access Access) (*MR, error) {
	if mr == nil || !mr.valid || mr.pd.dev != p.dev {
		return nil, fmt.Errorf("register shared MR: no valid region of this device: %w", ErrInvalid)
	}
	again, err := p.RegMemory(mr.mem, iova, access)
	if err == nil {
		again.shared, mr.shared = true, true
	}
	return again, err
}

// AllocMR makes a region without memory, to be filled by fast registration
// (OpRegMR) with up to maxPages pages. Until then its STag is invalid.
func (p *PD) AllocMR(maxPages int) (*MR, error) {
	if most := p.dev.limits.MaxPages; maxPages < 1 || maxPages > most {
		return nil, fmt.Errorf("allocate MR: %d pages, allowed are 1..%d: %w", maxPages, most, ErrInvalid)
	}
	mr, err := p.newMR()
	if err == nil {
		mr.maxPages = maxPages
	}
	return mr, err
}

func (p *PD) newMR() (*MR, error) {
	d := p.dev
	o, err := d.add(kindMR, &p.object)
	if err != nil {
		return nil, err
	}
	mr := &MR{object: o}
	mr.pd, mr.mr, mr.stag = p, mr, d.allocSTag()
	d.regions[mr.stag>>8] = &mr.Region
	d.mrs.Add(mr.num, mr)
	return mr, nil
}

// set makes the STag valid for mem.
func (m *MR) set(mem Memory, iova uint64, access Access) {
	m.mem, m.addr, m.length, m.access = mem, iova, mem.Len(), access
	m.valid = true
	m.turn = m.dev.nextTurn()
	m.logRegion("register")
}

// Rereg says what MR.Rereg changes; zero fields stay as they are.
type Rereg struct {
	PD     *PD
	Memory Memory // with IOVA
	IOVA   uint64
	Access *Access
}

// Rereg changes a region that was registered by verb, as ibv_rereg_mr: its
// protection domain, its memory and address, its rights. The STag gets a new
// key, so that the peers of before have no access, and is valid afterwards.
// On error nothing has changed; ErrBusy while windows are bound.
func (m *MR) Rereg(change Rereg) error {
	if err := m.checkRereg(&change); err != nil {
		return fmt.Errorf("reregister MR %d: %w", m.num, err)
	}
	m.revoke()
	if p := change.PD; p != nil && p != m.pd {
		m.pd.refs--
		p.refs++
		m.pd, m.parent = p, &p.object
	}
	m.stag = m.stag&^0xff | uint32(uint8(m.stag)+1+uint8(m.pd.dev.stags.Uint64()%255))
	m.set(change.Memory, change.IOVA, *change.Access)
	return nil
}

// checkRereg fills in what stays.
func (m *MR) checkRereg(c *Rereg) error {
	if c.Memory == nil {
		c.Memory, c.IOVA = m.mem, m.addr
	}
	if c.Access == nil {
		c.Access = &m.access
	}
	if *c.Access&ZeroBased != 0 {
		c.IOVA = 0
	}
	switch {
	case m.dead:
		return ErrDestroyed
	case m.maxPages > 0:
		return fmt.Errorf("made for fast registration: %w", ErrInvalid)
	case m.refs > 0:
		return fmt.Errorf("%w by %d windows", ErrBusy, m.refs)
	case c.PD != nil && (c.PD.dead || c.PD.dev != m.pd.dev):
		return fmt.Errorf("PD destroyed or of another device: %w", ErrInvalid)
	case c.IOVA+c.Memory.Len() < c.IOVA:
		return fmt.Errorf("addresses wrap: %w", ErrInvalid)
	}
	return c.Access.check()
}

// revoke ends all access under the present STag.
func (m *MR) revoke() {
	if !m.valid {
		return
	}
	m.dev.writes.settle()
	m.reclaim()
	m.valid = false
	m.logRegion("invalidate")
}

// Invalidate makes the STag unusable until the region is registered again.
// ErrBusy while windows are bound.
func (m *MR) Invalidate() error {
	if m.refs > 0 {
		return fmt.Errorf("invalidate MR %d: %w by %d windows", m.num, ErrBusy, m.refs)
	}
	m.revoke()
	return nil
}

// Dereg gives the memory back. Bytes of it that a transport may have to send
// again are copied first; work requests that still name the region fail.
// ErrBusy while windows are bound.
func (m *MR) Dereg() error {
	if err := m.mayDestroy(); err != nil {
		return err
	}
	m.revoke()
	m.dev.forget(&m.Region)
	m.dev.mrs.Remove(m.num)
	m.gone()
	if m.dev.objects[kindMR] == 0 {
		m.dev.writes = writeBatch{err: m.dev.writes.err}
	}
	return nil
}

// nextTurn numbers registrations and bindings.
func (d *Device) nextTurn() uint64 {
	d.turns++
	return d.turns
}

// allocSTag draws an STag whose index is free (RFC 5040 section 8.1.1).
func (d *Device) allocSTag() uint32 {
	for {
		stag := uint32(d.stags.Uint64())
		if i := stag >> 8; i != 0 && d.regions[i] == nil {
			return stag
		}
	}
}
