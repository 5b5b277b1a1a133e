package nic

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/cmt"
	"tapir/nic/fastlinq/qede"
	"tapir/nic/fastlinq/settings"
	"tapir/nic/port"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// newTwoEngines is a host function on two engines, which the NIC drives.
func newTwoEngines(t *testing.T, queues int, cfg Config) *ethernetHost {
	fastlinqOf(&cfg).Engines = setting(t, "engines=2").Hardware.(*fastlinq.Config).Engines
	return newHostWith(t, queues, cfg)
}

func newHostWith(t *testing.T, queues int, cfg Config) *ethernetHost {
	w := newWorld(t)
	h := &hostSide{w: w, room: 1000, held: map[netip.AddrPort]bool{}}
	n := &node{w: w, room: 1000}
	cfg.Name, cfg.Addrs, cfg.Queues = "nic0", prefixes("10.0.0.1/24"), queues
	w.attach(n, cfg, Env{Pool: w.pool, Wire: n, Host: h, Reserver: h})
	return &ethernetHost{T: t, w: w, n: n, h: h, s: w.station("02:00:00:00:00:99", "10.0.0.2")}
}

// flows offers one frame for each of so many flows and returns the host TAP's
// queues that they came by, -1 for those that did not.
func (e *ethernetHost) flows(n int) (queues []int) {
	e.Helper()
	for i := range n {
		queues = append(queues, -1)
		if b := e.frame(e.n.dev.cfg.MAC, 0, uint16(1000+i)); len(e.in(b)) == 1 {
			if queues[i] = int(e.h.queues[0]); string(e.h.got[0]) != string(b) {
				e.Fatalf("flow %d: changed on the way", i)
			}
		}
	}
	return queues
}

// fromQueue sends a frame of the operating system by a queue and tells whether
// the wire had it.
func (e *ethernetHost) fromQueue(q int) bool {
	e.Helper()
	e.s.take()
	b := ether.Header{Dst: e.s.mac, Src: e.n.dev.cfg.MAC, Type: ether.TypeIPv4}.AppendTo(nil)
	b = append(b, packet(ip.Header{Proto: ip.ProtoUDP, Src: nic4, Dst: peer4}, make([]byte, 8))...)
	f := e.w.pool.Get(len(b))
	f.Append(b)
	f.Queue = uint16(q)
	e.n.dev.Receive(frame.Host, []*frame.Frame{f}, e.w.now)
	e.w.run(time.Millisecond)
	return len(e.s.take()) == 1
}

func missed(queues []int) (n int) {
	for _, q := range queues {
		if q < 0 {
			n++
		}
	}
	return n
}

// by counts the frames of each engine.
func by(queues []int) (n [cmt.Engines]int) {
	for _, q := range queues {
		if q >= 0 {
			n[cmt.Hwfn(q)]++
		}
	}
	return n
}

// Whatever the number of queues and the interrupt mode, two engines bring every
// flow to the queue that one does, with the same octets, and send by every queue.
//
// CM-05 CM-06 CM-10
func TestTwoEnginesAsOne(t *testing.T) {
	const flows = 120
	for _, queues := range []int{1, 2, 3, 4} {
		want := newHostWith(t, queues, Config{}).flows(flows)
		for _, mode := range []string{"inta", "msix", "poll"} {
			e := newTwoEngines(t, queues, Config{Hardware: &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: mode}}})
			got := e.flows(flows)
			for i := range got {
				if got[i] < 0 || cmt.Local(got[i]) != want[i] {
					t.Fatalf("%d queues, %s: flow %d comes by queue %d of the TAP, with one engine by %d", queues, mode, i, got[i],
						want[i])
				}
			}
			if n := by(got); n[0] < flows/4 || n[1] < flows/4 {
				t.Errorf("%d queues: the engines got %v", queues, n)
			}
			for q := range 2 * queues {
				if !e.fromQueue(q) {
					t.Errorf("%d queues, %s: nothing leaves by queue %d of the TAP", queues, mode, q)
				}
			}
			e.conserved(2*queues, flows)
			if list := e.n.dev.ShowQueues(); len(list) != 2*queues || list[1].Hwfn != "nic0-1" || list[1].Queue != 1 {
				t.Errorf("%+v", list)
			}
		}
	}
}

// conserved holds the sum of the engines' statistics against what the wire saw.
func (e *ethernetHost) conserved(sent, received int) {
	e.Helper()
	var tx, rx, each uint64
	for _, v := range e.n.dev.ShowVport() {
		rx, tx = rx+v.RxPackets, tx+v.TxPackets
	}
	for i := range cmt.Engines {
		each += e.n.counter(fmt.Sprintf("engine%d_rx_packets", i))
		if e.n.counter(fmt.Sprintf("engine%d_tx_packets", i)) == 0 && sent > 1 {
			e.Errorf("engine %d has sent nothing", i)
		}
	}
	if rx != uint64(received) || tx != uint64(sent) || each != rx || e.n.counter("host_tx_packets") != rx ||
		e.n.counter("host_rx_packets") != tx {
		e.Errorf("the vports received %d of %d and sent %d of %d; steered %d", rx, received, tx, sent, each)
	}
	if n := e.w.pool.Lent(); n != 0 {
		e.Errorf("%d frames are lost", n)
	}
}

// After any sequence of commands both engines are configured alike, and together
// have counted what the wire saw.
//
// CM-04
func TestSymmetry(t *testing.T) {
	chance := rand.New(rand.NewPCG(8, 9))
	for range 20 {
		e := newTwoEngines(t, 4, Config{})
		for range 30 {
			s := []Setting{
				{"rx_mode", []string{"promisc", "allmulti", "regular"}[chance.IntN(3)]},
				{"rx_vlans", []string{"all", "5", "5,7,9"}[chance.IntN(3)]},
				{"rx_macs", []string{"none", "02:05:05:05:05:05"}[chance.IntN(2)]},
				{"rx_groups", []string{"none", "01:00:5e:01:02:03"}[chance.IntN(2)]},
				{"channels", fmt.Sprint(chance.IntN(6))}, // 5 are refused
				{"rss_table", []string{"equal", "0", "0,0,1"}[chance.IntN(3)]},
				{"rss_hash", []string{"ipv4,tcp4", "all", "none"}[chance.IntN(3)]},
				{"pvid", []string{"0", "12"}[chance.IntN(2)]},
				{"rx_ring", []string{"256", "100", "512"}[chance.IntN(3)]}, // 100 are refused
				{"ntuple", []string{"none", "0 tcp4 dst-port 80 action 0"}[chance.IntN(2)]},
				{"tx_maxrate", []string{"0", "5000"}[chance.IntN(2)]},
				{"llh_affinity", []string{"none", "0:engine1"}[chance.IntN(2)]},
			}[chance.IntN(12)]
			err := e.n.dev.Set(s)
			first, second := e.n.dev.Netdev(0).Settings(), e.n.dev.Netdev(1).Settings()
			full := (&settings.NIC{Shape: e.n.dev.cfg.shape(), Config: (*settings.Config)(e.n.dev.under.Config())}).Netdev()
			table := full.FullTable()
			if !slices.Equal(first.Table, table[:64]) || !slices.Equal(second.Table, table[64:]) {
				t.Fatalf("%v: %v: the tables are not halves of the user's", s, err)
			}
			first.Table, second.Table = nil, nil
			if a, b := fmt.Sprintf("%+v", first), fmt.Sprintf("%+v", second); a != b {
				t.Fatalf("%v: %v: the engines have\n%s\n%s", s, err, a, b)
			}
			v := e.n.dev.ShowVport()
			a, b := v[0], v[1]
			a.Hwfn, b.Hwfn, a.RxPackets, b.RxPackets, a.TxPackets, b.TxPackets, a.Filtered, b.Filtered = "", "", 0, 0, 0, 0, 0, 0
			if a != b {
				t.Fatalf("%v: %v: the vports are\n%+v\n%+v", s, err, a, b)
			}
		}
		for _, s := range []Setting{{"tx_maxrate", "0"}, {"rx_mode", "promisc"}, {"channels", "2"}, {"channels", "3"},
			{"llh_affinity", "none"}, {"rss_hash", "all"}, {"pvid", "0"}} {
			_ = e.n.dev.Set(s) // a table of queue 1 may not be for it
		}
		for _, s := range []Setting{{"rss_table", "equal"}, {"channels", "2"}, {"channels", "3"}} {
			e.set(s.Name, s.Value) // restarts the vports: they have counted nothing
		}
		before := [2]uint64{e.n.counter("host_rx_packets"), e.n.counter("host_tx_packets")}
		if n := missed(e.flows(64)); n != 0 || !e.fromQueue(0) || !e.fromQueue(1) {
			t.Fatalf("%d flows are lost", n)
		}
		var rx, tx uint64
		for _, v := range e.n.dev.ShowVport() {
			rx, tx = rx+v.RxPackets, tx+v.TxPackets
		}
		if rx != 64 || tx != 2 || e.n.counter("host_rx_packets")-before[0] != 2 ||
			e.n.counter("host_tx_packets")-before[1] != 64 {
			t.Errorf("the vports have received %d and sent %d", rx, tx)
		}
	}
}

// A filter that is missing on one engine loses the flows that go there.
//
// CM-04
func TestMissingFilter(t *testing.T) {
	e := newTwoEngines(t, 3, Config{})
	e.set("rx_mode", "regular")
	all := e.flows(100)
	n := by(all)
	if missed(all) != 0 || n[1] < 25 {
		t.Fatalf("%d lost, engines %v", missed(all), n)
	}
	e.set("engine1", "no_filters")
	before := e.n.ethtoolStat("mac_filter_discards")
	if l := missed(e.flows(100)); l != n[1] || e.n.ethtoolStat("mac_filter_discards")-before != uint64(l) {
		t.Errorf("%d are lost, %d counted; engine 1 had %d", l, e.n.ethtoolStat("mac_filter_discards")-before, n[1])
	}
	e.set("engine0", "no_filters")
	if l := missed(e.flows(100)); l != 100 {
		t.Errorf("%d of 100 are lost", l)
	}
	if err := e.n.dev.Set(Setting{"engine0", "working"}, Setting{"engine1", "working"}); err != nil {
		t.Fatal(err)
	}
	if again := e.flows(100); !slices.Equal(again, all) {
		t.Errorf("repaired: %v instead of %v", again, all)
	}
}

// An engine that fails leaves the other working: it gets the flows, and sends
// what comes by the queues of the other. What waits is lost and counted. A
// recovery brings the engine back.
//
// CM-01 CM-07
func TestEngineFails(t *testing.T) {
	for failed := range cmt.Engines {
		e := newTwoEngines(t, 3, Config{})
		name := fmt.Sprintf("engine%d", failed)
		all := e.flows(60)
		e.set("llh_filters", "1 tcp-dst 1000")
		e.set("llh_affinity", fmt.Sprintf("1:%s", name)) // the first flow has no choice
		e.set(name, "failed")
		if s := e.n.dev.Core().HealthState(); s != "error" {
			t.Errorf("%s has failed: the core is %s", name, s)
		}
		got := e.flows(60)
		if n := by(got); missed(got) != 1 || got[0] != -1 || n[failed] != 0 || e.n.counter("rx_drop_engine_failed") != 1 {
			t.Errorf("%s has failed: %d lost, engines %v, %d dropped", name, missed(got), n,
				e.n.counter("rx_drop_engine_failed"))
		}
		for q := range 6 {
			if !e.fromQueue(q) {
				t.Errorf("%s has failed: nothing leaves by queue %d", name, q)
			}
		}
		e.set("rx_mode", "regular") // counts once it works again
		e.set("channels", "2")
		e.set("channels", "3")
		e.set(name, "working")
		e.set("llh_filters", "none")
		if s := e.n.dev.Core().HealthState(); s != "healthy" || e.n.dev.Core().Health().Recoveries != 1 {
			t.Errorf("%s works again: the core is %s", name, s)
		}
		if again := e.flows(60); !slices.Equal(again, all) {
			t.Errorf("%s works again: %v instead of %v", name, again, all)
		}
		if v := e.n.dev.ShowVport(); v[0].RxMode != "regular" || v[1].RxMode != "regular" {
			t.Errorf("%s works again: %+v", name, v)
		}
		if err := e.n.dev.Set(Setting{"engine0", "failed"}, Setting{"engine1", "failed"}); err != nil {
			t.Fatal(err)
		}
		if l := missed(e.flows(10)); l != 10 || e.fromQueue(0) || e.fromQueue(1) || e.w.pool.Lent() != 0 {
			t.Errorf("no engine: %d of 10 lost, %d frames lent", l, e.w.pool.Lent())
		}
	}
}

// RDMA goes on while the other engine fails, and waits for its own.
//
// CM-07
func TestRDMAOnOneEngine(t *testing.T) { overBoth(t, testRDMAOnOneEngine) }

func testRDMAOnOneEngine(t *testing.T, cfg Config) {
	e := newTwoEngines(t, 2, cfg)
	cfg.Name, cfg.Addrs = "nic1", prefixes("10.0.0.3/24")
	peer := e.w.nic(cfg)
	e.w.station(e.n.dev.cfg.MAC.String(), "10.0.0.1") // answers ARP
	client, server := dial(e.w, e.n, peer, netip.MustParseAddr("10.0.0.3"), 4096)
	e.set("engine1", "failed")
	exercise(e.w, client, server, 4096)
	e.set("engine1", "working")
	fails := e.w.now.Add(time.Microsecond) // while frames are on their way
	e.n.dev.Schedule(fails, func(frame.Time) { _ = e.n.dev.Set(Setting{"engine0", "failed"}) })
	e.n.dev.Schedule(fails.Add(100*time.Millisecond), func(frame.Time) { _ = e.n.dev.Set(Setting{"engine0", "working"}) })
	exercise(e.w, client, server, 4096)
	if e.n.counter("rx_drop_engine_failed") == 0 || e.w.now < fails.Add(100*time.Millisecond) {
		t.Errorf("%d segments dropped", e.n.counter("rx_drop_engine_failed"))
	}
}

// More frames than the ring to the second engine holds are dropped and counted.
func TestEngineRingIsFull(t *testing.T) {
	e := newTwoEngines(t, 1, Config{})
	var batch []*frame.Frame
	for i := range 2*cmt.RingFrames + 200 {
		b := e.frame(e.n.dev.cfg.MAC, 0, uint16(1000+i))
		f := e.w.pool.Get(len(b))
		f.Append(b)
		batch = append(batch, f)
	}
	e.h.got = nil
	e.n.dev.Receive(frame.Wire, batch, e.w.now)
	e.w.run(time.Millisecond)
	ring, queue := e.n.counter("rx_drop_engine_ring_full"), e.n.counter("rx_drop_host_queue_full")
	if ring == 0 || uint64(len(e.h.got))+ring+queue != uint64(len(batch)) || e.w.pool.Lent() != 0 {
		t.Errorf("%d of %d arrive, %d and %d dropped, %d lent", len(e.h.got), len(batch), ring, queue, e.w.pool.Lent())
	}
	// Nor is there more room for what it sends in the first one's stead.
	e.set("engine0", "failed")
	e.n.room = len(batch)
	batch = batch[:0]
	for range 2 * cmt.RingFrames {
		b := e.frame(e.s.mac, 0, 9)
		f := e.w.pool.Get(len(b))
		f.Append(b)
		batch = append(batch, f)
	}
	e.s.take()
	e.n.dev.Receive(frame.Host, batch, e.w.now)
	e.w.run(time.Millisecond)
	ring = e.n.counter("rx_drop_engine_ring_full") - ring
	if sent := len(e.s.take()); ring != cmt.RingFrames || e.n.counter("engine_resent") != cmt.RingFrames || sent == 0 ||
		e.w.pool.Lent() != 0 {
		t.Errorf("in the other's stead %d of %d leave, %d dropped, %d passed on, %d lent", sent, len(batch), ring,
			e.n.counter("engine_resent"), e.w.pool.Lent())
	}
}

// CM-07 CM-08
func TestPinnedFlows(t *testing.T) {
	e := newTwoEngines(t, 2, Config{})
	e.set("iwarp_cmt", "1")
	if n := by(e.flows(40)); n != [2]int{40, 0} || e.n.counter("engine_pinned") != 40 {
		t.Errorf("iwarp_cmt: engines %v", n)
	}
	e.set("iwarp_cmt", "0")
	e.set("llh_filters", "3 tcp-dst 1001")
	e.set("llh_affinity", "3:engine1")
	before := by(e.flows(2))
	e.set("llh_affinity", "3:engine0")
	if after := by(e.flows(2)); before[1] == 0 || after[0] == 0 || after[0] != before[0]+1 {
		t.Errorf("a port on engine 1: %v, on engine 0: %v", before, after)
	}
	for _, c := range [][2]string{{"llh_affinity", "9:engine1"}, {"llh_affinity", "1:engine2"},
		{"llh_filters", "1 tcp-dst 0"}, {"llh_filters", "1 port 7"},
		{"llh_filters", strings.TrimSuffix(strings.Repeat("1 udp-dst %d,", 17), ",")}} {
		v := c[1]
		for i := 1; strings.Contains(v, "%d"); i++ {
			v = strings.Replace(v, "%d", fmt.Sprint(i), 1)
		}
		if err := e.n.dev.Set(Setting{c[0], v}); err == nil {
			t.Errorf("%s=%s is taken", c[0], v)
		}
	}
}

// The device has two hwfns, each alone on its engine, and their vectors alternate.
//
// CM-01 CM-02
func TestTwoHwfns(t *testing.T) {
	e := newTwoEngines(t, 3, Config{})
	var text []string
	for _, r := range e.n.dev.ShowDevice() {
		text = append(text, r.Name+" "+r.Value)
	}
	all := strings.Join(text, "\n")
	if !strings.Contains(all, "hwfn nic0-0:") || !strings.Contains(all, "hwfn nic0-1:") || strings.Count(all,
		"\nload ENGINE") != 2 {
		t.Errorf("%s", all)
	}
	e.flows(60)
	vectors := map[int]string{}
	for _, r := range e.n.dev.ShowIRQ() {
		if n, hwfn := r.Vector, 0; r.Hwfn == "nic0-1" {
			if hwfn = 1; n%2 != hwfn {
				t.Errorf("%+v", r)
			}
		} else if n%2 != 0 {
			t.Errorf("%+v", r)
		}
		if vectors[r.Vector] != "" {
			t.Errorf("vector %d is there twice", r.Vector)
		}
		vectors[r.Vector] = r.User
		if strings.HasPrefix(r.User, "queue") && r.Interrupts == 0 {
			t.Errorf("no interrupt: %+v", r)
		}
	}
	if vectors[0] != "slowpath" || vectors[1] != "slowpath" || vectors[2] != "queue 0" || vectors[3] != "queue 0" ||
		vectors[7] != "queue 2" {
		t.Errorf("%v", vectors)
	}
	e.n.dev.Close(e.w.now)
	if n := e.n.dev.Core().Health().Leaked; n != 0 {
		t.Errorf("%d connection ids leaked", n)
	}
	if n := e.n.dev.SecondEngine().IRQ().Hwfns[1].Num(); n.Free != n.Cnt {
		t.Errorf("status blocks of the second engine are left: %+v", n)
	}
	for name, c := range map[string]Config{
		"engines":    {Hardware: &fastlinq.Config{Engines: 3}},
		"MSI":        {Hardware: &fastlinq.Config{Engines: 2, Interrupts: fastlinq.Interrupts{Mode: "msi"}}},
		"one engine": {Hardware: &fastlinq.Config{CMT: fastlinq.CMT{PinIWARP: true}}},
		"a filter":   {Hardware: &fastlinq.Config{Engines: 2, CMT: fastlinq.CMT{Filters: []settings.LLHFilter{{PPFID: 9}}}}},
		"vports": {Hardware: &fastlinq.Config{Engines: 2,
			Ethernet: fastlinq.Ethernet{Stations: []qede.Station{{MAC: macvlan1}}}}},
	} {
		c.Name = "nic0"
		if _, err := newNIC(c, Env{Pool: e.w.pool, Wire: e.n, Host: e.h, Reserver: e.h}); err == nil ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A frame of the operating system that passes the second engine costs no
// allocation, whichever way it goes.
func TestSecondEngineAllocatesNothing(t *testing.T) {
	e := newTwoEngines(t, 1, Config{})
	e.n.dev.SetTracer(nil)
	var b []byte
	for port := uint16(1000); ; port++ {
		if b = e.frame(e.n.dev.cfg.MAC, 0, port); len(e.in(b)) == 1 && e.h.queues[0] == 1 {
			break
		}
	}
	d := e.n.dev
	d.SecondEngine().SetHost(sink{})
	*d.Host, *d.Wire = *port.New(&d.Common, frame.Host, sink{}, nil), *port.New(&d.Common, frame.Wire, sink{}, nil)
	batch := make([]*frame.Frame, 1)
	for _, p := range []frame.Port{frame.Wire, frame.Host} {
		if n := testing.AllocsPerRun(100, func() {
			f := e.w.pool.Get(len(b))
			f.Append(b)
			f.Queue = 1
			if p == frame.Wire {
				f.Queue = 0
			}
			batch[0] = f
			d.Receive(p, batch, e.w.now)
			d.Poll(e.w.now)
		}); n != 0 {
			t.Errorf("%v: %v allocations", p, n)
		}
	}
}
