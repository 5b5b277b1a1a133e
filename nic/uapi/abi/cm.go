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
	QPNum, QKey                           uint32
	Private                               [256]byte
	PrivateLen, SRQ, IRD, ORD             uint8
	FlowControl, Retries, RNRRetry, Valid uint8
}

// NICMoves as Valid has the NIC move the queue pair of a connection of RoCE to RTR and
// RTS, which else is the program's; the kernel knows 0 and 1.
const NICMoves = 2

// Data is the private data.
func (p *ConnParam) Data() []byte { return p.Private[:p.PrivateLen] }

// SetData copies private data of at most 255 octets, as its length is an octet.
func (p *ConnParam) SetData(b []byte) { p.PrivateLen = uint8(copy(p.Private[:255], b)) }

// CMEvent answers GET_EVENT.
type CMEvent struct {
	UID       uint64
	ID, Event uint32
	Status    int32
	Param     [304]byte // a ConnParam or UDParam
	_         [12]byte
}

// Conn is the parameter of a connection's event.
func (e *CMEvent) Conn() ConnParam { return Get[ConnParam](e.Param[:]) }

// SetConn sets the parameter of a connection's event.
func (e *CMEvent) SetConn(p ConnParam) { copy(e.Param[:], Octets(&p)) }

// SetUD sets the parameter of a datagram's event.
func (e *CMEvent) SetUD(p UDParam) { copy(e.Param[:], Octets(&p)) }

// CMRoute answers QUERY_ROUTE.
type CMRoute struct {
	NodeGUID       [8]byte
	DGID, SGID     [16]byte // of the first path
	_              [96]byte
	Src, Dst       Sockaddr
	Paths          uint32
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

// UDParam is what events of datagrams say of the peer or the group, in the place
// of a ConnParam and longer than it.
type UDParam struct {
	QPNum, QKey uint32
	AH          [32]byte // struct ib_uverbs_ah_attr; see AHOf
	Private     [256]byte
	PrivateLen  uint8
	_           [7]byte
}

// SetData copies private data of at most 255 octets.
func (p *UDParam) SetData(b []byte) { p.PrivateLen = uint8(copy(p.Private[:255], b)) }

// CMQPAttr answers INIT_QP_ATTR: struct ib_uverbs_qp_attr.
type CMQPAttr struct {
	Mask, State, CurState, PathMTU uint32 // the MTU is a code
	_, QKey, RQPSN, SQPSN          uint32
	DestQPN, Access                uint32
	AH, _                          [32]byte // see AHOf
	_                              [5]uint32
	PKeyIndex, _                   uint16
	_, _                           uint8
	MaxRdAtomic, MaxDestRdAtomic   uint8
	MinRNRTimer, Port              uint8
	Timeout, Retry, RNRRetry       uint8
	_                              [7]byte
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
