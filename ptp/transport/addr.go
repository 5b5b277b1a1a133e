// Package transport carries PTP messages over Ethernet and UDP.
package transport

import (
	"net/netip"

	"tapir/wire/ether"
)

// Addr is where a PTP message comes from or goes to by unicast: an IP address
// with UDP, else a MAC address. The zero value means the multicast group that
// messages of a type go to.
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
