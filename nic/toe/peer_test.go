package toe

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/nic/toe/packet"
	"tapir/wire/frame"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// rawPeer is the other side of one engine, written segment by segment.
// Sequence numbers are relative: 0 is the SYN, in both directions.
type rawPeer struct {
	t             *testing.T
	e             *Engine
	pool          *testPool
	now           frame.Time
	local, remote netip.AddrPort // as the engine sees them
	engISN        uint32
	engKnown      bool
	out           []string
	last          tcp.Header
	lastTOS       uint8 // of the packet sent last
	tos           uint8 // of every packet to the engine
	room          int
	opts          tcp.Options // of every segment sent
	app           *app
	conn          *Conn
	notes         frame.Notes
}

const (
	peerISN = 1000
	peerWnd = 60000
)

func newRawPeer(t *testing.T, cfg Config) *rawPeer {
	p := &rawPeer{
		t: t, now: 1, pool: &testPool{}, room: 1 << 20,
		local:  netip.MustParseAddrPort("10.0.0.1:4420"),
		remote: netip.MustParseAddrPort("10.0.0.2:9999"),
	}
	p.e = New(cfg, p.pool, p, &p.notes)
	return p
}

func (p *rawPeer) Room() int { return p.room }

// Transmit writes down a packet as "FLAGS seq ack len".
func (p *rawPeer) Transmit(f *frame.Frame, dst netip.Addr, _ frame.Time) {
	h, seg, err := ip.Parse(f.Bytes())
	if err != nil {
		p.t.Fatal(err)
	}
	th, data, err := tcp.Parse(seg)
	if err != nil || ip.Checksum(seg, ip.PseudoSum(h.Src, h.Dst, ip.ProtoTCP, len(seg))) != 0 {
		p.t.Fatal("bad segment", err)
	}
	if !p.engKnown && th.Flags.Has(tcp.SYN) {
		p.engISN, p.engKnown = uint32(th.Seq), true
	}
	line := fmt.Sprintf("%v %d", th.Flags, int32(uint32(th.Seq)-p.engISN))
	if th.Flags.Has(tcp.ACK) {
		line += fmt.Sprintf(" ack %d", int32(uint32(th.Ack)-peerISN))
	}
	if len(data) > 0 {
		line += fmt.Sprintf(" len %d", len(data))
	}
	for _, s := range th.Opts.SACK[:th.Opts.NSACK] {
		line += fmt.Sprintf(" sack %d-%d", int32(uint32(s.Left)-peerISN), int32(uint32(s.Right)-peerISN))
	}
	p.last, p.lastTOS = th, h.TOS
	p.out = append(p.out, line)
	f.Release()
}

// in hands the engine one segment; seq and ack are relative.
func (p *rawPeer) in(flags tcp.Flags, seq, ack int, data string) bool {
	return p.segment(flags, seq, ack, peerWnd, data)
}

func (p *rawPeer) segment(flags tcp.Flags, seq, ack, wnd int, data string) bool {
	th := tcp.Header{
		SrcPort: p.remote.Port(), DstPort: p.local.Port(),
		Seq: tcp.Seq(peerISN + uint32(seq)), Flags: flags, Window: uint16(wnd), Opts: p.opts,
	}
	if flags.Has(tcp.ACK) {
		th.Ack = tcp.Seq(p.engISN + uint32(ack))
	}
	seg := make([]byte, th.Len()+len(data))
	copy(seg[th.Put(seg):], data)
	h := ip.Header{Version: 4, TOS: p.tos, TTL: 64, Proto: ip.ProtoTCP, Src: p.remote.Addr(), Dst: p.local.Addr(), PayloadLen: len(seg)}
	packet.PutChecksum(seg, h.Src, h.Dst)
	owned := p.e.Segment(&h, seg, frame.Offload{}, p.now)
	if !owned {
		p.e.Reset(&h, seg)
	}
	return owned
}

// poll lets the engine send and returns what it sent, joined by "; ".
func (p *rawPeer) poll() string {
	p.out = p.out[:0]
	p.e.Poll(p.now)
	return strings.Join(p.out, "; ")
}

func (p *rawPeer) expect(want string) {
	p.t.Helper()
	if got := p.poll(); got != want {
		p.t.Fatalf("sent %q, want %q", got, want)
	}
}

// wait lets d pass, running timers on the way, and returns what was sent.
func (p *rawPeer) wait(d time.Duration) string {
	p.out = p.out[:0]
	end := p.now.Add(d)
	for {
		next := p.e.Poll(p.now)
		if next > end {
			break
		}
		p.now = max(p.now, next)
	}
	p.now = end
	return strings.Join(p.out, "; ")
}

func (p *rawPeer) state(want State) {
	p.t.Helper()
	if got := p.conn.State(); got != want {
		p.t.Fatalf("state %v, want %v", got, want)
	}
}

// listen prepares a passive open by app a.
func (p *rawPeer) listen(a *app) *Listener {
	p.app = a
	l, err := p.e.Listen(p.local, 4, func(c *Conn, now frame.Time) Handler {
		p.conn = c
		switch {
		case a == nil:
			return nil
		case a.established: // the 4-tuple is used again
			return quietApp(0)
		}
		return a
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return l
}

// establish brings a passively opened connection to ESTABLISHED.
func (p *rawPeer) establish(a *app) {
	p.t.Helper()
	p.listen(a)
	p.in(tcp.SYN, 0, 0, "")
	p.expect("SYN,ACK 0 ack 1")
	p.in(tcp.ACK, 1, 1, "")
	if !a.established {
		p.t.Fatal("not established")
	}
	p.state(StateEstablished)
}

// connect begins an active open; the SYN has been sent.
func (p *rawPeer) connect(a *app) {
	p.t.Helper()
	p.app = a
	var err error
	if p.conn, err = p.e.Connect(p.local, p.remote, a, p.now); err != nil {
		p.t.Fatal(err)
	}
	a.conn = p.conn
	p.expect("SYN 0")
}

func quietApp(total uint64) *app {
	a := newApp(total, 1)
	a.closeOnFin = false
	return a
}
func addrPort(n *node, port uint16) netip.AddrPort { return netip.AddrPortFrom(n.addr, port) }

func addrPortOf(addr string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port)
}
