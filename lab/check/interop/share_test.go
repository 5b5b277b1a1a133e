package interop

import (
	"context"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tapir/lab/check/testenv"
	"tapir/lab/conf/nicconf"
	"tapir/lab/host/link"
	"tapir/lab/node"
	"tapir/lab/node/nicnode"
	"tapir/nic"
	"tapir/nic/toe"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// shared is a NIC that shares its address with the kernel of one namespace
// through a host TAP, and the kernel of another one as the peer of both.
type shared struct {
	t      *testing.T
	pair   *link.Pair
	nic    *nicnode.Node
	host   linux // the operating system behind the host TAP
	peer   linux
	mac    ether.Addr // the peer's
	mu     sync.Mutex
	resets []netip.AddrPort // local ends of the RSTs that left
	sent   *tcp.Header      // the newest segment of the watched connection
	watch  netip.AddrPort   // its local end
}

var (
	sharedAddr = netip.MustParsePrefix("10.78.0.1/24")
	sharedPeer = netip.MustParsePrefix("10.78.0.2/24")
)

func newShared(t *testing.T) *shared {
	t.Helper()
	p := testenv.Pair(t, 1500, false)
	if err := p.B.Net.AddAddr("br0", sharedPeer); err != nil {
		t.Fatal(err)
	}
	mac, err := p.B.Net.MAC("br0")
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{t: t, pair: p, host: linux{p.A.NS}, peer: linux{p.B.NS}, mac: ether.Addr(mac)}
	s.nic, err = nicnode.Start(t.Context(), nicconf.Config{
		Name: "nic0", TAP: link.PairTAP, HostTAP: "host0", IP: []netip.Prefix{sharedAddr},
		NIC: nic.Config{TCP: toe.Config{TimeWait: time.Second}},
	}, node.Env{NS: p.A.NS})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.nic.Close() })
	s.do(func(*toe.Engine, frame.Time) { s.nic.Device.SetTracer(s) })
	return s
}

func (s *shared) do(fn func(e *toe.Engine, now frame.Time)) {
	s.nic.DoWait(func(now frame.Time) { fn(s.nic.Device.TCP(), now) })
}

// Trace notes what leaves by the wire.
func (s *shared) Trace(r *frame.Record) {
	if r.Port != frame.Wire || r.Dir != frame.Outbound || len(r.Data) < ethernetLen || r.Drop != frame.DropNone {
		return
	}
	h, seg, err := ip.Parse(r.Data[ethernetLen:])
	if err != nil || h.Proto != ip.ProtoTCP {
		return
	}
	th, _, err := tcp.Parse(seg)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	local := netip.AddrPortFrom(h.Src, th.SrcPort)
	if th.Flags.Has(tcp.RST) {
		s.resets = append(s.resets, local)
	} else if local == s.watch {
		s.sent = &th
	}
}

const ethernetLen = 14

// inject hands the NIC packets as if they had come from the peer.
func (s *shared) inject(packets ...[]byte) {
	s.do(func(_ *toe.Engine, now frame.Time) { s.receive(now, packets) })
}

// receive is inject for the NIC's own thread.
func (s *shared) receive(now frame.Time, packets [][]byte) {
	for _, p := range packets {
		b := ether.Header{Dst: s.nic.Device.Config().MAC, Src: s.mac, Type: ether.TypeIPv4}.AppendTo(nil)
		f := frame.New(make([]byte, frame.DefaultHeadroom+len(b)+len(p)), nil)
		f.Append(b)
		f.Append(p)
		s.nic.Device.Receive(frame.Wire, []*frame.Frame{f}, now)
	}
}

// packet is an IPv4 packet from the peer to the shared address.
func packet(proto uint8, body []byte, fix func(h *ip.Header)) []byte {
	h := ip.Header{Version: 4, TTL: 64, Proto: proto, Src: sharedPeer.Addr(), Dst: sharedAddr.Addr()}
	if fix != nil {
		fix(&h)
	}
	h.PayloadLen = len(body)
	b := make([]byte, h.HeaderLen()+len(body))
	copy(b[h.Put(b):], body)
	return b
}

// segment is a TCP segment from src to dst with a good checksum.
func segment(src, dst netip.AddrPort, th tcp.Header, data string) []byte {
	th.SrcPort, th.DstPort = src.Port(), dst.Port()
	b := make([]byte, th.Len()+len(data))
	copy(b[th.Put(b):], data)
	sum := ip.Checksum(b, ip.PseudoSum(src.Addr(), dst.Addr(), ip.ProtoTCP, len(b)))
	b[tcp.ChecksumOffset], b[tcp.ChecksumOffset+1] = byte(sum>>8), byte(sum)
	return b
}

// tooBig is the ICMP error of a router with an MTU of 1200 about a segment
// from local to remote with number seq.
func tooBig(local, remote netip.AddrPort, seq tcp.Seq) []byte {
	quoted := ip.Header{Version: 4, TTL: 60, DF: true, Proto: ip.ProtoTCP, Src: local.Addr(), Dst: remote.Addr(), PayloadLen: 1480}
	q := make([]byte, quoted.HeaderLen()+20)
	th := tcp.Header{SrcPort: local.Port(), DstPort: remote.Port(), Seq: seq, Flags: tcp.ACK}
	th.Put(q[quoted.Put(q):])
	m := icmp.Message{Type: icmp.Unreachable4, Code: icmp.FragmentationNeeded4, Rest: 1200, Body: q}
	b := make([]byte, m.Len())
	m.Put(b)
	icmp.SetChecksum4(b)
	return packet(ip.ProtoICMP, b, nil)
}

// sides opens a connection between the shared address and the peer; ours tells
// who connects, byNIC whether the shared side is the NIC's or the kernel's.
func (s *shared) sides(ctx context.Context, port uint16, byNIC, ours bool, st *stream) (a, b net.Conn) {
	s.t.Helper()
	local, remote := netip.AddrPortFrom(sharedAddr.Addr(), port), netip.AddrPortFrom(sharedPeer.Addr(), port)
	check := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if !ours {
		if byNIC {
			s.do(func(e *toe.Engine, _ frame.Time) {
				_, err := e.Listen(local, 4, func(*toe.Conn, frame.Time) toe.Handler { return st })
				check(err)
			})
			b, err := s.peer.Dial(ctx, local)
			check(err)
			return nil, b
		}
		l, err := s.host.Listen(local)
		check(err)
		defer l.Close()
		b, err := s.peer.Dial(ctx, local)
		check(err)
		a, err := l.Accept()
		check(err)
		return a, b
	}
	l, err := s.peer.Listen(remote)
	check(err)
	defer l.Close()
	if byNIC {
		s.do(func(e *toe.Engine, now frame.Time) {
			st.conn, err = e.Connect(netip.AddrPortFrom(sharedAddr.Addr(), 0), remote, st, now)
		})
		check(err)
	} else {
		a, err = s.host.Dial(ctx, remote)
		check(err)
	}
	b, err = l.Accept()
	check(err)
	return a, b
}

// TestSharedAddressCarriesBoth moves verified streams of the NIC and of the
// kernel over one address at the same time, opened by either end.
func TestSharedAddressCarriesBoth(t *testing.T) {
	s := newShared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const octets = 8 << 20
	left, right := newPattern(1), newPattern(2)
	var wait sync.WaitGroup
	for i := range 4 {
		byNIC, ours := i&1 != 0, i&2 != 0
		ended := make(chan end, 1)
		st := newStream(left, octets, uint64(i), ended)
		a, b := s.sides(ctx, uint16(5001+i), byNIC, ours, st)
		if !byNIC {
			wait.Go(func() { ended <- converse(a, left, octets); a.Close() })
		}
		wait.Go(func() {
			defer b.Close()
			if err := converse(b, right, octets).check("the peer", left, octets); err != nil {
				t.Error(i, err)
			}
			if err := (<-ended).check("the shared address", right, octets); err != nil {
				t.Error(i, err)
			}
		})
	}
	wait.Wait()
	if len(s.resets) > 0 {
		t.Errorf("RSTs from %v", s.resets)
	}
	// The kernel's own fragments reach it whole.
	ping := exec.CommandContext(ctx, "ping", "-c", "2", "-i", "0.1", "-w", "60", "-s", "3000", sharedAddr.Addr().String())
	if err := s.peer.ns.Start(ping); err != nil || ping.Wait() != nil {
		t.Errorf("no answer to a ping in fragments: %v", err)
	}
}

// strays are segments that no connection between the two wants, the last one
// in fragments.
func strays(remote, local netip.AddrPort) [][]byte {
	stray := func(flags tcp.Flags, data string) []byte {
		return segment(remote, local, tcp.Header{Seq: 1, Ack: 1, Flags: flags, Window: 100}, data)
	}
	whole := stray(tcp.ACK, strings.Repeat("x", 52))
	return [][]byte{
		packet(ip.ProtoTCP, stray(tcp.SYN, ""), nil), packet(ip.ProtoTCP, stray(tcp.ACK, "data"), nil),
		packet(ip.ProtoTCP, stray(tcp.FIN|tcp.ACK, ""), nil), packet(ip.ProtoTCP, stray(tcp.SYN|tcp.ACK, ""), nil),
		packet(ip.ProtoTCP, whole[:32], func(h *ip.Header) { h.ID, h.MF = 9, true }),
		packet(ip.ProtoTCP, whole[32:], func(h *ip.Header) { h.ID, h.FragOffset = 9, 32 }),
	}
}

// settle gives the kernel the time to answer.
const settle = 50 * time.Millisecond

// TestHostNeverResetsTheNIC provokes the kernel behind the host TAP with what
// belongs to a connection of the NIC, whole and in fragments, in ESTABLISHED
// and TIME-WAIT. Afterwards the same segments are the kernel's.
func TestHostNeverResetsTheNIC(t *testing.T) {
	s := newShared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var local, remote netip.AddrPort
	for port, waited := uint16(5001), false; !waited; port++ {
		if port == 5020 {
			t.Fatal("no connection of the NIC ever waits")
		}
		local, remote, waited = s.provoke(ctx, port)
	}
	time.Sleep(settle)
	if got := s.resetPorts(); len(got) > 0 {
		t.Errorf("RSTs from %v", got)
	}
	for open := 1; open > 0 && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		s.do(func(e *toe.Engine, _ frame.Time) { open = e.Stats().Open })
	}
	s.inject(strays(remote, local)...)
	for len(s.resetPorts()) == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if got := s.resetPorts(); len(got) == 0 || got[0] != local {
		t.Errorf("RSTs from %v: the kernel was never reached", got)
	}
}

func (s *shared) resetPorts() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.resets)
}

// provoke leads a connection of the NIC through its life, with strays in the
// middle and in TIME-WAIT. waited is false if that was over too soon: the
// peer, which knows the connection no more, may reset it.
func (s *shared) provoke(ctx context.Context, port uint16) (local, remote netip.AddrPort, waited bool) {
	s.t.Helper()
	ended := make(chan end, 1)
	st := newStream(newPattern(1), 1000, 1, ended)
	_, conn := s.sides(ctx, port, true, true, st)
	defer conn.Close()
	s.do(func(*toe.Engine, frame.Time) { local, remote = st.conn.Local(), st.conn.Remote() })
	s.inject(strays(remote, local)...)
	time.Sleep(settle)
	var before, after toe.Stats
	s.do(func(e *toe.Engine, _ frame.Time) { after = e.Stats() })
	if got := s.resetPorts(); len(got) > 0 || after.SegsIn < 5 {
		s.t.Errorf("RSTs from %v, the NIC saw %d segments", got, after.SegsIn)
	}
	if err := converse(conn, newPattern(2), 1000).check("the peer", newPattern(1), 1000); err != nil {
		s.t.Fatal(err)
	}
	if err := (<-ended).check("the NIC", newPattern(2), 1000); err != nil {
		s.t.Fatal(err)
	}
	s.do(func(e *toe.Engine, now frame.Time) {
		if before = e.Stats(); before.TimeWait == 1 {
			s.receive(now, strays(remote, local))
		}
		after = e.Stats()
	})
	if before.TimeWait == 1 && after.SegsIn != before.SegsIn+5 {
		s.t.Errorf("the NIC in TIME-WAIT saw %d segments", after.SegsIn-before.SegsIn)
	}
	return local, remote, before.TimeWait == 1
}

// TestPathMTUBelongsToTheQuoted sends routers' errors about a connection of
// the NIC and about one of the kernel: each learns of its own alone.
func TestPathMTUBelongsToTheQuoted(t *testing.T) {
	s := newShared(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const octets = 32 << 20
	ended := make(chan end, 1)
	st := newStream(newPattern(1), octets, 1, ended)
	_, conn := s.sides(ctx, 5001, true, true, st)
	defer conn.Close()
	var local, remote netip.AddrPort
	var mss int
	var acked uint64
	look := func(*toe.Engine, frame.Time) {
		local, remote, mss, acked = st.conn.Local(), st.conn.Remote(), st.conn.MSS(), st.acked
	}
	s.do(look)
	s.mu.Lock()
	s.watch = local
	s.mu.Unlock()
	peer := make(chan end, 1)
	go func() { peer <- converse(conn, newPattern(2), 0) }()
	for mss > 1200 && ctx.Err() == nil {
		s.mu.Lock()
		seq := tcp.Seq(0)
		if s.sent != nil {
			seq = s.sent.Seq
		}
		s.mu.Unlock()
		s.inject(tooBig(local, remote, seq))
		s.do(look)
		if acked == octets {
			break
		}
	}
	if err := (<-peer).check("the peer", newPattern(1), octets); err != nil {
		t.Error(err)
	}
	<-ended
	if mss > 1200 {
		t.Errorf("the NIC's connection has still an MSS of %d", mss)
	}
	if r := s.route(ctx); strings.Contains(r, "mtu 1200") {
		t.Errorf("the kernel believes it, too: %s", r)
	}

	own, other := s.sides(ctx, 5002, false, true, nil)
	defer own.Close()
	defer other.Close()
	at := netip.MustParseAddrPort(own.LocalAddr().String())
	s.mu.Lock()
	s.watch, s.sent = at, nil
	s.mu.Unlock()
	if _, err := own.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	other.Read(make([]byte, 1))
	s.mu.Lock()
	seq := s.sent.Seq.Add(1) // all of it is acknowledged
	s.mu.Unlock()
	s.inject(tooBig(at, netip.MustParseAddrPort(own.RemoteAddr().String()), seq))
	for !strings.Contains(s.route(ctx), "mtu 1200") {
		if ctx.Err() != nil {
			t.Fatalf("the kernel did not hear of its own: %s", s.route(t.Context()))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// route is what the kernel behind the host TAP knows about the way to the peer.
func (s *shared) route(ctx context.Context) string {
	var out strings.Builder
	cmd := exec.CommandContext(ctx, "ip", "route", "get", sharedPeer.Addr().String())
	cmd.Stdout = &out
	if err := s.host.ns.Start(cmd); err != nil {
		return err.Error()
	}
	cmd.Wait()
	return out.String()
}
