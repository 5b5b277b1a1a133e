package netlink

import (
	"encoding/binary"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// kernelFamily is the number of a generic netlink family of the kernel's, and whether
// there is one of that name. The library's GenlFamilyGet reads two octets past the end
// of its structure, which the race detector calls a race.
func kernelFamily(name string) (id uint16, ok bool) {
	q := nl.NewNetlinkRequest(unix.GENL_ID_CTRL, 0)
	q.AddRawData([]byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0})
	var a Attributes
	a.String(unix.CTRL_ATTR_FAMILY_NAME, name)
	q.AddRawData(a)
	answers, err := q.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil || len(answers) != 1 || len(answers[0]) < unix.GENL_HDRLEN {
		return 0, false
	}
	attrs, err := ParseAttributes(answers[0][unix.GENL_HDRLEN:])
	if b := attrs[unix.CTRL_ATTR_FAMILY_ID]; err == nil && len(b) >= 2 {
		return binary.NativeEndian.Uint16(b), true
	}
	return 0, false
}

// RegisterFamily is Register for commands of a generic netlink family of the kernel's,
// by its name; other commands of the family are the kernel's. A kernel without the
// family has no such sockets to serve.
func (p *Proxy) RegisterFamily(name string, s Service, commands ...uint8) {
	if id, ok := kernelFamily(name); ok {
		p.registerFamily(id, s, commands)
	}
}

func (p *Proxy) registerFamily(id uint16, s Service, commands []uint8) {
	p.Register(unix.NETLINK_GENERIC, func(q *Request) ([]Message, error) {
		if len(q.Body) < unix.GENL_HDRLEN || !slices.Contains(commands, q.Body[0]) {
			return q.Kernel()
		}
		return s(q)
	}, id)
}

// ownFamily is the number of a family that the kernel does not have: none of its own is
// above 1023 (GENL_MAX_ID).
const ownFamily = 0x7000

// AddFamily is RegisterFamily of one family that a kernel may lack: programs find it then,
// with these commands alone (EOPNOTSUPP).
func (p *Proxy) AddFamily(name string, version uint32, s Service, commands ...uint8) {
	if id, ok := kernelFamily(name); ok {
		p.registerFamily(id, s, commands)
		return
	}
	p.Register(unix.NETLINK_GENERIC, func(q *Request) ([]Message, error) {
		if q.Kernel = func() ([]Message, error) { return nil, unix.EOPNOTSUPP }; q.Dump() {
			q.Kernel = func() ([]Message, error) { return nil, nil }
		}
		if len(q.Body) < unix.GENL_HDRLEN || !slices.Contains(commands, q.Body[0]) {
			return nil, unix.EOPNOTSUPP
		}
		return s(q)
	}, ownFamily)
	p.Register(unix.NETLINK_GENERIC, func(q *Request) ([]Message, error) {
		asked := ""
		if len(q.Body) >= unix.GENL_HDRLEN && q.Body[0] == unix.CTRL_CMD_GETFAMILY {
			attrs, _ := ParseAttributes(q.Body[unix.GENL_HDRLEN:]) // the kernel refuses a wrong one
			asked = unix.ByteSliceToString(attrs[unix.CTRL_ATTR_FAMILY_NAME])
		}
		if asked != name && !q.Dump() {
			return q.Kernel()
		}
		var a Attributes
		a.String(unix.CTRL_ATTR_FAMILY_NAME, name)
		a.Uint16(unix.CTRL_ATTR_FAMILY_ID, ownFamily)
		a.Uint32(unix.CTRL_ATTR_VERSION, version)
		a.Uint32(unix.CTRL_ATTR_HDRSIZE, 0)
		a.Uint32(unix.CTRL_ATTR_MAXATTR, attrType)
		found := Message{Type: unix.GENL_ID_CTRL, Body: append([]byte{unix.CTRL_CMD_NEWFAMILY, 2, 0, 0}, a...)}
		if !q.Dump() {
			return []Message{found}, nil
		}
		list, err := q.Kernel()
		return append(list, found), err
	}, unix.GENL_ID_CTRL)
}
