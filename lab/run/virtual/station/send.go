package station

import (
	"net/netip"
	"slices"
	"time"

	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// Neighbors are asked so often, with so much time between, before what waits
// for them is given up, as Linux does (RFC 4861 section 10 has the same).
const (
	askTimes = 3
	askEvery = time.Second
)

// mostWaiting bounds the packets that wait for one neighbor.
const mostWaiting = 64

// neighbor is a station on the link.
type neighbor struct {
	addr    netip.Addr
	from    netip.Addr // that asks
	mac     ether.Addr
	known   bool
	asked   int
	next    frame.Time // when it is asked again, or given up
	waiting [][]byte   // packets for it
}

// neighbor is the entry for an address, a new one if need be.
func (i *Iface) neighbor(a netip.Addr) *neighbor {
	n := i.neighbors[a]
	if n == nil {
		n = &neighbor{addr: a}
		i.neighbors[a] = n
	}
	return n
}

// learn notes a neighbor's MAC address and sends what waited for it.
func (i *Iface) learn(a netip.Addr, mac ether.Addr) {
	n := i.neighbor(a)
	i.asked = slices.DeleteFunc(i.asked, func(x *neighbor) bool { return x == n })
	n.mac, n.known = mac, true
	for _, p := range n.waiting {
		i.sendTo(mac, etherType(a), p)
	}
	n.waiting = nil
}

func etherType(a netip.Addr) uint16 {
	if a.Is4() {
		return ether.TypeIPv4
	}
	return ether.TypeIPv6
}

// packet is m in an IP packet.
func packet(from, to netip.Addr, ttl uint8, id uint16, m *icmp.Message) []byte {
	h := ip.Header{Version: 4, TTL: ttl, Proto: ip.ProtoICMP, Src: from, Dst: to, ID: id, DF: true, PayloadLen: m.Len()}
	if to.Is6() {
		h.Version, h.Proto = 6, ip.ProtoICMPv6
	}
	b := make([]byte, h.HeaderLen()+m.Len())
	n := h.Put(b)
	m.Put(b[n:])
	if to.Is6() {
		icmp.SetChecksum6(from, to, b[n:])
	} else {
		icmp.SetChecksum4(b[n:])
	}
	return b
}

// send sends m to an address, once its MAC address is known.
func (h *Host) send(from, to netip.Addr, ttl uint8, m icmp.Message, now frame.Time) {
	if h.mine(to) {
		h.own = append(h.own, packet(from, to, ttl, 0, &m))
		return
	}
	i, _ := h.route(to)
	if i == nil {
		h.drops.Count(drop.NoRoute)
		return
	}
	i.ipID++
	p := packet(from, to, ttl, i.ipID, &m)
	if len(p) > i.MTU {
		h.drops.Count(drop.Oversize)
		return
	}
	n := i.neighbor(to)
	if n.known {
		i.sendTo(n.mac, etherType(to), p)
		return
	}
	if len(n.waiting) == mostWaiting {
		h.drops.Count(drop.Neighbor)
		return
	}
	n.waiting = append(n.waiting, p)
	if !slices.Contains(i.asked, n) {
		n.from, n.asked = from, 0
		i.asked = append(i.asked, n)
		i.ask(n, now)
	}
}

// ask asks for a neighbor's MAC address.
func (i *Iface) ask(n *neighbor, now frame.Time) {
	n.asked++
	n.next = now.Add(askEvery)
	if n.addr.Is4() {
		i.sendTo(ether.Broadcast, ether.TypeARP, arp.Packet{Op: arp.Request, SenderMAC: i.MAC, SenderIP: n.from,
			TargetIP: n.addr}.AppendTo(nil))
		return
	}
	group := icmp.SolicitedNode(n.addr)
	q := icmp.Neighbor{Target: n.addr, Options: icmp.Options{SourceMAC: i.MAC}}
	m := q.Message(icmp.NeighborSolicitation, nil)
	i.sendTo(icmp.MulticastMAC(group), ether.TypeIPv6, packet(n.from, group, icmp.NDHopLimit, 0, &m))
}

// sendTo queues a packet for a station.
func (i *Iface) sendTo(to ether.Addr, kind uint16, p []byte) {
	f := i.host.pool.Get(ether.HeaderLen + len(p))
	if f == nil {
		i.host.drops.Count(drop.NoBuffer)
		return
	}
	f.Append(ether.Header{Dst: to, Src: i.MAC, Type: kind}.AppendTo(nil))
	f.Append(p)
	if !i.toSend.Push(f, mostWaiting) {
		i.host.drops.Count(drop.TxQueue)
		f.Release()
	}
}

// Poll does what is due and sends queued frames while the link takes them. It
// returns the next deadline; with frames left it must be called when the link is
// free.
func (h *Host) Poll(now frame.Time) frame.Time {
	for _, i := range h.ifaces {
		i.expire(now)
	}
	next := h.pollPings(now)
	for len(h.own) > 0 {
		h.deliverOwn(now)
		next = h.pollPings(now)
	}
	for _, i := range h.ifaces {
		for i.toSend.Len() > 0 && i.link.Room() > 0 {
			i.link.Transmit(i.toSend.Pop())
		}
		for _, n := range i.asked {
			next = min(next, n.next)
		}
	}
	return next
}

func (h *Host) pollPings(now frame.Time) frame.Time {
	next := frame.Never
	for _, p := range h.pings {
		next = min(next, p.poll(now))
	}
	h.pings = slices.DeleteFunc(h.pings, func(p *Ping) bool { return p.ended })
	return next
}

// deliverOwn takes in what the host sends to itself.
func (h *Host) deliverOwn(now frame.Time) {
	own := h.own
	h.own = nil
	for _, b := range own {
		if head, body, err := ip.Parse(b); err == nil { // we made it
			h.receiveICMP(nil, &head, body, now)
		}
	}
}

// expire asks neighbors again that have not answered, or gives them up.
func (i *Iface) expire(now frame.Time) {
	for _, n := range slices.Clone(i.asked) {
		switch {
		case n.next > now:
		case n.asked < askTimes:
			i.ask(n, now)
		default:
			i.giveUp(n)
		}
	}
}

// giveUp drops what waits for a neighbor that does not answer.
func (i *Iface) giveUp(n *neighbor) {
	i.asked = slices.DeleteFunc(i.asked, func(x *neighbor) bool { return x == n })
	delete(i.neighbors, n.addr)
	for _, b := range n.waiting {
		i.host.drops.Count(drop.Neighbor)
		if h, body, err := ip.Parse(b); err == nil { // we made it
			i.host.unreachable(&h, body)
		}
	}
}
