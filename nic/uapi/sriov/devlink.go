package sriov

import (
	"net"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/netlink"
	"tapir/wire/ether"
)

// bus is that of the devices.
const bus = "pci"

// typeEthernet is DEVLINK_PORT_TYPE_ETH.
const typeEthernet = 2

func (s *server) registerDevlink(p *netlink.Proxy) {
	p.AddFamily(unix.DEVLINK_GENL_NAME, unix.DEVLINK_GENL_VERSION, s.devlink, unix.DEVLINK_CMD_GET,
		unix.DEVLINK_CMD_PORT_GET, unix.DEVLINK_CMD_PORT_SET)
}

// devlink serves DEVLINK_CMD_GET, PORT_GET and PORT_SET.
func (s *server) devlink(q *netlink.Request) (list []netlink.Message, err error) {
	attrs, err := netlink.ParseAttributes(q.Body[unix.GENL_HDRLEN:])
	if err != nil {
		return nil, err
	}
	if q.Dump() {
		if list, err = q.Kernel(); err != nil {
			return nil, err
		}
		for i := range s.pfs {
			list = append(list, s.pfs[i].devices(q)...)
		}
		return list, nil
	}
	name := unix.ByteSliceToString(attrs[unix.DEVLINK_ATTR_DEV_NAME])
	for i := range s.pfs {
		p := &s.pfs[i]
		if name != p.address(0) || unix.ByteSliceToString(attrs[unix.DEVLINK_ATTR_BUS_NAME]) != bus {
			continue
		}
		all := p.devices(q)
		if q.Body[0] == unix.DEVLINK_CMD_GET {
			return all, nil
		}
		at := attrs[unix.DEVLINK_ATTR_PORT_INDEX]
		if len(at) != 4 {
			return nil, unix.EINVAL
		}
		index := native.Uint32(at)
		switch {
		case uint64(index) >= uint64(len(all)):
			return nil, unix.ENODEV
		case q.Body[0] == unix.DEVLINK_CMD_PORT_GET:
			return all[index:][:1], nil
		case !q.Admin:
			return nil, unix.EPERM
		}
		return nil, p.setPort(int(index), attrs)
	}
	if list, err = q.Kernel(); err == unix.EOPNOTSUPP { // it has no devlink
		err = unix.ENODEV
	}
	return list, err
}

// devices are what a list has of a PF: the device, or its ports, the PF's first.
func (p *PF) devices(q *netlink.Request) (list []netlink.Message) {
	add := func(cmd uint8, fill func(a *netlink.Attributes)) {
		var a netlink.Attributes
		a.String(unix.DEVLINK_ATTR_BUS_NAME, bus)
		a.String(unix.DEVLINK_ATTR_DEV_NAME, p.address(0))
		fill(&a)
		list = append(list, netlink.Message{Type: q.Type,
			Body: append([]byte{cmd, unix.DEVLINK_GENL_VERSION, 0, 0}, a...)})
	}
	if q.Body[0] == unix.DEVLINK_CMD_GET {
		add(unix.DEVLINK_CMD_NEW, func(*netlink.Attributes) {})
		return list
	}
	vfs, err := p.VFs()
	if err != nil {
		return nil // the NIC is gone
	}
	for i := range 1 + len(vfs) {
		add(unix.DEVLINK_CMD_PORT_NEW, func(a *netlink.Attributes) {
			a.Uint32(unix.DEVLINK_ATTR_PORT_INDEX, uint32(i))
			a.Uint16(unix.DEVLINK_ATTR_PORT_TYPE, typeEthernet)
			if i == 0 {
				p.putPort(a)
			} else {
				p.putVFPort(a, &vfs[i-1])
			}
			a.Uint8(unix.DEVLINK_ATTR_PORT_SPLITTABLE, 0)
		})
	}
	return list
}

// putPort appends the physical port.
func (p *PF) putPort(a *netlink.Attributes) {
	if netdev, err := net.InterfaceByName(p.Netdev); err == nil {
		a.Uint32(unix.DEVLINK_ATTR_PORT_NETDEV_IFINDEX, uint32(netdev.Index))
		a.String(unix.DEVLINK_ATTR_PORT_NETDEV_NAME, p.Netdev)
	}
	a.Uint16(unix.DEVLINK_ATTR_PORT_FLAVOUR, unix.DEVLINK_PORT_FLAVOUR_PHYSICAL)
	a.Uint32(unix.DEVLINK_ATTR_PORT_NUMBER, 0)
}

// putVFPort appends the port of a VF.
func (p *PF) putVFPort(a *netlink.Attributes, v *VF) {
	a.Uint16(unix.DEVLINK_ATTR_PORT_FLAVOUR, unix.DEVLINK_PORT_FLAVOUR_PCI_VF)
	a.Uint32(unix.DEVLINK_ATTR_PORT_CONTROLLER_NUMBER, 0)
	a.Uint16(unix.DEVLINK_ATTR_PORT_PCI_PF_NUMBER, 0)
	a.Uint16(unix.DEVLINK_ATTR_PORT_PCI_VF_NUMBER, uint16(v.VF))
	a.Uint8(unix.DEVLINK_ATTR_PORT_EXTERNAL, 0)
	a.Nest(unix.NLA_F_NESTED|unix.DEVLINK_ATTR_PORT_FUNCTION, func(a *netlink.Attributes) {
		a.Put(unix.DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR, v.MAC[:])
	})
}

// setPort changes the function of a port, with the refusals of net/core/devlink.c.
func (p *PF) setPort(index int, attrs map[uint16][]byte) error {
	if attrs[unix.DEVLINK_ATTR_PORT_TYPE] != nil {
		return unix.EOPNOTSUPP
	}
	function, ok := attrs[unix.DEVLINK_ATTR_PORT_FUNCTION]
	if !ok {
		return nil
	}
	if index == 0 {
		return &netlink.Refusal{Errno: unix.EOPNOTSUPP, Text: "Function does not support hw_addr setting"}
	}
	set, err := netlink.ParseAttributes(function)
	if err != nil {
		return err
	}
	for kind := range set {
		if kind != unix.DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR {
			return &netlink.Refusal{Errno: unix.EOPNOTSUPP, Text: "Function does not support state setting"}
		}
	}
	switch mac, ok := set[unix.DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR]; {
	case !ok:
		return nil
	case len(mac) != len(ether.Addr{}):
		return &netlink.Refusal{Errno: unix.EINVAL, Text: "Address must be 6 bytes for Ethernet device"}
	case ether.Addr(mac).IsMulticast():
		return &netlink.Refusal{Errno: unix.EINVAL, Text: "Non-unicast hardware address unsupported"}
	default:
		return p.Set(index-1, "mac", ether.Addr(mac).String())
	}
}
