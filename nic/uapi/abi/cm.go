package abi

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// What travels in commands of a rdma_cm file (rdma/rdma_user_cm.h), as it lies
// in memory.

// ConnParam is what CONNECT and ACCEPT say of this side, and events of both.
type ConnParam struct {
	QPNum, _                              uint32
	Private                               [256]byte
	PrivateLen, SRQ, IRD, ORD             uint8
	FlowControl, Retries, RNRRetry, Valid uint8
}

// Data is the private data.
func (p *ConnParam) Data() []byte { return p.Private[:p.PrivateLen] }

// SetData copies private data of at most 255 octets, as its length is an octet.
func (p *ConnParam) SetData(b []byte) { p.PrivateLen = uint8(copy(p.Private[:255], b)) }

// CMEvent answers GET_EVENT.
type CMEvent struct {
	UID       uint64
	ID, Event uint32
	Status    int32
	Param     ConnParam
	_         [44]byte
}

// CMRoute answers QUERY_ROUTE.
type CMRoute struct {
	NodeGUID       [8]byte
	DGID, SGID     [16]byte // of the first path
	_              [96]byte
	Src, Dst       Sockaddr
	_              uint32
	Port, _, _, _  uint8
	DeviceIndex, _ uint32
}

// CMAddr answers QUERY for addresses and GIDs.
type CMAddr struct {
	NodeGUID         [8]byte
	Port, _, _, _    uint8
	SrcSize, DstSize uint16
	Src, Dst         [128]byte
	DeviceIndex, _   uint32
}

// CMQPAttr answers INIT_QP_ATTR.
type CMQPAttr struct {
	Mask, State   uint32
	_             [28]byte
	Access        uint32
	_             [93]byte
	Port, Timeout uint8
	_             [9]byte
}

// Sockaddr is a struct sockaddr_in6, which also has room for a sockaddr_in.
type Sockaddr [28]byte

// NewSockaddr encodes an address; that of no family stays zero.
func NewSockaddr(a netip.AddrPort) (s Sockaddr) {
	binary.BigEndian.PutUint16(s[2:], a.Port())
	switch ip := a.Addr().Unmap(); {
	case ip.Is4():
		binary.NativeEndian.PutUint16(s[:], syscall.AF_INET)
		copy(s[4:], ip.AsSlice())
	case ip.Is6():
		binary.NativeEndian.PutUint16(s[:], syscall.AF_INET6)
		copy(s[8:], ip.AsSlice())
	}
	return s
}

// Family is its address family.
func (s *Sockaddr) Family() uint16 { return binary.NativeEndian.Uint16(s[:]) }

// AddrPort is the address, if it is one of IPv4 or IPv6.
func (s *Sockaddr) AddrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(s[2:])
	switch s.Family() {
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(s[4:])), port)
	case syscall.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(s[8:])), port)
	}
	return netip.AddrPort{}
}
