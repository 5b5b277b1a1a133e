// Package fip reads and writes frames of the FCoE initialization protocol (FC-BB-6
// clause 7.9). All fields are big-endian.
package fip

import (
	"encoding/binary"
	"errors"
	"iter"

	"tapir/wire/ether"
	"tapir/wire/fc"
)

// EtherType is that of FIP.
const EtherType uint16 = 0x8914

// Group addresses.
var (
	AllFCoE   = ether.Addr{0x01, 0x10, 0x18, 0x01, 0x00, 0x00}
	AllENodes = ether.Addr{0x01, 0x10, 0x18, 0x01, 0x00, 0x01}
	AllFCFs   = ether.Addr{0x01, 0x10, 0x18, 0x01, 0x00, 0x02}
	AllVN2VN  = ether.Addr{0x01, 0x10, 0x18, 0x01, 0x00, 0x04}
)

// Map is the upper half of the MAC address of a VN_Port; its FC_ID is the lower one.
type Map uint32

// Maps: that of fabrics, unless they are told otherwise, and that of VN2VN.
const (
	DefaultMap Map = 0x0efc00
	VN2VNMap   Map = 0x0efd00
)

// MAC is the address of a VN_Port with this identifier.
func (m Map) MAC(id fc.ID) ether.Addr {
	return ether.Addr{byte(m >> 16), byte(m >> 8), byte(m), byte(id >> 16), byte(id >> 8), byte(id)}
}

// Op is operation (16 bits, above) and subcode (8 bits, below) of a frame.
type Op uint32

// Operations (FC-BB-6 table 40).
const (
	Solicitation  Op = 1<<8 | 1
	Advertisement Op = 1<<8 | 2
	Request       Op = 2<<8 | 1 // FLOGI, FDISC, LOGO
	Reply         Op = 2<<8 | 2
	KeepAlive     Op = 3<<8 | 1
	ClearLinks    Op = 3<<8 | 2
	VLANRequest   Op = 4<<8 | 1
	VLANNotify    Op = 4<<8 | 2
	ProbeRequest  Op = 5<<8 | 1
	ProbeReply    Op = 5<<8 | 2
	ClaimNotify   Op = 5<<8 | 3
	ClaimReply    Op = 5<<8 | 4
	Beacon        Op = 5<<8 | 5
)

// Flags of a frame.
const (
	FPMA      = 0x8000 // addresses that the fabric gives
	SPMA      = 0x4000 // addresses that the node has of its own
	Recorded  = 0x0008 // VN2VN: the identifier is one that was in use before
	Available = 0x0004 // advertisement: logins are accepted
	Solicited = 0x0002 // advertisement: answer to a solicitation
	FromFCF   = 0x0001 // F: an FCF has sent it
)

// Kind is the type of a descriptor.
type Kind uint8

// Descriptors (FC-BB-6 table 43).
const (
	Priority   Kind = 1
	MAC        Kind = 2
	FCMap      Kind = 3
	Name       Kind = 4
	Fabric     Kind = 5
	MaxSize    Kind = 6
	FLOGI      Kind = 7
	FDISC      Kind = 8
	LOGO       Kind = 9
	ELP        Kind = 10
	VNPort     Kind = 11
	Period     Kind = 12
	Vendor     Kind = 13
	VLAN       Kind = 14
	Features   Kind = 15
	optionalAt Kind = 128
)

// HeaderLen is the length of the header in octets.
const HeaderLen = 10

// Errors of Parse.
var (
	ErrShort      = errors.New("fip: frame is too short")
	ErrVersion    = errors.New("fip: version is not 1")
	ErrDescriptor = errors.New("fip: length of a descriptor is wrong")
	ErrCritical   = errors.New("fip: unknown descriptor that must be understood")
	ErrMissing    = errors.New("fip: descriptor is missing")
)

// Message is a FIP frame without its Ethernet header: for each kind of descriptor that
// may be there once, its value.
type Message struct {
	Op    Op
	Flags uint16
	has   uint32

	Priority uint8      // lowest is best
	MAC      ether.Addr // of an ENode or FCF; in logins that of the VN_Port
	Map      Map        // of MAC addresses
	Name     fc.WWN     // of a node or switch
	Fabric   fc.WWN     // of the fabric
	FabricID uint16     // virtual fabric
	MaxSize  uint16     // of an FCoE frame without its Ethernet header, in octets
	Period   uint32     // of keep-alives, in milliseconds
	Quiet    bool       // D: no keep-alives are wanted
	Types    fc.Types   // FC-4 types
	FCP      uint8      // features of FCP: fc.TargetFeature, fc.InitiatorFeature
	Login    Kind       // FLOGI, FDISC, LOGO or ELP
	Frame    []byte     // header and payload of that frame of Fibre Channel; it borrows
	Port     Port       // the first VN_Port
	rest     []byte     // the descriptors
}

// Port is a VN_Port.
type Port struct {
	MAC  ether.Addr
	ID   fc.ID
	Name fc.WWN
}

// Has tells that all these descriptors are there.
func (m *Message) Has(kinds ...Kind) bool {
	for _, k := range kinds {
		if k >= 32 || m.has>>k&1 == 0 {
			return false
		}
	}
	return true
}

// Set notes that these descriptors are to be sent.
func (m *Message) Set(kinds ...Kind) {
	for _, k := range kinds {
		m.has |= 1 << k
	}
}

// lengths of descriptors in words, with type and length; 0 is any.
var lengths = [16]uint8{Priority: 1, MAC: 2, FCMap: 2, Name: 3, Fabric: 4, MaxSize: 1, VNPort: 5, Period: 2, VLAN: 1,
	Features: 41}

// Parse reads an Ethernet payload; octets behind the descriptors are padding. Errors:
// ErrShort, ErrVersion, ErrDescriptor, ErrCritical, and ErrMissing if a descriptor that
// the operation needs is not there.
func Parse(b []byte) (m Message, err error) {
	if len(b) < HeaderLen {
		return m, ErrShort
	}
	if b[0]>>4 != 1 {
		return m, ErrVersion
	}
	be := binary.BigEndian
	m.Op, m.Flags = Op(be.Uint16(b[2:]))<<8|Op(b[5]), be.Uint16(b[8:])
	n := int(be.Uint16(b[6:])) * 4
	if n > len(b)-HeaderLen {
		return m, ErrShort
	}
	m.rest = b[HeaderLen : HeaderLen+n]
	for at := 0; at < n; {
		d := m.rest[at:]
		size := int(d[1]) * 4
		if size == 0 || size > len(d) {
			return m, ErrDescriptor
		}
		if err := m.take(Kind(d[0]), d[:size]); err != nil {
			return m, err
		}
		at += size
	}
	if !m.complete() {
		return m, ErrMissing
	}
	return m, nil
}

// take reads one descriptor.
func (m *Message) take(k Kind, d []byte) error {
	if k >= optionalAt {
		return nil
	}
	if k == 0 || int(k) >= len(lengths) {
		return ErrCritical
	}
	if want := int(lengths[k]) * 4; want != 0 && want != len(d) {
		return ErrDescriptor
	}
	be := binary.BigEndian
	first := !m.Has(k)
	m.Set(k)
	switch k {
	case Priority:
		m.Priority = d[3]
	case MAC:
		copy(m.MAC[:], d[2:])
	case FCMap:
		m.Map = getMap(d[5:])
	case Name:
		m.Name = fc.WWN(be.Uint64(d[4:]))
	case Fabric:
		m.FabricID, m.Map, m.Fabric = be.Uint16(d[2:]), getMap(d[5:]), fc.WWN(be.Uint64(d[8:]))
	case MaxSize:
		m.MaxSize = be.Uint16(d[2:])
	case FLOGI, FDISC, LOGO, ELP:
		if len(d) < 4+fc.HeaderLen {
			return ErrDescriptor
		}
		m.Login, m.Frame = k, d[4:]
	case VNPort:
		if first {
			m.Port = getPort(d)
		}
	case Period:
		m.Quiet, m.Period = d[3]&1 != 0, be.Uint32(d[4:])
	case Features:
		copy(m.Types[:], d[4:])
		m.FCP = d[4+len(m.Types)+7] & 0xf
	}
	return nil
}

func getMap(b []byte) Map { return Map(b[0])<<16 | Map(b[1])<<8 | Map(b[2]) }

func getPort(d []byte) Port {
	return Port{MAC: ether.Addr(d[2:8]), ID: fc.ID(binary.BigEndian.Uint32(d[8:]) & 0xffffff),
		Name: fc.WWN(binary.BigEndian.Uint64(d[12:]))}
}

// complete tells that all is there that the operation must have (FC-BB-6 table 42).
func (m *Message) complete() bool {
	switch m.Op {
	case Solicitation:
		return m.Has(MAC, Name, MaxSize)
	case Advertisement:
		return m.Has(Priority, MAC, Name, Fabric, Period)
	case Request, Reply:
		return m.Login != 0
	case KeepAlive:
		return m.Has(MAC)
	case ClearLinks:
		return m.Has(MAC, Name)
	case VLANRequest, VLANNotify:
		return m.Has(MAC)
	case ProbeRequest, ProbeReply, Beacon:
		return m.Has(MAC, Name, VNPort)
	case ClaimNotify, ClaimReply:
		return m.Has(MAC, Name, VNPort, Features, MaxSize)
	}
	return true
}

// each are the descriptors of a kind.
func (m *Message) each(k Kind) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for d := m.rest; len(d) > 0; d = d[int(d[1])*4:] {
			if Kind(d[0]) == k && !yield(d[:int(d[1])*4]) {
				return
			}
		}
	}
}

// Ports are all VN_Ports of a message that was read.
func (m *Message) Ports() iter.Seq[Port] {
	return func(yield func(Port) bool) {
		for d := range m.each(VNPort) {
			if !yield(getPort(d)) {
				return
			}
		}
	}
}

// VLANs are the VLANs of a message that was read.
func (m *Message) VLANs() iter.Seq[uint16] {
	return func(yield func(uint16) bool) {
		for d := range m.each(VLAN) {
			if !yield(binary.BigEndian.Uint16(d[2:]) & 0xfff) {
				return
			}
		}
	}
}
