// Package tunnel is wires of a NIC that go through UDP sockets instead of a TAP, which
// need no rights and no device file: Ethernet frames as the payload of datagrams, or
// behind a VXLAN header (RFC 7348).
//
// A tunnel is a tap.Queue. Super-frames are cut into true frames, which leave by one
// system call where the kernel segments datagrams, and arrive by one where it joins them.
package tunnel

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"tapir/wire/ether"
)

// Kind is how frames lie in datagrams.
type Kind string

// The kinds.
const (
	UDP   Kind = "udp"   // a frame, and nothing else
	VXLAN Kind = "vxlan" // a header of 8 octets in front
)

// VXLANPort is the port that VXLAN has (RFC 7348 section 5).
const VXLANPort = 4789

// vxlanLen is the length of its header.
const vxlanLen = 8

// Spec says what a wire is: Parse of its text.
type Spec struct {
	Kind          Kind
	VNI           uint32 // of 24 bits
	Local, Remote netip.AddrPort
	Key           string // the file that holds the key; empty: frames are not sealed
}

// Expect is what Parse expects.
const Expect = "udp:LOCAL,REMOTE such as udp:192.0.2.1:7000,192.0.2.2:7000, or vxlan:VNI,REMOTE[,LOCAL] such as " +
	"vxlan:100,192.0.2.2; both may end in ,key=FILE"

// Parse reads what Spec.String writes. A LOCAL without an address is that of any
// interface, and a port that is left out of VXLAN is VXLANPort.
func Parse(text string) (s Spec, err error) {
	kind, rest, _ := strings.Cut(text, ":")
	rest, key, sealed := strings.Cut(rest, ",key=")
	if s.Key = key; sealed && key == "" {
		return s, errors.New("key: expected a file with 64 hexadecimal digits")
	}
	parts := strings.Split(rest, ",")
	switch s.Kind = Kind(kind); {
	case s.Kind == UDP && len(parts) == 2:
		if s.Local, err = address(parts[0], 0); err == nil {
			s.Remote, err = address(parts[1], 0)
		}
	case s.Kind == VXLAN && (len(parts) == 2 || len(parts) == 3):
		vni, bad := strconv.ParseUint(parts[0], 10, 24)
		if bad != nil {
			return s, fmt.Errorf("VNI %q: expected a number from 0 to 16777215", parts[0])
		}
		s.VNI = uint32(vni)
		if s.Remote, err = address(parts[1], VXLANPort); err == nil {
			s.Local, err = address(strings.Join(parts[2:], ""), VXLANPort)
		}
	default:
		return s, errors.New("expected " + Expect)
	}
	if err != nil {
		return s, err
	}
	return s.complete()
}

// complete gives a local end without an address the family of the remote one.
func (s Spec) complete() (Spec, error) {
	r, l := s.Remote.Addr(), s.Local.Addr()
	switch {
	case !r.IsValid() || r.IsUnspecified() || r.IsMulticast() || s.Remote.Port() == 0:
		return s, fmt.Errorf("remote end %v: expected one station's address and port", s.Remote)
	case !l.IsValid() && r.Is4():
		l = netip.IPv4Unspecified()
	case !l.IsValid():
		l = netip.IPv6Unspecified()
	case l.Is4() != r.Is4() || l.IsMulticast():
		return s, fmt.Errorf("local end %v, remote end %v: expected two addresses of one family", s.Local, s.Remote)
	}
	s.Local = netip.AddrPortFrom(l, s.Local.Port())
	return s, nil
}

// address reads an address, a port, or both; a port of 0 has to be there.
func address(text string, port uint16) (netip.AddrPort, error) {
	if text == "" && port != 0 {
		return netip.AddrPortFrom(netip.Addr{}, port), nil
	}
	if a, err := netip.ParseAddr(text); err == nil && port != 0 {
		return netip.AddrPortFrom(a.Unmap(), port), nil
	}
	if digits, found := strings.CutPrefix(text, ":"); found {
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil && n > 0 {
			return netip.AddrPortFrom(netip.Addr{}, uint16(n)), nil
		}
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Port() == 0 {
		return a, fmt.Errorf("%q: expected an address and a port such as 192.0.2.1:7000 or [2001:db8::1]:7000", text)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}

// String is the text that Parse reads.
func (s Spec) String() string {
	key := ""
	if s.Key != "" {
		key = ",key=" + s.Key
	}
	if s.Kind == VXLAN {
		return fmt.Sprintf("%s:%d,%v,%v%s", s.Kind, s.VNI, s.Remote, s.Local, key)
	}
	return fmt.Sprintf("%s:%v,%v%s", s.Kind, s.Local, s.Remote, key)
}

// Overhead is how many octets a datagram has besides the IP packet inside.
func (s Spec) Overhead() int {
	n := 20 + 8 + ether.HeaderLen // IPv4, UDP
	if s.Remote.Addr().Is6() {
		n += 20
	}
	if s.Kind == VXLAN {
		n += vxlanLen
	}
	if s.Key != "" {
		n += sealLen
	}
	return n
}
