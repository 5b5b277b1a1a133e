package link

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"tapir/lab/host/netns"
)

// ReservePort keeps a TCP port of the namespace from everybody else with a
// placeholder socket: bound, never listening. An unspecified address takes
// the port for all addresses of both families. release gives it back.
func ReservePort(ns *netns.NS, local netip.AddrPort) (release func(), err error) {
	addrs := []netip.Addr{local.Addr().Unmap()}
	if addrs[0].IsUnspecified() {
		addrs = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	var fds []int
	release = func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
		fds = nil
	}
	err = ns.Do(func() error {
		for _, a := range addrs {
			fd, err := placeholder(netip.AddrPortFrom(a, local.Port()))
			if errors.Is(err, unix.EAFNOSUPPORT) && len(addrs) > 1 {
				continue // a kernel without IPv6
			}
			if err != nil {
				return err
			}
			fds = append(fds, fd)
		}
		return nil
	})
	if err != nil {
		release()
		return nil, fmt.Errorf("reserve TCP port %v: %w", local, err)
	}
	return release, nil
}

func placeholder(at netip.AddrPort) (fd int, err error) {
	family := unix.AF_INET
	var addr unix.Sockaddr
	if at.Addr().Is4() {
		addr = &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	} else {
		family = unix.AF_INET6
		addr = &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, err
	}
	if family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err == nil {
		err = unix.Bind(fd, addr)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
