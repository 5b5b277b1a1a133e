// Package vnic is the hardware-independent half of Omni-Path VNICs: Ethernet
// network devices whose frames cross the fabric in 16B packets. One vport is
// one Netdev and belongs to one virtual Ethernet switch (vESW); the vports of
// an HFI port make a Port. Below is an HFI port, behind the seam Lower; above,
// the operating system's interface, which this package never touches: frames
// come in by Transmit and leave by a frame.Link.
//
// It is a pure state machine: no clock, goroutine or lock. Transmit and
// Deliver only queue; the HFI port's Poll sends to the fabric, Port.Poll to
// the hosts.
//
// A frame of the host, in the order of transmit.go:
//
//  1. arrive    padded to 60 octets, counted
//  2. state     FORWARDING, opened, carrier
//  3. flow      VLAN tag, protocol, hash
//  4. source    the source address is allowed; it is remembered as ours
//  5. groups    IGMP and MLD reports are noted; ARP and ND requests answered
//  6. dlid      the MAC table, groups, LMACs, stations seen, default ports
//  7. storm     what goes to all is limited
//  8. header    SC, VL, RC, entropy, P_Key; the packet goes down
//
// A packet of the fabric, in the order of receive.go:
//
//  1. state     FORWARDING, opened, carrier
//  2. packet    P_Key, SLID; runt, oversize
//  3. source    is it where it says? it is remembered
//  4. storm     what came to all is limited
//  5. neighbors ARP and ND messages are noted
//  6. relay     a proxy passes on what is not for its side
//  7. host      queued for the operating system
package vnic

import (
	"errors"
	"fmt"
	"slices"

	"tapir/opa"
	"tapir/wire/frame"
)

// MaxNetdevs is the number of vports that one HFI port can have.
const MaxNetdevs = 255

// Port holds the vports of one HFI port, by their number.
type Port struct {
	lower     Lower
	pool      frame.Pool
	byNumber  [256]*Netdev
	list      []*Netdev // in the order of their numbers
	waiting   []*Netdev // with frames for the host
	observers []Observer
	sweep     frame.Time // when what was remembered is looked through next
}

// NewPort returns a port without vports over lower. Answers to ARP and ND
// requests are made in frames of pool.
func NewPort(lower Lower, pool frame.Pool) *Port {
	return &Port{lower: lower, pool: pool, sweep: frame.Never}
}

// Lower is the HFI port below.
func (p *Port) Lower() Lower { return p.lower }

// Observe tells o (kept) of everything that happens to vports from now on.
func (p *Port) Observe(o Observer) { p.observers = append(p.observers, o) }

// Errors of Create.
var (
	ErrExists = errors.New("vnic: the vport exists")
	ErrFull   = errors.New("vnic: the port has as many vports as it can have")
)

// Create makes vport number num with power-on values and the policy given:
// closed, without carrier, in state DROP_ALL.
func (p *Port) Create(num uint8, policy Policy) (*Netdev, error) {
	switch {
	case p.byNumber[num] != nil:
		return nil, fmt.Errorf("vport %d: %w", num, ErrExists)
	case len(p.list) == MaxNetdevs:
		return nil, fmt.Errorf("vport %d: %w", num, ErrFull)
	}
	n := &Netdev{port: p, num: num, cfg: PowerOn(), mtu: DefaultMTU}
	n.SetPolicy(policy)
	rn, err := p.lower.AllocRDMANetdev(n)
	if err != nil {
		return nil, fmt.Errorf("vport %d: %w", num, err)
	}
	n.lower = rn
	n.carrier = p.lower.Active()
	p.byNumber[num] = n
	at, _ := slices.BinarySearchFunc(p.list, num, func(n *Netdev, num uint8) int { return int(n.num) - int(num) })
	p.list = slices.Insert(p.list, at, n)
	n.notify(Added)
	return n, nil
}

// Remove ends vport num, if it exists, and releases what waits in it.
func (p *Port) Remove(num uint8) {
	n := p.byNumber[num]
	if n == nil {
		return
	}
	n.close()
	p.lower.FreeRDMANetdev(n.lower)
	p.byNumber[num] = nil
	p.list = slices.DeleteFunc(p.list, func(x *Netdev) bool { return x == n })
	p.waiting = slices.DeleteFunc(p.waiting, func(x *Netdev) bool { return x == n })
	n.notify(Removed)
}

// Netdev returns vport num, nil if it does not exist.
func (p *Port) Netdev(num uint8) *Netdev { return p.byNumber[num] }

// Netdevs returns all vports in the order of their numbers, borrowed until one
// is created or removed.
func (p *Port) Netdevs() []*Netdev { return p.list }

// VESW returns the vport of the vESW with that id, nil if there is none.
func (p *Port) VESW(id uint16) *Netdev {
	for _, n := range p.list {
		if n.cfg.VESWID == id && id != 0 {
			return n
		}
	}
	return nil
}

// Poll hands the hosts what waits for them, as far as they have room, and
// forgets what is too old. It returns the time at which it wants to be called
// again, frame.Never if only a frame can change anything.
func (p *Port) Poll(now frame.Time) frame.Time {
	left := p.waiting[:0]
	for _, n := range p.waiting {
		if n.flush(now) {
			left = append(left, n)
		}
	}
	clear(p.waiting[len(left):])
	p.waiting = left
	if now >= p.sweep {
		p.sweep = frame.Never
		for _, n := range p.list {
			n.expire(now)
		}
	}
	return p.sweep
}

// forgetBy makes sure that Poll looks through what is remembered at time at.
func (p *Port) forgetBy(at frame.Time) { p.sweep = min(p.sweep, at) }

var _ opa.NetdevClient = (*Netdev)(nil)
