package ib

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// SIDRREQ asks for the queue pair of a service (section 12.11.1).
type SIDRREQ struct {
	RequestID uint32
	PKey      uint16
	ServiceID uint64
	Private   []byte // up to SIDRREQPrivate octets
}

// Put writes m over data, which has CMDataLen octets.
func (m *SIDRREQ) Put(data []byte) {
	clear(data)
	binary.BigEndian.PutUint32(data, m.RequestID)
	binary.BigEndian.PutUint16(data[4:], m.PKey)
	binary.BigEndian.PutUint64(data[8:], m.ServiceID)
	copy(data[CMDataLen-SIDRREQPrivate:], m.Private)
}

// ParseSIDRREQ reads a SIDR_REQ. Private data, always SIDRREQPrivate octets,
// is borrowed.
func ParseSIDRREQ(data []byte) SIDRREQ {
	be := binary.BigEndian
	_ = data[CMDataLen-1]
	return SIDRREQ{be.Uint32(data), be.Uint16(data[4:]), be.Uint64(data[8:]), data[CMDataLen-SIDRREQPrivate:]}
}

// Status codes of a SIDR_REP (section 12.11.2.3).
const (
	SIDROK          uint8 = 0
	SIDRUnsupported uint8 = 1 // service ID
	SIDRReject      uint8 = 2
	SIDRNoQP        uint8 = 3
	SIDRRedirect    uint8 = 4
	SIDRVersion     uint8 = 5
)

// SIDRREP answers (section 12.11.2).
type SIDRREP struct {
	RequestID uint32
	Status    uint8
	QPN       uint32 // 24 bits
	ServiceID uint64
	QKey      uint32
	Info      []byte // up to 72 octets
	Private   []byte // up to SIDRREPPrivate octets
}

// Put writes m over data, which has CMDataLen octets.
func (m *SIDRREP) Put(data []byte) {
	clear(data)
	binary.BigEndian.PutUint32(data, m.RequestID)
	data[4], data[5] = m.Status, byte(len(m.Info))
	put24(data[8:], m.QPN)
	binary.BigEndian.PutUint64(data[12:], m.ServiceID)
	binary.BigEndian.PutUint32(data[20:], m.QKey)
	copy(data[24:96], m.Info)
	copy(data[CMDataLen-SIDRREPPrivate:], m.Private)
}

// ParseSIDRREP reads a SIDR_REP. Info and private data, always SIDRREPPrivate
// octets, are borrowed.
func ParseSIDRREP(data []byte) SIDRREP {
	be := binary.BigEndian
	_ = data[CMDataLen-1]
	return SIDRREP{be.Uint32(data), data[4], get24(data[8:]), be.Uint64(data[12:]), be.Uint32(data[20:]),
		data[24 : 24+min(72, data[5])], data[CMDataLen-SIDRREPPrivate:]}
}

// PortSpace is a port space of rdma_cm.
type PortSpace uint16

// Port spaces. The low octet is part of the service id.
const (
	PortSpaceIPoIB PortSpace = 0x0002
	PortSpaceTCP   PortSpace = 0x0106
	PortSpaceUDP   PortSpace = 0x0111
	PortSpaceIB    PortSpace = 0x013f
)

// ServiceID is the service id of a port in a port space: 0x0000000001 before
// the space's low octet and the port (annex A11).
func (s PortSpace) ServiceID(port uint16) uint64 {
	return 1<<24 | uint64(s&0xff)<<16 | uint64(port)
}

// ServicePort is the inverse of ServiceID; ok is false for a service id
// outside the range of IP.
func ServicePort(id uint64) (space PortSpace, port uint16, ok bool) {
	for _, s := range [...]PortSpace{PortSpaceTCP, PortSpaceUDP, PortSpaceIB, PortSpaceIPoIB} {
		if id>>16 == s.ServiceID(0)>>16 {
			return s, uint16(id), true
		}
	}
	return 0, 0, false
}

// CMALen is the length in octets of a CMA header; what is left of the private
// data of a REQ and a SIDR_REQ is the user's.
const (
	CMALen      = 36
	REQUser     = REQPrivate - CMALen
	SIDRREQUser = SIDRREQPrivate - CMALen
)

// ErrCMA says that private data does not begin with a CMA header.
var ErrCMA = errors.New("ib: private data without the address header of IP services")

// CMA is the header in front of the private data of a REQ or SIDR_REQ for an
// IP service (annex A11.4).
type CMA struct {
	Src netip.AddrPort
	Dst netip.Addr // of the same family
}

// Put writes h to the front of b, which has CMALen octets. An IPv4 address is
// in the last 4 octets of its field.
func (h *CMA) Put(b []byte) {
	clear(b[:CMALen])
	src, dst := h.Src.Addr().Unmap(), h.Dst.Unmap()
	binary.BigEndian.PutUint16(b[2:], h.Src.Port())
	if src.Is4() {
		b[1] = 4 << 4
		s, d := src.As4(), dst.As4()
		copy(b[16:], s[:])
		copy(b[32:], d[:])
		return
	}
	b[1] = 6 << 4
	s, d := src.As16(), dst.As16()
	copy(b[4:], s[:])
	copy(b[20:], d[:])
}

// ParseCMA reads the header at the front of b.
func ParseCMA(b []byte) (h CMA, err error) {
	if len(b) < CMALen || b[0] != 0 {
		return h, ErrCMA
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch b[1] >> 4 {
	case 4:
		h.Src, h.Dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:])), port), netip.AddrFrom4([4]byte(b[32:]))
	case 6:
		h.Src, h.Dst = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[4:])), port), netip.AddrFrom16([16]byte(b[20:]))
	default:
		return h, ErrCMA
	}
	return h, nil
}
