package ib

import "encoding/binary"

// Communication management (chapter 12). Offsets are from octet 24 of the MAD.
const (
	ClassCM    uint8  = 0x07
	CMVersion  uint8  = 2 // class version
	MethodSend uint8  = 0x03
	CMDataLen         = MADLen - HeaderLen
	GIDLen            = 16
	LIDRoCE    uint16 = 0xffff // both LIDs of a path on RoCE
)

// Attributes of communication management.
const (
	AttrREQ     uint16 = 0x10
	AttrMRA     uint16 = 0x11
	AttrREJ     uint16 = 0x12
	AttrREP     uint16 = 0x13
	AttrRTU     uint16 = 0x14
	AttrDREQ    uint16 = 0x15
	AttrDREP    uint16 = 0x16
	AttrSIDRREQ uint16 = 0x17
	AttrSIDRREP uint16 = 0x18
	AttrLAP     uint16 = 0x19
	AttrAPR     uint16 = 0x1a
)

// Room for private data in each message.
const (
	REQPrivate     = 92
	REPPrivate     = 196
	RTUPrivate     = 224
	REJPrivate     = 148
	MRAPrivate     = 222
	DREQPrivate    = 220
	DREPPrivate    = 224
	SIDRREQPrivate = 216
	SIDRREPPrivate = 136
	LAPPrivate     = 168
	APRPrivate     = 148
)

// CMName names an attribute of communication management; "" if there is none.
func CMName(attr uint16) string {
	names := [...]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"}
	if attr < AttrREQ || attr > AttrAPR {
		return ""
	}
	return names[attr-AttrREQ]
}

// ParseMAD reads the header of any datagram and returns the octets behind it,
// borrowed. MKey is left 0.
func ParseMAD(mad []byte) (h Header, data []byte, err error) {
	if len(mad) != MADLen {
		return h, nil, ErrTruncated
	}
	h, _, _ = Parse(mad)
	h.MKey = 0
	return h, mad[HeaderLen:], nil
}

// AppendMAD appends a datagram whose octets behind the header are 0 and
// returns them as data, for the Put of a message.
func (h *Header) AppendMAD(dst []byte) (mad, data []byte) {
	at := len(dst)
	mad = h.Append(dst, nil)
	data = mad[at+HeaderLen:]
	clear(data[:8])
	return mad, data
}

// Path is one path of a REQ (section 12.6.5).
type Path struct {
	LocalLID, RemoteLID uint16
	LocalGID, RemoteGID [GIDLen]byte
	FlowLabel           uint32 // 20 bits
	Rate                uint8  // 6 bits, codes of section 15.2.5.16
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // 4 bits
	SubnetLocal         bool
	AckTimeout          uint8 // 5 bits, see Timeout
}

const pathLen = 44

func (p *Path) put(b []byte) {
	be := binary.BigEndian
	be.PutUint16(b, p.LocalLID)
	be.PutUint16(b[2:], p.RemoteLID)
	copy(b[4:], p.LocalGID[:])
	copy(b[20:], p.RemoteGID[:])
	be.PutUint32(b[36:], p.FlowLabel<<12|uint32(p.Rate&63))
	b[40], b[41] = p.TrafficClass, p.HopLimit
	b[42] = p.SL<<4 | bit(p.SubnetLocal, 3)
	b[43] = p.AckTimeout << 3
}

func parsePath(b []byte) Path {
	be := binary.BigEndian
	v := be.Uint32(b[36:])
	return Path{
		LocalLID: be.Uint16(b), RemoteLID: be.Uint16(b[2:]),
		LocalGID: [GIDLen]byte(b[4:]), RemoteGID: [GIDLen]byte(b[20:]),
		FlowLabel: v >> 12, Rate: uint8(v & 63), TrafficClass: b[40], HopLimit: b[41],
		SL: b[42] >> 4, SubnetLocal: b[42]&8 != 0, AckTimeout: b[43] >> 3,
	}
}

// Transport service types of a REQ. The extended type says which of them.
const (
	ServiceRC       uint8 = 0
	ServiceUC       uint8 = 1
	ServiceRD       uint8 = 2
	ServiceExtended uint8 = 3
	ExtendedXRC     uint8 = 1
)

// REQ asks for a connection (section 12.6.5).
type REQ struct {
	LocalID       uint32
	ServiceID     uint64
	CAGUID        uint64
	QKey          uint32
	QPN           uint32 // 24 bits
	Responder     uint8  // responder resources
	LocalEECN     uint32
	Initiator     uint8 // initiator depth
	RemoteEECN    uint32
	RemoteTimeout uint8 // CM response timeout, 5 bits, see Timeout
	Service       uint8 // 2 bits
	FlowControl   bool
	PSN           uint32 // 24 bits: with which the receiver of the message is to begin
	LocalTimeout  uint8  // 5 bits
	Retry         uint8  // 3 bits
	PKey          uint16
	MTU           uint8 // code 1 to 5: 256 to 4096
	RDC           bool
	RNRRetry      uint8 // 3 bits
	MaxCMRetries  uint8 // 4 bits
	SRQ           bool
	Extended      uint8 // 3 bits
	Primary       Path
	Alternate     Path
	Private       []byte // up to REQPrivate octets
}

const offAlternate = 52 + pathLen

// Put writes m over data, which has CMDataLen octets.
func (m *REQ) Put(data []byte) {
	clear(data)
	be := binary.BigEndian
	be.PutUint32(data, m.LocalID)
	be.PutUint64(data[8:], m.ServiceID)
	be.PutUint64(data[16:], m.CAGUID)
	be.PutUint32(data[28:], m.QKey)
	be.PutUint32(data[32:], m.QPN<<8|uint32(m.Responder))
	be.PutUint32(data[36:], m.LocalEECN<<8|uint32(m.Initiator))
	put24(data[40:], m.RemoteEECN)
	data[43] = m.RemoteTimeout<<3 | m.Service&3<<1 | bit(m.FlowControl, 0)
	be.PutUint32(data[44:], m.PSN<<8|uint32(m.LocalTimeout&31)<<3|uint32(m.Retry&7))
	be.PutUint16(data[48:], m.PKey)
	data[50] = m.MTU<<4 | bit(m.RDC, 3) | m.RNRRetry&7
	data[51] = m.MaxCMRetries<<4 | bit(m.SRQ, 3) | m.Extended&7
	m.Primary.put(data[52:])
	m.Alternate.put(data[offAlternate:])
	copy(data[CMDataLen-REQPrivate:], m.Private)
}

// ParseREQ reads a REQ. Private data, always REQPrivate octets, is borrowed.
func ParseREQ(data []byte) REQ {
	be := binary.BigEndian
	_ = data[CMDataLen-1]
	return REQ{
		LocalID: be.Uint32(data), ServiceID: be.Uint64(data[8:]), CAGUID: be.Uint64(data[16:]),
		QKey: be.Uint32(data[28:]),
		QPN:  get24(data[32:]), Responder: data[35], LocalEECN: get24(data[36:]), Initiator: data[39],
		RemoteEECN: get24(data[40:]), RemoteTimeout: data[43] >> 3, Service: data[43] >> 1 & 3,
		FlowControl: data[43]&1 != 0,
		PSN:         get24(data[44:]), LocalTimeout: data[47] >> 3, Retry: data[47] & 7, PKey: be.Uint16(data[48:]),
		MTU: data[50] >> 4, RDC: data[50]&8 != 0, RNRRetry: data[50] & 7,
		MaxCMRetries: data[51] >> 4, SRQ: data[51]&8 != 0, Extended: data[51] & 7,
		Primary: parsePath(data[52:]), Alternate: parsePath(data[offAlternate:]),
		Private: data[CMDataLen-REQPrivate:],
	}
}

// REP accepts (section 12.6.8).
type REP struct {
	LocalID, RemoteID uint32
	QKey              uint32
	QPN               uint32 // 24 bits
	EECN              uint32 // 24 bits
	PSN               uint32 // 24 bits: with which the receiver of the message is to begin
	Responder         uint8
	Initiator         uint8
	AckDelay          uint8 // target ACK delay, 5 bits, see Timeout
	Failover          uint8 // 2 bits
	FlowControl       bool
	RNRRetry          uint8 // 3 bits
	SRQ               bool
	CAGUID            uint64
	Private           []byte // up to REPPrivate octets
}

// Put writes m over data, which has CMDataLen octets.
func (m *REP) Put(data []byte) {
	clear(data)
	be := binary.BigEndian
	be.PutUint32(data, m.LocalID)
	be.PutUint32(data[4:], m.RemoteID)
	be.PutUint32(data[8:], m.QKey)
	put24(data[12:], m.QPN)
	put24(data[16:], m.EECN)
	put24(data[20:], m.PSN)
	data[24], data[25] = m.Responder, m.Initiator
	data[26] = m.AckDelay<<3 | m.Failover&3<<1 | bit(m.FlowControl, 0)
	data[27] = m.RNRRetry<<5 | bit(m.SRQ, 4)
	be.PutUint64(data[28:], m.CAGUID)
	copy(data[CMDataLen-REPPrivate:], m.Private)
}

// ParseREP reads a REP. Private data, always REPPrivate octets, is borrowed.
func ParseREP(data []byte) REP {
	be := binary.BigEndian
	_ = data[CMDataLen-1]
	return REP{
		LocalID: be.Uint32(data), RemoteID: be.Uint32(data[4:]), QKey: be.Uint32(data[8:]),
		QPN: get24(data[12:]), EECN: get24(data[16:]), PSN: get24(data[20:]), Responder: data[24], Initiator: data[25],
		AckDelay: data[26] >> 3, Failover: data[26] >> 1 & 3, FlowControl: data[26]&1 != 0,
		RNRRetry: data[27] >> 5, SRQ: data[27]&16 != 0, CAGUID: be.Uint64(data[28:]),
		Private: data[CMDataLen-REPPrivate:],
	}
}
