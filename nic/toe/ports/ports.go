// Package ports chooses the local ports of active opens (RFC 6056) and shares
// them with an operating system that has the same address.
package ports

import (
	"net/netip"
	"slices"
)

// Allocator gives out ports.
type Allocator struct {
	First, Last uint16 // ephemeral ones, both included
	// Take, if set, takes a port from the operating system; release gives it
	// back.
	Take func(local netip.AddrPort) (release func(), err error)

	next uint16
	held map[netip.AddrPort]*Reservation
}

// Reservation is a port taken from the operating system, shared by a listener
// and the connections that came through it. nil is one that nobody else has.
type Reservation struct {
	local   netip.AddrPort
	users   int
	release func()
}

// Reserve takes local; nil without Take. What connections of an earlier
// listener still hold, in TIME-WAIT for one, is shared with them, also if they
// have one address and all are wanted now.
func (b *Allocator) Reserve(local netip.AddrPort) (*Reservation, error) {
	if b.Take == nil {
		return nil, nil
	}
	for _, at := range covering(local) {
		if r := b.held[at]; r != nil {
			return r.Share(), nil
		}
	}
	narrow := b.narrower(local)
	for _, n := range narrow {
		n.release() // or the operating system finds the port taken
	}
	r := &Reservation{local: local, users: 1}
	release, err := b.Take(local)
	if err == nil {
		b.hold(r, release)
	}
	for _, n := range narrow {
		b.widen(n, r, err == nil)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Adopt is Reserve of a port that is taken already; release gives it back.
func (b *Allocator) Adopt(local netip.AddrPort, release func()) *Reservation {
	if r := b.held[local]; r != nil {
		release()
		return r.Share()
	}
	r := &Reservation{local: local, users: 1}
	b.hold(r, release)
	return r
}

// hold records r, which release gives back.
func (b *Allocator) hold(r *Reservation, release func()) {
	if b.held == nil {
		b.held = map[netip.AddrPort]*Reservation{}
	}
	b.held[r.local] = r
	r.release = func() {
		delete(b.held, r.local)
		release()
	}
}

// widen makes n, which was given back, a share of wide, or takes it again.
func (b *Allocator) widen(n, wide *Reservation, taken bool) {
	if taken {
		b.hold(n, wide.Share().Drop)
		return
	}
	release, err := b.Take(n.local)
	if err != nil { // someone else was faster; the connections that remain stay
		release = func() {}
	}
	b.hold(n, release)
}

// narrower are the reservations of single addresses that one of all takes in.
func (b *Allocator) narrower(local netip.AddrPort) (list []*Reservation) {
	if !local.Addr().IsUnspecified() {
		return nil
	}
	for at, r := range b.held {
		if at.Port() == local.Port() {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(x, y *Reservation) int { return x.local.Compare(y.local) })
	return list
}

// covering are the addresses whose reservation is one of local, too.
func covering(local netip.AddrPort) [3]netip.AddrPort {
	return [3]netip.AddrPort{
		local,
		netip.AddrPortFrom(netip.IPv4Unspecified(), local.Port()),
		netip.AddrPortFrom(netip.IPv6Unspecified(), local.Port()),
	}
}

// Share counts one more user of r.
func (r *Reservation) Share() *Reservation {
	if r != nil {
		r.users++
	}
	return r
}

// Drop gives the port back with its last user.
func (r *Reservation) Drop() {
	if r == nil {
		return
	}
	if r.users--; r.users == 0 {
		r.release()
	}
}

// tries bounds how many ports that the operating system refuses Pick passes
// over.
const tries = 64

// Pick reserves an ephemeral port of address local. It starts at one that an
// outsider who does not know secret cannot guess (RFC 6056 algorithm 3). free
// reports whether a port may be used; those that are waiting, too, only count
// when all others are taken. ok is false if there is none, for the reason err
// if the operating system gave one.
func (b *Allocator) Pick(local netip.Addr, secret uint32, free func(local netip.AddrPort,
	waiting bool) bool) (picked netip.AddrPort, r *Reservation, ok bool, err error) {
	for range tries {
		if picked, ok = b.candidate(local, secret, free); !ok {
			break
		}
		if r, err = b.Reserve(picked); err == nil {
			return picked, r, true, nil
		}
	}
	return netip.AddrPort{}, nil, false, err
}

func (b *Allocator) candidate(local netip.Addr, secret uint32,
	free func(netip.AddrPort, bool) bool) (netip.AddrPort, bool) {
	n := uint32(b.Last) - uint32(b.First) + 1
	for i := range 2 * n {
		picked := netip.AddrPortFrom(local, b.First+uint16((secret+uint32(b.next))%n))
		b.next++
		if free(picked, i >= n) {
			return picked, true
		}
	}
	return netip.AddrPort{}, false
}

// Canonical is a without a zone, and an IPv4 address as one.
func Canonical(a netip.AddrPort) netip.AddrPort {
	if a.Addr().Is4() {
		return a
	}
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// Usable tells whether a station can have the address.
func Usable(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
