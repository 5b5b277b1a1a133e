// Package transport joins transport engines with the internet layer of a NIC.
package transport

import (
	"encoding/binary"
	"net/netip"

	"tapir/nic/ip"
	"tapir/nic/nicdrop"
	"tapir/nic/pacing"
	"tapir/nic/port"
	"tapir/nic/roce/dcqcn"
	"tapir/nic/toe"
	"tapir/nic/toe/schedule"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	ipproto "tapir/wire/ip"
	"tapir/wire/tcp"
)

// Env is what TCP needs of the NIC around it.
type Env struct {
	IP    *ip.Stack
	Wire  *port.Port
	Notes *frame.Notes
	Sched *pacing.Node // paces what the engine sends
	// Shared: the operating system has TCP on the same addresses.
	Shared bool
	// Segments is how many segments a frame holds at most.
	Segments func() int
	DCQCN    dcqcn.Params // of RoCE
}

// TCP joins the TCP engine with the internet layer.
type TCP struct {
	Engine *toe.Engine
	// Failed: the hardware's offloads have, and nothing is sent.
	Failed bool
	// SYN gives the hardware an opening segment, which comes back by Opened; see
	// hardware.Function.
	SYN  func(h ether.Header, packet []byte, off frame.Offload) (taken bool, why frame.DropReason)
	syn  *ip.Packet // that the hardware has in hand; nil: none
	env  Env
	lost []lost
}

// NewTCP makes an engine in env.
func NewTCP(cfg toe.Config, pool frame.Pool, env Env) *TCP {
	t := &TCP{env: env}
	t.Engine = toe.New(cfg, pool, t, env.Notes)
	t.Engine.SetScheduler(schedule.Scheduler{Node: env.Sched, Header: env.IP.HeaderLen()})
	t.SetSegments()
	env.IP.Register(ipproto.ProtoTCP, t)
	return t
}

// lost is a segment of ours that cannot be delivered.
type lost struct {
	local, remote netip.AddrPort
	seq           uint32
	hard          bool
}

// Receive implements ip.Handler.
func (t *TCP) Receive(p *ip.Packet) ip.Verdict {
	if len(p.Body) < tcp.HeaderLen {
		return p.Refuse(drop.Truncated)
	}
	if p.IP.Dst.IsMulticast() || p.Ether.Dst.IsMulticast() || p.IP.Src.IsUnspecified() {
		return p.Refuse(drop.Source) // RFC 1122 section 4.2.3.10
	}
	if t.env.Shared {
		remote := netip.AddrPortFrom(p.IP.Src, binary.BigEndian.Uint16(p.Body))
		local := netip.AddrPortFrom(p.IP.Dst, binary.BigEndian.Uint16(p.Body[2:]))
		if !t.Engine.Owns(local, remote) {
			return ip.ToHost
		}
	}
	p.Offloaded = true
	if tcp.Flags(p.Body[13])&(tcp.SYN|tcp.ACK) == tcp.SYN {
		if packet := p.Packet(); packet != nil {
			t.syn, p.Verdict = p, ip.Consumed
			taken, why := t.SYN(p.Ether, packet, p.Off)
			t.syn = nil
			switch {
			case why != frame.DropNone:
				return p.Discard(why)
			case taken:
				return p.Verdict
			}
		}
	}
	return t.segment(p)
}

// segment gives the engine a segment.
func (t *TCP) segment(p *ip.Packet) ip.Verdict {
	if t.Engine.Segment(&p.IP, p.Body, p.Off, p.Now) {
		return ip.Consumed
	}
	t.Engine.Reset(&p.IP, p.Body)
	return p.Discard(drop.NoListener)
}

// Opened takes a SYN that the hardware was given, mostly that which is in hand.
func (t *TCP) Opened(packet []byte, off frame.Offload, now frame.Time) {
	h, body, err := ipproto.Parse(packet)
	if err != nil {
		return // it was parsed before
	}
	p := ip.Packet{IP: h, Body: body, Off: off, Now: now}
	v := t.segment(&p)
	switch {
	case t.syn != nil:
		t.syn.Verdict, t.syn.Reason = v, p.Reason
	case v == ip.Dropped:
		t.env.Wire.Drops.Count(p.Reason)
		fallthrough
	default:
		t.env.Notes.Take() // which belong to no frame in hand
	}
}

// Owns implements ip.Transport.
func (t *TCP) Owns(local, remote netip.AddrPort) bool { return t.Engine.Owns(local, remote) }

// Unreachable implements ip.Transport.
func (t *TCP) Unreachable(n *ip.Notice) {
	t.Engine.Unreachable(n.Local, n.Remote, binary.BigEndian.Uint32(n.Payload[4:]), n.Hard, n.MTU, n.Now)
}

// Lost implements ip.Transport. The engine, which may be sending now, hears of it
// in the next Poll. Only an opening segment is lost for good: an established
// connection may outlive a silent neighbor (RFC 1122 section 4.2.3.9).
func (t *TCP) Lost(local, remote netip.AddrPort, payload []byte) {
	if h, _, err := tcp.Parse(payload); err == nil {
		t.lost = append(t.lost, lost{local, remote, uint32(h.Seq), h.Flags&(tcp.SYN|tcp.ACK) == tcp.SYN})
	}
}

// Pending tells whether the engine is to hear of lost segments.
func (t *TCP) Pending() bool { return len(t.lost) > 0 }

// ReportLost tells the engine of segments that could not be delivered.
func (t *TCP) ReportLost(now frame.Time) {
	for _, l := range t.lost {
		t.Engine.Unreachable(l.local, l.remote, l.seq, l.hard, 0, now)
	}
	t.lost = t.lost[:0]
}

// Station implements toe.Stations.
func (t *TCP) Station(dst netip.Addr) ether.Addr { return t.env.IP.Station(dst) }

// OnMoved implements toe.Stations.
func (t *TCP) OnMoved(moved func()) { t.env.IP.OnMoved(moved) }

// Transmit implements toe.Output.
func (t *TCP) Transmit(f *frame.Frame, dst netip.Addr, now frame.Time) {
	t.TransmitTo(f, dst, ether.Addr{}, now)
}

// TransmitTo implements toe.Stations.
func (t *TCP) TransmitTo(f *frame.Frame, dst netip.Addr, station ether.Addr, now frame.Time) {
	notes, _ := t.env.Notes.Take()
	o := port.Out{Frame: f, Notes: notes, Offloaded: true, Station: station}
	o.Prioritize(&t.env.Wire.DCB().IWARP)
	if t.Failed {
		t.env.Wire.Drop(o, nicdrop.Engine, now)
		return
	}
	t.env.IP.Output(o, dst, now)
}

// Room implements toe.Output.
func (t *TCP) Room() int {
	if !t.env.Sched.Ready() {
		return 0
	}
	return t.env.Wire.EngineRoom()
}

// SetSegments sets how many segments a frame of the engine holds at most.
func (t *TCP) SetSegments() {
	n := t.env.Segments()
	if t.env.Sched.Cuts() {
		n = 1
	}
	t.Engine.SetMaxSegs(n)
}
