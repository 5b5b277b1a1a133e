package nic

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/cm"
	nicip "tapir/nic/ip"
	"tapir/nic/settings"
	"tapir/nic/verbs"
	"tapir/wire/arp"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/icmp"
	"tapir/wire/ip"
	"tapir/wire/tcp"
)

// rdmaEnd is an application on a NIC: one queue pair and some memory.
type rdmaEnd struct {
	n      *node
	pd     *verbs.PD
	cq     *verbs.CQ
	mr     *verbs.MR
	qp     *verbs.QP
	id     *cm.ID
	mem    []byte
	events []cm.Event
	wcs    []verbs.WC
}

func newEnd(t *testing.T, n *node, size int) *rdmaEnd {
	e := &rdmaEnd{n: n, mem: make([]byte, size)}
	var err error
	if e.pd, err = n.dev.Verbs.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if e.cq, err = n.dev.Verbs.CreateCQ(64, nil); err != nil {
		t.Fatal(err)
	}
	if e.mr, err = e.pd.RegMR(e.mem, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead); err != nil {
		t.Fatal(err)
	}
	if e.qp, err = e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq, MaxSGE: 4}); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *rdmaEnd) handle(ev cm.Event, now frame.Time) {
	e.events = append(e.events, ev)
	if ev.Type == cm.ConnectRequest {
		e.id = ev.ID
		_ = ev.ID.Accept(cm.Params{QP: e.qp, IRD: 8, ORD: 8}, now)
	}
}

func (e *rdmaEnd) saw(typ cm.EventType) bool {
	return slices.ContainsFunc(e.events, func(ev cm.Event) bool { return ev.Type == typ })
}

// completions polls the CQ and returns how many there have been.
func (e *rdmaEnd) completions() int {
	var wcs [16]verbs.WC
	n := e.cq.Poll(wcs[:])
	e.wcs = append(e.wcs, wcs[:n]...)
	return len(e.wcs)
}

// until lets time pass until done.
func (w *world) until(limit time.Duration, done func() bool) {
	w.t.Helper()
	for end := w.now.Add(limit); !done(); w.run(100 * time.Microsecond) {
		if w.now > end {
			w.t.Fatalf("not done after %v", limit)
		}
	}
}

const rdmaPort = 7174

// dial connects a queue pair of a to one of b, listening on addr.
func dial(w *world, a, b *node, addr netip.Addr, size int) (client, server *rdmaEnd) {
	client, server = newEnd(w.t, a, size), newEnd(w.t, b, size)
	join(w, client, server, addr)
	return client, server
}

// join connects two ends.
func join(w *world, client, server *rdmaEnd, addr netip.Addr) {
	w.t.Helper()
	joinPort(w, client, server, netip.AddrPortFrom(addr, rdmaPort))
}

// joinPort is join by a port.
func joinPort(w *world, client, server *rdmaEnd, to netip.AddrPort) {
	w.t.Helper()
	begin(w, client, server, to)
	w.until(10*time.Second, func() bool { return client.saw(cm.ActiveComplete) && server.saw(cm.PassiveComplete) })
}

// begin has one end listen and the other connect.
func begin(w *world, client, server *rdmaEnd, to netip.AddrPort) {
	w.t.Helper()
	a, b := client.n, server.n
	if _, err := b.dev.CM.Listen(to, 4, server.handle, nil); err != nil {
		w.t.Fatal(err)
	}
	client.id = a.dev.CM.NewID(client.handle, nil)
	if err := client.id.Connect(to, cm.Params{QP: client.qp, IRD: 8, ORD: 8}, w.now); err != nil {
		w.t.Fatal(err)
	}
}

func (e *rdmaEnd) post(op verbs.Opcode, n int, peer *rdmaEnd) {
	wr := verbs.SendWR{ID: 17, Opcode: op, Flags: verbs.Signaled, RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey(),
		SGEs: []verbs.SGE{{Addr: e.mr.Addr(), Length: uint32(n), LKey: e.mr.LKey()}}}
	if _, err := e.qp.PostSend(wr); err != nil {
		e.n.w.t.Fatal(err)
	}
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i)*31 + seed
	}
}

// exercise writes, reads and sends n octets and checks the target memory.
func exercise(w *world, c, s *rdmaEnd, n int) {
	w.t.Helper()
	for i, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend} {
		fill(c.mem, byte(i))
		fill(s.mem, byte(i+100))
		want, got := sha256.Sum256(c.mem[:n]), s.mem[:n]
		done := 1
		if op == verbs.OpRead {
			want, got = sha256.Sum256(s.mem[:n]), c.mem[:n]
		}
		c.wcs, s.wcs = nil, nil
		if op == verbs.OpSend {
			done = 2
			if _, err := s.qp.PostRecv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: uint32(n),
				LKey: s.mr.LKey()}}}); err != nil {
				w.t.Fatal(err)
			}
		}
		c.post(op, n, s)
		w.until(time.Minute, func() bool {
			return c.completions()+s.completions() == done && (op != verbs.OpWrite || sha256.Sum256(got) == want)
		})
		if c.wcs[0].Status != verbs.StatusSuccess || sha256.Sum256(got) != want {
			w.t.Errorf("%v of %d: status %v, memory equal %v", op, n, c.wcs[0].Status, sha256.Sum256(got) == want)
		}
	}
}

// overBoth runs a test on NICs of iWARP and on NICs of RoCE, whose configurations begin with cfg.
func overBoth(t *testing.T, test func(t *testing.T, cfg Config)) {
	for _, p := range []verbs.Personality{verbs.IWARP, verbs.RoCE} {
		t.Run(p.String(), func(t *testing.T) { test(t, Config{RDMA: RDMA{Personality: p}}) })
	}
}

// roce tells whether a configuration is of a NIC with RoCE.
func roce(cfg Config) bool { return cfg.RDMA.Personality == verbs.RoCE }

// twoNICs are on one wire.
func twoNICs(t *testing.T, cfg Config) (w *world, a, b *node) {
	w = newWorld(t)
	cfg.Name, cfg.Addrs = "nic0", prefixes("10.0.0.1/24", "fd00::1/64")
	a = w.nic(cfg)
	cfg.Name, cfg.Addrs = "nic1", prefixes("10.0.0.2/24", "fd00::2/64")
	b = w.nic(cfg)
	a.dev.LinkUp(w.now)
	b.dev.LinkUp(w.now)
	return w, a, b
}

func TestRDMABetweenTwoNICs(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		addr netip.Addr
	}{
		{"wire v4", Config{}, peer4},
		{"wire v6", Config{}, peer6},
		{"VLAN", Config{VLAN: 7}, peer4},
		{"gso", Config{Frames: GSO}, peer4},
		{"gso v6 VLAN", Config{Frames: GSO, VLAN: 7}, peer6},
		{"jumbo", Config{Frames: Jumbo}, peer4},
		{"MTU 576", Config{MTU: 576}, peer4},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := c.cfg
			w, a, b := newWorld(t), (*node)(nil), (*node)(nil)
			if cfg.MTU != 0 && cfg.MTU < nicip.MinMTUIPv6 {
				cfg.Name, cfg.Addrs = "nic0", prefixes("10.0.0.1/24")
				a = w.nic(cfg)
				cfg.Name, cfg.Addrs = "nic1", prefixes("10.0.0.2/24")
				b = w.nic(cfg)
			} else {
				w, a, b = twoNICs(t, cfg)
			}
			client, server := dial(w, a, b, c.addr, 1<<20)
			for _, n := range []int{8, 4096, 1 << 20} {
				exercise(w, client, server, n)
			}
			for _, r := range append(a.drops, b.drops...) {
				if r.Drop != drop.NotOurMAC { // multicast for the other one
					t.Errorf("drop: %v", r.Drop)
				}
			}
			closeBoth(w, a, b)
		})
	}
}

// closeBoth shuts both NICs down and expects an orderly end.
func closeBoth(w *world, a, b *node) {
	w.t.Helper()
	a.dev.Shutdown(w.now)
	w.until(10*time.Second, func() bool { return a.dev.Idle() && b.dev.Idle() })
	if a.counter("tcp_failures")+b.counter("tcp_failures")+a.counter("tcp_resets_out")+b.counter("tcp_resets_out") != 0 {
		w.t.Error("the connection did not end in order")
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	run := func(seed uint64) string {
		w, a, b := twoNICs(t, Config{Seed: seed})
		count := 0
		w.lose = func(*node, []byte) bool { count++; return count%41 == 0 }
		client, server := dial(w, a, b, peer4, 256<<10)
		exercise(w, client, server, 256<<10)
		if a.counter("tcp_retransmits")+b.counter("tcp_retransmits") == 0 {
			t.Error("nothing was retransmitted")
		}
		return hex.EncodeToString(w.digest.Sum(nil))
	}
	first, again, other := run(1), run(1), run(2)
	if first != again {
		t.Error("the same seed gave other bytes")
	}
	if first == other {
		t.Error("another seed gave the same bytes")
	}
}

// A router on the way that takes only small packets says so, and the transfer
// goes on in smaller segments.
func TestPathMTU(t *testing.T) {
	for _, c := range []struct {
		addr  netip.Addr
		limit int // octets of IP
	}{{peer4, 1000}, {peer6, 1280}} {
		w, a, b := twoNICs(t, Config{})
		router := w.station("02:00:00:00:00:77")
		told := 0
		w.lose = func(from *node, data []byte) bool {
			if from == router.node || len(data) <= 14+c.limit {
				return false
			}
			told++
			h, _, _ := ip.Parse(data[14:])
			m := icmp.Message{Type: icmp.Unreachable4, Code: icmp.FragmentationNeeded4, Rest: uint32(c.limit),
				Body: data[14 : 14+500]}
			if h.Version == 6 {
				m.Type, m.Code = icmp.PacketTooBig6, 0
			}
			router.ip(from.dev.cfg.MAC, ip.Header{Proto: protoICMP(h.Src), Src: h.Dst, Dst: h.Src}, icmpBytes(m, h.Dst, h.Src))
			return true
		}
		client, server := dial(w, a, b, c.addr, 256<<10)
		begin := w.now
		exercise(w, client, server, 256<<10)
		if took := w.now.Sub(begin); told == 0 || took > 2*time.Second {
			t.Errorf("%v: the router spoke %d times, the transfer took %v", c.addr, told, took)
		}
	}
}

// What no link of IPv4 or IPv6 can carry is no path MTU: RFC 791, RFC 8201
// section 4.
func TestImpossiblePathMTU(t *testing.T) {
	for _, c := range []struct {
		addr netip.Addr
		told uint32
		want int // the longest packet afterwards
	}{{peer4, 67, 1500}, {peer4, 1, 1500}, {peer6, 1279, 1500}, {peer6, 0, 1500}, {peer4, 68, 552}, {peer6, 1280, 1280}} {
		w, a, b := twoNICs(t, Config{})
		router := w.station("02:00:00:00:00:77")
		said, longest := 0, 0
		w.lose = func(from *node, data []byte) bool {
			if from != a || len(data) < 1000 {
				return false
			}
			if said++; said > 60 {
				longest = max(longest, len(data)-14)
				return false
			}
			h, _, _ := ip.Parse(data[14:])
			m := icmp.Message{Type: icmp.Unreachable4, Code: icmp.FragmentationNeeded4, Rest: c.told, Body: data[14 : 14+500]}
			if h.Version == 6 {
				m.Type, m.Code = icmp.PacketTooBig6, 0
			}
			router.ip(from.dev.cfg.MAC, ip.Header{Proto: protoICMP(h.Src), Src: h.Dst, Dst: h.Src}, icmpBytes(m, h.Dst, h.Src))
			return false
		}
		client, server := dial(w, a, b, c.addr, 256<<10)
		exercise(w, client, server, 256<<10)
		if c.want < 1000 && longest != 0 || c.want >= 1000 && longest != c.want {
			t.Errorf("%v was told %d: packets of %d octets, want %d", c.addr, c.told, longest, c.want)
		}
	}
}

func TestUnreachablePeer(t *testing.T) {
	for _, c := range []struct {
		addr netip.AddrPort
		want cm.EventType
	}{
		{netip.MustParseAddrPort("10.0.0.77:7174"), cm.Unreachable},  // no such neighbor
		{netip.MustParseAddrPort("[fd00::77]:7174"), cm.Unreachable}, // no such neighbor
		{netip.AddrPortFrom(peer4, 99), cm.Refused},
	} {
		w, a, _ := twoNICs(t, Config{})
		e := newEnd(t, a, 64)
		e.id = a.dev.CM.NewID(e.handle, nil)
		if err := e.id.Connect(c.addr, cm.Params{QP: e.qp}, w.now); err != nil {
			t.Fatal(err)
		}
		w.until(5*time.Second, func() bool { return e.saw(cm.ClosedEvent) })
		if !e.saw(c.want) {
			t.Errorf("%v: events %v", c.addr, e.events)
		}
	}
	w, a, _ := twoNICs(t, Config{})
	e := newEnd(t, a, 64)
	e.id = a.dev.CM.NewID(e.handle, nil)
	err := e.id.Connect(netip.MustParseAddrPort("192.0.2.1:7174"), cm.Params{QP: e.qp}, w.now)
	if err == nil || !strings.Contains(err.Error(), "no route to 192.0.2.1") {
		t.Errorf("without a route: %v", err)
	}
}

// Whatever state a connection is in, Shutdown ends it and leaves nothing.
func TestShutdownInAnyState(t *testing.T) { overBoth(t, testShutdownInAnyState) }

func testShutdownInAnyState(t *testing.T, cfg Config) {
	for _, c := range []struct {
		name string
		stop func(client, server *rdmaEnd) bool
	}{
		{"at once", func(c, s *rdmaEnd) bool { return true }},
		{"request under way", func(c, s *rdmaEnd) bool { return c.n.counter("tx_packets") > 1 }}, // behind ARP
		{"request waits", func(c, s *rdmaEnd) bool { return s.saw(cm.ConnectRequest) }},
	} {
		w, a, b := twoNICs(t, cfg)
		client, server := newEnd(t, a, 64), newEnd(t, b, 64)
		keep := func(ev cm.Event, _ frame.Time) { server.events = append(server.events, ev) } // never answers
		if _, err := b.dev.CM.Listen(netip.AddrPortFrom(peer4, rdmaPort), 4, keep, nil); err != nil {
			t.Fatal(err)
		}
		client.id = a.dev.CM.NewID(client.handle, nil)
		if err := client.id.Connect(netip.AddrPortFrom(peer4, rdmaPort), cm.Params{QP: client.qp}, w.now); err != nil {
			t.Fatal(err)
		}
		for i := 0; !c.stop(client, server) && i < 10000; i++ {
			w.run(10 * time.Microsecond)
		}
		a.dev.Shutdown(w.now)
		b.dev.Shutdown(w.now)
		begin := w.now
		w.until(10*time.Second, func() bool { return a.dev.Idle() && b.dev.Idle() })
		if took := w.now.Sub(begin); took > time.Second {
			t.Errorf("%s: the end took %v", c.name, took)
		}
		if !client.saw(cm.ClosedEvent) || w.pool.Lent() != 0 {
			t.Errorf("%s: events %v, %d frames lent", c.name, client.events, w.pool.Lent())
		}
	}
}

// A pool that runs dry loses frames, with a reason, and nothing else.
func TestPoolExhausted(t *testing.T) {
	w := newWorld(t)
	full := w.pool
	w.pool = buf.NewPool(0, 0)
	n := w.nic(Config{Name: "nic0", Addrs: prefixes("10.0.0.1/24", "fd00::1/64")})
	w.pool = full
	s := w.station("02:00:00:00:00:99", "10.0.0.2", "fd00::2", "fe80::2")
	s.arp(arp.Request, peer4, ether.Broadcast, nic4)
	s.ping(n.dev, peer4, nic4, 8, 1500)
	s.ping(n.dev, peer4, nic4, 3000, 1500)
	s.ping(n.dev, peer6, nic6, 8, 1500)
	w.run(time.Second)
	if got := n.counter("rx_drop_no_buffer"); got < 4 || w.pool.Lent() != 0 {
		t.Errorf("%d drops, %d frames lent", got, w.pool.Lent())
	}
}

// traces is a tracer that keeps records.
type traces []frame.Record

func (t *traces) Trace(r *frame.Record) {
	c := *r
	c.Data, c.Notes = bytes.Clone(r.Data), frame.KeepNotes(r.Notes)
	*t = append(*t, c)
}

func TestCaptureOfALiveConnection(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	client, server := dial(w, a, b, peer4, 64<<10)
	exercise(w, client, server, 64<<10)
	var rec traces
	a.dev.Replay(&rec)
	if len(rec) < 4 { // SYN, SYN-ACK, MPA request, MPA reply
		t.Fatalf("%d records", len(rec))
	}
	var mpa []string
	for i, r := range rec {
		// Each record is what passed the wire at its time.
		live := slices.IndexFunc(a.all, func(l frame.Record) bool { return bytes.Equal(l.Data, r.Data) && l.Dir == r.Dir })
		if r.Text() != "replayed for dissection" || live < 0 || (i > 0 && rec[i-1].Stamp > r.Stamp) {
			t.Fatalf("record %d (%v, %q) equals live frame %d", i, r.Dir, r.Text(), live)
		}
		if bytes.Contains(r.Data, []byte("MPA ID")) {
			mpa = append(mpa, r.Dir.String())
		}
	}
	h, seg, _ := ip.Parse(rec[0].Data[14:])
	th, _, _ := tcp.Parse(seg)
	if th.Flags != tcp.SYN || h.Src != nic4 || strings.Join(mpa, " ") != "out in" {
		t.Errorf("first %v from %v, MPA frames %v", th.Flags, h.Src, mpa)
	}
	// The capture proper names queue pair and work request.
	noted := 0
	for _, r := range a.all {
		if r.Dir == frame.Outbound && strings.Contains(r.Text(), "WR 17 RDMA Write") {
			noted++
		}
	}
	if noted < 40 {
		t.Errorf("%d frames of the Write are named", noted)
	}
	for i, r := range a.all {
		if r.Stamp == 0 || r.ID == 0 {
			t.Fatalf("record %d: stamp %d id %d", i, r.Stamp, r.ID)
		}
	}
}

func TestViews(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	client, server := dial(w, a, b, peer4, 4096)
	exercise(w, client, server, 4096)
	d := a.dev
	nic, qp, cq, mr, cep := d.ShowNIC(), d.ShowQP(), d.ShowCQ(), d.ShowMR(), d.ShowCEP()
	if nic.Name != "nic0" || nic.QPs != 1 || nic.RxPackets == 0 || len(nic.Addrs) != 3 || nic.MTU != 1500 {
		t.Errorf("%+v", nic)
	}
	if len(qp) != 1 || qp[0].State != "RTS" || qp[0].Remote.Addr() != peer4 {
		t.Errorf("%+v", qp)
	}
	if len(cq) != 1 || cq[0].Total != 3 || len(mr) != 1 || mr[0].STag != client.mr.RKey() || mr[0].Len != 4096 ||
		len(cep) != 1 {
		t.Errorf("%+v %+v %+v", cq, mr, cep)
	}
	seen := map[string]bool{}
	for _, c := range d.Counters() {
		if seen[c.Name] || strings.ToLower(c.Name) != c.Name || strings.Contains(c.Name, " ") {
			t.Errorf("counter %q", c.Name)
		}
		seen[c.Name] = true
	}
	for name, want := range map[string]uint64{"rdma_write_out": 1, "rdma_read_request_out": 1, "rdma_send_out": 1,
		"rdma_read_response_in": 1} {
		if got := a.counter(name); got != want {
			t.Errorf("%s = %d, want %d", name, got, want)
		}
	}
}

func TestTimersAndPollers(t *testing.T) {
	w, a, _ := twoNICs(t, Config{})
	var order []string
	at := w.now.Add(time.Second)
	note := func(s string) func(frame.Time) {
		return func(now frame.Time) {
			if now != at {
				t.Errorf("%s ran at %v", s, now.Sub(at))
			}
			order = append(order, s)
		}
	}
	a.dev.Schedule(at, note("first"))
	cancel := a.dev.Schedule(at, note("cancelled"))
	a.dev.Schedule(at, note("second"))
	cancel()
	polled := 0
	stop := a.dev.AddPoller(func(frame.Time) { polled++ })
	w.run(2 * time.Second)
	cancel()
	before := polled
	stop()
	w.run(time.Second)
	if strings.Join(order, " ") != "first second" || before == 0 || polled != before {
		t.Errorf("order %v, polled %d then %d", order, before, polled)
	}
}

func TestConfigErrors(t *testing.T) {
	w := newWorld(t)
	n := &node{w: w}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{MTU: 100}, "MTU 100: want 576 to 16000"},
		{Config{MTU: 1000, Addrs: prefixes("fd00::1/64")}, "needs an MTU of at least 1280"},
		{Config{VLAN: 4095}, "VLAN 4095"},
		{Config{Addrs: prefixes("224.0.0.1/24")}, "use a unicast address"},
		{Config{Addrs: prefixes("10.0.0.0/24")}, "network's own or broadcast"},
		{Config{Addrs: prefixes("10.0.0.255/24")}, "network's own or broadcast"},
		{Config{Addrs: prefixes("10.0.0.1/24", "10.0.0.1/16")}, "given twice"},
		{Config{Addrs: prefixes("10.0.0.1/24"), Gateways: []netip.Addr{netip.MustParseAddr("10.0.1.1")}},
			"gateway 10.0.1.1 lies in the prefix of no address"},
		{Config{MAC: [6]byte{1}}, "multicast address"},
		{Config{Frames: 9}, "use wire, gso or jumbo"},
	} {
		c.cfg.Name = "nicX"
		_, err := newNIC(c.cfg, Env{Pool: w.pool, Wire: n})
		if err == nil || !strings.HasPrefix(err.Error(), "NIC nicX: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	if _, err := newNIC(Config{}, Env{}); err == nil {
		t.Error("a NIC without a world")
	}
	d, err := newNIC(Config{Name: "a", Addrs: prefixes("10.0.0.1/31", "10.0.0.9/32")}, Env{Pool: w.pool, Wire: n})
	if err != nil || d.cfg.MAC.IsMulticast() || d.cfg.MAC[0]&2 == 0 {
		t.Errorf("%v, MAC %v", err, d.cfg.MAC)
	}
	for _, s := range []string{"wire", "gso", "jumbo"} {
		if m, err := settings.ParseFrameMode(s); err != nil || m.String() != s {
			t.Errorf("mode %s: %v %v", s, m, err)
		}
	}
	if _, err := settings.ParseFrameMode("tso"); err == nil || errors.Unwrap(err) != nil {
		t.Errorf("mode tso: %v", err)
	}
}
