// Package irq is the interrupt side of the NIC: status blocks, the coalescing
// and aggregation unit (CAU), the interrupt generation unit (IGU), attentions,
// and the modes INTA, MSI, MSI-X and POLL, after the driver core of FastLinQ.
//
// The way of an event:
//
//  1. Event      the CAU advances the protocol index and starts a timer (cau.go)
//  2. flush      it writes the status block: indices, producer (cau.go)
//  3. propagate  the IGU looks whether the line is enabled and behind (igu.go)
//  4. raise      the vector, unless it is masked: Config.Fired (igu.go)
//  5. Service    who is behind the vector: the slowpath, or the handler of a
//     status block, which consumes and acknowledges (isr.go)
//
// A Device is a state machine without clock, goroutine or lock. Handlers run
// within the call that made the interrupt, never nested.
package irq

import (
	"tapir/nic/fastlinq/status"
	"tapir/wire/frame"
)

// Limits of the device.
const (
	PIs        = 12     // protocol indices of a status block
	MaxVectors = 2048   // MSI-X vectors of a device
	MaxSBs     = 129    // status blocks of a PF, the slowpath's included
	MaxSISR    = 64     // of those, with a single ISR
	MaxVFSBs   = 64     // status blocks of a VF
	SPSB       = 0xffff // id of the slowpath's status block
	indexMask  = 0xffffff
)

// Protocol indices of a fastpath status block.
const (
	RxPI  = 0
	TxPI0 = 1 // of traffic class 0; class n has TxPI0+n
	CNQPI = 3 // gl_pi: completion notifications
)

// Config makes a Device.
type Config struct {
	Hwfns    int      // 1, or 2 in CMT (default 1)
	SBs      int      // fastpath status blocks of each hwfn, 1..MaxSBs-1
	VFSBs    int      // status blocks of the VFs of each hwfn
	Mode     Mode     // wanted
	Force    bool     // no other mode will do
	Crash    bool     // a crash kernel, which asks for the fewest vectors
	Platform Platform // what there is

	// Fired is the entry of the operating system; nil is Device.Service.
	Fired func(vector int, now frame.Time)
}

// Device has the interrupts of one PCI function.
type Device struct {
	Hwfns []*Hwfn

	mode    Mode
	vectors []vector
	fired   func(vector int, now frame.Time)

	queue      []int // vectors raised and not delivered
	delivering bool
	up         bool // the line, or message, was raised and SISR not read since
	now        frame.Time
	next       frame.Time // the earliest coalescing timer
	unhandled  uint64
}

// Hwfn is one engine's side of the function.
type Hwfn struct {
	dev   *Device
	index int

	conf     uint32 // IGU PF configuration
	lines    []line // slowpath, fastpath, those of the VFs
	byVector []int  // line of a vector of the PF, -1: none
	cauPI    []uint32
	cauSB    []cauEntry
	sbs      []*SB // by line, nil: free
	sp       *SB
	attn     attention
	cbs      [PIs]func(now frame.Time)
	seen     [PIs]uint16

	sisr, unacked uint64
	orig, vfOrig  int
}

// New makes the device in the mode that the platform grants, its interrupts
// not enabled. The slowpath status block of each hwfn is set up. INVAL: numbers
// out of range, or MSI in CMT; NORESOURCES: the mode is forced and not granted.
func New(c Config) (*Device, error) {
	if c.Hwfns == 0 {
		c.Hwfns = 1
	}
	switch {
	case c.Hwfns < 1 || c.Hwfns > 2:
		return nil, status.Inval.Errorf("%d hwfns, a device has 1 or 2", c.Hwfns)
	case c.SBs < 1 || c.SBs > MaxSBs-1:
		return nil, status.Inval.Errorf("%d status blocks, a PF has 1..%d beside the slowpath's", c.SBs, MaxSBs-1)
	case c.VFSBs < 0 || (c.SBs+1+c.VFSBs)*c.Hwfns > MaxVectors:
		return nil, status.Inval.Errorf("%d status blocks of VFs: a device has %d vectors", c.VFSBs, MaxVectors)
	}
	mode, vectors, err := Select(&c)
	if err != nil {
		return nil, err
	}
	d := &Device{mode: mode, vectors: make([]vector, vectors), fired: c.Fired, next: frame.Never}
	if d.fired == nil {
		d.fired = d.Service
	}
	for i := range c.Hwfns {
		d.Hwfns = append(d.Hwfns, newHwfn(d, i, usable(mode, vectors, &c), c.VFSBs))
	}
	return d, nil
}

// usable is how many fastpath status blocks of a hwfn have a vector.
func usable(mode Mode, vectors int, c *Config) int {
	switch mode {
	case MSIX:
		return min(c.SBs, vectors/c.Hwfns-1)
	case Poll:
		return c.SBs
	}
	return min(c.SBs, MaxSISR-1)
}

func newHwfn(d *Device, index, sbs, vfSBs int) *Hwfn {
	n := 1 + sbs + vfSBs
	h := &Hwfn{dev: d, index: index, lines: make([]line, n), byVector: make([]int, 1+sbs),
		cauPI: make([]uint32, n*PIs), cauSB: make([]cauEntry, n), sbs: make([]*SB, n), orig: sbs, vfOrig: vfSBs}
	for i := range h.lines {
		l := &h.lines[i]
		l.timers = [2]frame.Time{frame.Never, frame.Never}
		if i <= sbs {
			l.mapping = mapping(i, uint32(index), true)
			h.byVector[i] = i
		}
	}
	h.attn.init()
	h.sp = &SB{hwfn: h, line: 0, id: SPSB}
	h.sbs[0] = h.sp
	h.Setup(h.sp)
	return h
}

// Mode is the mode that was granted.
func (d *Device) Mode() Mode { return d.mode }

// Vectors is how many vectors the device has: of MSI-X, or the one line or
// message; none in mode POLL.
func (d *Device) Vectors() int { return len(d.vectors) }

// RDMAVectors is how many vectors are left to RDMA in each hwfn, once each of
// queues L2 queues of the device has one of its own.
func (d *Device) RDMAVectors(queues int) int {
	n := len(d.Hwfns)
	if d.mode != MSIX {
		return 0
	}
	return max(0, (len(d.vectors)-n-queues)/n)
}

// Index is 0 for the leading hwfn.
func (h *Hwfn) Index() int { return h.index }
