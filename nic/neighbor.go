package nic

import (
	"net/netip"
	"time"

	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// The constants of neighbor unreachability detection (RFC 4861 section 10),
// which serve ARP as well.
const (
	solicitTries    = 3
	retransTime     = time.Second
	reachableTime   = 30 * time.Second
	delayFirstProbe = 5 * time.Second

	maxNeighbors = 1024
	maxPending   = 64 // frames that wait for one neighbor: a datagram of 64 KiB
)

type neighborState uint8

// The states of RFC 4861 section 7.3.2. Stale is a reachable neighbor whose
// deadline has passed.
const (
	incomplete neighborState = iota
	reachable
	delayed
	probing
)

type neighbor struct {
	ip       netip.Addr
	mac      ether.Addr
	state    neighborState
	deadline frame.Time // of the state
	tries    int
	used     frame.Time
	pending  []outgoing // IP packets
}

// neighbors is the cache of link-layer addresses.
type neighbors struct {
	byIP map[netip.Addr]*neighbor
	list []*neighbor // in order of creation
	last *neighbor   // the one used last: nearly always the next one too
	next frame.Time  // no timer is due before
}

func (c *neighbors) find(a netip.Addr) *neighbor {
	if c.last != nil && c.last.ip == a {
		return c.last
	}
	n := c.byIP[a]
	if n != nil {
		c.last = n
	}
	return n
}

func (c *neighbors) add(a netip.Addr) *neighbor {
	n := &neighbor{ip: a}
	c.byIP[a] = n
	c.list = append(c.list, n)
	return n
}

func (c *neighbors) remove(n *neighbor) {
	delete(c.byIP, n.ip)
	for i, m := range c.list {
		if m == n {
			c.list = append(c.list[:i], c.list[i+1:]...)
			break
		}
	}
	if c.last == n {
		c.last = nil
	}
}

// arm sets n's deadline and remembers the earliest one.
func (c *neighbors) arm(n *neighbor, at frame.Time) {
	n.deadline = at
	c.next = min(c.next, at)
}

// newNeighbor makes an entry; a full cache gives up the one unused for
// longest.
func (d *Device) newNeighbor(a netip.Addr) *neighbor {
	c := &d.neighbors
	if len(c.list) >= maxNeighbors {
		oldest := c.list[0]
		for _, n := range c.list {
			if n.used < oldest.used {
				oldest = n
			}
		}
		d.dropPending(oldest)
		c.remove(oldest)
	}
	n := c.add(a)
	n.used = d.now
	return n
}

// toNeighbor takes o.f, an IP packet, and sends it to the station that owns
// hop, or keeps it until that station has answered.
func (d *Device) toNeighbor(o outgoing, hop netip.Addr) {
	n := d.neighbors.find(hop)
	if n == nil {
		if d.isLocal(hop) {
			d.toSelf(o)
			return
		}
		n = d.newNeighbor(hop)
		d.solicit(n)
	}
	n.used = d.now
	switch n.state {
	case incomplete:
		if len(n.pending) >= maxPending {
			d.dropOut(&d.wire, n.pending[0], drop.Neighbor)
			copy(n.pending, n.pending[1:])
			n.pending = n.pending[:len(n.pending)-1]
		}
		n.pending = append(n.pending, o.kept())
		return
	case reachable:
		if n.deadline <= d.now {
			n.state = delayed
			d.neighbors.arm(n, d.now.Add(delayFirstProbe))
		}
	}
	d.toStation(o, n.mac)
}

// solicit asks for n's link-layer address and arms the next try. A NIC that has
// lost its own addresses of that family stays silent.
func (d *Device) solicit(n *neighbor) {
	n.tries++
	d.neighbors.arm(n, d.now.Add(retransTime))
	src := d.Source(n.ip)
	if !src.IsValid() {
		return
	}
	dst := n.mac // probes go to the station itself
	if n.ip.Is4() {
		if n.state == incomplete {
			dst = ether.Broadcast
		}
		d.sendARP(arp.Packet{Op: arp.Request, SenderMAC: d.cfg.MAC, SenderIP: src, TargetIP: n.ip}, dst)
		return
	}
	to := n.ip
	if n.state == incomplete {
		to = icmp.SolicitedNode(n.ip)
		dst = icmp.MulticastMAC(to)
	}
	msg := icmp.Neighbor{Target: n.ip, Options: icmp.Options{SourceMAC: d.cfg.MAC}}
	d.sendND(&msg, icmp.NeighborSolicitation, src, to, dst)
}

// learn takes note of a station's address, heard in a message that did not
// answer us. create says whether the station is known to want to talk to us.
func (d *Device) learn(a netip.Addr, mac ether.Addr, create bool) {
	n := d.neighbors.find(a)
	if n == nil {
		if !create || mac.IsMulticast() || mac.IsZero() || d.isLocal(a) || !d.onLink(a) {
			return
		}
		n = d.newNeighbor(a)
	}
	if n.state != incomplete && n.mac == mac {
		return
	}
	d.resolved(n, mac, d.now)
}

// confirm takes note of a station's answer to a solicitation of ours.
func (d *Device) confirm(a netip.Addr, mac ether.Addr) {
	if n := d.neighbors.find(a); n != nil && !mac.IsMulticast() {
		d.resolved(n, mac, d.now.Add(reachableTime))
	}
}

// resolved makes n reachable until the time given and sends what waited.
func (d *Device) resolved(n *neighbor, mac ether.Addr, until frame.Time) {
	n.mac, n.state, n.tries, n.deadline = mac, reachable, 0, until
	for _, o := range n.pending {
		d.toStation(o, mac)
	}
	n.pending = nil
	d.settleResolutions(n.ip, mac)
}

// pollNeighbors runs the cache's timers.
func (d *Device) pollNeighbors() {
	c := &d.neighbors
	if c.next > d.now {
		return
	}
	c.next = frame.Never
	var silent []*neighbor
	for _, n := range c.list {
		switch {
		case n.state == reachable:
		case n.deadline > d.now:
			c.next = min(c.next, n.deadline)
		case n.state == delayed:
			n.state = probing
			d.solicit(n)
		case n.tries < solicitTries:
			d.solicit(n)
		default:
			silent = append(silent, n)
		}
	}
	for _, n := range silent {
		d.dropRedirects(n.ip)
		d.dropPending(n)
		if d.awaited(n.ip) {
			n.state, n.tries = incomplete, 0
			d.solicit(n)
			continue
		}
		c.remove(n)
		d.neighborsLost++
	}
}

// dropPending gives up on the packets that wait for n and tells the TCP
// engine which of its segments got lost.
func (d *Device) dropPending(n *neighbor) {
	for _, o := range n.pending {
		d.unreachable(o.f.Bytes())
		d.dropOut(&d.wire, o, drop.Neighbor)
	}
	n.pending = nil
}

// lost is a segment of ours that cannot be delivered.
type lost struct {
	local, remote netip.AddrPort
	seq           uint32
	hard          bool
}

// unreachable has the TCP engine told, by the next Poll, that packet, one of
// ours, cannot be delivered: it may be in the middle of sending now. Only an opening segment counts as lost for good: an established
// connection may outlive a silent neighbor (RFC 1122 section 4.2.3.9).
func (d *Device) unreachable(packet []byte) {
	h, seg, err := ip.ParseQuoted(packet)
	if err != nil || h.Proto != ip.ProtoTCP || h.FragOffset != 0 {
		return
	}
	th, _, err := tcp.Parse(seg)
	if err != nil {
		return
	}
	hard := th.Flags&(tcp.SYN|tcp.ACK) == tcp.SYN
	d.lost = append(d.lost, lost{
		netip.AddrPortFrom(h.Src, th.SrcPort), netip.AddrPortFrom(h.Dst, th.DstPort), uint32(th.Seq), hard})
}

// reportLost tells the TCP engine of segments that could not be delivered.
func (d *Device) reportLost() {
	for _, l := range d.lost {
		d.toe.Unreachable(l.local, l.remote, l.seq, l.hard, 0, d.now)
	}
	d.lost = d.lost[:0]
}
