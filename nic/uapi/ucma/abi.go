package ucma

import (
	"encoding/binary"

	"tapir/nic/uapi/abi"
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
	MulticastJoin   EventType = 12
	MulticastError  EventType = 13
	TimewaitExit    EventType = 15
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
	eventLen      = 336
	eventLenOld   = 324 // before Extended Connection Establishment
	qpAttrLen     = 144
	routeLenOld   = 200 // before ibdev_index
	addrLenOld    = 272
	noDeviceIndex = 1<<32 - 1
)

var order = binary.LittleEndian

// The attributes of a queue pair that INIT_QP_ATTR sets: bits of its mask.
const (
	attrState   = 1 << 0
	attrAccess  = 1 << 3
	attrPKey    = 1 << 4
	attrPort    = 1 << 5
	attrQKey    = 1 << 6
	attrTimeout = 1 << 9
)

// portNum is the number of the one port that a NIC has.
const portNum = 1

// answerRoute answers QUERY_ROUTE. An RNIC has no path records; the first one only
// carries the GIDs.
func (r *route) answerRoute() *abi.CMRoute {
	a := &abi.CMRoute{Src: r.src.encode(), Dst: r.dst.encode()}
	if r.attached {
		a.NodeGUID, a.DGID, a.SGID, a.Port, a.DeviceIndex = r.guid, r.dgid, r.sgid, portNum, noDeviceIndex
		a.Paths = r.paths
	}
	return a
}

// answerAddr answers QUERY for addresses, or for GIDs: addresses of family AF_IB.
func (r *route) answerAddr(gids bool) *abi.CMAddr {
	a := &abi.CMAddr{SrcSize: sockaddrIBLen, DstSize: sockaddrIBLen}
	if r.attached {
		a.NodeGUID, a.Port, a.DeviceIndex = r.guid, portNum, noDeviceIndex
	}
	if gids {
		putSockaddrIB(a.Src[:], r.sgid, r.service, r.src.port)
		putSockaddrIB(a.Dst[:], r.dgid, r.service, r.dst.port)
		return a
	}
	a.SrcSize, a.DstSize = uint16(r.src.len()), uint16(r.dst.len())
	src, dst := r.src.encode(), r.dst.encode()
	copy(a.Src[:], src[:])
	copy(a.Dst[:], dst[:])
	return a
}

// route is what a program may ask of an id.
type route struct {
	attached   bool // the NIC is known
	guid       verbs.GUID
	sgid, dgid verbs.GID
	src, dst   sockaddr
	service    uint16 // port space
	paths      uint32
}
