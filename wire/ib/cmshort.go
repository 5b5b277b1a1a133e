package ib

import (
	"encoding/binary"
	"fmt"
)

// Messages that a REJ or MRA can answer.
const (
	AboutREQ   uint8 = 0
	AboutREP   uint8 = 1
	AboutOther uint8 = 2 // LAP in an MRA
)

// IDs is a message that has nothing but the two communication ids and private
// data: RTU and DREP (sections 12.6.9 and 12.6.11).
type IDs struct {
	LocalID, RemoteID uint32
	Private           []byte // up to RTUPrivate octets
}

// Put writes m over data, which has CMDataLen octets.
func (m *IDs) Put(data []byte) {
	putIDs(data, m.LocalID, m.RemoteID)
	copy(data[CMDataLen-RTUPrivate:], m.Private)
}

func putIDs(data []byte, local, remote uint32) {
	clear(data)
	binary.BigEndian.PutUint32(data, local)
	binary.BigEndian.PutUint32(data[4:], remote)
}

// ParseIDs reads the communication ids, which all messages but the SIDR ones
// begin with; a REQ has no remote one. Private data is that of RTU and DREP,
// borrowed.
func ParseIDs(data []byte) IDs {
	_ = data[CMDataLen-1]
	return IDs{binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:]), data[CMDataLen-RTUPrivate:]}
}

// RejectReason says why a REJ was sent (section 12.6.7.2).
type RejectReason uint16

// Reasons.
const (
	RejectNoQP             RejectReason = 1
	RejectNoEEC            RejectReason = 2
	RejectNoResources      RejectReason = 3
	RejectTimeout          RejectReason = 4
	RejectUnsupported      RejectReason = 5
	RejectInvalidCommID    RejectReason = 6
	RejectInvalidInstance  RejectReason = 7
	RejectInvalidServiceID RejectReason = 8
	RejectInvalidTransport RejectReason = 9
	RejectStale            RejectReason = 10
	RejectNoRDC            RejectReason = 11
	RejectPrimaryGID       RejectReason = 12
	RejectInvalidMTU       RejectReason = 26
	RejectNoResponder      RejectReason = 27
	RejectConsumer         RejectReason = 28
	RejectRNRRetry         RejectReason = 29
	RejectDuplicateCommID  RejectReason = 30
	RejectClassVersion     RejectReason = 31
	numRejects                          = 34
)

var rejectNames = [numRejects]string{
	1: "no QP available", "no EEC available", "no resources available", "timeout", "unsupported request",
	"invalid communication ID", "invalid communication instance", "invalid service ID",
	"invalid transport service type",
	"stale connection", "RDC does not exist", "primary remote port GID rejected", "primary remote port LID rejected",
	"invalid primary SL", "invalid primary traffic class", "invalid primary hop limit", "invalid primary packet rate",
	"alternate remote port GID rejected", "alternate remote port LID rejected", "invalid alternate SL",
	"invalid alternate traffic class", "invalid alternate hop limit", "invalid alternate packet rate",
	"port and CM redirection", "port redirection", "invalid path MTU", "insufficient responder resources",
	"consumer reject", "RNR retry count reject", "duplicate local communication ID", "unsupported class version",
	"invalid primary flow label", "invalid alternate flow label",
}

func (r RejectReason) String() string {
	if r < numRejects && rejectNames[r] != "" {
		return rejectNames[r]
	}
	return fmt.Sprintf("reject reason %d", uint16(r))
}

// REJ refuses (section 12.6.7).
type REJ struct {
	LocalID, RemoteID uint32
	About             uint8 // 2 bits
	Reason            RejectReason
	Info              []byte // additional reject information, up to 72 octets
	Private           []byte // up to REJPrivate octets
}

// Put writes m over data, which has CMDataLen octets.
func (m *REJ) Put(data []byte) {
	putIDs(data, m.LocalID, m.RemoteID)
	data[8] = m.About << 6
	data[9] = byte(len(m.Info)) << 1
	binary.BigEndian.PutUint16(data[10:], uint16(m.Reason))
	copy(data[12:84], m.Info)
	copy(data[CMDataLen-REJPrivate:], m.Private)
}

// ParseREJ reads a REJ. Info and private data, always REJPrivate octets, are
// borrowed.
func ParseREJ(data []byte) REJ {
	ids := ParseIDs(data)
	return REJ{ids.LocalID, ids.RemoteID, data[8] >> 6, RejectReason(binary.BigEndian.Uint16(data[10:])),
		data[12 : 12+min(72, data[9]>>1)], data[CMDataLen-REJPrivate:]}
}

// MRA asks for time (section 12.6.6).
type MRA struct {
	LocalID, RemoteID uint32
	About             uint8 // 2 bits
	Timeout           uint8 // service timeout, 5 bits, see Timeout
	Private           []byte
}

// Put writes m over data, which has CMDataLen octets.
func (m *MRA) Put(data []byte) {
	putIDs(data, m.LocalID, m.RemoteID)
	data[8], data[9] = m.About<<6, m.Timeout<<3
	copy(data[CMDataLen-MRAPrivate:], m.Private)
}

// ParseMRA reads an MRA. Private data is borrowed.
func ParseMRA(data []byte) MRA {
	ids := ParseIDs(data)
	return MRA{ids.LocalID, ids.RemoteID, data[8] >> 6, data[9] >> 3, data[CMDataLen-MRAPrivate:]}
}

// DREQ ends a connection (section 12.6.10).
type DREQ struct {
	LocalID, RemoteID uint32
	RemoteQPN         uint32 // 24 bits
	Private           []byte // up to DREQPrivate octets
}

// Put writes m over data, which has CMDataLen octets.
func (m *DREQ) Put(data []byte) {
	putIDs(data, m.LocalID, m.RemoteID)
	put24(data[8:], m.RemoteQPN)
	copy(data[CMDataLen-DREQPrivate:], m.Private)
}

// ParseDREQ reads a DREQ. Private data is borrowed.
func ParseDREQ(data []byte) DREQ {
	ids := ParseIDs(data)
	return DREQ{ids.LocalID, ids.RemoteID, get24(data[8:]), data[CMDataLen-DREQPrivate:]}
}

// LAP proposes an alternate path (section 12.8.1).
type LAP struct {
	LocalID, RemoteID uint32
	RemoteQPN         uint32 // 24 bits
	RemoteTimeout     uint8  // 5 bits
	Alternate         Path
	Private           []byte // up to LAPPrivate octets
}

// Put writes m over data, which has CMDataLen octets.
func (m *LAP) Put(data []byte) {
	putIDs(data, m.LocalID, m.RemoteID)
	put24(data[12:], m.RemoteQPN)
	data[15] = m.RemoteTimeout << 3
	a := &m.Alternate
	binary.BigEndian.PutUint16(data[20:], a.LocalLID)
	binary.BigEndian.PutUint16(data[22:], a.RemoteLID)
	copy(data[24:], a.LocalGID[:])
	copy(data[40:], a.RemoteGID[:])
	binary.BigEndian.PutUint32(data[56:], a.FlowLabel<<12|uint32(a.TrafficClass))
	data[60], data[61] = a.HopLimit, a.Rate&63
	data[62], data[63] = a.SL<<4|bit(a.SubnetLocal, 3), a.AckTimeout<<3
	copy(data[CMDataLen-LAPPrivate:], m.Private)
}

// ParseLAP reads a LAP. Private data is borrowed.
func ParseLAP(data []byte) LAP {
	ids := ParseIDs(data)
	be := binary.BigEndian
	a := Path{
		LocalLID: be.Uint16(data[20:]), RemoteLID: be.Uint16(data[22:]),
		LocalGID: [GIDLen]byte(data[24:]), RemoteGID: [GIDLen]byte(data[40:]),
		FlowLabel: be.Uint32(data[56:]) >> 12, TrafficClass: data[59], HopLimit: data[60], Rate: data[61] & 63,
		SL: data[62] >> 4, SubnetLocal: data[62]&8 != 0, AckTimeout: data[63] >> 3,
	}
	return LAP{ids.LocalID, ids.RemoteID, get24(data[12:]), data[15] >> 3, a, data[CMDataLen-LAPPrivate:]}
}

// Status codes of an APR (section 12.8.2.3).
const (
	APRAccepted    uint8 = 0
	APRUnsupported uint8 = 1 // failover port rejected for another reason
	APRReject      uint8 = 2
)

// APR answers a LAP (section 12.8.2).
type APR struct {
	LocalID, RemoteID uint32
	Status            uint8
	Info              []byte // up to 72 octets
	Private           []byte // up to APRPrivate octets
}

// Put writes m over data, which has CMDataLen octets.
func (m *APR) Put(data []byte) {
	putIDs(data, m.LocalID, m.RemoteID)
	data[8], data[9] = byte(len(m.Info)), m.Status
	copy(data[12:84], m.Info)
	copy(data[CMDataLen-APRPrivate:], m.Private)
}

// ParseAPR reads an APR. Info and private data are borrowed.
func ParseAPR(data []byte) APR {
	ids := ParseIDs(data)
	return APR{ids.LocalID, ids.RemoteID, data[9], data[12 : 12+min(72, data[8])], data[CMDataLen-APRPrivate:]}
}
