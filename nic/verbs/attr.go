package verbs

import (
	"cmp"
	"math"
	"slices"

	"tapir/wire/enum"
)

// Personality says what a device offers beside Ethernet: a protocol of RDMA, or of storage.
type Personality uint8

const (
	IWARP    Personality = iota // RDMA over TCP
	RoCE                        // RDMA over Converged Ethernet: InfiniBand transport over UDP or Ethernet
	Ethernet                    // no RDMA: every object is refused with ErrNotStarted
	ISCSI                       // no RDMA, but sessions of iSCSI
	FCoE                        // no RDMA, but Fibre Channel over Ethernet
)

var personalities = [...]string{"iwarp", "roce", "eth", "iscsi", "fcoe"}

func (p Personality) String() string { return enum.Name(personalities[:], p, "personality %d") }

// RDMA tells whether there is RDMA.
func (p Personality) RDMA() bool { return p <= RoCE }

// ICIDsPerQP is the number of connection contexts that a queue pair costs: with RoCE one
// for its responder, even, and the next for its requester.
func (p Personality) ICIDsPerQP() int { return [...]int{IWARP: 1, RoCE: 2, FCoE: 0}[p] }

// Identity is what a device says of itself.
type Identity struct {
	Personality  Personality
	Name         string
	GUID         GUID // of the node and its system image
	VendorID     uint32
	VendorPartID uint32
	HWVersion    uint32
	Firmware     string
}

// VendorID is "TAP" in ASCII.
const VendorID = 0x544150

// Caps are capabilities of a device, the bits of the FastLinQ driver core.
type Caps uint32

const (
	CapRNRNak Caps = 1 << iota
	CapShutdownPort
	CapPortActiveEvent
	CapPortChangeEvent
	CapSystemImageGUID
	CapBadPKeyCounter
	CapAtomics
	CapResizeCQ
	CapResizeMaxWR
	CapAutoPathMigration
	CapBaseMemoryExt
	CapBaseQueueExt
	CapMultiPagePerMR
	CapBlockMode
	CapZeroBasedVA
	CapLocalInvalidateFence
	CapLoopbackIndicator
)

var capNames = [...]string{
	"rnr_nak", "shutdown_port", "port_active_event", "port_change_event", "sys_image",
	"bad_pkey_cnt", "atomic_op", "resize_cq", "resize_max_wr", "auto_path_mig",
	"base_memory_ext", "base_queue_ext", "multi_page_per_mr", "block_mode", "zbva",
	"local_inv_fence", "lb_indicator",
}

// String lists the names of the bits.
func (c Caps) String() string {
	return enum.Bits(capNames[:], c)
}

// CapNamed is the bit of a name, 0 for none.
func CapNamed(name string) Caps {
	if i := slices.Index(capNames[:], name); i >= 0 {
		return 1 << i
	}
	return 0
}

// rnicCaps is what every device of this package can do.
const rnicCaps = CapShutdownPort | CapPortActiveEvent | CapPortChangeEvent | CapSystemImageGUID |
	CapBaseMemoryExt | CapBaseQueueExt | CapLocalInvalidateFence | CapResizeCQ |
	CapMultiPagePerMR | CapZeroBasedVA

// caps adds what depends on the transport.
func (d *Device) caps() Caps {
	caps := rnicCaps
	if d.ops.Has(OpCompSwap) && d.ops.Has(OpFetchAdd) {
		caps |= CapAtomics
	}
	if d.fabric != nil {
		caps |= CapRNRNak | CapBadPKeyCounter
	}
	return caps
}

// DeviceAttr is what query_device tells.
type DeviceAttr struct {
	Identity
	Limits
	SystemImageGUID GUID
	Caps            Caps
	Ports           int
	CNQs            int    // completion notification queues given by Start
	MaxMRSize       uint64 // octets
	PageSizes       uint64 // bit n: pages of 2^n octets
	MaxDeviceIRD    int    // inbound Reads of all queue pairs together
	MaxAH           int    // 0 with iWARP, which has no address handles
	MaxRDD          int    // 0: nor reliable datagram domains
	MaxMcastGroups  int    // 0 with iWARP: no multicast
	MaxMcastQPs     int    // attached to each group
	MaxXRCD         int    // 0 with iWARP: no XRC domains
	MaxPKeys        int
	ReservedLKey    uint32
	AckDelay        uint8 // 4.096 us times 2 to this power
}

// SetIdentity names the device. A personality without RDMA stops it.
func (d *Device) SetIdentity(id Identity) {
	id.VendorID = cmp.Or(id.VendorID, VendorID)
	d.identity = id
	if !id.Personality.RDMA() {
		d.state = deviceStopped
	}
}

// Identity is what SetIdentity was given.
func (d *Device) Identity() Identity { return d.identity }

// Attr returns the device's attributes.
func (d *Device) Attr() DeviceAttr {
	a := DeviceAttr{
		Identity: d.identity, Limits: d.limits, SystemImageGUID: d.identity.GUID, Caps: d.caps(),
		Ports: 1, CNQs: len(d.cnqs), MaxMRSize: math.MaxUint64, PageSizes: 0xfffff000,
		MaxDeviceIRD: d.limits.MaxQP * d.limits.MaxIRD, MaxPKeys: len(d.Port.pkeys), AckDelay: 15,
	}
	if l := &d.limits; d.fabric != nil {
		a.MaxAH, a.MaxXRCD, a.MaxMcastGroups, a.MaxMcastQPs = l.MaxAH, l.MaxXRCD, l.MaxMcast, l.MaxMcastQP
	}
	return a
}
