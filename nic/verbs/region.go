package verbs

import (
	"encoding/binary"
	"fmt"

	"tapir/nic/msglog"
	"tapir/wire/list"
)

// Region is what an STag names: a memory region, or the part of one that a
// memory window opens. An STag is a 24-bit index and an 8-bit key (RFC 5040
// section 1.1.1 leaves the split to the RNIC; the Linux RDMA core uses this
// one).
type Region struct {
	pd     *PD
	qp     *QP // set: only through this queue pair (type 2 windows)
	mem    Memory
	base   uint64 // of the first octet within mem
	stag   uint32
	addr   uint64
	length uint64
	access Access
	valid  bool
	turn   uint64 // number of the registration or binding: tells an old use from a new one
	window *MW    // set: no use for local elements
	mr     *MR    // the region itself, or the one a window is bound to
}

// PD returns the protection domain.
func (r *Region) PD() *PD { return r.pd }

// RKey returns the STag, for the peer's use.
func (r *Region) RKey() uint32 { return r.stag }

// Addr is the address (tagged offset) of the first octet.
func (r *Region) Addr() uint64 { return r.addr }

// Len is the length in octets.
func (r *Region) Len() uint64 { return r.length }

// Access returns the rights.
func (r *Region) Access() Access { return r.access }

// Valid tells whether the STag may be used.
func (r *Region) Valid() bool { return r.valid }

// Turn is the number of the registration or binding, which no other of the
// device has: after a new one the STag may stand for other memory.
func (r *Region) Turn() uint64 { return r.turn }

// Fault says why an access to memory is refused.
type Fault uint8

const (
	FaultNone      Fault = iota
	FaultSTag            // no such STag, wrong key or invalidated
	FaultBounds          // outside the region
	FaultAccess          // right not granted
	FaultPD              // STag of another protection domain or queue pair
	FaultWrap            // address + length passes 2^64
	FaultBusy            // cannot be invalidated: windows are bound to it
	FaultAlign           // not the address of an aligned 64-bit value
	FaultMalformed       // a receive request that makes no sense
	numFaults
)

var faultNames = [numFaults]string{
	"no fault", "invalid STag", "out of bounds", "access right missing",
	"other protection domain", "address wraps", "windows bound", "not aligned to 64 bits",
	"malformed request",
}

func (f Fault) String() string { return faultNames[f] }

// Lookup returns the valid region or bound window that stag names, or nil.
func (d *Device) Lookup(stag uint32) *Region {
	r := d.lookedUp
	if r == nil || r.stag != stag {
		r = d.regions[stag>>8]
	}
	if r == nil || r.stag != stag || !r.valid {
		return nil
	}
	d.lookedUp = r
	return r
}

// forget ends the use of r's STag.
func (d *Device) forget(r *Region) {
	delete(d.regions, r.stag>>8)
	d.lookedUp = nil
}

// Check looks stag up and checks that pd may use [addr, addr+n) of a memory
// region with the given rights, in the order of RFC 5041 section 7.1: STag,
// protection domain, rights, wrap, bounds. It is for this side's own use;
// for the peer's there is QP.CheckRemote.
func (d *Device) Check(pd *PD, stag uint32, addr, n uint64, need Access) (*Region, Fault) {
	r := d.Lookup(stag)
	switch {
	case r == nil || r.window != nil:
		return nil, FaultSTag
	case pd != r.pd:
		return nil, FaultPD
	}
	return r, r.check(addr, n, need)
}

// CheckRemote is Device.Check on behalf of the queue pair's peer, which may
// also use memory windows: those of type 1 that belong to the protection
// domain, those of type 2 bound through this queue pair. The region is valid
// until the next call into verbs.
func (q *QP) CheckRemote(stag uint32, addr, n uint64, need Access) (*Region, Fault) {
	r := q.dev.Lookup(stag)
	switch {
	case r == nil:
		return nil, FaultSTag
	case !r.reaches(q):
		return nil, FaultPD
	case q.access&need != need:
		return nil, FaultAccess
	}
	return r, r.check(addr, n, need)
}

// CheckAtomic is CheckRemote for an atomic operation at addr, which must stand
// for an aligned address of the region, whatever the window's offsets are (RFC
// 7306 section 5.2.1).
func (q *QP) CheckAtomic(stag uint32, addr uint64) (*Region, Fault) {
	r, f := q.CheckRemote(stag, addr, AtomicLen, RemoteAtomic)
	if f != FaultNone {
		return nil, f
	}
	at := addr
	if r.window != nil {
		at = r.mr.addr + (r.base - r.mr.base) + (addr - r.addr)
	}
	if at%AtomicLen != 0 {
		return nil, FaultAlign
	}
	return r, FaultNone
}

// reaches tells whether the STag is associated with q's stream.
func (r *Region) reaches(q *QP) bool {
	if r.qp != nil && r.qp != q {
		return false
	}
	return r.pd == q.remotePD() || r.window != nil && r.window.kind == MWType2A
}

func (r *Region) check(addr, n uint64, need Access) Fault {
	switch {
	case r.access&need != need:
		return FaultAccess
	case addr+n < addr:
		return FaultWrap
	case addr < r.addr || n > r.length || addr-r.addr > r.length-n:
		return FaultBounds
	}
	return FaultNone
}

// span is an SGE whose region has been found and checked.
type span struct {
	r    *Region
	off  uint64 // within the region's memory
	n    uint64
	turn uint64
	loan list.Node[QP] // in MR.loans, of the queue pair that lends
}

// SGE is one scatter/gather element.
type SGE struct {
	Addr   uint64
	Length uint32 // octets
	LKey   uint32
}

// resolve checks sges and appends their spans to dst.
func (d *Device) resolve(dst []span, pd *PD, sges []SGE, need Access) ([]span, Fault) {
	for i := range sges {
		s := &sges[i]
		if s.Length == 0 {
			continue
		}
		r, f := d.Check(pd, s.LKey, s.Addr, uint64(s.Length), need)
		if f != FaultNone {
			return dst, f
		}
		dst = append(dst, span{r: r, off: s.Addr - r.addr, n: uint64(s.Length), turn: r.turn})
	}
	return dst, FaultNone
}

// alive tells whether the registration that was checked still stands.
func (s *span) alive() bool { return s.r.valid && s.r.turn == s.turn }

// copySpans moves p to (write) or from the spans, starting at message offset
// off.
func copySpans(spans []span, p []byte, off uint64, write bool) error {
	for i := range spans {
		s := &spans[i]
		if off >= s.n {
			off -= s.n
			continue
		}
		if !s.alive() {
			return fmt.Errorf("region of STag %#x is no longer registered: %w", s.r.stag, ErrInvalid)
		}
		n := int(min(uint64(len(p)), s.n-off))
		if err := s.r.copy(p[:n], s.off+off, write); err != nil {
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

func (r *Region) copy(p []byte, off uint64, write bool) error {
	err := r.move(p, off+r.base, write)
	if r.pd.dev.log.On(msglog.Data) {
		r.logData(p, off, write)
	}
	return err
}

func (r *Region) move(p []byte, off uint64, write bool) error {
	if b, ok := r.mem.(Bytes); ok {
		if write {
			copy(b[off:], p)
		} else {
			copy(p, b[off:])
		}
		return nil
	}
	if write {
		return r.pd.dev.writes.place(r, p, off)
	}
	return r.pd.dev.writes.fetch(r, p, off)
}

// Addressable tells whether the region's octets are memory of this process.
func (r *Region) Addressable() bool { return r.length > 0 && r.mem.Slice(r.base, 1) != nil }

// Slice is the n octets at address addr themselves, nil if they are not one piece of
// memory that this process can address; the caller has checked addr.
func (r *Region) Slice(addr uint64, n int) []byte {
	p := r.mem.Slice(r.base+addr-r.addr, n)
	if p != nil && r.pd.dev.log.On(msglog.Data) {
		r.logData(p, addr-r.addr, false)
	}
	return p
}

// Place copies p to address addr; the caller has checked it.
func (r *Region) Place(p []byte, addr uint64) error { return r.copy(p, addr-r.addr, true) }

// Fetch copies len(p) octets from address addr; the caller has checked it.
func (r *Region) Fetch(p []byte, addr uint64) error { return r.copy(p, addr-r.addr, false) }

// Load returns the 64-bit value in host order at address addr, which the
// caller has checked. Load and Store make an atomic operation: nothing that
// the NIC does falls between them (IBV_ATOMIC_HCA), but the processor's own
// accesses may.
func (r *Region) Load(addr uint64) (uint64, error) {
	var b [AtomicLen]byte
	err := r.copy(b[:], addr-r.addr, false)
	return binary.NativeEndian.Uint64(b[:]), err
}

// Store sets the value that Load returned.
func (r *Region) Store(addr, v uint64) error {
	var b [AtomicLen]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return r.copy(b[:], addr-r.addr, true)
}
