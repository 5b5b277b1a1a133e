package icmp

import (
	"encoding/binary"
	"net/netip"

	"tapir/wire/ether"
)

// Neighbor discovery option types (RFC 4861 section 4.6).
const (
	optSourceLL = 1
	optTargetLL = 2
	optPrefix   = 3
	optMTU      = 5
)

// NDHopLimit is the hop limit of every neighbor discovery message; one with
// another value came from off the link and is to be discarded (RFC 4861
// section 7.1).
const NDHopLimit = 255

// maxPrefixes bounds the prefixes kept from one Router Advertisement.
const maxPrefixes = 8

// Options are the neighbor discovery options that the package understands;
// others are skipped. A zero address or MTU means that the option is absent.
type Options struct {
	SourceMAC, TargetMAC ether.Addr
	MTU                  uint32 // octets
	NPrefix              int
	Prefix               [maxPrefixes]Prefix
}

// Prefix is a Prefix Information option (RFC 4861 section 4.6.2). Lifetimes
// are in seconds, 0xffffffff for ever.
type Prefix struct {
	Prefix             netip.Prefix
	OnLink, Autonomous bool
	Valid, Preferred   uint32
}

// Neighbor is a Neighbor Solicitation or Neighbor Advertisement (RFC 4861
// sections 4.3 and 4.4). The flags only exist in advertisements.
type Neighbor struct {
	Target                      netip.Addr
	Router, Solicited, Override bool
	Options                     Options
}

// Router is a Router Advertisement (RFC 4861 section 4.2) or, with all but
// Options zero, a Router Solicitation (section 4.1).
type Router struct {
	HopLimit       uint8
	Managed, Other bool
	Lifetime       uint16 // seconds as a default router; 0 = is none
	Reachable      uint32 // milliseconds
	Retrans        uint32 // milliseconds
	Options        Options
}

const (
	flagRouter    = 1 << 31
	flagSolicited = 1 << 30
	flagOverride  = 1 << 29
)

// Neighbor reads a Neighbor Solicitation or Advertisement.
func (m *Message) Neighbor() (n Neighbor, err error) {
	if m.Type != NeighborSolicitation && m.Type != NeighborAdvertisement {
		return n, ErrMalformed
	}
	if len(m.Body) < 16 {
		return n, ErrTruncated
	}
	n.Target = netip.AddrFrom16([16]byte(m.Body))
	if m.Code != 0 || n.Target.IsMulticast() || n.Target.Is4In6() {
		return n, ErrMalformed
	}
	if m.Type == NeighborAdvertisement {
		n.Router = m.Rest&flagRouter != 0
		n.Solicited = m.Rest&flagSolicited != 0
		n.Override = m.Rest&flagOverride != 0
	}
	return n, n.Options.parse(m.Body[16:])
}

// Message encodes n as a message of type typ, with its body appended to b.
func (n *Neighbor) Message(typ uint8, b []byte) Message {
	m := Message{Type: typ}
	if typ == NeighborAdvertisement {
		for _, f := range [...]struct {
			on  bool
			bit uint32
		}{{n.Router, flagRouter}, {n.Solicited, flagSolicited}, {n.Override, flagOverride}} {
			if f.on {
				m.Rest |= f.bit
			}
		}
	}
	target := n.Target.As16()
	m.Body = n.Options.appendTo(append(b, target[:]...))
	return m
}

// Router reads a Router Solicitation or Advertisement.
func (m *Message) Router() (r Router, err error) {
	if m.Code != 0 || m.Type != RouterSolicitation && m.Type != RouterAdvertisement {
		return r, ErrMalformed
	}
	if m.Type == RouterSolicitation {
		return r, r.Options.parse(m.Body)
	}
	if len(m.Body) < 8 {
		return r, ErrTruncated
	}
	r.HopLimit, r.Lifetime = uint8(m.Rest>>24), uint16(m.Rest)
	r.Managed, r.Other = m.Rest&(1<<23) != 0, m.Rest&(1<<22) != 0
	r.Reachable, r.Retrans = binary.BigEndian.Uint32(m.Body), binary.BigEndian.Uint32(m.Body[4:])
	return r, r.Options.parse(m.Body[8:])
}

// Message encodes r as a message of type typ, with its body appended to b.
func (r *Router) Message(typ uint8, b []byte) Message {
	m := Message{Type: typ}
	if typ == RouterAdvertisement {
		m.Rest = uint32(r.HopLimit)<<24 | uint32(r.Lifetime)
		if r.Managed {
			m.Rest |= 1 << 23
		}
		if r.Other {
			m.Rest |= 1 << 22
		}
		b = binary.BigEndian.AppendUint32(b, r.Reachable)
		b = binary.BigEndian.AppendUint32(b, r.Retrans)
	}
	m.Body = r.Options.appendTo(b)
	return m
}

func (o *Options) parse(b []byte) error {
	for len(b) > 0 {
		// RFC 4861 section 4.6: length in units of 8 octets; 0 is discarded.
		if len(b) < 8 || b[1] == 0 || len(b) < int(b[1])*8 {
			return ErrMalformed
		}
		opt := b[:int(b[1])*8]
		switch {
		case opt[0] == optSourceLL && len(opt) == 8:
			o.SourceMAC = ether.Addr(opt[2:8])
		case opt[0] == optTargetLL && len(opt) == 8:
			o.TargetMAC = ether.Addr(opt[2:8])
		case opt[0] == optMTU && len(opt) == 8:
			o.MTU = binary.BigEndian.Uint32(opt[4:])
		case opt[0] == optPrefix && len(opt) == 32 && opt[2] <= 128 && o.NPrefix < maxPrefixes:
			o.Prefix[o.NPrefix] = Prefix{
				Prefix: netip.PrefixFrom(netip.AddrFrom16([16]byte(opt[16:])), int(opt[2])),
				OnLink: opt[3]&0x80 != 0, Autonomous: opt[3]&0x40 != 0,
				Valid: binary.BigEndian.Uint32(opt[4:]), Preferred: binary.BigEndian.Uint32(opt[8:]),
			}
			o.NPrefix++
		}
		b = b[len(opt):]
	}
	return nil
}

func (o *Options) appendTo(b []byte) []byte {
	if !o.SourceMAC.IsZero() {
		b = append(append(b, optSourceLL, 1), o.SourceMAC[:]...)
	}
	if !o.TargetMAC.IsZero() {
		b = append(append(b, optTargetLL, 1), o.TargetMAC[:]...)
	}
	if o.MTU != 0 {
		b = binary.BigEndian.AppendUint32(append(b, optMTU, 1, 0, 0), o.MTU)
	}
	for _, p := range o.Prefix[:o.NPrefix] {
		var flags byte
		if p.OnLink {
			flags |= 0x80
		}
		if p.Autonomous {
			flags |= 0x40
		}
		b = append(b, optPrefix, 4, byte(p.Prefix.Bits()), flags)
		b = binary.BigEndian.AppendUint32(b, p.Valid)
		b = binary.BigEndian.AppendUint32(b, p.Preferred)
		addr := p.Prefix.Addr().As16()
		b = append(append(b, 0, 0, 0, 0), addr[:]...)
	}
	return b
}

// SolicitedNode is the multicast address to which solicitations for a are
// sent (RFC 4291 section 2.7.1).
func SolicitedNode(a netip.Addr) netip.Addr {
	v := a.As16()
	return netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: v[13], 14: v[14], 15: v[15]})
}

// MulticastMAC is the Ethernet address of an IPv6 multicast group (RFC 2464
// section 7).
func MulticastMAC(a netip.Addr) ether.Addr {
	v := a.As16()
	return ether.Addr{0x33, 0x33, v[12], v[13], v[14], v[15]}
}

// LinkLocal is the link-local address that an interface with address mac
// configures (RFC 4291 appendix A, modified EUI-64).
func LinkLocal(mac ether.Addr) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}
