package nic

import (
	"encoding/binary"
	"net/netip"

	"tapir/nic/ip"
	"tapir/nic/nicdrop"
	"tapir/nic/pacing"
	"tapir/nic/port"
	"tapir/nic/toe"
	"tapir/wire/drop"
	"tapir/wire/frame"
	"tapir/wire/tcp"
)

// tcpTransport joins the TCP engine with the internet layer.
type tcpTransport struct {
	d      *Device
	engine *toe.Engine
	lost   []lost
}

// lost is a segment of ours that cannot be delivered.
type lost struct {
	local, remote netip.AddrPort
	seq           uint32
	hard          bool
}

// Receive implements ip.Handler.
func (t *tcpTransport) Receive(p *ip.Packet) ip.Verdict {
	if len(p.Body) < tcp.HeaderLen {
		return p.Refuse(drop.Truncated)
	}
	if p.IP.Dst.IsMulticast() || p.Ether.Dst.IsMulticast() || p.IP.Src.IsUnspecified() {
		return p.Refuse(drop.Source) // RFC 1122 section 4.2.3.10
	}
	if t.d.Host.Exists() {
		remote := netip.AddrPortFrom(p.IP.Src, binary.BigEndian.Uint16(p.Body))
		local := netip.AddrPortFrom(p.IP.Dst, binary.BigEndian.Uint16(p.Body[2:]))
		if !t.engine.Owns(local, remote) {
			return ip.ToHost
		}
	}
	p.Offloaded = true
	if t.engine.Segment(&p.IP, p.Body, p.Off, p.Now) {
		return ip.Consumed
	}
	t.engine.Reset(&p.IP, p.Body)
	return p.Discard(drop.NoListener)
}

// Owns implements ip.Transport.
func (t *tcpTransport) Owns(local, remote netip.AddrPort) bool { return t.engine.Owns(local, remote) }

// Unreachable implements ip.Transport.
func (t *tcpTransport) Unreachable(n *ip.Notice) {
	t.engine.Unreachable(n.Local, n.Remote, binary.BigEndian.Uint32(n.Payload[4:]), n.Hard, n.MTU, n.Now)
}

// Lost implements ip.Transport. The engine, which may be sending now, hears of it
// in the next Poll. Only an opening segment is lost for good: an established
// connection may outlive a silent neighbor (RFC 1122 section 4.2.3.9).
func (t *tcpTransport) Lost(local, remote netip.AddrPort, payload []byte) {
	if h, _, err := tcp.Parse(payload); err == nil {
		t.lost = append(t.lost, lost{local, remote, uint32(h.Seq), h.Flags&(tcp.SYN|tcp.ACK) == tcp.SYN})
	}
}

// reportLost tells the engine of segments that could not be delivered.
func (t *tcpTransport) reportLost(now frame.Time) {
	for _, l := range t.lost {
		t.engine.Unreachable(l.local, l.remote, l.seq, l.hard, 0, now)
	}
	t.lost = t.lost[:0]
}

// Transmit implements toe.Output.
func (t *tcpTransport) Transmit(f *frame.Frame, dst netip.Addr, now frame.Time) {
	d := t.d
	notes, _ := d.Common.Notes.Take()
	o := port.Out{Frame: f, Notes: notes, Offloaded: true}
	if d.failed {
		d.Wire.Drop(o, nicdrop.Engine, now)
		return
	}
	if d.rdma.Counts() {
		all, _ := pacing.Octets(f, 0)
		d.rdma.Spend(all)
	}
	d.IP.Output(o, dst, now)
}

// Room implements toe.Output.
func (t *tcpTransport) Room() int {
	if !t.d.rdma.Ready() {
		return 0
	}
	return t.d.Wire.Room()
}

// setSegments sets how many segments a frame of the TCP engine holds at most.
func (t *tcpTransport) setSegments() {
	d := t.d
	n := d.cfg.maxSegs()
	if d.rdma.Cuts() {
		n = 1
	}
	d.TCPEngine.SetMaxSegs(n)
}
