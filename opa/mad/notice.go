package mad

import (
	"encoding/binary"

	"tapir/opa"
)

// TrapOpcode says what has changed at a virtual port.
type TrapOpcode uint8

const (
	TrapUnicastMACs   TrapOpcode = 1
	TrapMulticastMACs TrapOpcode = 2
	TrapLinkStatus    TrapOpcode = 3
)

func (o TrapOpcode) String() string {
	switch o {
	case TrapUnicastMACs:
		return "unicast MAC list changed"
	case TrapMulticastMACs:
		return "multicast MAC list changed"
	case TrapLinkStatus:
		return "link status changed"
	}
	return "unknown"
}

// Notice is a trap of the agent: the Notice attribute with the data of a
// virtual port.
type Notice struct {
	IssuerLID opa.LID
	Fabric    uint16
	VESW      uint16
	PortNum   uint32 // number of the port in its vESW
	OPAPort   uint16 // number of the HFI port
	VPort     uint8  // number of the virtual port on it
	Opcode    TrapOpcode
}

// NoticeLen is the attribute's length.
const NoticeLen = 96

const (
	noticeInfo = 4 << 1 // generic type: informational
	offTrap    = 32     // the trap's own data in the notice
)

// ParseNotice reads the attribute.
func ParseNotice(data []byte) Notice {
	var buf [NoticeLen]byte
	be, b := binary.BigEndian, extend(data, buf[:])
	t := b[offTrap:]
	return Notice{
		IssuerLID: opa.LID(be.Uint32(b[8:])), Fabric: be.Uint16(t), VESW: be.Uint16(t[2:]), PortNum: be.Uint32(t[4:]),
		OPAPort: be.Uint16(t[8:]), VPort: t[10], Opcode: TrapOpcode(t[11]),
	}
}

// Put writes the attribute.
func (n *Notice) Put(b []byte) {
	clear(b[:NoticeLen])
	b[0] = noticeInfo
	copy(b[1:], OUI[:])
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(n.IssuerLID))
	t := b[offTrap:]
	be.PutUint16(t, n.Fabric)
	be.PutUint16(t[2:], n.VESW)
	be.PutUint32(t[4:], n.PortNum)
	be.PutUint16(t[8:], n.OPAPort)
	t[10], t[11] = n.VPort, uint8(n.Opcode)
}
