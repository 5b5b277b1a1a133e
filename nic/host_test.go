package nic

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/cm"
	"tapir/nic/fastlinq/settings"
	nicip "tapir/nic/ip"
	"tapir/nic/secret"
	nicsettings "tapir/nic/settings"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// hostSide is the operating system behind a host TAP: a link that keeps what
// it gets, and the owner of the ports.
type hostSide struct {
	w   *world
	got [][]byte
	// queues are those that the frames in got came by.
	queues []uint16
	room   int
	held   map[netip.AddrPort]bool
}

func (h *hostSide) Transmit(f *frame.Frame) {
	h.got = append(h.got, append([]byte(nil), f.Bytes()...))
	h.queues = append(h.queues, f.Queue)
	f.Release()
}

func (h *hostSide) Room() int { return h.room }

func (h *hostSide) Reserve(local netip.AddrPort) (func(), error) {
	if h.held[local] {
		return nil, errors.New("in use")
	}
	h.held[local] = true
	return func() { delete(h.held, local) }, nil
}

func (h *hostSide) EphemeralRange() (lo, hi uint16) { return 32768, 60999 }

func hostPair(t *testing.T) (*world, *node, *hostSide, *station) {
	w := newWorld(t)
	h := &hostSide{w: w, room: 64, held: map[netip.AddrPort]bool{}}
	n := &node{w: w, room: 64}
	w.attach(n, Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24", "fd00::1/64")}, Env{Pool: w.pool, Wire: n, Host: h, Reserver: h})
	return w, n, h, w.station("02:00:00:00:00:99", "10.0.0.2", "fd00::2")
}

func TestHostGetsWhatTheEngineDoesNotOwn(t *testing.T) {
	w, n, h, s := hostPair(t)
	if _, err := n.dev.CM.Listen(netip.AddrPortFrom(nic4, 7), 1, func(cm.Event, frame.Time) {}, nil); err != nil {
		t.Fatal(err)
	}
	if !h.held[netip.AddrPortFrom(nic4, 7)] {
		t.Fatal("listening on a port that was not reserved")
	}
	s.arp(arp.Request, peer4, ether.Broadcast, nic4) // introduces the peer
	w.run(time.Millisecond)
	syn := func(port uint16) []byte {
		return segment(peer4, nic4, tcp.Header{SrcPort: 5, DstPort: port, Seq: 100, Flags: tcp.SYN, Window: 9}, nil)
	}
	quote := func(port uint16) []byte {
		q := segment(nic4, peer4, tcp.Header{SrcPort: port, DstPort: 5, Seq: 100}, nil)
		return packet(ip.Header{Proto: ip.ProtoICMP, Src: peer4, Dst: nic4},
			icmpBytes(icmp.Message{Type: icmp.Unreachable4, Code: 1, Body: q}, peer4, nic4))
	}
	mac := n.dev.cfg.MAC
	for _, c := range []struct {
		name   string
		dst    ether.Addr
		typ    uint16
		packet []byte
		host   bool
	}{
		{"SYN to the engine's port", mac, ether.TypeIPv4, syn(7), false},
		{"SYN to another port", mac, ether.TypeIPv4, syn(8), true},
		{"error about an engine's segment", mac, ether.TypeIPv4, quote(7), false},
		{"error about another segment", mac, ether.TypeIPv4, quote(8), true},
		{"ping", mac, ether.TypeIPv4, packet(ip.Header{Proto: 1, Src: peer4, Dst: nic4}, echoBody(peer4, nic4, 8)), true},
		{"UDP", mac, ether.TypeIPv4, packet(ip.Header{Proto: 17, Src: peer4, Dst: nic4}, make([]byte, 8)), true},
		{"broadcast", ether.Broadcast, ether.TypeIPv4, packet(ip.Header{Proto: 17, Src: peer4, Dst: netip.MustParseAddr("10.0.0.255")}, make([]byte, 8)), true},
		{"LLDP", ether.Addr{1, 0x80, 0xc2, 0, 0, 0xe}, ether.TypeLLDP, make([]byte, 30), true},
		{"ARP request", ether.Broadcast, ether.TypeARP, arp.Packet{Op: arp.Request, SenderMAC: s.mac, SenderIP: peer4, TargetIP: nic4}.AppendTo(nil), true},
	} {
		before := len(h.got)
		s.transmit(c.dst, c.typ, c.packet)
		w.run(time.Millisecond)
		if got := len(h.got) > before; got != c.host {
			t.Errorf("%s: reached the host: %v", c.name, got)
		}
		if c.host && len(h.got) > before && string(h.got[len(h.got)-1][14:]) != string(c.packet) {
			t.Errorf("%s: changed on the way", c.name)
		}
	}
	for _, r := range s.take() {
		if r.eth.Type == ether.TypeARP || r.ip.Proto != ip.ProtoTCP || !mustTCP(t, r.body).Flags.Has(tcp.SYN|tcp.ACK) {
			t.Errorf("the NIC answered for the host: %+v", r)
		}
	}
	if n.counter("host_tx_packets") != uint64(len(h.got)) {
		t.Errorf("host_tx_packets %d of %d", n.counter("host_tx_packets"), len(h.got))
	}
}

func mustTCP(t *testing.T, b []byte) tcp.Header {
	h, _, err := tcp.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHostFragments(t *testing.T) {
	w, n, h, s := hostPair(t)
	parts := echoFragments(3000, false)
	for _, p := range parts {
		s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, p)
	}
	w.run(time.Millisecond)
	if len(h.got) != len(parts) {
		t.Fatalf("%d of %d fragments reached the host", len(h.got), len(parts))
	}
	for i, p := range parts {
		if string(h.got[i][14:]) != string(p) {
			t.Errorf("fragment %d changed", i)
		}
	}
	// A datagram that never gets whole is the host's to complain about.
	s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, echoFragments(3000, false)[1])
	w.run(nicip.ReassembleFor + time.Second)
	if len(h.got) != len(parts)+1 || n.counter("rx_drop_fragment") != 0 || w.pool.Lent() != 0 {
		t.Errorf("%d frames at the host, %d lent", len(h.got), w.pool.Lent())
	}
}

func TestHostFramesGoOut(t *testing.T) {
	w, n, h, s := hostPair(t)
	b := ether.Header{Dst: s.mac, Src: n.dev.cfg.MAC, Type: ether.TypeIPv4}.AppendTo(nil)
	b = append(b, packet(ip.Header{Proto: 17, Src: nic4, Dst: peer4}, make([]byte, 8))...)
	f := w.pool.Get(len(b))
	f.Append(b)
	n.dev.Receive(frame.Host, []*frame.Frame{f}, w.now)
	w.run(time.Millisecond)
	if got := s.take(); len(got) != 1 || got[0].ip.Proto != 17 {
		t.Fatalf("%+v", got)
	}
	if len(n.all) != 2 || n.all[0].Port != frame.Host || n.all[1].Port != frame.Wire || n.all[1].Dir != frame.Outbound {
		t.Fatalf("records %+v", n.all)
	}
	// A host that does not read loses frames, with a reason.
	h.room = 0
	room := 256
	if n.dev.Wire.Flow.Tx {
		room += 512 // of the packet buffer
	}
	for range room + 5 {
		s.transmit(n.dev.cfg.MAC, ether.TypeIPv4, packet(ip.Header{Proto: 17, Src: peer4, Dst: nic4}, make([]byte, 8)))
	}
	w.run(time.Millisecond)
	if n.counter("rx_drop_host_queue_full") != 5 {
		t.Errorf("%d dropped", n.counter("rx_drop_host_queue_full"))
	}
	h.room = 1000
	w.run(time.Millisecond)
	if w.pool.Lent() != 0 {
		t.Errorf("%d frames leaked", w.pool.Lent())
	}
}

// TestHostCannotReset keeps what the operating system sends off the engine's
// connections and ports, and lets everything else pass.
func TestHostCannotReset(t *testing.T) {
	w, n, _, s := hostPair(t)
	if _, err := n.dev.CM.Listen(netip.AddrPortFrom(nic4, 7), 1, func(cm.Event, frame.Time) {}, nil); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		port  uint16
		flags tcp.Flags
		pass  bool
	}{{7, tcp.RST, false}, {7, tcp.ACK, false}, {8, tcp.RST, true}, {8, tcp.ACK, true}} {
		b := ether.Header{Dst: s.mac, Src: n.dev.cfg.MAC, Type: ether.TypeIPv4}.AppendTo(nil)
		b = append(b, segment(nic4, peer4, tcp.Header{SrcPort: c.port, DstPort: 5, Flags: c.flags}, nil)...)
		f := w.pool.Get(len(b))
		f.Append(b)
		n.dev.Receive(frame.Host, []*frame.Frame{f}, w.now)
		w.run(time.Millisecond)
		if got := len(s.take()) == 1; got != c.pass {
			t.Errorf("%d: %v of port %d passed: %v", i, c.flags, c.port, got)
		}
	}
	if c := n.counter("rx_drop_owned_by_engine"); c != 2 || w.pool.Lent() != 0 {
		t.Errorf("%d counted, %d frames lent", c, w.pool.Lent())
	}
}

func TestHostPortsAreReservedForConnections(t *testing.T) {
	w, n, h, _ := hostPair(t)
	peer := w.nic(Config{Name: "nic1", Addrs: prefixes("10.0.0.3/24")})
	// The operating system answers ARP for the address that it shares.
	w.station(n.dev.cfg.MAC.String(), "10.0.0.1")
	client, server := dial(w, n, peer, netip.MustParseAddr("10.0.0.3"), 4096)
	exercise(w, client, server, 4096)
	local := n.dev.ShowCEP()[0].Local
	if p := local.Port(); p < 1024 || p >= 32768 || !h.held[local] || len(h.held) != 1 {
		t.Errorf("local %v, held %v", local, h.held)
	}
	for _, b := range h.got {
		if _, seg, err := ip.Parse(b[14:]); err == nil && b[12] == 8 && b[13] == 0 && b[23] == ip.ProtoTCP {
			t.Errorf("the host saw an engine's segment % x", seg)
		}
	}
	closeBoth(w, n, peer)
	w.run(2 * time.Minute) // TIME-WAIT
	if len(h.held) != 0 {
		t.Errorf("held at the end: %v", h.held)
	}
}

func TestEphemeralPorts(t *testing.T) {
	for _, c := range []struct {
		lo, hi, first, last uint16
		ok                  bool
	}{
		{32768, 60999, 1024, 32767, true},
		{1024, 30000, 30001, 65535, true},
		{1024, 65535, 0, 0, false},
		{500, 65535, 0, 0, false},
		{500, 65534, 65535, 65535, true},
	} {
		first, last, ok := nicsettings.Ephemeral(c.lo, c.hi)
		if first != c.first || last != c.last || ok != c.ok {
			t.Errorf("%d-%d: %d-%d %v", c.lo, c.hi, first, last, ok)
		}
	}
}

// hostNIC is a NIC with a host TAP between two sinks, and a frame of the
// operating system or for it.
func hostNIC(t testing.TB, queues int) (d *device, pass func(p frame.Port)) {
	h := &hostSide{room: 64, held: map[netip.AddrPort]bool{}}
	pool := buf.NewPool(64, 0)
	d, err := newNIC(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24"), Queues: queues}, Env{Pool: pool, Wire: sink{}, Host: sink{}, Reserver: h})
	if err != nil {
		t.Fatal(err)
	}
	d.LinkUp(0)
	b := ether.Header{Dst: d.cfg.MAC, Src: ether.Addr{2, 0, 0, 0, 0, 9}, Type: ether.TypeIPv4}.AppendTo(nil)
	b = append(b, segment(peer4, nic4, tcp.Header{SrcPort: 5, DstPort: 8, Flags: tcp.ACK}, make([]byte, 1460))...)
	batch := make([]*frame.Frame, 32)
	now := frame.Time(1)
	return d, func(p frame.Port) {
		now = now.Add(100 * time.Microsecond)
		for i := range batch {
			batch[i] = pool.Get(len(b))
			batch[i].Append(b)
		}
		d.Receive(p, batch, now)
		d.Poll(now)
	}
}

func TestHostForwardingAllocatesNothing(t *testing.T) {
	for _, p := range []frame.Port{frame.Wire, frame.Host} {
		for _, set := range []Setting{{"trust", "pcp"}, {"tc_bw", "0:60,3:40"}, {"prio_pfc", "0:on"}, {"tc_maxrate", "0:1000G"}} {
			d, pass := hostNIC(t, 4)
			if err := d.Set(set); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				pass(p)
			}
			left := d.Wire.Frames[frame.Outbound].Packets
			if n := testing.AllocsPerRun(100, func() { pass(p) }); n != 0 {
				t.Errorf("%v with %s=%s: %v allocations", p, set.Name, set.Value, n)
			}
			if left = d.Wire.Frames[frame.Outbound].Packets - left; p == frame.Host && left < 32*100 {
				t.Errorf("with %s=%s %d frames left", set.Name, set.Value, left)
			}
		}
	}
}

// BenchmarkHostForwarding is a frame of 1514 octets that passes a NIC, without
// the TAPs.
func BenchmarkHostForwarding(b *testing.B) {
	for _, p := range []frame.Port{frame.Wire, frame.Host} {
		b.Run("from "+p.String(), func(b *testing.B) {
			_, pass := hostNIC(b, 4)
			b.SetBytes(1514)
			for i := 0; i < b.N; i += 32 {
				pass(p)
			}
		})
	}
}

// flows sends the NIC n segments of as many connections for the host.
func (s *station) flows(d *device, n int) {
	for i := range n {
		s.transmit(d.cfg.MAC, ether.TypeIPv4, segment(peer4, nic4, tcp.Header{SrcPort: uint16(1000 + i), DstPort: 8, Flags: tcp.ACK}, nil))
	}
}

// Connections are spread over the queues by their hash, all of one by one
// queue, and as the table says.
func TestHostQueues(t *testing.T) {
	w := newWorld(t)
	h := &hostSide{w: w, room: 1000, held: map[netip.AddrPort]bool{}}
	n := &node{w: w, room: 64}
	w.attach(n, Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24"), Queues: 4}, Env{Pool: w.pool, Wire: n, Host: h, Reserver: h})
	s := w.station("02:00:00:00:00:99", "10.0.0.2")
	received := func() (counts []int) {
		for _, q := range n.dev.ShowQueues() {
			counts = append(counts, int(q.RxPackets))
		}
		return counts
	}
	const flows = 200
	s.flows(n.dev, flows)
	w.run(time.Millisecond)
	first := received()
	for i, c := range first {
		if c < flows/8 {
			t.Errorf("queue %d got %d of %d connections", i, c, flows)
		}
	}
	s.flows(n.dev, flows)
	w.run(time.Millisecond)
	for i, c := range received() {
		if c != 2*first[i] {
			t.Errorf("queue %d got %d the first time, %d later", i, first[i], c-first[i])
		}
	}
	queueOf := map[string]uint16{} // by ports
	for i, b := range h.got {
		ports := string(b[34:38])
		if q, known := queueOf[ports]; known && q != h.queues[i] {
			t.Fatalf("a connection came by queue %d, then by %d", q, h.queues[i])
		}
		queueOf[ports] = h.queues[i]
	}
	if err := n.dev.Set(Setting{"rss_table", "3"}); err != nil {
		t.Fatal(err)
	}
	s.flows(n.dev, flows)
	w.run(time.Millisecond)
	if got := received(); got[3] != 2*first[3]+flows {
		t.Errorf("of %d frames queue 3 got %d", flows, got[3]-2*first[3])
	}
	if err := n.dev.Set(Setting{"rss_table", "3,3,3,3,3,3,3,4"}); err == nil || !strings.Contains(err.Error(), "entry 7 of the RSS table: queue 4 of 4") {
		t.Errorf("a queue that there is not: %v", err)
	}
	if now := n.dev.ShowEthtool().RSS; now.Table[7] != 3 {
		t.Error("a table that was refused holds")
	}
}

// What the operating system makes too long, or cuts too short, is dropped with a
// reason.
func TestHostFramesAreChecked(t *testing.T) {
	w, n, _, s := hostPair(t)
	for _, c := range []struct {
		len     int
		counter string
	}{{14, "rx_drop_truncated"}, {0, "rx_drop_truncated"}, {1515, "rx_drop_oversize"}, {1514, ""}, {60, ""}} {
		before := uint64(0)
		if c.counter != "" {
			before = n.counter(c.counter)
		}
		b := ether.Header{Dst: s.mac, Src: n.dev.cfg.MAC, Type: ether.TypeIPv4}.AppendTo(nil)
		b = append(b, packet(ip.Header{Proto: 17, Src: nic4, Dst: peer4}, make([]byte, max(0, c.len-34)))...)[:c.len]
		f := w.pool.Get(len(b))
		f.Append(b)
		n.dev.Receive(frame.Host, []*frame.Frame{f}, w.now)
		w.run(time.Millisecond)
		if sent := len(s.take()); sent != map[bool]int{true: 1}[c.counter == ""] || c.counter != "" && n.counter(c.counter) != before+1 {
			t.Errorf("%d octets: %d sent, %s", c.len, sent, c.counter)
		}
	}
	if w.pool.Lent() != 0 {
		t.Errorf("%d frames leaked", w.pool.Lent())
	}
}

// NICs have keys of their own, of which no part is zero.
func TestRSSKeyIsByChance(t *testing.T) {
	a, b := settings.KeyByChance(secret.Secret{1}), settings.KeyByChance(secret.Secret{2})
	for i := 0; i < len(a); i += 8 {
		if string(a[i:i+8]) == string(b[i:i+8]) || string(a[i:i+8]) == string(make([]byte, 8)) {
			t.Errorf("keys % x and % x", a, b)
		}
	}
}
