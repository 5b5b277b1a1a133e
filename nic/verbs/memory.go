package verbs

import "fmt"

// Memory is what a memory region covers. Offsets count octets from its start;
// callers have checked them against Len.
type Memory interface {
	Len() uint64
	// Slice returns [off, off+n) itself when this process can address it,
	// nil otherwise.
	Slice(off uint64, n int) []byte
	// ReadAt copies len(p) octets from off into p.
	ReadAt(p []byte, off uint64) error
	// WriteAt copies p to off.
	WriteAt(p []byte, off uint64) error
}

// Bytes is memory of this process.
type Bytes []byte

// Len implements Memory.
func (b Bytes) Len() uint64 { return uint64(len(b)) }

// Slice implements Memory.
func (b Bytes) Slice(off uint64, n int) []byte { return b[off : off+uint64(n) : off+uint64(n)] }

// ReadAt implements Memory; it cannot fail.
func (b Bytes) ReadAt(p []byte, off uint64) error {
	copy(p, b[off:])
	return nil
}

// WriteAt implements Memory; it cannot fail.
func (b Bytes) WriteAt(p []byte, off uint64) error {
	copy(b[off:], p)
	return nil
}

// Access is a set of rights to a memory region. Local read is implied.
type Access uint8

const (
	LocalWrite Access = 1 << iota
	RemoteWrite
	RemoteRead
)

func (a Access) String() string {
	s := ""
	for _, n := range []struct {
		bit  Access
		name string
	}{{LocalWrite, "lw"}, {RemoteWrite, "rw"}, {RemoteRead, "rr"}} {
		if a&n.bit != 0 {
			if s != "" {
				s += ","
			}
			s += n.name
		}
	}
	if s == "" {
		return "lr"
	}
	return s
}

// PD is a protection domain.
type PD struct {
	dev  *Device
	ctx  *Context // nil: the driver's own
	num  uint32
	refs int
	dead bool
}

// AllocPD makes a protection domain.
func (d *Device) AllocPD() (*PD, error) {
	num, err := d.add(kindPD, d.limits.MaxPD, "PD")
	if err != nil {
		return nil, err
	}
	p := &PD{dev: d, num: num}
	d.pds = append(d.pds, p)
	return p, nil
}

// Num is the PD's number within its device, from 1.
func (p *PD) Num() uint32 { return p.num }

// Dealloc destroys the PD; ErrBusy while an MR, QP or SRQ uses it.
func (p *PD) Dealloc() error {
	if err := p.dev.mayDestroy("PD", p.num, p.dead, p.refs); err != nil {
		return err
	}
	p.dead = true
	p.dev.objects[kindPD]--
	p.dev.pds = remove(p.dev.pds, p)
	p.ctx.release()
	return nil
}

const (
	maxIndex  = 1<<24 - 1
	pageShift = 12
)

// MR is a registered memory region: Addr up to Addr+Len, named by an STag of
// a 24-bit index and an 8-bit key (RFC 5040 section 1.1.1 leaves the split to
// the RNIC; the Linux RDMA core uses this one). LKey and RKey are the STag.
type MR struct {
	pd     *PD
	num    uint32
	mem    Memory
	stag   uint32
	addr   uint64
	length uint64
	access Access
	valid  bool // cleared by remote invalidation and deregistration
	dead   bool
}

// RegMR registers buf at an address of the device's choice.
func (p *PD) RegMR(buf []byte, access Access) (*MR, error) {
	addr := p.dev.nextAddr
	mr, err := p.RegMemory(Bytes(buf), addr, access)
	if err == nil {
		pages := (uint64(len(buf)) >> pageShift) + 2 // a guard page behind each region
		p.dev.nextAddr += pages << pageShift
	}
	return mr, err
}

// RegMemory registers mem at address addr. RemoteWrite asks for LocalWrite
// too, as in ibv_reg_mr.
func (p *PD) RegMemory(mem Memory, addr uint64, access Access) (*MR, error) {
	d := p.dev
	switch {
	case p.dead:
		return nil, fmt.Errorf("register MR: PD %d: %w", p.num, ErrDestroyed)
	case access&RemoteWrite != 0 && access&LocalWrite == 0:
		return nil, fmt.Errorf("register MR: remote write without local write: %w", ErrInvalid)
	case addr+mem.Len() < addr:
		return nil, fmt.Errorf("register MR: addresses wrap: %w", ErrInvalid)
	}
	num, err := d.add(kindMR, d.limits.MaxMR, "MR")
	if err != nil {
		return nil, err
	}
	p.refs++
	mr := &MR{
		pd: p, num: num, mem: mem, stag: d.allocSTag(), addr: addr,
		length: mem.Len(), access: access, valid: true,
	}
	d.mrs[mr.stag>>8] = mr
	d.mrList = append(d.mrList, mr)
	return mr, nil
}

func (d *Device) allocSTag() uint32 {
	for {
		i := d.nextSTag
		d.nextSTag = (d.nextSTag + 1) & maxIndex
		if i != 0 && d.mrs[i] == nil {
			return i<<8 | uint32(d.random()>>56)
		}
	}
}

// Num is the MR's number within its device, from 1.
func (m *MR) Num() uint32 { return m.num }

// PD returns the region's protection domain.
func (m *MR) PD() *PD { return m.pd }

// LKey returns the STag, for local use.
func (m *MR) LKey() uint32 { return m.stag }

// RKey returns the STag, for the peer's use.
func (m *MR) RKey() uint32 { return m.stag }

// Addr is the address (tagged offset) of the first octet.
func (m *MR) Addr() uint64 { return m.addr }

// Len is the length in octets.
func (m *MR) Len() uint64 { return m.length }

// Access returns the rights.
func (m *MR) Access() Access { return m.access }

// Valid tells whether the STag may be used: false once invalidated.
func (m *MR) Valid() bool { return m.valid }

// Memory returns what the region covers.
func (m *MR) Memory() Memory { return m.mem }

// Invalidate makes the STag unusable until the region is registered anew.
func (m *MR) Invalidate() { m.valid = false }

// Dereg gives the memory back. Bytes of it that a transport may have to send
// again are copied first; work requests that still name the region fail.
func (m *MR) Dereg() error {
	d := m.pd.dev
	if err := d.mayDestroy("MR", m.num, m.dead, 0); err != nil {
		return err
	}
	if d.transport != nil {
		d.transport.Deregister(m)
	}
	m.valid, m.dead = false, true
	delete(d.mrs, m.stag>>8)
	d.mrList = remove(d.mrList, m)
	d.objects[kindMR]--
	m.pd.refs--
	return nil
}

// Fault says why an access to memory is refused.
type Fault uint8

const (
	FaultNone   Fault = iota
	FaultSTag         // no such STag, wrong key or invalidated
	FaultBounds       // outside the region
	FaultAccess       // right not granted
	FaultPD           // STag of another protection domain
	FaultWrap         // address + length passes 2^64
)

var faultNames = [...]string{
	"no fault", "invalid STag", "out of bounds", "access right missing",
	"other protection domain", "address wraps",
}

func (f Fault) String() string { return faultNames[f] }

// LookupMR returns the valid region that stag names, or nil.
func (d *Device) LookupMR(stag uint32) *MR {
	if mr := d.mrs[stag>>8]; mr != nil && mr.stag == stag && mr.valid {
		return mr
	}
	return nil
}

// Check looks stag up and checks that pd may use [addr, addr+n) with the
// given rights, in the order of RFC 5041 section 7.1: STag, protection
// domain, rights, wrap, bounds.
func (d *Device) Check(pd *PD, stag uint32, addr, n uint64, need Access) (*MR, Fault) {
	mr := d.LookupMR(stag)
	if mr == nil {
		return nil, FaultSTag
	}
	return mr, mr.Check(pd, addr, n, need)
}

// Check is Device.Check for a region already found.
func (m *MR) Check(pd *PD, addr, n uint64, need Access) Fault {
	switch {
	case !m.valid:
		return FaultSTag
	case pd != m.pd:
		return FaultPD
	case m.access&need != need:
		return FaultAccess
	case addr+n < addr:
		return FaultWrap
	case addr < m.addr || n > m.length || addr-m.addr > m.length-n:
		return FaultBounds
	}
	return FaultNone
}

// SGE is one scatter/gather element.
type SGE struct {
	Addr   uint64
	Length uint32 // octets
	LKey   uint32
}

// span is an SGE whose region has been found and checked.
type span struct {
	mr  *MR
	off uint64 // within the region's memory
	n   uint64
}

// resolve checks sges and appends their spans to dst.
func (d *Device) resolve(dst []span, pd *PD, sges []SGE, need Access) ([]span, Fault) {
	for i := range sges {
		s := &sges[i]
		if s.Length == 0 {
			continue
		}
		mr, f := d.Check(pd, s.LKey, s.Addr, uint64(s.Length), need)
		if f != FaultNone {
			return dst, f
		}
		dst = append(dst, span{mr, s.Addr - mr.addr, uint64(s.Length)})
	}
	return dst, FaultNone
}

// copySpans moves p to (write) or from the spans, starting at message offset
// off.
func copySpans(spans []span, p []byte, off uint64, write bool) error {
	for i := range spans {
		s := &spans[i]
		if off >= s.n {
			off -= s.n
			continue
		}
		n := int(min(uint64(len(p)), s.n-off))
		if err := s.mr.copy(p[:n], s.off+off, write); err != nil {
			return err
		}
		p, off = p[n:], 0
		if len(p) == 0 {
			return nil
		}
	}
	if len(p) > 0 {
		return fmt.Errorf("%d octets beyond the message: %w", len(p), ErrInvalid)
	}
	return nil
}

func (m *MR) copy(p []byte, off uint64, write bool) error {
	if b, ok := m.mem.(Bytes); ok {
		if write {
			copy(b[off:], p)
		} else {
			copy(p, b[off:])
		}
		return nil
	}
	if write {
		return m.mem.WriteAt(p, off)
	}
	return m.mem.ReadAt(p, off)
}

// Place copies p to address addr; the caller has checked it.
func (m *MR) Place(p []byte, addr uint64) error { return m.copy(p, addr-m.addr, true) }

// Fetch copies len(p) octets from address addr; the caller has checked it.
func (m *MR) Fetch(p []byte, addr uint64) error { return m.copy(p, addr-m.addr, false) }
