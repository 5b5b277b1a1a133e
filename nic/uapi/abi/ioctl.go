package abi

import "encoding/binary"

// VerbsIoctl is RDMA_VERBS_IOCTL of rdma/rdma_user_ioctl_cmds.h: a request that
// carries its arguments as attributes.
const VerbsIoctl = 0xc0181b01

// Sizes of an ioctl's header and of an attribute behind it, and the most of both
// together, in octets.
const (
	IoctlHeaderLen = 24
	AttrLen        = 16
	MaxIoctl       = 4096
)

// IoctlHeader is struct ib_uverbs_ioctl_hdr.
type IoctlHeader struct {
	Length, Object, Method, Attrs uint16
	Reserved1                     uint64
	Driver, Reserved2             uint32
}

// Attr is struct ib_uverbs_attr.
type Attr struct {
	ID, Len, Flags uint16
	Elem, Reserved uint8
	Data           uint64 // octets if they are 8 or fewer, their address, or a handle
}

// Flags of an attribute.
const (
	AttrMandatory   = 1 << 0
	AttrValidOutput = 1 << 1
)

// IoctlLen is how many octets the request has that begins with b, as its header
// says; 0 if b is too short or these are more than MaxIoctl.
func IoctlLen(b []byte) int {
	if len(b) < IoctlHeaderLen {
		return 0
	}
	n := int(binary.NativeEndian.Uint16(b))
	if n > MaxIoctl {
		return 0
	}
	return n
}
