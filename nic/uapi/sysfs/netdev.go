package sysfs

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// netdev adds the files of the device's network interface, DEVICE/device/net/NAME, by
// which tools such as ibdev2netdev map one to the other. The text is the kernel's, which
// is asked in the network namespace of this process: a program's /sys may be that of another.
func (b *builder) netdev(dir, name string) {
	for file, text := range linkFiles {
		b.live(dir+file, func() (string, error) {
			l, err := linkOf(name)
			if err != nil {
				return "", err
			}
			s, err := text(l)
			return s + "\n", err
		})
	}
	for i, counter := range linkCounters {
		b.live(dir+"statistics/"+counter, func() (string, error) {
			l, err := linkOf(name)
			if err != nil {
				return "", err
			}
			stats := l.attrs[unix.IFLA_STATS64]
			if len(stats) < 8*(i+1) { // of an older kernel
				return "0\n", nil
			}
			return fmt.Sprintln(binary.NativeEndian.Uint64(stats[8*i:])), nil
		})
	}
}

// linkCounters are the files of IFLA_STATS64, in its order (struct rtnl_link_stats64 of
// linux/if_link.h).
var linkCounters = [...]string{"rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors",
	"rx_dropped", "tx_dropped", "multicast", "collisions", "rx_length_errors", "rx_over_errors", "rx_crc_errors",
	"rx_frame_errors", "rx_fifo_errors", "rx_missed_errors", "tx_aborted_errors", "tx_carrier_errors",
	"tx_fifo_errors", "tx_heartbeat_errors", "tx_window_errors", "rx_compressed", "tx_compressed", "rx_nohandler"}

// link is what the kernel says of a network interface.
type link struct {
	name  string
	info  *syscall.IfInfomsg
	attrs map[uint16][]byte // IFLA_*
}

// linkOf asks for the interface of that name. Error: ENODEV, there is none.
func linkOf(name string) (*link, error) {
	rib, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return nil, unix.ENODEV
	}
	msgs, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return nil, unix.ENODEV
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
			continue
		}
		list, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			continue
		}
		l := link{name: name, attrs: map[uint16][]byte{}, info: &syscall.IfInfomsg{
			Type: binary.NativeEndian.Uint16(m.Data[2:]), Index: int32(binary.NativeEndian.Uint32(m.Data[4:])),
			Flags: binary.NativeEndian.Uint32(m.Data[8:])}}
		for _, a := range list {
			l.attrs[a.Attr.Type] = a.Value
		}
		if strings.TrimRight(string(l.attrs[unix.IFLA_IFNAME]), "\x00") == name {
			return &l, nil
		}
	}
	return nil, unix.ENODEV
}

// number is an attribute of one or four octets; absent: 0.
func (l *link) number(attr uint16) uint32 {
	switch v := l.attrs[attr]; len(v) {
	case 1:
		return uint32(v[0])
	case 4:
		return binary.NativeEndian.Uint32(v)
	}
	return 0
}

// linkFiles are the other files, as Documentation/ABI/testing/sysfs-class-net describes
// them. A TAP has one port, number 0, and identifier 0.
var linkFiles = map[string]func(l *link) (string, error){
	"addr_len":  func(l *link) (string, error) { return fmt.Sprint(len(l.attrs[unix.IFLA_ADDRESS])), nil },
	"address":   func(l *link) (string, error) { return net.HardwareAddr(l.attrs[unix.IFLA_ADDRESS]).String(), nil },
	"broadcast": func(l *link) (string, error) { return net.HardwareAddr(l.attrs[unix.IFLA_BROADCAST]).String(), nil },
	"carrier": func(l *link) (string, error) {
		if l.info.Flags&unix.IFF_UP == 0 {
			return "", unix.EINVAL
		}
		return fmt.Sprint(l.number(unix.IFLA_CARRIER)), nil
	},
	"dev_id":   func(*link) (string, error) { return "0x0", nil },
	"dev_port": func(*link) (string, error) { return "0", nil },
	"flags": func(l *link) (string, error) {
		const volatile = unix.IFF_RUNNING | unix.IFF_LOWER_UP | unix.IFF_DORMANT
		return fmt.Sprintf("0x%x", l.info.Flags&^volatile), nil
	},
	"ifindex": func(l *link) (string, error) { return fmt.Sprint(l.info.Index), nil },
	"iflink": func(l *link) (string, error) {
		if lower := l.number(unix.IFLA_LINK); lower != 0 {
			return fmt.Sprint(lower), nil
		}
		return fmt.Sprint(l.info.Index), nil
	},
	"mtu": func(l *link) (string, error) { return fmt.Sprint(l.number(unix.IFLA_MTU)), nil },
	"operstate": func(l *link) (string, error) {
		if s := l.number(unix.IFLA_OPERSTATE); s < uint32(len(operStates)) {
			return operStates[s], nil
		}
		return operStates[0], nil
	},
	"tx_queue_len": func(l *link) (string, error) { return fmt.Sprint(l.number(unix.IFLA_TXQLEN)), nil },
	"type":         func(l *link) (string, error) { return fmt.Sprint(l.info.Type), nil },
	"uevent": func(l *link) (string, error) {
		return fmt.Sprintf("INTERFACE=%s\nIFINDEX=%d", l.name, l.info.Index), nil
	},
}

// operStates are the names of the states of RFC 2863 at the kernel's numbers (IF_OPER_UNKNOWN...).
var operStates = [...]string{"unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"}
