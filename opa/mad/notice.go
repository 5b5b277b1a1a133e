package mad

import (
	"cmp"

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
	return cmp.Or(map[TrapOpcode]string{
		TrapUnicastMACs: "unicast MAC list changed", TrapMulticastMACs: "multicast MAC list changed",
		TrapLinkStatus: "link status changed",
	}[o], "unknown")
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

// noticeInfo is the generic type of informational notices.
const noticeInfo = 4 << 1

// noticeLayout is the attribute as it crosses the fabric.
type noticeLayout struct {
	Type      uint8
	OUI       [3]byte
	_         [4]byte
	IssuerLID opa.LID
	_         [20]byte
	Fabric    uint16
	VESW      uint16
	PortNum   uint32
	OPAPort   uint16
	VPort     uint8
	Opcode    TrapOpcode
	_         [52]byte
}

// ParseNotice reads the attribute.
func ParseNotice(data []byte) Notice {
	l := decode[noticeLayout](data)
	return Notice{l.IssuerLID, l.Fabric, l.VESW, l.PortNum, l.OPAPort, l.VPort, l.Opcode}
}

// Put writes the attribute.
func (n *Notice) Put(b []byte) {
	encode(b, &noticeLayout{Type: noticeInfo, OUI: OUI, IssuerLID: n.IssuerLID, Fabric: n.Fabric, VESW: n.VESW,
		PortNum: n.PortNum, OPAPort: n.OPAPort, VPort: n.VPort, Opcode: n.Opcode})
}
