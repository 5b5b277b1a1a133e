package mad

import (
	"cmp"
	"encoding/binary"
	"strings"

	"tapir/opa"
)

// Subnet management on a fabric whose switches have no LID.
//
// A real fabric manager reaches a port that has no LID by a directed route:
// the list of switch ports to leave by. Here all ports share one Ethernet, so
// a directed route says which of them, or which switch, is meant, in the same
// fields: a packet to the permissive LID that has made no hop is for everybody
// who hears it, and one of eight hops is for the one whose GUID the hops spell,
// most significant octet first, as if each octet were the port number of a switch.
// The other fields are those of any directed route over no LID-routed part.
// Ports with a LID can also be reached LID routed.

// Lengths of subnet management packets (SMPs).
const (
	SMPHeaderLen      = 32  // LID routed: header and management key
	DirectedHeaderLen = 176 // directed route: also the paths
	maxHops           = 64
	guidHops          = 8
)

const (
	offSpecific = 6 // hop pointer and hop count
	offMKey     = 24
	offDR       = 32 // directed route: source and destination LID
	offPath     = 40 // initial path; entry 0 is not used
)

// Attributes of subnet management.
const (
	AttrNodeDescription uint16 = 0x0010 // Get
	AttrNodeInfo        uint16 = 0x0011 // Get
	AttrPortInfo        uint16 = 0x0015 // Get, Set; modifier OnePort
	AttrPKeyTable       uint16 = 0x0016 // Get, Set; modifier PKeyBlock
	AttrSMInfo          uint16 = 0x0020 // Get
)

// OnePort is the modifier for the only port of an HFI: one port, number 1.
const OnePort uint32 = 1<<24 | 1

// PKeyBlock is the modifier for one block of the only port's P_Key table.
func PKeyBlock(block int) uint32 { return 1<<24 | 1<<16 | uint32(block) }

// SMP is the header of a subnet management packet.
type SMP struct {
	Header
	MKey uint64
	// Of a directed route: GUID is the port meant, 0 every port that hears
	// it.
	GUID uint64
}

// Directed reports whether the packet takes a directed route.
func (s *SMP) Directed() bool { return s.Class == ClassSubnDirected }

// Len is the length of the headers.
func (s *SMP) Len() int {
	if s.Directed() {
		return DirectedHeaderLen
	}
	return SMPHeaderLen
}

// ParseSMP reads the header of a subnet management packet; data is the
// attribute, borrowed.
func ParseSMP(b []byte) (s SMP, data []byte, err error) {
	s.Header, err = Parse(b)
	switch {
	case err != nil:
		return s, nil, err
	case s.Class != ClassSubnLID && !s.Directed():
		return s, nil, ErrClass
	case len(b) < s.Len():
		return s, nil, ErrTruncated
	}
	s.MKey = binary.BigEndian.Uint64(b[offMKey:])
	if s.Directed() {
		switch s.Specific & 0xff {
		case 0:
		case guidHops:
			s.GUID = binary.BigEndian.Uint64(b[offPath+1:])
		default:
			return s, nil, ErrRoute
		}
	}
	return s, b[s.Len():], nil
}

// Put writes the headers into the first Len octets of b; hop pointer and hop
// count follow from method and GUID.
func (s *SMP) Put(b []byte) {
	h := s.Header
	h.Specific = 0
	be := binary.BigEndian
	if s.Directed() {
		clear(b[offDR:DirectedHeaderLen])
		encode(b[offDR:], uint32(permissive), uint32(permissive))
		if s.GUID != 0 {
			h.Specific = guidHops
			be.PutUint64(b[offPath+1:], s.GUID)
		}
		if s.Method == MethodGetResp {
			h.Status |= StatusDirection
		}
	}
	h.Put(b)
	be.PutUint64(b[offMKey:], s.MKey)
}

// EndHere takes the route out of an answer, as if it had made no hop: a program asks
// its own port so.
func EndHere(b []byte) {
	if len(b) >= DirectedHeaderLen && b[1] == ClassSubnDirected {
		binary.BigEndian.PutUint16(b[offSpecific:], 0)
		clear(b[offPath : offPath+maxHops])
	}
}

// permissive is the permissive LID in the 32-bit form of these attributes.
const permissive = 0xffffffff

// Node types: of a host fabric interface and of a switch.
const (
	NodeHFI    uint8 = 1
	NodeSwitch uint8 = 2
)

// NodeInfo says what a node is.
type NodeInfo struct {
	Type         uint8
	Ports        uint8
	SystemGUID   uint64
	NodeGUID     uint64
	PortGUID     uint64
	PartitionCap uint16 // entries of the P_Key table
	DeviceID     uint16
	Revision     uint32
	LocalPort    uint8
	VendorID     uint32 // 24 bits
}

// NodeInfoLen is the attribute's length.
const NodeInfoLen = 44

// nodeInfoLayout is the attribute as it crosses the fabric.
type nodeInfoLayout struct {
	BaseVersion, ClassVersion      uint8
	Type, Ports                    uint8
	_                              [4]byte
	SystemGUID, NodeGUID, PortGUID uint64
	PartitionCap, DeviceID         uint16
	Revision                       uint32
	PortVendor                     uint32 // local port above the vendor
}

// ParseNodeInfo reads the attribute.
func ParseNodeInfo(data []byte) NodeInfo {
	l := decode[nodeInfoLayout](data)
	return NodeInfo{l.Type, l.Ports, l.SystemGUID, l.NodeGUID, l.PortGUID, l.PartitionCap, l.DeviceID, l.Revision,
		uint8(l.PortVendor >> 24), l.PortVendor & 0xffffff}
}

// Put writes the attribute.
func (n *NodeInfo) Put(b []byte) {
	encode(b, &nodeInfoLayout{BaseVersion, BaseVersion, n.Type, n.Ports, [4]byte{}, n.SystemGUID, n.NodeGUID,
		n.PortGUID, n.PartitionCap, n.DeviceID, n.Revision, uint32(n.LocalPort)<<24 | n.VendorID&0xffffff})
}

// NodeDescriptionLen is the length of the attribute: text, ended by a zero.
const NodeDescriptionLen = 64

// ParseNodeDescription reads the attribute.
func ParseNodeDescription(data []byte) string {
	text, _, _ := strings.Cut(string(data[:min(len(data), NodeDescriptionLen)]), "\x00")
	return text
}

// PutNodeDescription writes the attribute, cut to what fits.
func PutNodeDescription(b []byte, text string) {
	clear(b[:NodeDescriptionLen])
	copy(b[:NodeDescriptionLen-1], text)
}

// PortState is the logical state of an HFI port.
type PortState uint8

const (
	PortDown   PortState = 1
	PortInit   PortState = 2 // up, not yet configured
	PortArmed  PortState = 3
	PortActive PortState = 4
)

func (s PortState) String() string {
	return cmp.Or(map[PortState]string{PortDown: "down", PortInit: "init", PortArmed: "armed", PortActive: "active"}[s],
		"unknown")
}

// CapEthOnFabric in PortInfo.CapMask3 tells that virtual NICs can be set up
// through the port.
const CapEthOnFabric uint16 = 1 << 13

// PhysLinkUp is the value of PortInfo.PhysState of a port that has a link.
const PhysLinkUp uint8 = 5

// PortInfo is the state of an HFI port, of which the fields without use on
// this fabric are zero.
type PortInfo struct {
	LID       opa.LID   // 0: none yet; in a Set: no change
	State     PortState // 0 in a Set: no change
	PhysState uint8     // likewise
	SMSL      uint8     // 5 bits
	SMLID     opa.LID   // the fabric manager in charge
	MTUCap    uint8     // as MTUCode
	CapMask3  uint16
	LocalPort uint8
	Speed     uint16 // of a lane: supported, enabled and active
	Width     uint16 // likewise
	Prefix    uint64 // of the subnet
	// Reregister in a Set has clients of the port register with the fabric manager again.
	Reregister bool
}

// Speed25G and Width4X are those of a link of 100 Gbit/s.
const (
	Speed25G uint16 = 2
	Width4X  uint16 = 8
)

// PortInfoLen is the attribute's length.
const PortInfoLen = 242

// portInfoLayout is the attribute as it crosses the fabric.
type portInfoLayout struct {
	LID        opa.LID
	_          [15]byte
	States     uint8 // physical above logical
	_          [3]byte
	SMSL       uint8
	_          [23]byte
	Reregister uint8     // the highest bit, above the time-out of the subnet
	Speed      [3]uint16 // supported, enabled, active
	Width      [3]uint16 // likewise
	Downgrade  [4]uint16 // width: supported, enabled, of transmitter and receiver
	_          [40]byte
	SMLID      opa.LID
	_          [8]byte
	Prefix     uint64
	_          [94]byte
	CapMask3   uint16
	_          [13]byte
	MTUCap     uint8
	_          byte
	LocalPort  uint8
	_          [2]byte
}

const reregister = 1 << 7

// ParsePortInfo reads the attribute.
func ParsePortInfo(data []byte) PortInfo {
	l := decode[portInfoLayout](data)
	return PortInfo{LID: l.LID, State: PortState(l.States & 15), PhysState: l.States >> 4, SMSL: l.SMSL & 31,
		SMLID: l.SMLID, CapMask3: l.CapMask3, MTUCap: l.MTUCap & 15, LocalPort: l.LocalPort, Speed: l.Speed[2],
		Width: l.Width[2], Prefix: l.Prefix, Reregister: l.Reregister&reregister != 0}
}

// Put writes the attribute.
func (p *PortInfo) Put(b []byte) {
	l := portInfoLayout{LID: p.LID, States: p.PhysState<<4 | uint8(p.State)&15, SMSL: p.SMSL & 31,
		SMLID: p.SMLID, CapMask3: p.CapMask3, MTUCap: p.MTUCap & 15, LocalPort: p.LocalPort, Prefix: p.Prefix,
		Speed: [3]uint16{p.Speed, p.Speed, p.Speed}, Width: [3]uint16{p.Width, p.Width, p.Width},
		Downgrade: [4]uint16{p.Width, p.Width, p.Width, p.Width}}
	if p.Reregister {
		l.Reregister = reregister
	}
	encode(b, &l)
}

// PKeysPerBlock is the number of P_Keys in one block of a table.
const PKeysPerBlock = 32

// PKeyBlockLen is the length of one block of the P_Key table.
const PKeyBlockLen = 2 * PKeysPerBlock

// ParsePKeys reads one block of the P_Key table; 0 is an empty entry.
func ParsePKeys(data []byte) [PKeysPerBlock]uint16 { return decode[[PKeysPerBlock]uint16](data) }

// PutPKeys writes one block.
func PutPKeys(b []byte, keys [PKeysPerBlock]uint16) { encode(b, keys) }

// SMState is what a fabric manager is doing.
type SMState uint8

const (
	SMDiscovering SMState = 1
	SMStandby     SMState = 2
	SMMaster      SMState = 3
)

func (s SMState) String() string {
	return cmp.Or(map[SMState]string{SMDiscovering: "discovering", SMStandby: "standby", SMMaster: "master"}[s],
		"unknown")
}

// SMInfo is how a fabric manager describes itself to others.
type SMInfo struct {
	PortGUID uint64
	Key      uint64
	ActCount uint32 // counts what the manager does: a sign of life
	Elapsed  uint32 // seconds in its present state
	Priority uint8  // 4 bits; the highest wins
	State    SMState
}

// SMInfoLen is the attribute's length.
const SMInfoLen = 26

// smInfoLayout is the attribute as it crosses the fabric.
type smInfoLayout struct {
	PortGUID, Key     uint64
	ActCount, Elapsed uint32
	Priorities        uint8 // initial and elevated
	State             uint8 // initial priority and state
}

// ParseSMInfo reads the attribute.
func ParseSMInfo(data []byte) SMInfo {
	l := decode[smInfoLayout](data)
	return SMInfo{l.PortGUID, l.Key, l.ActCount, l.Elapsed, l.Priorities >> 4, SMState(l.State & 15)}
}

// Put writes the attribute. Elevated and initial priority are the priority.
func (s *SMInfo) Put(b []byte) {
	encode(b, &smInfoLayout{s.PortGUID, s.Key, s.ActCount, s.Elapsed, s.Priority<<4 | s.Priority&15,
		s.Priority<<4 | uint8(s.State)&15})
}

// MTUCode is the code of the largest of Omni-Path's MTUs that is not above
// the given number of octets: 1 for 256 to 5 for 4096, 6 for 8192, 7 for
// 10240.
func MTUCode(octets int) uint8 {
	code := uint8(1)
	for code < 7 && MTU(code+1) <= octets {
		code++
	}
	return code
}

// MTU is the number of octets of a code.
func MTU(code uint8) int {
	if code == 7 {
		return 10240
	}
	return 128 << code
}
