package irq

import (
	"slices"

	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Bits of the IGU's PF configuration.
const (
	confFunc   = 1 << 0
	confMSI    = 1 << 1 // MSI or MSI-X
	confLine   = 1 << 2
	confAttn   = 1 << 3
	confSingle = 1 << 4 // a single ISR
)

// Fields of a line of the mapping table (the "CAM").
const (
	mapValid    = 1 << 0
	mapVector   = 1 // 8 bits
	mapFunction = 9 // 8 bits
	mapPF       = 1 << 17
	mapVFTaken  = 1 << 18 // assigned to a VF
	mapMask     = 1<<19 - 1
)

func mapping(vector int, function uint32, pf bool) uint32 {
	m := mapValid | uint32(vector)<<mapVector | function<<mapFunction
	if pf {
		m |= mapPF
	}
	return m
}

// line is the IGU's, one for each status block, with the timers of the CAU.
type line struct {
	mapping    uint32
	prod, cons uint32
	enabled    bool    // the next difference of the two interrupts
	held       [2]bool // events wait in a machine that is stopped
	timers     [2]frame.Time
}

// of tells whether the line is assigned to a VF.
func (l line) of(vf int) bool {
	return l.mapping&mapVFTaken != 0 && int(l.mapping>>mapFunction&0xff) == vf
}

// vector is an entry of the MSI-X table, or the one line or message.
type vector struct {
	masked, pending bool
	count           uint64
}

// IntEnable lets the function interrupt in the mode that was granted; what
// waits does so at once.
func (h *Hwfn) IntEnable(now frame.Time) {
	h.dev.now = now
	h.conf = [...]uint32{
		INTA: confFunc | confLine | confSingle | confAttn,
		MSIX: confFunc | confMSI | confAttn,
		MSI:  confFunc | confMSI | confSingle | confAttn,
		Poll: confFunc,
	}[h.dev.mode]
	for i := range h.lines {
		h.propagate(&h.lines[i], h.bit(i))
	}
	h.propagateAttn()
}

// IntDisable keeps the function from interrupting; nothing is lost.
func (h *Hwfn) IntDisable() { h.conf = 0 }

// bit is the line's in the SISR mask: 0 the slowpath's, then the fastpath's.
func (h *Hwfn) bit(i int) uint64 { return 1 << (h.lines[i].mapping >> mapVector & 0xff) }

// propagate interrupts for a line that is enabled and whose driver is behind.
// Then the line is quiet until it is acknowledged.
func (h *Hwfn) propagate(l *line, bit uint64) {
	if l.prod == l.cons || !l.enabled || h.conf&(confMSI|confLine) == 0 {
		return
	}
	l.enabled = false
	if h.conf&confSingle == 0 {
		h.dev.raise(int(l.mapping>>mapVector&0xff)*len(h.dev.Hwfns) + h.index)
		return
	}
	h.sisr |= bit
	h.dev.assert()
}

// assert raises the line, unless it is up or masked by a read of SISR.
func (d *Device) assert() {
	waits := false
	for _, h := range d.Hwfns {
		if h.unacked != 0 {
			return
		}
		waits = waits || h.sisr != 0
	}
	if waits && !d.up {
		d.up = true
		d.raise(0)
	}
}

// acked is the IGU's side of Ack.
func (h *Hwfn) acked(l *line, op AckOp, bit uint64) {
	switch op {
	case Enable:
		l.enabled = true
		h.unacked &^= bit
		h.propagate(l, bit)
	case Disable:
		l.enabled = false
		h.unacked &^= bit
	}
	if h.conf&confSingle != 0 && h.unacked == 0 {
		h.dev.assert()
	}
}

// ReadSISR says which status blocks the interrupt means: bit 0 the slowpath's,
// bit n that of vector n. The line, or message, is masked until all of them have
// been acknowledged (ecore_int_igu_read_sisr_reg).
func (h *Hwfn) ReadSISR() uint64 {
	bits := h.sisr
	h.sisr, h.dev.up = 0, false
	h.unacked |= bits
	return bits
}

// raise interrupts through vector v of the device; delivery is never nested.
func (d *Device) raise(v int) {
	e := &d.vectors[v]
	if e.masked {
		e.pending = true
		return
	}
	e.count++
	d.queue = append(d.queue, v)
	if d.delivering {
		return
	}
	d.delivering = true
	for len(d.queue) > 0 {
		v := d.queue[0]
		d.queue = append(d.queue[:0], d.queue[1:]...)
		d.fired(v, d.now)
	}
	d.delivering = false
}

// MaskVector sets the mask bit of an entry of the MSI-X table, or of the line or
// message: an interrupt waits until UnmaskVector. INVAL: there is no such
// vector.
func (d *Device) MaskVector(v int) error {
	if v < 0 || v >= len(d.vectors) {
		return status.Inval.Errorf("vector %d of %d", v, len(d.vectors))
	}
	d.vectors[v].masked = true
	return nil
}

// UnmaskVector clears the mask bit; a pending interrupt is raised.
func (d *Device) UnmaskVector(v int, now frame.Time) error {
	if v < 0 || v >= len(d.vectors) {
		return status.Inval.Errorf("vector %d of %d", v, len(d.vectors))
	}
	d.now = now
	e := &d.vectors[v]
	e.masked = false
	if e.pending {
		e.pending = false
		d.raise(v)
	}
	return nil
}

// Mapping is a line of the IGU's table.
type Mapping struct {
	Vector   int
	Function int  // PF, or VF
	VF       bool // Function is a VF's
	Valid    bool
}

// Map returns the mapping table of the hwfn, by line.
func (h *Hwfn) Map() []Mapping {
	list := make([]Mapping, len(h.lines))
	for i := range h.lines {
		m := h.lines[i].mapping
		list[i] = Mapping{Vector: int(m >> mapVector & 0xff), Function: int(m >> mapFunction & 0xff),
			VF: m&mapPF == 0, Valid: m&mapValid != 0}
	}
	return list
}

// RelocateSB moves the fastpath status block id of the PF to the pool of its
// VFs, or, with toVF false, one of that pool to the PF as block id
// (ecore_int_igu_relocate_sb). INVAL: the block is in use, the slowpath's, or
// not where it should be; NORESOURCES: the pool is empty.
func (h *Hwfn) RelocateSB(id int, toVF bool) error {
	n := id + 1
	switch {
	case id < 0 || n >= len(h.byVector):
		return status.Inval.Errorf("relocation of status block %d: the function has ids 0..%d", id, len(h.byVector)-2)
	case toVF && h.byVector[n] < 0:
		return status.Inval.Errorf("relocation of status block %d: the PF has given it away", id)
	case toVF && h.sbs[h.byVector[n]] != nil:
		return status.Inval.Errorf("relocation of status block %d: it is in use", id)
	case !toVF && h.byVector[n] >= 0:
		return status.Inval.Errorf("relocation of status block %d: the PF has it", id)
	}
	if toVF {
		h.lines[h.byVector[n]].mapping = 0
		h.byVector[n] = -1
		return nil
	}
	for i := 1; i < len(h.lines); i++ {
		if h.lines[i].mapping == 0 {
			h.lines[i].mapping, h.byVector[n] = mapping(n, uint32(h.index), true), i
			return nil
		}
	}
	return status.NoResources.Errorf("relocation of status block %d: no VF has one to spare", id)
}

// AssignVF gives a VF n status blocks of the pool: its vectors 0..n-1, before it
// is activated. INVAL: more than MaxVFSBs, or it has some; NORESOURCES: the pool
// has fewer. Then none is taken.
func (h *Hwfn) AssignVF(vf, n int) error {
	switch {
	case vf < 0 || vf > 0xff || n < 1 || n > MaxVFSBs:
		return status.Inval.Errorf("%d status blocks for VF %d: allowed are 1..%d", n, vf, MaxVFSBs)
	case slices.ContainsFunc(h.lines, func(l line) bool { return l.of(vf) }):
		return status.Inval.Errorf("VF %d has status blocks", vf)
	case h.Num().VFFree < n:
		return status.NoResources.Errorf("%d status blocks for VF %d: %d are free", n, vf, h.Num().VFFree)
	}
	given := 0
	for i := 1; i < len(h.lines) && given < n; i++ {
		if h.lines[i].mapping == 0 {
			h.lines[i].mapping = mapping(given, uint32(vf), false) | mapVFTaken
			given++
		}
	}
	return nil
}

// ReleaseVF takes the status blocks of a VF back into the pool and returns their
// number.
func (h *Hwfn) ReleaseVF(vf int) (n int) {
	for i := range h.lines {
		if h.lines[i].of(vf) {
			h.lines[i].mapping = 0
			n++
		}
	}
	return n
}
