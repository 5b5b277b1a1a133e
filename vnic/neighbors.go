package vnic

import (
	"net/netip"
	"time"

	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
)

// neighborKey is an IP address in a VLAN.
type neighborKey struct {
	ip  netip.Addr
	vid uint16
}

// neighbor is the station that has an address.
type neighbor struct {
	mac    ether.Addr
	router bool // as it advertised itself (IPv6)
	seen   frame.Time
}

// neighbors are the addresses of stations across the fabric, as their ARP and
// ND messages told them.
type neighbors struct {
	byIP map[neighborKey]neighbor
	most int
	age  time.Duration
}

func (t *neighbors) limit(most int, age time.Duration) { t.most, t.age = most, age }

func (t *neighbors) clear() { t.byIP = nil }

func (t *neighbors) learn(k neighborKey, e neighbor) {
	if _, there := t.byIP[k]; !there {
		if len(t.byIP) >= t.most {
			return
		}
		if t.byIP == nil {
			t.byIP = map[neighborKey]neighbor{}
		}
	}
	t.byIP[k] = e
}

func (t *neighbors) find(k neighborKey, now frame.Time) (neighbor, bool) {
	e, ok := t.byIP[k]
	return e, ok && now.Sub(e.seen) <= t.age
}

func (t *neighbors) expire(now frame.Time) {
	for k, e := range t.byIP {
		if now.Sub(e.seen) > t.age {
			delete(t.byIP, k)
		}
	}
}

// noteNeighbor remembers what a message from the fabric tells of its sender's
// address. One that names another station than sent it is not believed.
func (n *Netdev) noteNeighbor(in *inner, now frame.Time) {
	switch in.typ {
	case ether.TypeARP:
		p, err := arp.Parse(in.payload)
		if err == nil && p.SenderMAC == in.src && !p.SenderIP.IsUnspecified() {
			n.known.learn(neighborKey{p.SenderIP, in.vid}, neighbor{mac: in.src, seen: now})
			n.port.forgetBy(now.Add(n.policy.Age))
		}
	case ether.TypeIPv6:
		h, nd, typ, ok := parseND(in.payload)
		if !ok || typ != icmp.NeighborAdvertisement || nd.Options.TargetMAC != in.src || h.Src.IsUnspecified() {
			return
		}
		// Only an advertisement tells whether the station is a router, and a
		// wrong answer to that would cost the asker its default route.
		n.known.learn(neighborKey{nd.Target, in.vid}, neighbor{mac: in.src, router: nd.Router, seen: now})
		n.port.forgetBy(now.Add(n.policy.Age))
	}
}

// parseND reads an IPv6 packet that is a neighbor solicitation or
// advertisement from this link.
func parseND(b []byte) (h ip.Header, nd icmp.Neighbor, typ uint8, ok bool) {
	// The quick look first: most packets are something else.
	if len(b) < ip.HeaderLen6+icmp.HeaderLen || b[6] != ip.ProtoICMPv6 ||
		b[ip.HeaderLen6] != icmp.NeighborSolicitation && b[ip.HeaderLen6] != icmp.NeighborAdvertisement {
		return h, nd, 0, false
	}
	h, payload, err := ip.Parse(b)
	if err != nil || h.Proto != ip.ProtoICMPv6 || h.TTL != icmp.NDHopLimit || h.IsFragment() ||
		!icmp.Verify6(h.Src, h.Dst, payload) {
		return h, nd, 0, false
	}
	m, err := icmp.Parse(payload)
	if err != nil {
		return h, nd, 0, false
	}
	nd, err = m.Neighbor()
	return h, nd, m.Type, err == nil
}

// answer answers a request of the host for an address that is known, and
// reports whether it did. Probes for duplicates, announcements and requests to
// one station pass: those want to hear from the station itself.
func (n *Netdev) answer(in *inner, now frame.Time) bool {
	switch in.typ {
	case ether.TypeARP:
		return n.answerARP(in, now)
	case ether.TypeIPv6:
		return n.answerND(in, now)
	}
	return false
}

func (n *Netdev) answerARP(in *inner, now frame.Time) bool {
	p, err := arp.Parse(in.payload)
	if err != nil {
		return false
	}
	delete(n.known.byIP, neighborKey{p.SenderIP, in.vid}) // it is on this side now; so announcements pass
	if p.Op != arp.Request || !in.flow.Group || p.SenderIP.IsUnspecified() {
		return false
	}
	e, ok := n.known.find(neighborKey{p.TargetIP, in.vid}, now)
	if !ok || e.mac == in.src {
		return false
	}
	f := n.reply(in, e.mac, in.src, max(arp.Len, opaMinPayload-in.tagLen()))
	if f == nil {
		return false
	}
	arp.Packet{Op: arp.Reply, SenderMAC: e.mac, SenderIP: p.TargetIP, TargetMAC: p.SenderMAC,
		TargetIP: p.SenderIP}.Put(f.Bytes()[in.at:])
	n.deliver(f)
	return true
}

// naLen is the length of a neighbor advertisement with its target's MAC
// address.
const naLen = icmp.HeaderLen + 16 + 8

func (n *Netdev) answerND(in *inner, now frame.Time) bool {
	h, nd, typ, ok := parseND(in.payload)
	if !ok {
		return false
	}
	if typ == icmp.NeighborAdvertisement {
		delete(n.known.byIP, neighborKey{nd.Target, in.vid})
	}
	if typ != icmp.NeighborSolicitation || !in.flow.Group || h.Src.IsUnspecified() {
		return false
	}
	e, ok := n.known.find(neighborKey{nd.Target, in.vid}, now)
	if !ok || e.mac == in.src {
		return false
	}
	f := n.reply(in, e.mac, in.src, ip.HeaderLen6+naLen)
	if f == nil {
		return false
	}
	na := icmp.Neighbor{Target: nd.Target, Router: e.router, Solicited: true, Override: true,
		Options: icmp.Options{TargetMAC: e.mac}}
	b := f.Bytes()[in.at:]
	out := ip.Header{Version: 6, TTL: icmp.NDHopLimit, Proto: ip.ProtoICMPv6, PayloadLen: naLen, Src: nd.Target,
		Dst: h.Src}
	at := out.Put(b)
	var body [naLen]byte
	m := na.Message(icmp.NeighborAdvertisement, body[:0])
	m.Put(b[at:])
	icmp.SetChecksum6(out.Src, out.Dst, b[at:at+naLen])
	n.deliver(f)
	return true
}

// reply returns a frame with the tags of in and size octets of zeros as
// payload, nil if there is no buffer.
func (n *Netdev) reply(in *inner, src, dst ether.Addr, size int) *frame.Frame {
	f := n.port.pool.Get(in.at + size)
	if f == nil {
		return nil
	}
	b := f.Extend(in.at + size)
	copy(b, in.frame[:in.at])
	copy(b, dst[:])
	copy(b[6:], src[:])
	clear(b[in.at:])
	return f
}
