package roce

import (
	"encoding/binary"
	"net/netip"

	"tapir/nic/nicdrop"
	"tapir/nic/verbs"
	"tapir/nic/verbs/qpattr"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// packet is an arriving packet.
type packet struct {
	ib.Packet
	src, dst verbs.GID
	v1       bool
	class    uint8 // TOS or traffic class
	hops     uint8
	flow     uint32
	vlan     uint16          // of the frame; 0: untagged
	sl       uint8           // priority of its tag
	grh      [ib.GRHLen]byte // what a datagram's receiver finds in front
}

// Receive takes an IP packet with a UDP datagram to port 4791 (borrowed), which ends where the IP
// header says. With segment set it is a super-frame whose packets have segment octets of UDP
// payload each, the last one perhaps fewer. tag is the frame's. It returns why the last packet
// that was discarded was, frame.DropNone if none was.
func (e *Engine) Receive(b []byte, segment int, tag ether.Tag, now frame.Time) frame.DropReason {
	in := &e.in
	in.v1, in.vlan, in.sl = false, tag.VID(), tag.PCP()
	if len(b) < 1 {
		return e.drop(drop.Truncated)
	}
	n := ip.HeaderLen6
	if b[0]>>4 == 4 {
		if n = ip.HeaderLen4; len(b) < n+udp.HeaderLen {
			return e.drop(drop.Truncated)
		}
		if b[0] != 0x45 {
			return e.drop(drop.IPOptions)
		}
		if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
			return e.drop(drop.Fragment)
		}
		in.src, in.dst = netip.AddrFrom4([4]byte(b[12:])).As16(), netip.AddrFrom4([4]byte(b[16:])).As16()
		in.class, in.hops, in.flow = b[1], b[8], 0
		clear(in.grh[:20])
		copy(in.grh[20:], b[:20])
	} else {
		if len(b) < n+udp.HeaderLen {
			return e.drop(drop.Truncated)
		}
		if b[6] != ip.ProtoUDP {
			return e.drop(drop.IPProtocol)
		}
		v := binary.BigEndian.Uint32(b)
		in.src, in.dst = verbs.GID(b[8:24]), verbs.GID(b[24:40])
		in.class, in.hops, in.flow = uint8(v>>20), b[7], v&0xfffff
		copy(in.grh[:], b[:40])
	}
	body := b[n+udp.HeaderLen:]
	if segment <= 0 || segment >= len(body) {
		return e.segment(startICRC(b[:n+udp.HeaderLen]), body, now)
	}
	return e.split(b[:n+udp.HeaderLen], body, segment, now)
}

// split takes the packets of a super-frame with the headers h. Each has lengths and
// an identification of its own, which its ICRC covers.
func (e *Engine) split(h, body []byte, segment int, now frame.Time) (reason frame.DropReason) {
	var own [maxHeader]byte
	copy(own[:], h)
	be := binary.BigEndian
	v4 := len(h) == ip.HeaderLen4+udp.HeaderLen
	var start ib.ICRC // without identification
	for i, sized := 0, 0; len(body) > 0; i++ {
		b := body[:min(segment, len(body))]
		body = body[len(b):]
		if len(b) != sized {
			sized = len(b)
			be.PutUint16(own[len(h)-udp.HeaderLen+4:], uint16(udp.HeaderLen+len(b)))
			if v4 {
				be.PutUint16(own[2:], uint16(len(h)+len(b)))
				be.PutUint16(own[4:], 0)
			} else {
				be.PutUint16(own[4:], uint16(udp.HeaderLen+len(b)))
			}
			start = startICRC(own[:len(h)])
		}
		c := start
		if v4 {
			c = c.Identify(be.Uint16(h[4:]) + uint16(i))
		}
		if r := e.segment(c, b, now); r != frame.DropNone {
			reason = r
		}
	}
	return reason
}

// ReceiveV1 takes what is behind the Ethernet header of a frame of EtherType 0x8915
// with that tag (borrowed): a GRH and the packet. Octets behind it are padding.
func (e *Engine) ReceiveV1(b []byte, tag ether.Tag, now frame.Time) frame.DropReason {
	h, body, err := ib.ParseGRH(b)
	if err != nil {
		return e.drop(nicdrop.Transport)
	}
	in := &e.in
	in.src, in.dst, in.v1, in.vlan, in.sl = h.SGID, h.DGID, true, tag.VID(), tag.PCP()
	in.class, in.hops, in.flow = h.TrafficClass, h.HopLimit, h.FlowLabel
	copy(in.grh[:], b)
	return e.segment(ib.ICRCGRH(b), body, now)
}

// drop counts a packet that is discarded.
func (e *Engine) drop(r frame.DropReason) frame.DropReason {
	e.stats.Drops.Count(r)
	return r
}

// segment takes one packet b, from its BTH to its ICRC, which begins with c.
func (e *Engine) segment(c ib.ICRC, b []byte, now frame.Time) frame.DropReason {
	e.stats.PacketsIn++
	switch {
	case len(b) < ib.BTHLen+ib.ICRCLen:
		return e.drop(drop.Truncated)
	case !c.Check(b):
		e.stats.BadICRC++
		return e.drop(nicdrop.ICRC)
	}
	p := &e.in
	if p.Parse(b[:len(b)-ib.ICRCLen]) != nil {
		return e.drop(nicdrop.Transport)
	}
	e.stats.OctetsIn += uint64(len(p.Payload))
	if p.Opcode.Transport() == ib.TransportUD {
		return e.datagram(p, now)
	}
	v := e.dev.QPByNumber(p.DestQP)
	if v == nil {
		return e.drop(nicdrop.DestQP)
	}
	return e.connected(v.Endpoint().(*qp), p, now)
}

// connected takes a packet to a queue pair that has one peer. Section 9.6.1: what is
// wrong up to here is dropped without an answer.
func (e *Engine) connected(q *qp, p *packet, now frame.Time) frame.DropReason {
	s := q.v.State()
	switch {
	case s < verbs.RTR || s == verbs.Err || q.typ == qpattr.UD ||
		p.Opcode.Transport() != q.class && p.Opcode != ib.CNP:
		return e.drop(nicdrop.DestQP)
	case !verbs.PKeysMatch(q.pkey(), p.PKey):
		e.dev.CountBadPKey()
		return e.drop(nicdrop.PKey)
	case p.src != q.route.hop.Dst || p.dst != q.route.hop.Src || p.v1 != q.route.v1:
		return e.drop(nicdrop.Peer)
	case p.vlan != q.route.hop.VLAN:
		return e.drop(drop.WrongVLAN)
	}
	if p.Opcode == ib.CNP {
		return e.notified(q, p, now)
	}
	q.count.PacketsIn++
	if p.class&ip.ECNMask == ip.CE && q.capable() {
		e.marked(q, &p.Packet, now)
	}
	if !q.heard {
		q.heard = true
		if s == verbs.RTR {
			e.dev.Async(verbs.AsyncEvent{Type: verbs.EventCommEstablished, QP: q.v})
		}
	}
	if e.env.Notes.On {
		q.noteOther(&p.Packet)
		if p.Opcode.BeginsSend() {
			verbs.NoteMessage(q.v, e.env.Notes, p.Payload, false)
		}
	}
	var r frame.DropReason
	switch op := p.Opcode.Operation(); {
	case !op.Request && q.typ != qpattr.XRCTarget:
		if r = q.response(&p.Packet, now); r != frame.DropNone {
			e.stats.Drops.Count(r)
		}
	case op.Request && q.typ == qpattr.UC:
		r = responding{q}.unreliable(&p.Packet)
	case op.Request && q.typ != qpattr.XRCInitiator:
		r = responding{q}.request(&p.Packet)
	default:
		r = e.drop(nicdrop.DestQP)
	}
	return r
}
