// Package transport carries PTP messages in Ethernet frames: directly, over
// UDP/IPv4 and over UDP/IPv6 (IEEE 1588-2019 annexes C, D and E).
package transport

import (
	"fmt"
	"net/netip"

	"tapir/ptp/msg"
	"tapir/wire/enum"
	"tapir/wire/ether"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// UDP ports.
const (
	EventPort   = 319
	GeneralPort = 320
)

// Kind is what carries the messages.
type Kind uint8

// The kinds.
const (
	Ethernet Kind = iota
	UDPv4
	UDPv6
)

var kindNames = [...]string{"L2", "UDPv4", "UDPv6"}

// String is "L2", "UDPv4" or "UDPv6".
func (k Kind) String() string {
	return enum.Name(kindNames[:], k, "Kind(%d)")
}

// MarshalText has the form of String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what String writes.
func (k *Kind) UnmarshalText(b []byte) (err error) {
	*k, err = enum.Parse[Kind](kindNames[:], string(b), "transport: %q is no transport; expected L2, UDPv4 or UDPv6")
	return err
}

// Addr is where a message comes from or goes to: an IP address over UDP, else a
// MAC address, never both, so that Addrs can be compared. The zero value means
// the multicast group that messages of a type go to.
type Addr struct {
	IP  netip.Addr
	MAC ether.Addr
}

// String is the address, or "multicast".
func (a Addr) String() string {
	switch {
	case a.IP.IsValid():
		return a.IP.String()
	case a.MAC != ether.Addr{}:
		return a.MAC.String()
	}
	return "multicast"
}

// ParseAddr reads an IP or MAC address.
func ParseAddr(s string) (Addr, error) {
	if p, err := netip.ParseAddr(s); err == nil && p.Zone() == "" {
		return Addr{IP: p}, nil
	}
	if m, err := ether.ParseAddr(s); err == nil {
		return Addr{MAC: m}, nil
	}
	return Addr{}, fmt.Errorf("transport: %q is neither an IP nor a MAC address", s)
}

// PortAddress is the address as messages have it.
func (a Addr) PortAddress() msg.PortAddress {
	switch {
	case a.IP.Is4():
		return msg.PortAddress{Protocol: msg.NetworkUDPv4, Address: a.IP.AsSlice()}
	case a.IP.IsValid():
		return msg.PortAddress{Protocol: msg.NetworkUDPv6, Address: a.IP.AsSlice()}
	}
	return msg.PortAddress{Protocol: msg.NetworkEthernet, Address: a.MAC[:]}
}

// IsMulticast reports whether the address is a group's.
func (a Addr) IsMulticast() bool {
	return a == Addr{} || a.IP.IsMulticast() || (!a.IP.IsValid() && a.MAC.IsMulticast())
}

// The groups on Ethernet (annex E). Bridges do not forward the second.
var (
	Forwardable    = ether.Addr{0x01, 0x1b, 0x19}
	NonForwardable = ether.Addr{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}
)

// DefaultScope is the scope of IPv6 groups: global.
const DefaultScope = 0xe

// Port says how a port carries the messages that it sends.
type Port struct {
	Kind Kind
	MAC  ether.Addr // source
	IP   netip.Addr // source, over UDP

	Tag    ether.Tag // in every frame, if Tagged
	Tagged bool
	// Local sends everything to the group that bridges do not forward, as gPTP
	// and often G.8275.1 do; otherwise only peer delay messages go there.
	Local bool
	DSCP  uint8 // 6 bits
	TTL   uint8 // of multicast messages; 0 means 1. Peer delay messages always have 1
	Scope uint8 // of the IPv6 group of all but peer delay messages, 4 bits; 0 means DefaultScope
}

// Validate tells the first thing that is wrong with p.
func (p *Port) Validate() error {
	switch {
	case p.Kind > UDPv6:
		return fmt.Errorf("transport: unknown kind %d", p.Kind)
	case p.MAC.IsZero() || p.MAC.IsMulticast():
		return fmt.Errorf("transport: %v cannot be a port's MAC address", p.MAC)
	case p.Kind == UDPv4 && !p.IP.Is4():
		return fmt.Errorf("transport: UDPv4 needs an IPv4 address, not %v", p.IP)
	case p.Kind == UDPv6 && (!p.IP.Is6() || p.IP.Is4In6()):
		return fmt.Errorf("transport: UDPv6 needs an IPv6 address, not %v", p.IP)
	case p.DSCP > 63:
		return fmt.Errorf("transport: DSCP %d has more than 6 bits", p.DSCP)
	case p.Scope > 15:
		return fmt.Errorf("transport: IPv6 scope %d has more than 4 bits", p.Scope)
	}
	return nil
}

func peerDelay(t msg.Type) bool {
	return t == msg.PdelayReq || t == msg.PdelayResp || t == msg.PdelayRespFollowUp
}

// Group is the multicast group that messages of type t go to.
func (p *Port) Group(t msg.Type) Addr {
	peer := peerDelay(t)
	switch p.Kind {
	case UDPv4:
		if peer {
			return Addr{IP: netip.AddrFrom4([4]byte{224, 0, 0, 107})}
		}
		return Addr{IP: netip.AddrFrom4([4]byte{224, 0, 1, 129})}
	case UDPv6:
		if peer {
			return Addr{IP: netip.AddrFrom16([16]byte{0: 0xff, 1: 2, 15: 0x6b})}
		}
		scope := p.Scope
		if scope == 0 {
			scope = DefaultScope
		}
		return Addr{IP: netip.AddrFrom16([16]byte{0: 0xff, 1: scope, 14: 1, 15: 0x81})}
	}
	if peer || p.Local {
		return Addr{MAC: NonForwardable}
	}
	return Addr{MAC: Forwardable}
}

// Groups are the groups that the port must join: that of peer delay messages,
// and that of all others.
func (p *Port) Groups() [2]Addr { return [2]Addr{p.Group(msg.PdelayReq), p.Group(msg.Announce)} }

// GroupMAC is the MAC address of a multicast group (RFC 1112 section 6.4, RFC
// 2464 section 7).
func (a Addr) GroupMAC() ether.Addr {
	switch {
	case a.IP.Is4():
		v := a.IP.As4()
		return ether.Addr{0x01, 0x00, 0x5e, v[1] & 0x7f, v[2], v[3]}
	case a.IP.IsValid():
		v := a.IP.As16()
		return ether.Addr{0x33, 0x33, v[12], v[13], v[14], v[15]}
	}
	return a.MAC
}

// padLen is how many octets follow messages on IPv6, so that those who edit
// them can keep the checksum (annex D). They are not needed here: the
// checksum itself is edited.
const padLen = 2

// Len is the length in octets of the frame that Append makes of body.
func (p *Port) Len(body []byte) int {
	n := ether.HeaderLen + len(body)
	if p.Tagged {
		n += ether.TagLen
	}
	switch p.Kind {
	case UDPv4:
		return n + ip.HeaderLen4 + udp.HeaderLen
	case UDPv6:
		return n + ip.HeaderLen6 + udp.HeaderLen + padLen
	}
	return n
}

// Append appends an Ethernet frame with the message body, which must be one,
// to b. A zero dst is the group of the message's type. hop is the MAC address
// of the next hop to a unicast IP address, and not used otherwise. The frame
// has no padding to the least length of Ethernet.
func (p *Port) Append(b, body []byte, dst Addr, hop ether.Addr) []byte {
	t := msg.Type(body[0] & 15)
	if dst == (Addr{}) {
		dst = p.Group(t)
	}
	multicast := dst.IsMulticast()
	if multicast || p.Kind == Ethernet {
		hop = dst.GroupMAC()
	}
	h := ether.Header{Dst: hop, Src: p.MAC, Type: ether.TypePTP}
	if p.Tagged {
		h.Tags[0], h.NTags = p.Tag, 1
	}
	switch p.Kind {
	case UDPv4:
		h.Type = ether.TypeIPv4
	case UDPv6:
		h.Type = ether.TypeIPv6
	}
	b = h.AppendTo(b)
	if p.Kind == Ethernet {
		return append(b, body...)
	}
	ttl := uint8(64)
	if multicast && (p.TTL == 0 || peerDelay(t)) {
		ttl = 1
	} else if multicast {
		ttl = p.TTL
	}
	return p.appendUDP(b, body, dst.IP, ttl)
}

func (p *Port) appendUDP(b, body []byte, dst netip.Addr, ttl uint8) []byte {
	n := len(body)
	h := ip.Header{Version: 4, TOS: p.DSCP << 2, TTL: ttl, Proto: ip.ProtoUDP, Src: p.IP, Dst: dst, DF: true}
	if p.Kind == UDPv6 {
		h.Version, n = 6, n+padLen
	}
	h.PayloadLen = udp.HeaderLen + n
	u := udp.Header{Src: GeneralPort, Dst: GeneralPort}
	if msg.Type(body[0] & 15).Event() {
		u.Src, u.Dst = EventPort, EventPort
	}
	var head [ip.HeaderLen6 + udp.HeaderLen]byte
	at := h.Put(head[:])
	u.Put(head[at:], n)
	start := len(b) + at
	b = append(append(b, head[:at+udp.HeaderLen]...), body...)
	if p.Kind == UDPv6 {
		b = append(b, 0, 0)
	}
	putChecksum(b[start:], h.Src, h.Dst)
	return b
}
