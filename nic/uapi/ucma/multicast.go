package ucma

import (
	"slices"
	"syscall"

	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
)

// group is a multicast group that an id has joined. It has a number like an id.
type group struct {
	id       *id
	num      uint32
	uid      uint64
	reported uint32
}

// maxGroups bounds the groups of an id.
const maxGroups = 1 << 10

// joinIP is JOIN_IP_MCAST.
func (i *id) joinIP(c *command) error { return i.join(c, parseSockaddr(c.body[16:44])) }

// joinGroup is JOIN_MCAST.
func (i *id) joinGroup(c *command) error {
	if int(c.u16(20)) != familyLen(c.u16(24)) {
		return syscall.EINVAL
	}
	return i.join(c, parseSockaddr(c.body[24:]))
}

// queueKey is the Q_Key of the id's datagrams.
func (i *id) queueKey() uint32 { return ib.QKeyCM }

// join answers with the group's number; MULTICAST_JOIN follows, which tells the
// program the GID of the group: it attaches its queue pair to that, and with it the
// NIC joins the group on the link. Errors: ENOSYS (an RNIC), EINVAL (not of the
// UDP port space, no group, bound to no NIC), ENOMEM (too many).
func (i *id) join(c *command, at sockaddr) error {
	switch {
	case !i.dev.fabric():
		return syscall.ENOSYS
	case i.space != portSpaceUDP || !at.addr.IsMulticast() || i.state < bound || i.src.addr.Is4() != at.addr.Is4():
		return syscall.EINVAL
	case len(i.groups) >= maxGroups:
		return syscall.ENOMEM
	}
	home := i.file.home
	home.joined++
	g := &group{id: i, num: uint32(maxIDs + home.joined), uid: c.u64(8)}
	if err := c.answer(0, order.AppendUint32(nil, g.num)); err != nil {
		return err
	}
	i.groups = append(i.groups, g)
	p := abi.UDParam{QPNum: ib.QPMulticast, QKey: i.queueKey()}
	n, src := i.dev, verbs.GIDFromAddr(i.src.addr)
	return c.on(n, func(frame.Time) error {
		path := qpattr.Path{DGID: verbs.GIDFromAddr(at.addr), SGIDIndex: n.index(src), HopLimit: 1, TClass: i.tos}
		if n.Verbs.GIDEntry(int(path.SGIDIndex)).VLAN != 0 {
			path.SL = ip.Priority(i.tos)
		}
		p.AH = abi.AHOf(&path)
		return nil
	}, i.alive(func(error) error {
		ev := &event{id: i, group: g, resp: abi.CMEvent{UID: g.uid, ID: g.num, Event: uint32(MulticastJoin)}}
		ev.resp.SetUD(p)
		i.file.queue(ev)
		return nil
	}))
}

// index is the entry of a GID for RoCE v2, else any of it.
func (d *Device) index(gid verbs.GID) (at uint8) {
	for k, g := range d.Verbs.GIDs() {
		if g == gid {
			if at = uint8(k); d.Verbs.GIDType(k) == verbs.RoCEv2 {
				break
			}
		}
	}
	return at
}

// leaveGroup is LEAVE_MCAST: the answer is how many events of the group the program
// has fetched. ENOENT: no such group.
func (f *File) leaveGroup(c *command) error {
	num := c.u32(8)
	var found *group
	f.home.each(func(i *id) {
		for _, g := range i.groups {
			if g.num == num && i.file == f {
				found = g
			}
		}
	})
	if found == nil {
		return syscall.ENOENT
	}
	i := found.id
	i.groups = slices.DeleteFunc(i.groups, func(g *group) bool { return g == found })
	f.events = slices.DeleteFunc(f.events, func(ev *event) bool { return ev.group == found })
	f.tokens.set(len(f.events))
	return c.answerCount(found.reported)
}
