package link

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tapir/wire/ether"
)

// PassPause takes the frames of the MAC control sublayer that come in by a link, which
// a bridge drops, past the bridge to another link. A kernel without the traffic control
// that this needs (sch_ingress, cls_u32, act_mirred) lets none pass.
func (n *Net) PassPause(name, to string) error {
	return n.with("pass PAUSE frames of", name, func(l netlink.Link) error {
		far, err := n.h.LinkByName(to)
		if err != nil {
			return err
		}
		index, root := l.Attrs().Index, netlink.MakeHandle(0xffff, 0)
		err = n.h.QdiscAdd(&netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: root,
			Parent: netlink.HANDLE_INGRESS}})
		if err == nil {
			err = n.h.FilterAdd(&netlink.U32{RedirIndex: far.Attrs().Index, FilterAttrs: netlink.FilterAttrs{
				LinkIndex: index, Parent: root, Priority: 1, Protocol: ether.TypeMACControl}})
		}
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		return err
	})
}
