package fault

import (
	"encoding/binary"
	"net/netip"

	"tapir/opa"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/ether"
	"tapir/wire/fc"
	"tapir/wire/fcoe"
	"tapir/wire/fip"
	"tapir/wire/frame"
	"tapir/wire/geneve"
	"tapir/wire/headers"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/nsh"
	"tapir/wire/tcp"
	"tapir/wire/udp"
)

// thing is what a frame holds, as far as rules ask for it.
type thing struct {
	class class // the most special one that is not of a stream
	arp   bool
	at    int // where in the frame that class begins

	// Of TCP and UDP: where the checksummed octets begin, and the checksum. 0:
	// there is none to mend.
	l4, sum int

	// Of TCP.
	ip       ip.Header
	tcp      tcp.Header
	payload  []byte
	head     int // octets of the TCP header
	src, dst netip.AddrPort
	broken   bool // the checksum is wrong: nobody takes it

	ptp    msg.Type
	bypass bool // 16B
	fabL4  int

	fc  fc.RCtl
	fip fip.Op

	item *item // of a stream
	roce packet
}

const (
	syn = tcp.SYN
	ack = tcp.ACK
	fin = tcp.FIN
	rst = tcp.RST
)

func (t *thing) is(f tcp.Flags) bool { return t.tcp.Flags.Has(f) }

func (t *thing) pureACK() bool {
	return len(t.payload) == 0 && t.is(ack) && t.tcp.Flags&(syn|fin|rst) == 0
}

// look finds out what a frame holds.
func look(b []byte) (t thing) {
	h, n, err := ether.Parse(b)
	if err != nil {
		return t
	}
	switch h.Type {
	case ether.TypeARP:
		t.arp = true
	case ether.TypePTP:
		t.lookPTP(b, n)
	case ether.TypeIPv4, ether.TypeIPv6:
		t.lookIP(b, n)
	case ib.EtherType:
		t.lookRoCEv1(b, n)
	case fcoe.EtherType:
		t.lookFCoE(b, n)
	case fip.EtherType:
		t.lookFIP(b, n)
	}
	if t.class == ofFrame && !t.arp {
		t.lookFabric(b, &h)
	}
	return t
}

func (t *thing) lookIP(b []byte, n int) {
	h, payload, err := ip.Parse(b[n:])
	if err != nil || h.IsFragment() {
		return
	}
	l4 := n + h.HeaderLen()
	switch h.Proto {
	case ip.ProtoTCP:
		t.lookTCP(&h, payload, l4)
	case ip.ProtoUDP:
		u, rest, err := udp.Parse(payload)
		if err != nil {
			return
		}
		t.l4, t.sum = l4, l4+udpSumAt
		if u.Dst == ib.UDPPort {
			t.lookRoCE(b, n, l4, &h, rest)
			return
		}
		t.lookPTP(b, l4+udp.HeaderLen)
	}
}

const udpSumAt = 6

func (t *thing) lookTCP(h *ip.Header, b []byte, l4 int) {
	th, payload, err := tcp.Parse(b)
	if err != nil {
		return
	}
	t.class, t.at, t.l4, t.sum = ofTCP, l4, l4, l4+tcp.ChecksumOffset
	t.ip, t.tcp, t.payload, t.head = *h, th, payload, len(b)-len(payload)
	t.src, t.dst = netip.AddrPortFrom(h.Src, th.SrcPort), netip.AddrPortFrom(h.Dst, th.DstPort)
	// A sum over the pseudo-header alone is completed further on.
	pseudo := ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(b))
	t.broken = th.Checksum != ip.Fold(pseudo) && ip.Checksum(b, pseudo) != 0
}

func (t *thing) lookPTP(b []byte, at int) {
	if p, ok := transport.Find(b); ok && len(p.Body) > 0 {
		t.class, t.at, t.ptp = ofPTP, at, msg.Type(p.Body[0]&15)
	}
}

// lookFabric finds a packet of an Omni-Path fabric in the framings of package
// opa.
func (t *thing) lookFabric(b []byte, h *ether.Header) {
	switch h.Type {
	case opa.EtherType16B, opa.EtherType9B, nsh.EtherType:
	default:
		if h.Type != ether.TypeIPv4 || !toGeneve(b) {
			return
		}
	}
	f := frame.New(make([]byte, frame.DefaultHeadroom+len(b)), nil)
	f.Append(b)
	format, why := opa.Unwrap(f)
	if why != frame.DropNone || f.Len() < opa.HeaderLen {
		return
	}
	t.class, t.at, t.bypass, t.fabL4 = ofFabric, f.Headroom()-frame.DefaultHeadroom, format == opa.Format16B,
		int(opa.Packet(f.Bytes()).L4())
}

// toGeneve tells whether an IPv4 packet is for Geneve's port.
func toGeneve(b []byte) bool {
	var v headers.View
	return v.Parse(b) && v.ParseNetwork() && v.Proto == ip.ProtoUDP && len(b) >= v.L4+udp.HeaderLen &&
		binary.BigEndian.Uint16(b[v.L4+2:]) == geneve.Port
}
