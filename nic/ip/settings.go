package ip

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"tapir/wire/ether"
	"tapir/wire/icmp"
)

// Limits of the MTU in octets.
const (
	MinMTU     = 576   // what every IPv4 host must accept (RFC 791)
	MinMTUIPv6 = 1280  // below it IPv6 is off (RFC 8200 section 5)
	MaxMTU     = 16000 // fits a frame of the pool's large class many times
)

// Settings are the station and addresses of a NIC.
type Settings struct {
	MAC      ether.Addr
	VLAN     uint16 // 802.1Q id of all frames; 0: untagged
	MTU      int
	Prefixes []netip.Prefix // addresses, each with the prefix length of its link
	Gateways []netip.Addr   // next hops off the link, the first of each family counts
	// HostAddrs says that the addresses are those of the operating system's
	// interface: there may be none yet, and no link-local one is derived.
	HostAddrs bool
	// Loopback allows addresses of the loopback network.
	Loopback bool
	// VLANs are interfaces beside that of the frames of VLAN: see Stack.
	VLANs []VLAN
}

// Validate says what is wrong with the settings, and how to mend it.
func (s *Settings) Validate() error {
	switch {
	case s.MAC.IsMulticast():
		return fmt.Errorf("MAC address %v is a multicast address: clear the lowest bit of the first octet", s.MAC)
	case s.MTU < MinMTU || s.MTU > MaxMTU:
		return fmt.Errorf("MTU %d: want %d to %d", s.MTU, MinMTU, MaxMTU)
	case s.VLAN > 4094:
		return fmt.Errorf("VLAN %d: want 1 to 4094, or 0 for none", s.VLAN)
	}
	for i, v := range s.VLANs {
		same := func(o VLAN) bool { return o.ID == v.ID }
		if v.ID == 0 || v.ID > 4094 || v.ID == s.VLAN || slices.ContainsFunc(s.VLANs[:i], same) {
			return fmt.Errorf("VLAN interface %d: want 1 to 4094, each once, and not the VLAN of other frames", v.ID)
		}
	}
	return nil
}

// ValidateAddrs says which address or gateway a NIC cannot have.
func (s *Settings) ValidateAddrs() error {
	for i, p := range s.Prefixes {
		if err := checkAddr(p, s.MTU); err != nil && !(s.Loopback && p.Addr().IsLoopback()) {
			return err
		}
		if holds(s.Prefixes[:i], p.Addr()) {
			return fmt.Errorf("address %v is given twice", p.Addr())
		}
	}
	for _, v := range s.on() {
		if err := v.ValidateAddrs(); err != nil {
			return fmt.Errorf("VLAN interface %d: %w", v.VLAN, err)
		}
	}
	for _, g := range s.wire().Gateways {
		if !g.IsLinkLocalUnicast() && !covers(s.Prefixes, g) && !s.HostAddrs {
			return fmt.Errorf("gateway %v lies in the prefix of no address: give an address such as %v", g, example(g))
		}
	}
	return nil
}

// Usable reports whether a NIC with an MTU of that many octets can have the
// address p.
func Usable(p netip.Prefix, mtu int) bool { return checkAddr(p, mtu) == nil }

func checkAddr(p netip.Prefix, mtu int) error {
	a := p.Addr()
	switch {
	case !p.IsValid():
		return errors.New("an address is not valid: use the form 10.0.0.1/24")
	case a.IsMulticast() || a.IsUnspecified() || a.IsLoopback() || a.Is4In6() || a.Zone() != "":
		return fmt.Errorf("address %v cannot be given to a NIC: use a unicast address", p)
	case a.Is6() && mtu < MinMTUIPv6:
		return fmt.Errorf("address %v needs an MTU of at least %d, not %d", p, MinMTUIPv6, mtu)
	case a.Is4() && p.Bits() < 31 && (a == p.Masked().Addr() || a == broadcast(p)):
		return fmt.Errorf("address %v is the network's own or broadcast address: use one in between", p)
	}
	return nil
}

// covers tells whether a lies in one of the prefixes.
func covers(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// holds tells whether one of the prefixes is that of a.
func holds(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Addr() == a {
			return true
		}
	}
	return false
}

func example(g netip.Addr) netip.Prefix {
	bits := 24
	if g.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(g.Next(), bits)
}

// broadcast is the last address of an IPv4 prefix.
func broadcast(p netip.Prefix) netip.Addr {
	v := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		v[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(v)
}

// addresses are the configured ones and, if IPv6 is on, the link-local one.
func (s *Settings) addresses() []netip.Prefix {
	all := append([]netip.Prefix(nil), s.Prefixes...)
	if s.MTU < MinMTUIPv6 || s.HostAddrs {
		return all
	}
	ll := netip.PrefixFrom(icmp.LinkLocal(s.MAC), 64)
	if holds(all, ll.Addr()) {
		return all
	}
	return append(all, ll)
}

// DeriveMAC makes a unicast, locally administered address.
func DeriveMAC(seed uint64) ether.Addr {
	return ether.Addr{byte(seed>>40)&^1 | 2, byte(seed >> 32), byte(seed >> 24), byte(seed >> 16), byte(seed >> 8),
		byte(seed)}
}
