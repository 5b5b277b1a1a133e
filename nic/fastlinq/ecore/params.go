package ecore

import (
	"time"

	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/fw"
	"tapir/nic/fastlinq/ecore/rt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/status"
	"tapir/wire/enum"
)

// Personality is what a function does beside Ethernet. The numbers are those
// of ecore; Linux inserts one more.
type Personality uint8

// The personalities.
const (
	Eth Personality = iota
	FCoE
	ISCSI
	EthRoCE
	EthIWARP
	EthRDMA // both
	Default // as the NVM says
)

var personalityNames = [...]string{"ETH", "FCOE", "ISCSI", "ETH_ROCE", "ETH_IWARP", "ETH_RDMA", "DEFAULT"}

// String is the personality's name.
func (p Personality) String() string {
	return enum.Name(personalityNames[:], p, "Personality(%d)")
}

// firmware is the personality as PF_START tells it.
func (p Personality) firmware() uint8 {
	return [...]uint8{Eth: 6, FCoE: 2, ISCSI: 1, EthRoCE: 3, EthIWARP: 3, EthRDMA: 3}[p]
}

// rdma is the protocol of its queue pairs, Common if it has none.
func (p Personality) rdma() cxt.Protocol {
	switch p {
	case EthRoCE, EthRDMA:
		return cxt.RoCE
	case EthIWARP:
		return cxt.IWARP
	}
	return cxt.Common
}

// Caps are the protocols that a board can do.
type Caps uint8

// The capabilities.
const (
	CapEth Caps = 1 << iota
	CapFCoE
	CapISCSI
	CapRoCE
	CapIWARP
)

// needs are the capabilities of a personality.
func (p Personality) needs() Caps {
	return [...]Caps{Eth: CapEth, FCoE: CapFCoE, ISCSI: CapISCSI, EthRoCE: CapEth | CapRoCE,
		EthIWARP: CapEth | CapIWARP,
		EthRDMA:  CapEth | CapRoCE | CapIWARP}[p]
}

// OuterVLAN is the outer VLAN of a function; ID 0: none. TC and OSPriority are those of UFP.
type OuterVLAN struct {
	ID         uint16
	TC         uint8
	OSPriority bool
}

// FuncInfo is what the management firmware and the NVM know of a function.
type FuncInfo struct {
	MAC         [6]byte
	MTU         int // 0: 1500
	OuterVLAN   OuterVLAN
	Personality Personality
	Caps        Caps
	Port        int
	NoNVM       bool // it cannot be read
	MFWVersion  uint32
}

// Info is a hwfn's hw_info.
type Info struct {
	FuncInfo
	Functions int // on the engine
}

// Prepare is how hw_prepare found the device, where the caller lets it go on
// (relaxed probe).
type Prepare uint8

// The results.
const (
	PrepareSuccess Prepare = iota
	FailedEng2
	FailedME
	FailedMem
	FailedDev
	FailedNVM
	BadIOV
	BadMCP
	BadIGU
)

var prepareNames = [...]string{
	"SUCCESS", "FAILED_ENG2", "FAILED_ME", "FAILED_MEM", "FAILED_DEV", "FAILED_NVM", "BAD_IOV", "BAD_MCP", "BAD_IGU",
}

// String is the result's name.
func (p Prepare) String() string { return prepareNames[p] }

// PrepareParams are hw_prepare's.
type PrepareParams struct {
	Personality Personality // Default: as the NVM says
	// DriverShares has the driver divide the resources, whatever the
	// management firmware says (drv_resc_alloc).
	DriverShares bool
	InitiateFLR  bool // reset the function first
	Relaxed      bool // go on with what is BAD
}

// PFParams are what a function shall be able to do, set before resc_alloc.
type PFParams struct {
	Eth struct {
		Cons, VFCons int
		ARFSFilters  int
	}
	RDMA struct {
		QPs, MRs, SRQs int
		IWARPPort      uint16 // of the DCBX application TLV; 0: none
	}
	Storage struct { // of iSCSI or FCoE
		Cons, Tasks int
	}
	VFs int
}

// Limits of PFParams.
const (
	MaxTasks      = 128*1024 - 1
	DefaultQPs    = 8192  // what Linux asks for
	MaxQPs        = 32512 // of iWARP: an event queue has no more elements than for these
	DefaultSRQs   = 8192
	maxRoCEQPs    = 32 * 1024
	maxIWARPQPs   = 64*1024 - 256
	MaxSRQs       = 32 * 1024
	coreCIDs      = 1 + 4 + 2 // the slowpath queue, light L2 connections, and those whose contexts are tested
	pfQueues      = 12        // physical queues of a PF: a traffic class each, and 4 of its own
	vfQueues      = 1
	cqFromRDMA    = 2
	eqExtra       = 2 * 120
	consQElements = 32
	consQSize     = 0x80
)

// contexts sizes the context manager.
func (h *Hwfn) contexts() (cxt.Config, error) {
	p, res := h.pf, h.res[ILT]
	c := cxt.Config{RDMA: h.info.Personality.rdma(), VFs: p.VFs, PQs: min(pfQueues, h.res[PQ].Num), VFPQs: vfQueues,
		Filters: p.Eth.ARFSFilters, FirstLine: res.Start, MaxLines: res.Num, Map: h.mapLine}
	c.Protocols[cxt.Core].CIDs = coreCIDs
	c.Protocols[cxt.Eth] = cxt.Counts{CIDs: p.Eth.Cons, VFCIDs: p.Eth.VFCons}
	switch h.info.Personality {
	case EthRoCE, EthRDMA:
		c.Protocols[cxt.RoCE] = cxt.Counts{CIDs: 2 * min(p.RDMA.QPs, maxRoCEQPs), Tasks: min(p.RDMA.MRs, MaxTasks)}
	case EthIWARP:
		c.Protocols[cxt.IWARP] = cxt.Counts{CIDs: min(p.RDMA.QPs, maxIWARPQPs), Tasks: min(p.RDMA.MRs, MaxTasks)}
	case ISCSI:
		c.Protocols[cxt.ISCSI] = cxt.Counts{CIDs: p.Storage.Cons, Tasks: p.Storage.Tasks}
	case FCoE:
		c.Protocols[cxt.FCoE] = cxt.Counts{CIDs: p.Storage.Cons, Tasks: p.Storage.Tasks}
	}
	if c.RDMA != cxt.Common {
		c.SRQs = min(p.RDMA.SRQs, MaxSRQs)
	}
	limit := kindLimits[h.dev.cfg.Chip.Kind].vfs
	if p.VFs < 0 || p.VFs > limit {
		return c, status.Inval.Errorf("%d VFs: an engine has %d", p.VFs, limit)
	}
	if p.RDMA.QPs < 0 || p.RDMA.MRs < 0 || p.RDMA.SRQs < 0 || p.Eth.ARFSFilters < 0 {
		return c, status.Inval.Errorf("PF parameters below zero")
	}
	return c, nil
}

// events is the size of the event queue.
func (h *Hwfn) events(c *cxt.Config) int {
	n := spq.Elements
	if p := c.RDMA; p != cxt.Common {
		n += cqFromRDMA*c.Protocols[p].CIDs + eqExtra
	}
	for _, p := range []cxt.Protocol{cxt.ISCSI, cxt.FCoE} {
		n += cqFromRDMA * c.Protocols[p].CIDs
	}
	return n
}

// TunnelClass is by which addresses packets in tunnels are classified.
type TunnelClass uint8

// The classes.
const (
	ClassMACVLAN TunnelClass = iota
	ClassMACVNI
	ClassInnerMACVLAN
	ClassInnerMACVNI
	ClassDualStage
	numClasses
)

// Tunnel is a kind of tunnel.
type Tunnel uint8

// The tunnels.
const (
	VXLAN Tunnel = iota
	L2Geneve
	IPGeneve
	L2GRE
	IPGRE
	NumTunnels
)

var tunnelNames = [...]string{"VXLAN", "L2_GENEVE", "IP_GENEVE", "L2_GRE", "IP_GRE"}

// String is the tunnel's name.
func (t Tunnel) String() string { return tunnelNames[t] }

// Tunnels are the tunnels that the chip recognises, one UDP port for VXLAN and
// one for GENEVE. They are set when the function starts and by
// UpdateTunnels.
type Tunnels struct {
	On         [NumTunnels]bool
	Class      [NumTunnels]TunnelClass
	VXLANPort  uint16
	GenevePort uint16
}

// DefaultTunnels are all tunnels, on the ports that IANA gave them.
func DefaultTunnels() Tunnels {
	return Tunnels{On: [NumTunnels]bool{true, true, true, true, true}, VXLANPort: 4789, GenevePort: 6081}
}

func (t *Tunnels) validate() error {
	for i, c := range t.Class {
		if c >= numClasses {
			return status.Inval.Errorf("class %d of tunnel %v", c, Tunnel(i))
		}
	}
	switch {
	case t.On[VXLAN] && t.VXLANPort == 0, (t.On[L2Geneve] || t.On[IPGeneve]) && t.GenevePort == 0:
		return status.Inval.Errorf("a tunnel over UDP without a port")
	case t.VXLANPort != 0 && t.VXLANPort == t.GenevePort:
		return status.Inval.Errorf("UDP port %d for both of VXLAN and GENEVE", t.VXLANPort)
	}
	return nil
}

// InitParams are hw_init's.
type InitParams struct {
	Tunnels Tunnels
	NoStart bool // do not start the function (b_hw_start false)
	IntMode IntMode
	Load    LoadParams
	// Form is that of the firmware that the client is built for: of a header it
	// has one with it, a binary it gets as BinFWData (bin_fw_data). Inflate is
	// its hook that unpacks the arrays of the zipped forms (OSAL_UNZIP_DATA).
	Form       fw.Form
	BinFWData  []byte // a firmware file of that form, borrowed for the call; nil: that which is built in
	Inflate    rt.Inflate
	SPQTimeout time.Duration
	NPARTx     bool // transmit switching of an NPAR function
}

// PFStart is the data of the ramrod PF_START.
type PFStart struct {
	Personality uint8
	MF          MFMode
	Outer       Outer
	Tunnels     Tunnels
	Events      int // elements of the event queue
	TxSwitch    bool
}
