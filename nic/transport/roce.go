package transport

import (
	"cmp"
	"encoding/binary"
	"net/netip"

	"tapir/nic/cm"
	"tapir/nic/ip"
	"tapir/nic/nicdrop"
	"tapir/nic/port"
	"tapir/nic/roce"
	"tapir/nic/roce/ibcm"
	"tapir/nic/verbs"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	ipproto "tapir/wire/ip"
	"tapir/wire/udp"
)

// RoCE joins the RoCE engine with the internet layer: it takes the datagrams to its UDP
// port (annex A17) and the frames of its EtherType (annex A16). With an operating system
// on the same addresses that one sees neither.
type RoCE struct {
	Engine *roce.Engine
	CM     *ibcm.Engine // connections by queue pair 1
	// Failed: the hardware's offloads have, and nothing is sent.
	Failed bool
	// MAD gives the hardware a packet to queue pair 1, which comes back by Managed; see
	// hardware.Function.
	MAD    func(h ether.Header, packet []byte) (taken bool, why frame.DropReason)
	inHand bool // it has one, of the frame that is being received
	env    Env
	dev    *verbs.Device
	pool   frame.Pool
	looped port.Loop // packets of v1 to our own addresses and groups
	heard  port.Loop // packets of v2 to groups that queue pairs of ours are in
}

// NewRoCE makes an engine in env that serves dev.
func NewRoCE(dev *verbs.Device, pool frame.Pool, env Env) *RoCE {
	t := &RoCE{env: env, dev: dev, pool: pool}
	t.Engine = roce.New(dev, roce.Env{Pool: pool, Out: t, Notes: env.Notes, MTU: dev.PathMTU, Segments: t.segments,
		Holds: t.holds, DCQCN: env.DCQCN, Speed: t.speed})
	dev.OnGroups(t.listen)
	for l := range env.IP.Layers() {
		l.Register(ipproto.ProtoUDP, t)
		l.RegisterEtherType(ib.EtherType, (*v1)(t))
	}
	return t
}

// Manage makes the connection manager of queue pair 1, and m's transport; random
// draws its numbers, and allow, unless it is nil, refuses addresses.
func (t *RoCE) Manage(dev *verbs.Device, m *cm.Manager, random ibcm.Source, allow func(netip.Addr) error) {
	t.CM = ibcm.New(ibcm.Config{}, ibcm.Env{
		Dev: dev, CM: m, Out: t.Engine, Source: random, SourceFor: t.sourceFor, Allow: allow, MTU: dev.PathMTU,
	})
	t.Engine.SetGSI(t.CM)
}

// sourceFor is ibcm.Env's.
func (t *RoCE) sourceFor(remote, local netip.Addr) (source netip.Addr, vlan uint16) {
	if l := t.env.IP.Toward(remote, local); l != nil {
		return l.Source(remote), l.VLAN
	}
	return source, t.env.IP.VLAN
}

// Async takes the events of the device: data may be what tells that a connection is up.
func (t *RoCE) Async(ev verbs.AsyncEvent) {
	if ev.Type == verbs.EventCommEstablished && ev.QP != nil {
		t.CM.Established(ev.QP.QPN())
	}
}

// maxPackets is how many packets a super-frame holds at most: a TAP of Linux before 6.9 refuses
// more (UDP_MAX_SEGMENTS, checked since 6.6). Those of 1,024 octets and more fill it with fewer.
const maxPackets = 64

// segments is how many packets a super-frame holds at most: one if there are none, or the port
// paces each packet.
func (t *RoCE) segments() int {
	if t.env.Sched.Cuts() || t.env.Segments() <= 1 {
		return 1
	}
	return maxPackets
}

// speed is that of the link, in Mb/s; one that is not paced counts as 100 Gb/s.
func (t *RoCE) speed() int { return cmp.Or(t.env.Wire.Sched.Port().Rate(), 100_000) }

// Receive implements ip.Handler: a datagram to RoCE's port. What came in fragments is
// dropped, as is what has a wrong checksum; 0 is none, with IPv6, too.
func (t *RoCE) Receive(p *ip.Packet) ip.Verdict {
	h, body, err := udp.Parse(p.Body)
	if err != nil || h.Dst != ib.UDPPort {
		return ip.Unmatched
	}
	p.Offloaded = true
	packet := p.Packet()
	switch sum := binary.BigEndian.Uint16(p.Body[6:]); {
	case packet == nil:
		return p.Discard(drop.Fragment)
	case p.IP.Src.IsUnspecified():
		return p.Discard(drop.Source)
	case p.Off.GSO == frame.GSONone && udp.HeaderLen+len(body) != len(p.Body):
		return p.Discard(drop.Malformed)
	case sum != 0 && !p.UDPChecksumOK():
		return p.Discard(drop.L4Checksum)
	}
	segment := 0
	if p.Off.GSO == frame.GSOUDP {
		segment = int(p.Off.GSOSize)
	} else if toGSI(body) {
		return t.manage(p, packet)
	}
	t.env.Notes.Drop(t.Engine.Receive(packet, segment, p.Tag(), p.Now)) // which has counted it
	return ip.Consumed
}

// toGSI tells whether the packet that begins with the BTH b is to queue pair 1.
func toGSI(b []byte) bool {
	return len(b) >= ib.BTHLen && binary.BigEndian.Uint32(b[4:])&0xffffff == ib.QP1
}

// manage gives the hardware a packet to queue pair 1, the rest of p's frame.
func (t *RoCE) manage(p *ip.Packet, packet []byte) ip.Verdict {
	t.inHand = true
	taken, why := t.MAD(p.Ether, packet)
	t.inHand = false
	switch {
	case why != frame.DropNone:
		return p.Discard(why)
	case !taken:
		t.env.Notes.Drop(t.receive(p.Ether, packet, p.Now))
	}
	return ip.Consumed
}

// Managed takes a packet to queue pair 1 that the hardware was given, mostly that which is in
// hand, behind an Ethernet header.
func (t *RoCE) Managed(h ether.Header, packet []byte, now frame.Time) {
	if why := t.receive(h, packet, now); t.inHand {
		t.env.Notes.Drop(why)
	} else {
		t.env.Notes.Take() // which belong to no frame in hand
	}
}

// receive gives the engine one packet behind an Ethernet header.
func (t *RoCE) receive(h ether.Header, packet []byte, now frame.Time) frame.DropReason {
	p := ip.Packet{Ether: h}
	if h.Type == ib.EtherType {
		return t.Engine.ReceiveV1(packet, p.Tag(), now)
	}
	return t.Engine.Receive(packet, 0, p.Tag(), now)
}

// v1 is RoCE as the handler of its EtherType.
type v1 RoCE

// Receive implements ip.Handler.
func (t *v1) Receive(p *ip.Packet) ip.Verdict {
	p.Offloaded = true
	packet := p.Frame.Bytes()[p.Ether.Len():]
	if len(packet) > ib.GRHLen && toGSI(packet[ib.GRHLen:]) {
		return (*RoCE)(t).manage(p, packet)
	}
	t.env.Notes.Drop(t.Engine.ReceiveV1(packet, p.Tag(), p.Now))
	return ip.Consumed
}

// Transmit implements roce.Output.
func (t *RoCE) Transmit(f *frame.Frame, hop *roce.Hop, now frame.Time) {
	notes, _ := t.env.Notes.Take()
	o := port.Out{Frame: f, Notes: notes, Offloaded: true, Priority: hop.SL}
	dst, l := netip.AddrFrom16(hop.Dst).Unmap(), t.env.IP.On(hop.VLAN)
	if dst.IsMulticast() && len(t.dev.Group(hop.Dst)) > 0 && !t.Failed {
		t.hear(f, hop)
	}
	switch {
	case t.Failed:
		t.env.Wire.Drop(o, nicdrop.Engine, now)
	case hop.V1 && l.IsLocal(dst):
		loop(&t.looped, f, hop)
	default:
		if hop.V1 {
			o.Type = ib.EtherType
			o.Prioritize(&t.env.Wire.DCB().RoCE)
		} else {
			o.Prioritize(&t.env.Wire.DCB().RoCEv2)
		}
		l.Output(o, dst, now)
	}
}

// tagLen is what loop puts in front of a packet: the tag's 16 bits (TCI) of its hop.
const tagLen = 2

// loop keeps f, a packet of that hop, to be received by this NIC.
func loop(to *port.Loop, f *frame.Frame, hop *roce.Hop) {
	binary.BigEndian.PutUint16(f.Prepend(tagLen), uint16(hop.SL)<<13|hop.VLAN)
	to.Transmit(f)
}

// hear keeps a copy of f, a packet to a group of this NIC's own queue pairs, to be received:
// its members get what others on the same NIC send, as those on the link do.
func (t *RoCE) hear(f *frame.Frame, hop *roce.Hop) {
	to := &t.heard
	if hop.V1 {
		to = &t.looped
	}
	c := t.pool.Get(f.Len())
	switch {
	case c == nil:
		t.env.Wire.Drops.Count(drop.NoBuffer)
		return
	case to.Room() <= 0:
		c.Release()
		t.env.Wire.Drops.Count(drop.TxQueue)
		return
	}
	copy(c.Extend(f.Len()), f.Bytes())
	loop(to, c, hop)
}

// listen joins the groups of queue pairs, on every VLAN: a queue pair that is attached to a
// group gets its datagrams from any. Those of RoCE v1 have the IPv4 group in their last octets
// (annex A16); their frames go by the station address alone.
func (t *RoCE) listen() {
	gids := t.dev.Groups()
	groups := make([]ip.Group, 0, len(gids))
	for _, g := range gids {
		a := netip.AddrFrom16(g).Unmap()
		groups = append(groups, ip.Group{IP: a, MAC: ip.MulticastMAC(a)})
	}
	for l := range t.env.IP.Layers() {
		l.Join(t, groups...)
	}
}

// Room implements roce.Output.
func (t *RoCE) Room() int {
	if !t.env.Sched.Ready() {
		return 0
	}
	return t.env.Wire.EngineRoom()
}

// holds tells whether packets of a hop wait for their traffic class.
func (t *RoCE) holds(hop *roce.Hop) bool {
	tagged, pcp, tclass, p := hop.VLAN != 0, hop.SL, hop.TClass, &t.env.Wire.DCB().RoCEv2
	if hop.V1 {
		p = &t.env.Wire.DCB().RoCE
	}
	if p.On { // as Prioritize does it
		if pcp == 0 {
			pcp = p.PCP
		}
		if tagged = tagged || !p.ByDSCP; p.ByDSCP {
			tclass = p.DSCP << 2
		}
	}
	return t.env.Wire.Holds(tagged, pcp, !hop.V1, tclass)
}

// Poll sends what is due and returns when it wants to be called again.
func (t *RoCE) Poll(now frame.Time) frame.Time {
	next := t.CM.Poll(now) // before what sends its messages
	next = min(next, t.Engine.Poll(now))
	v1 := t.turnBack(&t.looped, func(b []byte, tag ether.Tag) { t.Engine.ReceiveV1(b, tag, now) })
	if t.turnBack(&t.heard, func(b []byte, tag ether.Tag) { t.Engine.Receive(b, 0, tag, now) }) || v1 {
		return now
	}
	return next
}

// turnBack receives what a loop holds, and tells whether there was anything.
func (t *RoCE) turnBack(l *port.Loop, receive func(b []byte, tag ether.Tag)) bool {
	return l.Drain(func(f *frame.Frame) {
		t.env.Notes.Take()
		b := f.Bytes()
		receive(b[tagLen:], ether.Tag{TCI: binary.BigEndian.Uint16(b)})
		f.Release()
	})
}
