package verbs

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"tapir/wire/ether"
)

// GUID is an EUI-64 that names a device or port for good, in network order.
type GUID [8]byte

// GUIDFromMAC makes the EUI-64 of a MAC address (RFC 4291 appendix A).
func GUIDFromMAC(m ether.Addr) GUID {
	return GUID{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]}
}

// String is g as ibv_devinfo prints it: 0200:00ff:fe00:0001.
func (g GUID) String() string {
	return fmt.Sprintf("%x:%x:%x:%x", g[:2], g[2:4], g[4:6], g[6:])
}

// MarshalText is String.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// IsZero tells whether g is unset.
func (g GUID) IsZero() bool { return g == GUID{} }

// ParseGUID reads 16 hexadecimal digits, with or without colons or a 0x.
func ParseGUID(s string) (g GUID, err error) {
	b, err := hex.DecodeString(strings.TrimPrefix(strings.ReplaceAll(s, ":", ""), "0x"))
	if err != nil || len(b) != len(g) {
		return g, fmt.Errorf("GUID %q: want 16 hexadecimal digits such as 0200:00ff:fe00:0001: %w", s, ErrInvalid)
	}
	return GUID(b), nil
}

// GID is a 128-bit address of a port, in network order.
type GID [16]byte

// GIDType is what packets an entry of a GID table stands for.
type GIDType uint8

const (
	GIDPlain GIDType = iota // of an RNIC, whose packets carry no GID
	RoCEv1                  // EtherType 0x8915
	RoCEv2                  // UDP port 4791
)

// String is t as the kernel's files gid_attrs/types write it.
func (t GIDType) String() string { return [...]string{"IB/RoCE v1", "IB/RoCE v1", "RoCE v2"}[t] }

// GIDEntry is an entry of a port's GID table; with a zero GID it is empty.
type GIDEntry struct {
	GID  GID
	Type GIDType
	VLAN uint16 // 802.1Q id of packets from the entry's address; 0: untagged
	// Netdev is the name of the VLAN's interface, empty for that of the NIC.
	Netdev string
}

// GIDFromMAC is the first GID of an RNIC's port: the MAC address, then zeros,
// as Linux iWARP drivers report it.
func GIDFromMAC(m ether.Addr) (g GID) {
	copy(g[:], m[:])
	return g
}

// GIDFromAddr is an IP address as GID; IPv4 is mapped (RFC 4291 section
// 2.5.5.2).
func GIDFromAddr(a netip.Addr) GID { return a.As16() }

// String is g in eight groups of four hexadecimal digits.
func (g GID) String() string { return netip.AddrFrom16(g).StringExpanded() }

// MarshalText is String.
func (g GID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }
