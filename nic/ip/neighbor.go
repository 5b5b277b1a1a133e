package ip

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

	"tapir/nic/port"
	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// The constants of neighbor unreachability detection (RFC 4861 section 10),
// which serve ARP as well.
const (
	SolicitTries    = 3
	RetransTime     = time.Second
	ReachableTime   = 30 * time.Second
	DelayFirstProbe = 5 * time.Second

	// LockTime is how long an address that was told stays what it is, unless its
	// station answers a question or announces itself (locktime of arp(7)). To one
	// question of ours several may answer; the last counts.
	LockTime = time.Second

	MaxNeighbors = 1024
	MaxPending   = 64 // frames that wait for one neighbor: a datagram of 64 KiB
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
	told     frame.Time // when mac was told last
	asked    frame.Time // when we asked last
	tries    int
	used     frame.Time
	pending  []port.Out // IP packets
}

// neighborStates are the names of ip-neighbour(8).
var neighborStates = [...]string{"INCOMPLETE", "REACHABLE", "DELAY", "PROBE"}

// Neighbor is a station of the link, for display.
type Neighbor struct {
	IP    netip.Addr
	VLAN  uint16     // 0: untagged
	MAC   ether.Addr // zero while it is INCOMPLETE
	State string     // INCOMPLETE, REACHABLE, DELAY or PROBE
}

// Neighbors are the stations that the cache knows or asks for, in order.
func (l *Layer) Neighbors() iter.Seq[Neighbor] {
	return func(yield func(Neighbor) bool) {
		for _, n := range l.neighbors.list {
			if !yield(Neighbor{n.ip, l.VLAN, n.mac, neighborStates[n.state]}) {
				return
			}
		}
	}
}

// neighbors is the cache of link-layer addresses.
type neighbors struct {
	byIP map[netip.Addr]*neighbor
	list []*neighbor // in order of creation
	last *neighbor   // the one used last: nearly always the next one too
	next frame.Time  // no timer is due before

	moves uint64 // addresses that another station claimed unasked
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

func (c *neighbors) remove(n *neighbor) {
	delete(c.byIP, n.ip)
	i := slices.Index(c.list, n)
	c.list = slices.Delete(c.list, i, i+1)
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
func (l *Layer) newNeighbor(a netip.Addr, now frame.Time) *neighbor {
	c := &l.neighbors
	if len(c.list) >= MaxNeighbors {
		oldest := slices.MinFunc(c.list, func(a, b *neighbor) int { return cmp.Compare(a.used, b.used) })
		l.dropPending(oldest, now)
		c.remove(oldest)
	}
	n := &neighbor{ip: a, used: now}
	c.byIP[a] = n
	c.list = append(c.list, n)
	return n
}

// toNeighbor takes o.Frame, an IP packet, and sends it to the station that owns
// hop, or keeps it until that station has answered.
func (l *Layer) toNeighbor(o port.Out, hop netip.Addr, now frame.Time) {
	n := l.neighbors.find(hop)
	if n == nil {
		switch local := l.IsLocal(hop); {
		case local && l.looped.Room() <= 0:
			l.env.Wire.Drop(o, drop.TxQueue, now)
			return
		case local:
			l.looped.Transmit(o.Frame)
			return
		}
		n = l.newNeighbor(hop, now)
		l.solicit(n, now)
	}
	n.used = now
	switch n.state {
	case incomplete:
		if len(n.pending) >= MaxPending {
			l.env.Wire.Drop(n.pending[0], drop.Neighbor, now)
			n.pending = slices.Delete(n.pending, 0, 1)
		}
		n.pending = append(n.pending, o.Retained())
		return
	case reachable:
		if n.deadline <= now {
			n.state = delayed
			l.neighbors.arm(n, now.Add(DelayFirstProbe))
		}
	}
	if !o.Station.IsZero() { // its sender knows the station, and is told when it changes
		l.toStation(o, o.Station, now)
		return
	}
	l.toStation(o, n.mac, now)
}

// solicit asks for n's link-layer address and arms the next try. A NIC that has
// lost its own addresses of that family stays silent.
func (l *Layer) solicit(n *neighbor, now frame.Time) {
	n.tries, n.asked = n.tries+1, now
	l.neighbors.arm(n, now.Add(RetransTime))
	src := l.Source(n.ip)
	if !src.IsValid() {
		return
	}
	dst := n.mac // probes go to the station itself
	if n.ip.Is4() {
		if n.state == incomplete {
			dst = ether.Broadcast
		}
		l.sendARP(arp.Packet{Op: arp.Request, SenderMAC: l.MAC, SenderIP: src, TargetIP: n.ip}, dst, now)
		return
	}
	to := n.ip
	if n.state == incomplete {
		to = icmp.SolicitedNode(n.ip)
		dst = icmp.MulticastMAC(to)
	}
	msg := icmp.Neighbor{Target: n.ip, Options: icmp.Options{SourceMAC: l.MAC}}
	l.sendND(&msg, icmp.NeighborSolicitation, src, to, dst, now)
}

// learn takes note of a station's address, heard in a message that did not
// answer us. create says whether the station is known to want to talk to us, lock
// how old an address must be that another one replaces.
func (l *Layer) learn(a netip.Addr, mac ether.Addr, create bool, lock time.Duration, now frame.Time) {
	n := l.neighbors.find(a)
	if n == nil {
		if !create || mac.IsMulticast() || mac.IsZero() || l.IsLocal(a) || !covers(l.addrs, a) {
			return
		}
		n = l.newNeighbor(a, now)
	}
	if n.state != incomplete {
		if n.mac == mac {
			return
		}
		if l.neighbors.moves++; now.Sub(n.told) < lock {
			return
		}
	}
	l.resolved(n, mac, now, now)
}

// confirm takes note of a station's answer to a solicitation of ours.
func (l *Layer) confirm(a netip.Addr, mac ether.Addr, now frame.Time) {
	n := l.neighbors.find(a)
	if n == nil || mac.IsMulticast() {
		return
	}
	if n.mac != mac && now.Sub(n.asked) > RetransTime { // nobody has asked
		l.learn(a, mac, false, LockTime, now)
		return
	}
	l.resolved(n, mac, now.Add(ReachableTime), now)
}

// resolved makes n reachable until the time given and sends what waited.
func (l *Layer) resolved(n *neighbor, mac ether.Addr, until, now frame.Time) {
	moved := n.mac != mac
	n.mac, n.state, n.tries, n.deadline, n.told = mac, reachable, 0, until, now
	for _, o := range n.pending {
		l.toStation(o, mac, now)
	}
	n.pending = nil
	l.answerResolutions(n.ip, mac)
	if moved {
		l.haveMoved()
	}
}

// pollNeighbors runs the cache's timers.
func (l *Layer) pollNeighbors(now frame.Time) {
	c := &l.neighbors
	l.askAwaited(now)
	c.next = frame.Never
	var silent []*neighbor
	for _, n := range c.list {
		switch {
		case n.state == reachable:
		case n.deadline > now:
			c.next = min(c.next, n.deadline)
		case n.state == delayed:
			n.state = probing
			l.solicit(n, now)
		case n.tries < SolicitTries:
			l.solicit(n, now)
		default:
			silent = append(silent, n)
		}
	}
	for _, n := range silent {
		l.forgetRedirects(func(r redirect) bool { return r.hop == n.ip })
		l.dropPending(n, now)
		if l.resolving.awaits(n.ip) {
			n.state, n.tries = incomplete, 0
			l.solicit(n, now)
			continue
		}
		c.remove(n)
		l.neighborsLost++
	}
}

// dropPending gives up on the packets that wait for n and tells the transports.
func (l *Layer) dropPending(n *neighbor, now frame.Time) {
	for _, o := range n.pending {
		l.unreachable(o.Frame.Bytes())
		l.env.Wire.Drop(o, drop.Neighbor, now)
	}
	n.pending = nil
}

// unreachable tells the transport that packet, one of ours, cannot leave.
func (l *registry) unreachable(packet []byte) {
	h, payload, err := ip.ParseQuoted(packet)
	if err != nil {
		return
	}
	if t := l.transport(h.Proto); t != nil && h.FragOffset == 0 && len(payload) >= 4 {
		local, remote := ends(&h, payload)
		t.Lost(local, remote, payload)
	}
}
