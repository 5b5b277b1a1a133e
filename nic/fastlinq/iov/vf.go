package iov

import (
	"fmt"
	"syscall"

	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
	"tapir/wire/ether"
)

// State is that of a VF as its PF sees it.
type State uint8

// The states (VF_*).
const (
	Free State = iota
	Acquired
	Enabled
	Reset
	Stopped
)

var stateNames = [...]string{"FREE", "ACQUIRED", "ENABLED", "RESET", "STOPPED"}

// String is the state's name.
func (s State) String() string { return enum.Name(stateNames[:], s, "State(%d)") }

// PF is the PF's side of SR-IOV.
type PF struct {
	cfg  Config
	vfs  []*vf // by relative id; those from num on are kept for their policies
	num  int
	free []uint16 // status blocks
	down bool     // the PF's driver does not run
}

// vf is a virtual function.
type vf struct {
	pf  *PF
	id  int // relative
	mem Memory

	state     State
	enabled   bool // b_init: it has its resources
	toDisable bool
	malicious bool
	why       string // it is malicious
	rdma      bool   // its driver has asked for RDMA
	pending   bool   // FLR
	ready     bool   // the channel: the firmware takes a message
	blocks    []uint16
	rxIDs     [MaxQueues]int // ids of its queues relative to the PF
	txIDs     [MaxQueues]int
	queues    int // of each kind, that it may use
	vportID   int
	rssID     int

	msg     []byte // that waits; nil: none
	acquire tlv.AcquireRequest
	board   board
	policy  Policy
	trusted bool // in force
	// suggested is the address that a trusted VF is told of: the policy's, or the one that
	// it has chosen since.
	suggested ether.Addr
	wish      wish
	vport     vport
	zones     [MaxQueues][]queue // those in use
	counts    Counts
}

// queue is a queue of a zone: usage tells it from the others of the same id.
type queue struct {
	usage uint8
	tx    bool
}

// wish is what a VF has asked for. Policies decide what of it is in force.
type wish struct {
	rxAccept, txAccept l2.Accept
	anyVLAN            bool
	removeVLAN         bool
	filters            []filter // the shadow of those of the VF
	address            ether.Addr
}

// filter is an address, a VLAN or a pair of both.
type filter struct {
	typ  l2.FilterType
	mac  ether.Addr
	vlan uint16
}

// vport is that of a VF while it is started.
type vport struct {
	started            bool
	mtu                int
	rxActive, txActive bool
	filters            []filter // that the device has
	rss                *RSS
}

// Counts are the events of a VF's channel.
type Counts struct {
	Messages, Replies, Bulletins, Malformed, Ignored, Unreachable, Resets, Malicious uint64
}

// New returns a PF without VFs. INVAL: its configuration cannot be.
func New(cfg Config) (*PF, error) {
	switch {
	case cfg.Function == nil:
		return nil, status.Inval.Errorf("SR-IOV without a function")
	case cfg.Info.Total < 0 || cfg.Info.First < 0:
		return nil, status.Inval.Errorf("SR-IOV with %d VFs from %d on", cfg.Info.Total, cfg.Info.First)
	}
	return &PF{cfg: cfg, free: cfg.Blocks}, nil
}

// Capable tells whether the PF can have VFs at all (IS_ECORE_SRIOV).
func (p *PF) Capable() bool { return p.cfg.Info.Total > 0 }

// Info is the PF's SR-IOV capability.
func (p *PF) Info() Info { return p.cfg.Info }

// NumVFs is the number of VFs.
func (p *PF) NumVFs() int { return p.num }

// AbsoluteID is the id of a VF on its engine.
func (p *PF) AbsoluteID(vf int) int { return p.cfg.Info.First + vf }

// FID is the concrete function id of a VF.
func (p *PF) FID(vf int) int { return FirstFID + p.AbsoluteID(vf) }

// errno is an error with one of Linux's numbers.
func errno(n syscall.Errno, format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), n)
}

// vf is a VF by its relative id. EINVAL: there are fewer.
func (p *PF) vf(id int) (*vf, error) {
	if id < 0 || id >= p.num {
		return nil, errno(syscall.EINVAL, "VF %d: the function has %d", id, p.num)
	}
	return p.vfs[id], nil
}
