package tlv

import "tapir/wire/ether"

// MaxQueues is the number of queues, and of status blocks, of a VF at most.
const MaxQueues = 16

// Capabilities of a VF's driver (VFPF_ACQUIRE_CAP_*).
const (
	VFPreFPHSI    = 1 << iota // its fastpath is older than the negotiation
	VF100G                    // it can drive two engines
	VFQueueQIDs               // queues of a zone are told apart by QID
	VFPhysicalBAR             // it has mapped its doorbells
)

// Capabilities of a PF (PFVF_ACQUIRE_CAP_*).
const (
	PFDefaultUntagged = 1 << iota
	PF100G
	PFPostFWOverride
	PFQueueQIDs
)

// OSWindows is the os_type of a driver for Windows.
const (
	OSLinux   = 0
	OSWindows = 1
	OSUser    = 4
)

// VFInfo is what a VF's driver says of itself.
type VFInfo struct {
	Capabilities                             uint64
	FWMajor, FWMinor, FWRevision, FWEngineer uint8
	DriverVersion                            uint32
	OpaqueFID                                uint16
	OSType                                   uint8
	HSIMajor, HSIMinor                       uint8
	Pad                                      [3]byte
}

// Resources counts what a VF asks for, or gets.
type Resources struct {
	RxQueues, TxQueues, Blocks, MACs, VLANs, Mcasts, CIDs uint8
	Pad                                                   uint8
}

// AcquireRequest is ACQUIRE.
type AcquireRequest struct {
	First
	VF           VFInfo
	Want         Resources
	BulletinAddr uint64
	BulletinSize uint32
	Pad2         uint32
}

// StormStats is where a storm's statistics of the VF lie in its BAR.
type StormStats struct{ Addr, Len uint32 }

// PFInfo is what a PF tells of the device.
type PFInfo struct {
	ChipNum, MFWVersion                      uint32
	FWMajor, FWMinor, FWRevision, FWEngineer uint16
	Capabilities                             uint64
	DBSize                                   uint16
	IndicesPerSB, OSType                     uint8
	ChipRev                                  uint16
	DevType, BARSize                         uint8
	MStats, PStats, TStats, UStats           StormStats
	PortMAC                                  ether.Addr
	HSIMajor, HSIMinor                       uint8
}

// Block is a status block of a VF.
type Block struct {
	ID    uint16
	Queue uint8
	Pad   [5]byte
}

// Granted are the resources of a VF.
type Granted struct {
	Blocks [MaxQueues]Block
	HWQIDs [MaxQueues]uint8
	CIDs   [MaxQueues]uint8
	Num    Resources
}

// AcquireReply answers ACQUIRE.
type AcquireReply struct {
	Reply
	PF           PFInfo
	Got          Granted
	BulletinSize uint32
	Pad2         uint32
}

// StartRxqRequest is START_RXQ. PBLSize counts pages of 4096 octets, Rate is that of
// coalescing.
type StartRxqRequest struct {
	First
	RxqAddr, SGEAddr, PBLAddr                     uint64
	PBLSize, Block, Queue, Rate, BufSize, StatsID uint16
	Index                                         uint8
	Pad2                                          [3]byte
}

// StartTxqRequest is START_TXQ.
type StartTxqRequest struct {
	First
	PBLAddr                        uint64
	PBLSize, StatsID, Queue, Block uint16
	Flags                          uint32
	Rate                           uint16
	Index                          uint8
	Pad2                           [9]byte
}

// StartReply answers both: the offset of the queue's producer or doorbell in the BAR.
type StartReply struct {
	Reply
	Offset uint32
	Pad2   [4]byte
}

// StopRxqsRequest is STOP_RXQS. Num has to be 1.
type StopRxqsRequest struct {
	First
	Queue       uint16
	Num         uint8
	CQECompletn uint8
	Pad2        [4]byte
}

// StopTxqsRequest is STOP_TXQS.
type StopTxqsRequest struct {
	First
	Queue uint16
	Num   uint8
	Pad2  [5]byte
}

// UpdateRxqRequest is UPDATE_RXQ.
type UpdateRxqRequest struct {
	First
	SGEAddrs [MaxQueues]uint64
	Queue    uint16
	Num      uint8
	Flags    uint8
	Pad2     [4]byte
}

// VportStartRequest is VPORT_START.
type VportStartRequest struct {
	First
	BlockAddrs                                          [MaxQueues]uint64
	TPAMode                                             uint32
	Deprecated, MTU                                     uint16
	Vport, RemoveInnerVLAN, OnlyUntagged, BuffersPerCQE uint8
	Pad2                                                [4]byte
}

// Activate is part of VPORT_UPDATE.
type Activate struct {
	Header
	UpdateRx, UpdateTx, Rx, Tx uint8
}

// Flag is a TLV of VPORT_UPDATE with one flag: UpdateTxSwitch or UpdateVLANStrip.
type Flag struct {
	Header
	On  uint8
	Pad [3]byte
}

// Mcast is part of VPORT_UPDATE. The upper half of the bins is not used; older drivers
// send only the lower.
type Mcast struct {
	Header
	Pad  [4]byte
	Bins [8]uint64
}

// McastShort is the Mcast of older drivers.
type McastShort struct {
	Header
	Pad  [4]byte
	Bins [4]uint64
}

// AcceptParam is part of VPORT_UPDATE. Its filters are flags as l2.Accept.
type AcceptParam struct {
	Header
	UpdateRx, UpdateTx, Rx, Tx uint8
}

// Parts of RSS that change.
const (
	RSSConfig = 1 << iota
	RSSCaps
	RSSTable
	RSSKey
)

// RSS is part of VPORT_UPDATE.
type RSS struct {
	Header
	Flags, Enable, Caps, TableLog uint8
	Table                         [128]uint16
	Key                           [40]byte // ten numbers of 32 bits
}

// AcceptAnyVLAN is part of VPORT_UPDATE.
type AcceptAnyVLAN struct {
	Header
	Update, On uint8
	Pad        [2]byte
}

// Flags of SGETPA.
const (
	TPAIPv4 = 1 << iota
	TPAIPv6
	UpdateTPAEnable = 1 << 1
	UpdateTPAParams = 1 << 2
)

// SGETPA is part of VPORT_UPDATE.
type SGETPA struct {
	Header
	Flags                                   uint16
	Update, BuffersPerCQE                   uint8
	SGESize, MaxSize, MinStart, MinContinue uint16
	MaxAggregations                         uint8
	Pad                                     [7]byte
}

// UcastRequest is UCAST_FILTER. Op and Type are l2.Opcode and l2.FilterType.
type UcastRequest struct {
	First
	Op, Type uint8
	MAC      ether.Addr
	VLAN     uint16
	Pad2     [6]byte
}

// Bits of tunnel modes, in TunnRequest and TunnReply.
const (
	ModeL2Geneve = iota
	ModeIPGeneve
	ModeL2GRE
	ModeIPGRE
	ModeVXLAN
)

// TunnRequest is UPDATE_TUNN_PARAM.
type TunnRequest struct {
	First
	UpdateModes, Modes, UpdateClasses                                uint8
	VXLANClass, L2GREClass, IPGREClass, L2GeneveClass, IPGeneveClass uint8
	UpdateGenevePort, UpdateVXLANPort                                uint8
	GenevePort, VXLANPort                                            uint16
	Pad2                                                             [2]byte
}

// TunnReply answers it: what the device has.
type TunnReply struct {
	Reply
	Features                                                         uint16
	VXLAN, L2Geneve, IPGeneve, L2GRE, IPGRE                          uint8
	VXLANClass, L2GREClass, IPGREClass, L2GeneveClass, IPGeneveClass uint8
	VXLANPort, GenevePort                                            uint16
}

// CoalesceRequest is COALESCE_UPDATE, in microseconds; 0 leaves a time as it is.
type CoalesceRequest struct {
	First
	Rx, Tx, Queue uint16
	Pad2          [2]byte
}

// CoalesceReadRequest is COALESCE_READ.
type CoalesceReadRequest struct {
	First
	Queue uint16
	IsRx  uint8
	Pad2  [5]byte
}

// CoalesceReadReply answers it.
type CoalesceReadReply struct {
	Reply
	Coalesce uint16
	Pad2     [6]byte
}

// QueueID says which of the queues of a zone a request about queues means.
type QueueID struct {
	Header
	ID  uint8
	Pad [3]byte
}

// MACRequest is BULLETIN_UPDATE_MAC.
type MACRequest struct {
	First
	MAC  ether.Addr
	Pad2 [2]byte
}

// MTURequest is UPDATE_MTU.
type MTURequest struct {
	First
	MTU  uint16
	Pad2 [6]byte
}

// SoftFLRRequest is SOFT_FLR.
type SoftFLRRequest struct {
	First
	Reserved [2]uint32
}
