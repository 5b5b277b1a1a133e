// Package iov is the PF's side of SR-IOV in the driver core (ecore_iov): the
// database of VFs, the channel by which their drivers ask the PF for what they
// may not do themselves, the bulletin board by which the PF tells them what has
// changed, the policies of the administrator, and function-level resets.
//
// A PF is a pure state machine without clock, goroutine or lock. A message of a VF
// comes in by Deliver; Process answers it by calls of a Function, which is the
// hardware, and by writes to the Memory of the VF's driver.
//
// VFs are named by their relative ids: from 0 to below the number of VFs.
package iov

import (
	"tapir/nic/fastlinq/iov/tlv"
	"tapir/nic/fastlinq/l2"
	"tapir/wire/ether"
)

// Limits of a VF.
const (
	MaxQueues = 16 // ECORE_MAX_VF_CHAINS_PER_PF
	MaxMACs   = 1  // ECORE_ETH_VF_NUM_MAC_FILTERS
	MaxVLANs  = 2  // ECORE_ETH_VF_NUM_VLAN_FILTERS
	MaxCIDs   = 32 // ECORE_ETH_VF_DEFAULT_NUM_CIDS
	// FirstFID is the concrete function id, and the number of the statistics, of the
	// VF with absolute id 0.
	FirstFID = 0x10
	// indicesPerSB is how many protocol indices a status block has.
	indicesPerSB = 12
)

// The version of the fastpath that PF and VFs have to agree on (ETH_HSI_VER): the
// same major number. A VF from before the negotiation has minor legacyMinor.
const (
	HSIMajor    = 3
	HSIMinor    = 11
	legacyMinor = 5
)

// Info is the SR-IOV capability of a PF (p_iov_info).
type Info struct {
	Total    int    // VFs that the PF can have; 0: it has no such capability
	First    int    // absolute id, on the engine, of its first VF
	Offset   uint16 // from the PF's routing id to that of its first VF
	Stride   uint16 // from one VF to the next
	DeviceID uint16 // of a VF
}

// Config is what a PF lives in.
type Config struct {
	Info Info
	// HWChannel: messages come by the hardware's channel (b_hw_channel). They wait for
	// Process, and one that comes while another waits is an error of the VF's driver.
	// Otherwise Deliver processes them at once.
	HWChannel bool
	// Share is the PF's, Queues and Blocks[0:] below are what VFs get of it.
	Share  l2.Share
	Queues int      // the first queue id that VFs get; lower ones are the PF's own
	Blocks []uint16 // ids of the status blocks that VFs get
	// Device is what ACQUIRE tells VFs of the device.
	Device Device
	// Function is the hardware.
	Function Function
	Hooks    Hooks
}

// Device is what a VF learns of the device by ACQUIRE instead of reading it.
type Device struct {
	ChipNum, MFWVersion                      uint32
	FWMajor, FWMinor, FWRevision, FWEngineer uint16
	ChipRev                                  uint16
	DevType                                  uint8 // 0: BB, 1: AH
	CMT                                      bool  // two engines
	PortMAC                                  ether.Addr
}

// Function is the hardware of a PF that its VFs use. Ids of vports and queues are
// relative to the PF, as in package l2, and never those that a VF's driver says.
// The errors have a status.Code.
type Function interface {
	// Enable gives a VF access to the device with an interrupt vector for each status
	// block; Disable takes it away, and what is left of the VF in the device.
	Enable(vf int, blocks []uint16) error
	Disable(vf int)
	// Start and Stop are the ramrods VF_START and VF_STOP, at ACQUIRE and RELEASE.
	Start(vf int) error
	Stop(vf int) error
	// FinalCleanup is the firmware's part of a function-level reset: no frame of the VF
	// is left in the device.
	FinalCleanup(vf int)
	// Interrupts lets the VF's status blocks interrupt, or not.
	Interrupts(vf int, on bool)

	// VportStart to FilterUcast are those of l2.Slowpath for the VF's vport. rss, unless
	// it is nil, takes the place of p.RSS: its table has queue ids.
	VportStart(vf int, p l2.StartParams) error
	VportUpdate(vf int, p l2.UpdateParams, rss *RSS) error
	VportStop(vf, vport int) error
	FilterUcast(vf int, p l2.UcastParams) error

	// RxQueueStart and TxQueueStart return the offset, in the VF's part of the device, of
	// the register by which its driver tells of buffers or frames.
	RxQueueStart(vf int, p l2.QueueParams, r RxRing) (offset uint32, err error)
	TxQueueStart(vf int, p l2.QueueParams, usage uint8) (offset uint32, err error)
	RxQueueStop(vf, queue int) error
	TxQueueStop(vf, queue int, usage uint8) error
	// SetCoalesce sets the coalescing time of a queue, in microseconds, each way that is
	// not 0; Coalesce is that time.
	SetCoalesce(vf, queue, rx, tx int) error
	Coalesce(vf, queue int, tx bool) (us int)

	// SetRate limits what the vport sends, in Mb/s, 0: no limit; SetMinRate is its part
	// when vports compete, 0: none of its own.
	SetRate(vf, vport, rate int) error
	SetMinRate(vf, vport, rate int) error

	// Tunnels are those that the device recognizes; SetTunnels is called only if
	// Hooks.Tunnels lets a VF change them.
	Tunnels() l2.TunnelParams
	SetTunnels(p l2.TunnelParams) error
	// Link is the physical link of the PF's port.
	Link() Link
}

// RxRing is what the driver of a VF says about the memory of a receive queue.
type RxRing struct {
	BufSize int // octets of a buffer
	Usage   uint8
}

// RSS is a change of a vport's RSS, whose table names receive queues by their ids
// relative to the PF. Its other fields are those of l2.RSSParams.
type RSS struct {
	l2.RSSParams
	Queues [l2.TableLen]int
}

// Link is a link as the bulletin tells of it: what was asked of it, and what it has come
// to. Speed is in Mb/s; the sets of speeds are those of the management firmware.
type Link struct {
	Up                        bool
	Speed                     int
	Params                    tlv.LinkParams
	State                     tlv.LinkState // but for Up
	PartnerSpeeds, Capability uint32
}

// Memory is what the driver of a VF shares with the device: replies and bulletins are
// written to it. An error means that the VF's driver is gone or gave a wrong address;
// the PF counts it.
type Memory interface {
	Write(addr uint64, b []byte) error
}

// Hooks are decisions and news for the driver above (OSAL_*). Any may be nil.
type Hooks struct {
	// Message rings the hardware's channel: a message of a VF waits for Process. An error:
	// the PF does not hear it, and the message is gone.
	Message func(vf int) error
	// Acquire may refuse a VF's driver (OSAL_IOV_VF_ACQUIRE).
	Acquire func(vf int) error
	// CheckUcast may refuse a filter of a VF (OSAL_IOV_CHK_UCAST): with EXISTS it is
	// not set and the VF is told that it is; any other error fails the request.
	CheckUcast func(vf int, p l2.UcastParams) error
	// Tunnels decides on the tunnels that a VF asks for
	// (OSAL_PF_VALIDATE_MODIFY_TUNN_CONFIG): it returns what is to be set, or an error to
	// leave all as it is. nil leaves all as it is.
	Tunnels func(vf int, want l2.TunnelParams) (l2.TunnelParams, error)
	// Malicious tells that a VF is shut out until it is reset, and why (OSAL_IOV_VF_MALICIOUS).
	Malicious func(vf int, why string)
	// RDMA tells that a VF's driver has asked for RDMA, which VFs do not have: the first time
	// since the VF was acquired or reset.
	RDMA func(vf int, t tlv.Type)
	// Changed tells that the state of a VF, or a policy, has changed.
	Changed func(vf int)
}
