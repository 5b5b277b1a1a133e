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
	family, err := netlink.GenlFamilyGet(name)
	if err != nil {
		return
	}
	p.Register(unix.NETLINK_GENERIC, func(q *Request) ([]Message, error) {
		if len(q.Body) < unix.GENL_HDRLEN || !slices.Contains(commands, q.Body[0]) {
			return q.Kernel()
		}
		return s(q)
	}, family.ID)
}
