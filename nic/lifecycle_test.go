package nic

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

// watch registers n with a layer of its own and writes down the events of a
// context opened by GUID.
func watch(t *testing.T, n *node) (ctx *al.Context, events *[]string) {
	t.Helper()
	l := al.New(nil)
	ca, err := l.RegisterCI(n.dev.CI(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	events = new([]string)
	ctx, err = l.OpenCA(ca.GUID(), al.EventFunc(func(ev al.Event, _ frame.Time) {
		*events = append(*events, ev.Type.String())
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, events
}

func expectEvents(t *testing.T, what string, events *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*events, want) {
		t.Errorf("%s: events %v, want %v", what, *events, want)
	}
	*events = nil
}

func TestPersonality(t *testing.T) {
	w := newWorld(t)
	cfg := setting(t, "personality=eth")
	cfg.Name, cfg.Addrs = "plain", prefixes("10.0.0.1/24")
	n := w.nic(cfg)
	if _, err := n.dev.Verbs.Open(nil); !errors.Is(err, verbs.ErrNotStarted) {
		t.Errorf("open of an Ethernet NIC: %v", err)
	}
	s := w.station("02:00:00:00:00:99", "10.0.0.9")
	n.dev.LinkUp(w.now)
	s.ping(n.dev, netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.1"), 56, 1500)
	w.run(10 * time.Millisecond)
	if n.counter("icmp_in") != 1 || n.counter("icmp_out") != 1 {
		t.Errorf("ping of an Ethernet NIC: %d in, %d out", n.counter("icmp_in"), n.counter("icmp_out"))
	}
}

func TestPFParams(t *testing.T) {
	w := newWorld(t)
	cfg := setting(t, "min_dpis=2 num_qps=3 num_mrs=5 num_srqs=1 desired_cnq=2 max_cnq=4")
	cfg.Name, cfg.Addrs = "small", prefixes("10.0.0.1/24")
	n := w.nic(cfg)
	a := n.dev.Verbs.Attr()
	if a.MaxContext != 2 || a.MaxQP != 3 || a.MaxCQ != 6 || a.MaxMR != 4 || a.MaxSRQ != 1 || a.CNQs != 2 {
		t.Errorf("limits %+v", a)
	}
	pd, err := n.dev.Verbs.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	var cq *verbs.CQ
	for _, c := range []struct {
		what   string
		number int
		create func() error
	}{
		{"contexts", 2, func() error { _, err := n.dev.Verbs.Open(nil); return err }},
		{"CQs", 6, func() (err error) {
			q, err := n.dev.Verbs.CreateCQ(1, nil)
			cq = cmp.Or(q, cq)
			return err
		}},
		{"QPs", 3, func() error { _, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq}); return err }},
		{"MRs", 4, func() error { _, err := pd.RegMR(make([]byte, 64), verbs.LocalWrite); return err }},
		{"SRQs", 1, func() error { _, err := pd.CreateSRQ(1, 1); return err }},
	} {
		made := 0
		for made <= c.number && c.create() == nil {
			made++
		}
		if made != c.number {
			t.Errorf("%d %s, want %d", made, c.what, c.number)
		}
	}
	for settings, want := range map[string]int{"desired_cnq=2 max_cnq=4": 2, "max_cnq=4": 4} {
		cfg := setting(t, settings)
		cfg.Name, cfg.Addrs = fmt.Sprint("cnqs", want), prefixes("10.0.0.2/24")
		ctx, err := w.nic(cfg).dev.Verbs.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		vectors := 0
		for _, err := ctx.CreateCQ(1, 0, nil); err == nil; _, err = ctx.CreateCQ(1, vectors, nil) {
			vectors++
		}
		if vectors != want {
			t.Errorf("%s: %d completion vectors", settings, vectors)
		}
	}
	for _, c := range []struct {
		rdma RDMA
		want string
	}{
		{RDMA{DesiredCNQs: 9}, "9 CNQs desired, the device has 8"},
		{RDMA{NumMRs: 1}, "one region is reserved"},
		{RDMA{NumMRs: 131072}, "num_mrs 131072: the hardware has 131071"},
		{RDMA{NumSRQs: 32769}, "num_srqs 32769: the hardware has 32768"},
		{RDMA{Limits: verbs.Limits{MaxCNQ: 65}}, "max_cnq 65: the hardware has 64"},
		{RDMA{NumQPs: -1}, "negative"},
		{RDMA{Personality: 7}, "use iwarp, roce, eth, iscsi or fcoe"},
	} {
		_, err := newNIC(Config{Name: "nicX", Addrs: prefixes("10.0.0.1/24"), RDMA: c.rdma},
			Env{Pool: w.pool, Wire: &node{w: w}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.rdma, err)
		}
	}
}

// A port that goes down carries nothing in either direction; afterwards TCP
// mends what was lost.
func TestPortFollowsTheLink(t *testing.T) { overBoth(t, testPortFollowsTheLink) }

func testPortFollowsTheLink(t *testing.T, cfg Config) {
	w, a, b := twoNICs(t, cfg)
	ctx, events := watch(t, a)
	client, server := dial(w, a, b, netip.MustParseAddr("10.0.0.2"), 4096)
	fill(client.mem, 9)
	client.post(verbs.OpWrite, 4096, server)
	a.dev.LinkDown(w.now)
	w.run(50 * time.Millisecond)
	expectEvents(t, "down", events, "PORT_ERR")
	if p, _ := ctx.QueryPort(1); p.State != verbs.PortDown || p.Phys != verbs.PhysPolling {
		t.Errorf("port %+v", p)
	}
	sent := a.counter("tx_packets")
	if a.counter("tx_drop_link_refused") == 0 || server.mem[0] != 0 {
		t.Error("frames passed a port that is down")
	}
	a.dev.LinkUp(w.now)
	w.until(30*time.Second, func() bool { return client.completions() == 1 && slices.Equal(client.mem, server.mem) })
	expectEvents(t, "up", events, "PORT_ACTIVE")
	if a.counter("tx_packets") == sent {
		t.Error("no frame was counted")
	}
	down := verbs.PortDown
	if err := ctx.ModifyPort(1, verbs.PortMod{State: &down}); err != nil {
		t.Fatal(err)
	}
	fill(server.mem, 77)
	server.post(verbs.OpWrite, 64, client)
	w.run(50 * time.Millisecond)
	expectEvents(t, "managed", events, "PORT_ERR")
	if a.counter("rx_drop_port_down") == 0 {
		t.Error("frames came in through a port in INIT")
	}
	for _, s := range []verbs.PortState{verbs.PortArmed, verbs.PortActive} {
		if err := ctx.ModifyPort(1, verbs.PortMod{State: &s}); err != nil {
			t.Fatal(err)
		}
	}
	w.until(30*time.Second, func() bool {
		return server.completions() == 1 && slices.Equal(client.mem[:64],
			server.mem[:64])
	})
	closeBoth(w, a, b)
}

func TestAddressesComeAndGo(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	ctx, events := watch(t, b)
	extra := netip.MustParsePrefix("10.0.0.77/24")
	if err := b.dev.AddAddr(extra, w.now); err != nil {
		t.Fatal(err)
	}
	w.run(time.Millisecond)
	expectEvents(t, "added", events, "GID_CHANGE")
	gid := verbs.GIDFromAddr(extra.Addr())
	if !slices.Contains(b.dev.Verbs.GIDs(), gid) {
		t.Errorf("GIDs %v", b.dev.Verbs.GIDs())
	}
	if g, err := ctx.GID(1, 0); err != nil || g != verbs.GIDFromMAC(b.dev.cfg.MAC) {
		t.Errorf("GID 0 is %v, %v", g, err)
	}
	client, _ := dial(w, a, b, extra.Addr(), 64)
	if err := b.dev.RemoveAddr(extra.Addr(), w.now); err != nil {
		t.Fatal(err)
	}
	w.until(time.Second, func() bool { return client.saw(cm.Disconnected) })
	expectEvents(t, "removed", events, "GID_CHANGE")
	if slices.Contains(b.dev.Verbs.GIDs(), gid) {
		t.Error("the GID of an address that is gone")
	}
	for i, err := range []error{
		b.dev.RemoveAddr(extra.Addr(), w.now), b.dev.AddAddr(prefixes("10.0.0.2/24")[0],
			w.now), b.dev.AddAddr(prefixes("224.0.0.1/24")[0], w.now),
	} {
		if err == nil {
			t.Errorf("%d: accepted", i)
		}
	}
}

// A NIC that is unplugged flushes its work exactly once; the peer finds out
// by itself.
func TestFailedDevice(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	client, server := dial(w, a, b, netip.MustParseAddr("10.0.0.2"), 64<<10)
	ctx, events := watch(t, a)
	for i := range 8 {
		client.post(verbs.OpWrite, 64<<10, server)
		if _, err := client.qp.PostRecv(verbs.RecvWR{ID: uint64(100 + i)}); err != nil {
			t.Fatal(err)
		}
	}
	w.run(20 * time.Microsecond) // under way
	a.dev.Fail(errors.New("unplugged"), w.now)
	w.run(time.Second)
	expectEvents(t, "failed", events, "DEVICE_FATAL", "PORT_ERR")
	if n := client.completions(); n != 16 {
		t.Errorf("%d completions of 16 requests: %v", n, client.wcs)
	}
	recvs := 0
	for _, wc := range client.wcs {
		if wc.Opcode == verbs.WCRecv {
			recvs++
		}
		if wc.Status != verbs.StatusFlushed && wc.Opcode == verbs.WCRecv {
			t.Errorf("%+v", wc)
		}
	}
	if recvs != 8 || !client.saw(cm.DeviceRemoved) || !client.saw(cm.Disconnected) || !client.saw(cm.ClosedEvent) {
		t.Errorf("%d receives flushed, events %v", recvs, client.events)
	}
	for i, err := range []error{client.qp.Destroy(), client.mr.Dereg(), client.cq.Destroy(), client.pd.Dealloc(),
		ctx.Close()} {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if leaks, err := a.dev.Verbs.Stop(); err != nil || len(leaks) != 0 {
		t.Errorf("leaks %v, %v", leaks, err)
	}
}

func TestShowDevice(t *testing.T) { overBoth(t, testShowDevice) }

func testShowDevice(t *testing.T, cfg Config) {
	cfg.RDMA.NumQPs = 16
	w, a, b := twoNICs(t, cfg)
	dial(w, a, b, netip.MustParseAddr("10.0.0.2"), 64)
	got := map[string]string{}
	for _, r := range a.dev.ShowDevice() {
		s := r.Value
		if r.Used != nil {
			s += fmt.Sprintf("%d of %d", *r.Used, *r.Limit)
		} else if r.Limit != nil {
			s += fmt.Sprint(*r.Limit)
		}
		got[r.Name] = s
	}
	for name, want := range map[string]string{
		"device": "nic0", "personality": "iwarp", "state": "started", "node_guid": verbs.GUIDFromMAC(a.dev.cfg.MAC).String(),
		"port_state": "ACTIVE", "pkey[0]": "0xffff", "qp": "1 of 16", "cq": "1 of 32", "icid": "1 of 16", "gid": "4 of 128",
		"max_qp_rd_atom": "32", "max_ah": "0", "event": "GID change",
	} {
		if of, ok := map[string]string{"personality": "roce", "icid": "2 of 32", "gid": "6 of 128",
			"max_ah": "102400"}[name]; ok && roce(cfg) {
			want = of
		}
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
