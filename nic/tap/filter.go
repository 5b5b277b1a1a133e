package tap

import (
	"golang.org/x/sys/unix"

	"tapir/wire/ether"
	"tapir/wire/ip"
)

// Classic BPF. A packet socket sees frames without their 802.1Q tag: the
// kernel keeps it beside the octets.

// accept is more than the longest frame.
const accept = 0x40000

func load(mode uint16, at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | mode, K: at}
}

// jump tests the accumulator and skips yes or no instructions.
func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func ret(n uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: n}
}

// packetType is the ancillary load SKF_AD_OFF+SKF_AD_PKTTYPE of linux/filter.h.
const packetType = 0xfffff004

// outgoingOnly rejects what the kernel received; it goes before another
// filter.
var outgoingOnly = []unix.SockFilter{
	load(unix.BPF_B|unix.BPF_ABS, packetType),
	jump(unix.BPF_JEQ, unix.PACKET_OUTGOING, 1, 0),
	ret(0),
}

// eventFilter accepts PTP event messages over Ethernet, and UDP to port 319
// over IPv4 and IPv6 without extension headers, in the frame that begins at an
// octet. What it does not accept goes to the instruction behind it.
func eventFilter(at uint32) []unix.SockFilter {
	return []unix.SockFilter{
		0:  load(unix.BPF_H|unix.BPF_ABS, at+12),
		1:  jump(unix.BPF_JEQ, uint32(ether.TypePTP), 0, 3),
		2:  load(unix.BPF_B|unix.BPF_ABS, at+14),
		3:  {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x0f},
		4:  jump(unix.BPF_JGE, 4, 14, 13),
		5:  jump(unix.BPF_JEQ, uint32(ether.TypeIPv4), 0, 7),
		6:  load(unix.BPF_B|unix.BPF_ABS, at+14+9),
		7:  jump(unix.BPF_JEQ, uint32(ip.ProtoUDP), 0, 11),
		8:  load(unix.BPF_H|unix.BPF_ABS, at+14+6),
		9:  jump(unix.BPF_JSET, 0x1fff, 9, 0),
		10: {Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: at + 14},
		11: load(unix.BPF_H|unix.BPF_IND, at+14+2),
		12: jump(unix.BPF_JEQ, eventPort, 5, 6),
		13: jump(unix.BPF_JEQ, uint32(ether.TypeIPv6), 0, 5),
		14: load(unix.BPF_B|unix.BPF_ABS, at+14+6),
		15: jump(unix.BPF_JEQ, uint32(ip.ProtoUDP), 0, 3),
		16: load(unix.BPF_H|unix.BPF_ABS, at+14+40+2),
		17: jump(unix.BPF_JEQ, eventPort, 0, 1),
		18: ret(accept),
	}
}

// eventsIn accepts event messages, also those in tunnels. A load beyond the end
// of a frame rejects it, which therefore comes only behind a check of its
// EtherType.
func eventsIn(tunnels []Tunnel) (filter []unix.SockFilter) {
	filter = eventFilter(0)
	for _, t := range tunnels {
		inner := eventFilter(uint32(t.At))
		filter = append(filter, load(unix.BPF_H|unix.BPF_ABS, 12),
			jump(unix.BPF_JEQ, uint32(t.EtherType), 0, uint8(len(inner))))
		filter = append(filter, inner...)
	}
	return append(filter, ret(0))
}
