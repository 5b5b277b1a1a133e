package netlink

import (
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// RegisterFamily is Register for commands of a generic netlink family of the kernel's,
// by its name; other commands of the family are the kernel's. A kernel without the
// family has no such sockets to serve.
func (p *Proxy) RegisterFamily(name string, s Service, commands ...uint8) {
	if family, err := netlink.GenlFamilyGet(name); err == nil {
		p.registerFamily(family.ID, s, commands)
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
	if family, err := netlink.GenlFamilyGet(name); err == nil {
		p.registerFamily(family.ID, s, commands)
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
