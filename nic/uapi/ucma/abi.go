package ucma

import (
	"encoding/binary"

	"tapir/nic/verbs"
)

// The commands.
const (
	cmdCreateID = iota
	cmdDestroyID
	cmdBindIP
	cmdResolveIP
	cmdResolveRoute
	cmdQueryRoute
	cmdConnect
	cmdListen
	cmdAccept
	cmdReject
	cmdDisconnect
	cmdInitQPAttr
	cmdGetEvent
	cmdGetOption
	cmdSetOption
	cmdNotify
	cmdJoinIPMulticast
	cmdLeaveMulticast
	cmdMigrateID
	cmdQuery
	cmdBind
	cmdResolveAddr
	cmdJoinMulticast
	numCommands
)

// EventType is a number of rdma_cm_event_type.
type EventType uint32

// The events that a NIC of this kind has.
const (
	AddrResolved    EventType = 0
	AddrError       EventType = 1
	RouteResolved   EventType = 2
	ConnectRequest  EventType = 4
	ConnectResponse EventType = 5
	ConnectError    EventType = 6
	Unreachable     EventType = 7
	Rejected        EventType = 8
	Established     EventType = 9
	Disconnected    EventType = 10
	DeviceRemoval   EventType = 11
)

// Port spaces. Those of TCP and InfiniBand stand for TCP ports here, the others
// are for datagrams.
const (
	portSpaceIPoIB = 0x0002
	portSpaceTCP   = 0x0106
	portSpaceUDP   = 0x0111
	portSpaceIB    = 0x013f
)

// Sizes in octets.
const (
	headerLen     = 8 // command u32, length of what follows u16, room for the answer u16
	connParamLen  = 272
	maxPrivate    = 255 // as the length is an octet
	eventLen      = 336
	eventLenOld   = 324 // before Extended Connection Establishment
	qpAttrLen     = 144
	routeLen      = 208
	routeLenOld   = 200 // before ibdev_index
	addrLen       = 280
	addrLenOld    = 272
	noDeviceIndex = 1<<32 - 1
)

var order = binary.LittleEndian

// connParam is what CONNECT and ACCEPT say of this side, and events of both.
type connParam struct {
	qpNum   uint32
	private []byte
	srq     uint8
	ird     uint8 // responder_resources
	ord     uint8 // initiator_depth
	valid   bool
}

func parseConnParam(b []byte) connParam {
	n := b[264]
	return connParam{
		qpNum: order.Uint32(b) & 0xffffff, private: b[8 : 8+int(n)], srq: b[265], ird: b[266], ord: b[267],
		valid: b[271] != 0,
	}
}

// put writes the parameters of an event.
func (p *connParam) put(b []byte) {
	order.PutUint32(b, p.qpNum)
	b[264] = uint8(copy(b[8:8+maxPrivate], p.private))
	b[265], b[266], b[267] = p.srq, p.ird, p.ord
}

// putEvent writes an event but for its parameters.
func putEvent(b []byte, uid uint64, num uint32, typ EventType, status int32) {
	order.PutUint64(b, uid)
	order.PutUint32(b[8:], num)
	order.PutUint32(b[12:], uint32(typ))
	order.PutUint32(b[16:], uint32(status))
}

// The attributes of a queue pair that INIT_QP_ATTR sets: bits of its mask.
const (
	attrState   = 1 << 0
	attrAccess  = 1 << 3
	attrTimeout = 1 << 9
)

// putQPAttr writes an ib_uverbs_qp_attr.
func putQPAttr(b []byte, mask uint32, state verbs.State, access verbs.Access, timeout uint8) {
	order.PutUint32(b, mask)
	order.PutUint32(b[4:], uint32(state))
	order.PutUint32(b[36:], uint32(access))
	b[133], b[134] = portNum, timeout
}

// portNum is the number of the one port that a NIC has.
const portNum = 1

// putRoute writes the answer to QUERY_ROUTE. An RNIC has no path records; the
// first one only carries the GIDs.
func putRoute(b []byte, r *route) {
	if r.attached {
		copy(b, r.guid[:])
		copy(b[8:], r.dgid[:])
		copy(b[24:], r.sgid[:])
		b[196] = portNum
		order.PutUint32(b[200:], noDeviceIndex)
	}
	r.src.put(b[136:164])
	r.dst.put(b[164:192])
}

// putAddr writes the answer to QUERY for addresses.
func putAddr(b []byte, r *route) {
	r.putDevice(b)
	order.PutUint16(b[12:], uint16(r.src.len()))
	order.PutUint16(b[14:], uint16(r.dst.len()))
	r.src.put(b[16:144])
	r.dst.put(b[144:272])
}

// putGID writes the answer to QUERY for GIDs: addresses of family AF_IB.
func putGID(b []byte, r *route) {
	r.putDevice(b)
	order.PutUint16(b[12:], sockaddrIBLen)
	order.PutUint16(b[14:], sockaddrIBLen)
	putSockaddrIB(b[16:144], r.sgid, r.service, r.src.port)
	putSockaddrIB(b[144:272], r.dgid, r.service, r.dst.port)
}

func (r *route) putDevice(b []byte) {
	if r.attached {
		copy(b, r.guid[:])
		b[8] = portNum
		order.PutUint32(b[272:], noDeviceIndex)
	}
}

// route is what a program may ask of an id.
type route struct {
	attached   bool // the NIC is known
	guid       verbs.GUID
	sgid, dgid verbs.GID
	src, dst   sockaddr
	service    uint16 // port space
}
