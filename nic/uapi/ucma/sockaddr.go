package ucma

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"tapir/nic/uapi/abi"
	"tapir/nic/verbs"
)

const (
	familyIB      = 27
	sockaddrIBLen = 48
)

// sockaddr is a struct sockaddr_in or sockaddr_in6. The zero value is the one
// of family 0.
type sockaddr struct {
	family uint16
	addr   netip.Addr
	port   uint16
	flow   uint32 // of IPv6, as it came
	scope  uint32
}

// parseSockaddr reads the address in b, at least 28 octets. Of a family other
// than IPv4 and IPv6 it keeps no more than the family.
func parseSockaddr(b []byte) sockaddr {
	raw := abi.Sockaddr(b)
	at := raw.AddrPort()
	s := sockaddr{family: raw.Family(), addr: at.Addr(), port: at.Port()}
	switch {
	case s.addr.Is4In6(): // as getaddrinfo(3) writes it where the kernel itself has no IPv4 address
		s.family, s.addr = syscall.AF_INET, s.addr.Unmap()
	case s.addr.Is6():
		s.flow, s.scope = order.Uint32(b[4:]), order.Uint32(b[24:])
	}
	return s
}

// unspecified is the wildcard of a family.
func unspecified(family uint16) sockaddr {
	if family == syscall.AF_INET6 {
		return sockaddr{family: family, addr: netip.IPv6Unspecified()}
	}
	return sockaddr{family: syscall.AF_INET, addr: netip.IPv4Unspecified()}
}

func fromAddrPort(a netip.AddrPort) sockaddr {
	s := sockaddr{family: syscall.AF_INET6, addr: a.Addr(), port: a.Port()}
	if a.Addr().Is4() {
		s.family = syscall.AF_INET
	}
	return s
}

func (s sockaddr) addrPort() netip.AddrPort { return netip.AddrPortFrom(s.addr, s.port) }

// scoped is s with the scope of o, the same address as a program gave it.
func (s sockaddr) scoped(o sockaddr) sockaddr {
	if s.family == o.family {
		s.flow, s.scope = o.flow, o.scope
	}
	return s
}

// known tells whether the family is one that the NIC speaks.
func (s sockaddr) known() bool { return s.addr.IsValid() }

// any tells whether the address stands for no NIC in particular: wildcards
// and the loopback network.
func (s sockaddr) any() bool {
	return s.addr.IsUnspecified() || s.addr.IsLoopback() || s.addr.Is4() && s.addr.As4()[0] == 0
}

// unscoped tells whether the scope is missing that a link-local address needs.
func (s sockaddr) unscoped() bool {
	return s.addr.Is6() && s.addr.IsLinkLocalUnicast() && s.scope == 0
}

func (s sockaddr) len() int { return familyLen(s.family) }

// familyLen is the length of an address of a family; 0: of no known one.
func familyLen(family uint16) int {
	switch family {
	case syscall.AF_INET:
		return syscall.SizeofSockaddrInet4
	case syscall.AF_INET6:
		return syscall.SizeofSockaddrInet6
	}
	return 0
}

func (s sockaddr) encode() abi.Sockaddr {
	b := abi.NewSockaddr(s.addrPort())
	order.PutUint16(b[:], s.family)
	if s.addr.Is6() {
		order.PutUint32(b[4:], s.flow)
		order.PutUint32(b[24:], s.scope)
	}
	return b
}

// putSockaddrIB writes a struct sockaddr_ib for a GID and the service id of a
// port.
func putSockaddrIB(b []byte, gid verbs.GID, service, port uint16) {
	order.PutUint16(b, familyIB)
	copy(b[8:24], gid[:])
	binary.BigEndian.PutUint64(b[24:], uint64(service)<<16|uint64(port))
}
