package mad

import (
	"cmp"
	"encoding/binary"

	"tapir/opa"
	"tapir/wire/ether"
)

// Lengths of the agent's MADs. Responses are always MaxLen long.
const (
	VEMAHeaderLen = 40 // header, zero RMPP header, reserved octet, OUI
	VEMADataLen   = MaxLen - VEMAHeaderLen
	TrapLen       = 272
)

// Attributes of the agent. The low octet of the modifier is the number of the
// virtual port, for all but AttrClassPortInfo and AttrNotice.
const (
	AttrClassPortInfo   uint16 = 0x0001 // Get, Set
	AttrNotice          uint16 = 0x0002 // Trap
	AttrVESWPortInfo    uint16 = 0x0011 // Get, Set
	AttrMACEntries      uint16 = 0x0012 // Get, Set
	AttrUnicastMACs     uint16 = 0x0013 // Get
	AttrMulticastMACs   uint16 = 0x0014 // Get
	AttrDeleteVESW      uint16 = 0x0015 // Set
	AttrSummaryCounters uint16 = 0x0020 // Get
	AttrErrorCounters   uint16 = 0x0022 // Get
)

// OUI is the vendor that the agent's class belongs to.
var OUI = [3]byte{0x00, 0x06, 0x6a}

const offOUI = 37

// ParseVEMA reads the header of a MAD to or from the agent; data is the
// attribute, borrowed.
func ParseVEMA(b []byte) (h Header, data []byte, err error) {
	h, err = Parse(b)
	switch {
	case err != nil:
		return h, nil, err
	case h.Class != ClassVEMA:
		return h, nil, ErrClass
	case len(b) < VEMAHeaderLen:
		return h, nil, ErrTruncated
	case [3]byte(b[offOUI:]) != OUI:
		return h, nil, ErrOUI
	}
	return h, b[VEMAHeaderLen:], nil
}

// PutVEMA writes the VEMAHeaderLen octets in front of an attribute: a MAD of
// this class with the method, transaction, attribute and modifier given.
func PutVEMA(b []byte, m Method, tid uint64, attr uint16, modifier uint32) {
	h := Header{BaseVersion: BaseVersion, Class: ClassVEMA, ClassVersion: BaseVersion, Method: m, TID: tid, Attr: attr,
		Modifier: modifier}
	h.Put(b)
	clear(b[HeaderLen:offOUI])
	copy(b[offOUI:], OUI[:])
}

// ClassPortInfo is what the agent can do and where its traps go.
type ClassPortInfo struct {
	BaseVersion, ClassVersion uint8
	// CapMask has bit 0 set if the agent sends traps; its high octet is the
	// number of virtual ports that the port can have.
	CapMask  uint16
	CapMask2 uint32 // 27 bits
	RespTime uint8  // 5 bits: 4.096 us * 2^RespTime

	TrapLID opa.LID // 0: no traps
	TrapSL  uint8   // 5 bits

	// raw has every other octet, which is stored and echoed.
	raw [ClassPortInfoLen]byte
}

// ClassPortInfoLen is the attribute's length.
const ClassPortInfoLen = 80

const (
	offTrapLID = 60
	offTrapSL  = 76
)

// ParseClassPortInfo reads the attribute.
func ParseClassPortInfo(data []byte) (c ClassPortInfo) {
	copy(c.raw[:], data)
	be, b := binary.BigEndian, c.raw[:]
	c.BaseVersion, c.ClassVersion, c.CapMask = b[0], b[1], be.Uint16(b[2:])
	c.CapMask2, c.RespTime = be.Uint32(b[4:])>>5, b[7]&31
	c.TrapLID, c.TrapSL = opa.LID(be.Uint32(b[offTrapLID:])), b[offTrapSL]>>3
	return c
}

// Put writes the attribute.
func (c *ClassPortInfo) Put(b []byte) {
	copy(b, c.raw[:])
	encode(b, c.BaseVersion, c.ClassVersion, c.CapMask, c.CapMask2<<5|uint32(c.RespTime&31))
	encode(b[offTrapLID:], c.TrapLID)
	b[offTrapSL] = c.TrapSL<<3 | b[offTrapSL]&7
}

// State is what a virtual port does with frames.
type State uint8

const (
	DropAll    State = 1
	Forwarding State = 3
)

func (s State) String() string {
	return cmp.Or(map[State]string{DropAll: "drop all", Forwarding: "forwarding"}[s], "unknown")
}

// Values of VESWPortInfo.EthLinkStatus.
const (
	EthLinkUp   uint8 = 1
	EthLinkDown uint8 = 2
)

// Limits of a virtual port.
const (
	MaxDefaultPorts = 16
	MaxMACEntries   = 2048
	MaxSourceMACs   = 256
	PowerOnMTU      = 1500
)

// VESWPortInfo is the state of one virtual port: first what it shares with
// the ports of its virtual Ethernet switch (vESW), then its own part. The
// agent ignores read-only fields of a Set.
type VESWPortInfo struct {
	Fabric       uint16 // 10 bits
	VESW         uint16 // 12 bits; 0: none
	DefPortMask  uint16 // the entries of UcastDLID that are in use
	PKey         uint16
	McastDLID    opa.LID                  // for multicast frames that the MAC table does not have
	UcastDLID    [MaxDefaultPorts]opa.LID // for unicast frames to globally administered addresses likewise
	RC           opa.RCWord
	EthMTU       uint16
	PortNum      uint32 // number of the port in its vESW
	LinkStatus   uint8  // read-only: EthLinkUp, EthLinkDown
	BaseMAC      ether.Addr
	ConfigState  State
	OperState    State   // read-only
	MaxMACs      uint16  // read-only
	MaxSourceMAC uint16  // read-only
	Digest       uint32  // read-only: of the MAC table, the Ethernet Manager's choice; 0: fresh
	EncapSLID    opa.LID // source of the port's packets
	QoS          opa.QoS
	UcastGen     uint16 // read-only: counts changes of the unicast MAC list
	McastGen     uint16 // read-only: of the multicast MAC list

	// Rsvd has the reserved octets in the order of their offsets, as they
	// were set.
	Rsvd [6 + 2 + 4 + 56 + 2 + 3 + 4 + 48 + 8]byte
}

// VESWPortInfoLen is the attribute's length.
const VESWPortInfoLen = 280

// PowerOn returns the state of a virtual port that was never set.
func PowerOn() VESWPortInfo {
	return VESWPortInfo{EthMTU: PowerOnMTU, ConfigState: DropAll, OperState: DropAll, MaxMACs: MaxMACEntries,
		MaxSourceMAC: MaxSourceMACs}
}

// layout are all fields in their order, reserved ones between them.
func (p *VESWPortInfo) layout() []any {
	u, m, r := &p.QoS.Unicast, &p.QoS.Multicast, p.Rsvd[:]
	return []any{
		&p.Fabric, &p.VESW, r[:6], &p.DefPortMask, r[6:8], &p.PKey, r[8:12], &p.McastDLID, &p.UcastDLID, &p.RC,
		r[12:68], &p.EthMTU, r[68:70], &p.PortNum, &p.LinkStatus, r[70:73], &p.BaseMAC, &p.ConfigState, &p.OperState,
		&p.MaxMACs, &p.MaxSourceMAC, &p.Digest, r[73:77], &p.EncapSLID, &u.SC, &u.VL, &m.SC, &m.VL,
		&u.UntaggedSC, &u.UntaggedVL, &m.UntaggedSC, &m.UntaggedVL, r[77:125], &p.UcastGen, &p.McastGen, r[125:],
	}
}

// ParseVESWPortInfo reads the attribute.
func ParseVESWPortInfo(data []byte) (p VESWPortInfo) {
	var buf [VESWPortInfoLen]byte
	read(extend(data, buf[:]), p.layout()...)
	return p
}

// Put writes the attribute.
func (p *VESWPortInfo) Put(b []byte) { encode(b, p.layout()...) }
