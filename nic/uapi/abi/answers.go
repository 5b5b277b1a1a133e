package abi

import "unsafe"

// Answers of the commands of a uverbs file (rdma/ib_user_verbs.h), as they lie
// in memory: those of the extended form go on behind those of the plain one.

// Octets are the memory of a value without pointers.
func Octets[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// Get reads a value without pointers from the beginning of b; what b is too
// short for is zero.
func Get[T any](b []byte) (v T) {
	copy(Octets(&v), b)
	return v
}

// Context answers GET_CONTEXT.
type Context struct{ AsyncFD, CompVectors uint32 }

// DeviceAttr answers QUERY_DEVICE.
type DeviceAttr struct {
	Firmware                                                                        uint64
	NodeGUID, SystemImageGUID                                                       [8]byte
	MaxMRSize, PageSizes                                                            uint64
	VendorID, VendorPartID, HWVersion                                               uint32
	MaxQP, MaxQPWR, Caps, MaxSGE, MaxSGERead                                        uint32
	MaxCQ, MaxCQE, MaxMR, MaxPD                                                     uint32
	MaxIRD, _, MaxDeviceIRD, MaxORD, _, Atomics                                     uint32
	_, MaxRDD, MaxMW, _, _, MaxMcastGroups, MaxMcastQPs, MaxMcastTotal, MaxAH, _, _ uint32
	MaxSRQ, MaxSRQWR, MaxSRQSGE                                                     uint32
	MaxPKeys                                                                        uint16
	AckDelay, Ports                                                                 uint8
	_                                                                               [4]byte
}

// DeviceAttrEx answers the extended QUERY_DEVICE.
type DeviceAttrEx struct {
	DeviceAttr
	CompMask, ResponseLength uint32
	_                        [40]byte // on-demand paging, time stamps
	Caps                     uint64
	_                        [72]byte // receive side scaling, work queues, tag matching
}

// PortAttr answers QUERY_PORT.
type PortAttr struct {
	Caps, MaxMsg, BadPKeys, BadQKeys, GIDTable        uint32
	PKeyTable, LID, SMLID                             uint16
	State, MaxMTU, MTU, LMC, VirtualLanes, SMSL, _, _ uint8
	Width, Speed, Phys, LinkLayer, _, _               uint8
}

// QPCaps are the sizes that CREATE_QP asks for and its answer grants.
type QPCaps struct{ SendWR, RecvWR, SendSGE, RecvSGE, Inline uint32 }

// CreateQP answers CREATE_QP.
type CreateQP struct {
	Handle, Number           uint32
	Caps                     QPCaps
	_                        uint32
	CompMask, ResponseLength uint32 // extended
}

// QPAttr answers QUERY_QP.
type QPAttr struct {
	Dest                                           [32]byte // the path
	_                                              [32]byte // another one
	Caps                                           QPCaps
	QKey, RQPSN, SQPSN, DestQPN, Access            uint32
	PKeyIndex, _                                   uint16
	State, CurState, PathMTU, _, _                 uint8
	MaxRead, MaxDest, MinRNR                       uint8
	Port, Timeout, Retries, RNRRetry, _, _, SigAll uint8
	_                                              [5]byte
}

// CreateCQ answers CREATE_CQ.
type CreateCQ struct {
	Handle, Entries          uint32
	CompMask, ResponseLength uint32 // extended
}

// CreateSRQ answers CREATE_SRQ.
type CreateSRQ struct{ Handle, MaxWR, MaxSGE, Number uint32 }

// SRQAttr answers QUERY_SRQ.
type SRQAttr struct{ MaxWR, MaxSGE, Limit, _ uint32 }

// Place is where a ring lies in the NIC's file (struct mminfo of
// rdma/rdma_user_rxe.h).
type Place struct {
	Offset  uint64
	Size, _ uint32
}

// SendWR is a request in POST_SEND.
type SendWR struct {
	ID                  uint64
	SGEs, Opcode, Flags uint32
	Imm                 [4]byte // immediate data, or the STag to invalidate
	RemoteAddr          uint64
	CompareAdd          uint64 // of others than atomics: the STag of the remote memory
	Swap                uint64
	AtomicRKey, _       uint32
}

// RecvWR is a request in POST_RECV.
type RecvWR struct {
	ID      uint64
	SGEs, _ uint32
}

// SGE is an element of a request.
type SGE struct {
	Addr         uint64
	Length, LKey uint32
}
