package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tapir/nic/buf"
	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/fastlinq/ecore"
	"tapir/nic/fastlinq/ecore/cxt"
	"tapir/nic/fastlinq/ecore/spq"
	"tapir/nic/fastlinq/irq"
	"tapir/nic/fastlinq/l2"
	"tapir/nic/fastlinq/rdma"
	"tapir/nic/hardware"
	"tapir/nic/ideal"
	"tapir/nic/verbs"
	"tapir/wire/frame"
	"tapir/wire/ip"
)

// protocolOf is that of a NIC's queue pairs.
func protocolOf(d *device) cxt.Protocol {
	if roce(d.cfg) {
		return cxt.RoCE
	}
	return cxt.IWARP
}

// rdmaRamrods writes down what the firmware executes for RDMA, but for which fail
// is true: those fail with code 5.
func rdmaRamrods(d *device, fail func(rdma.Command) bool) *[]string {
	list := new([]string)
	e, protocol := d.Chip().Engines[0], protocolOf(d)
	do := e.Handler(protocol)
	e.Handle(protocol, func(pf int, el spq.Element) (uint8, uint64) {
		name := rdma.Command(el.Cmd).String()
		if protocol == cxt.RoCE {
			name = rdma.RoCECommand(el.Cmd).String()
		}
		*list = append(*list, name)
		if fail != nil && fail(rdma.Command(el.Cmd)) {
			return rdma.GeneralError, 0
		}
		return do(pf, el)
	})
	return list
}

// A queue pair lives by ramrods: it is created, offloaded, modified, queried and
// destroyed by one each, in every mode of interrupts, and its context lies in a line
// of the ILT that is mapped for it. Work requests need none.
//
// RD-14 RD-15 RD-16 IW-12 HW-08 HW-11 IT-16
func TestQueuePairsLiveByRamrods(t *testing.T) { overBoth(t, testQueuePairsLiveByRamrods) }

func testQueuePairsLiveByRamrods(t *testing.T, cfg Config) {
	want := []string{"CREATE_QP MPA_OFFLOAD CREATE_QP QUERY_QP MODIFY_QP QUERY_QP DESTROY_QP",
		"CREATE_QP MPA_OFFLOAD DESTROY_QP"}
	lines, contexts := 2, 3 // those of light L2 are for SYNs and isles, or for queue pair 1
	if roce(cfg) {          // a queue pair is a responder and a requester
		lines, contexts = 3, 2
		want = []string{"CREATE_QP MODIFY_QP CREATE_QP QUERY_QP MODIFY_QP QUERY_QP DESTROY_QP",
			"CREATE_QP MODIFY_QP CREATE_QP MODIFY_QP DESTROY_QP"}
	}
	for _, mode := range []string{"msix", "msi", "inta", "poll"} {
		cfg.Hardware = &fastlinq.Config{Interrupts: fastlinq.Interrupts{Mode: mode}}
		w, a, b := twoNICs(t, cfg)
		lists := []*[]string{rdmaRamrods(a.dev, nil), rdmaRamrods(b.dev, nil)}
		mapped := func() int { return *value(t, a.dev.ShowDevice(), "ilt", "mapped on use").Used }
		if n := mapped(); n != 0 {
			t.Errorf("%s: %d lines are mapped before there is a queue pair", mode, n)
		}
		client, server := dial(w, a, b, peer4, 4096)
		// the first share a line with queues of Ethernet
		for range 2 * cxt.PageSize / cxt.ConnSize / cfg.RDMA.Personality.ICIDsPerQP() {
			if _, err := client.pd.CreateQP(verbs.QPConfig{SendCQ: client.cq, RecvCQ: client.cq}); err != nil {
				t.Fatal(err)
			}
		}
		if n := mapped(); n != lines {
			t.Errorf("%s: %d lines are mapped", mode, n)
		}
		posted := a.dev.Core().Show()[0].SPQ.Posted
		for range 20 {
			exercise(w, client, server, 4096)
		}
		if n := a.dev.Core().Show()[0].SPQ.Posted - posted; n != 0 {
			t.Errorf("%s: %d ramrods for 60 work requests", mode, n)
		}
		if s := client.qp.Query().State; s != verbs.RTS {
			t.Errorf("%s: the context is in state %v", mode, s)
		}
		_ = client.id.Disconnect(false, w.now)
		w.until(time.Second, func() bool { return client.qp.State() == verbs.Err && server.qp.State() == verbs.Err })
		if s := client.qp.Query().State; s != verbs.Err {
			t.Errorf("%s: closed: the context is in state %v", mode, s)
		}
		for _, q := range []*verbs.QP{client.qp, server.qp} {
			if err := q.Destroy(); err != nil {
				t.Fatal(err)
			}
		}
		for i, list := range lists {
			if got := folded(*list); got != want[i] {
				t.Errorf("%s, NIC %d: %s, want %s", mode, i, got, want[i])
			}
		}
		if ecore.Debug {
			if n := *value(t, a.dev.ShowDevice(), "ramrod", fmt.Sprint(protocolOf(a.dev),
				" DESTROY_QP")).Ever; n != cfg.RDMA.Personality.ICIDsPerQP() {
				t.Errorf("%s: %d DESTROY_QP", mode, n)
			}
		}
		if err := a.dev.Verbs.Reclaim(nil); err != nil {
			t.Fatal(err)
		}
		if s := a.dev.Core().Show()[0]; s.SPQ.InUse != 0 || s.SPQ.Posted != s.SPQ.Completed || s.EQ.Unknown != 0 ||
			s.Contexts != contexts {
			t.Errorf("%s: %+v %+v, %d contexts, want %d", mode, s.SPQ, s.EQ, s.Contexts, contexts)
		}
	}
}

// What the firmware sees itself comes by the event queue: while the slowpath's
// interrupt is masked nobody hears of it. The limit of a shared receive queue is
// armed by a ramrod.
//
// RD-17 RD-19 IW-25 IT-17
func TestEventsComeByTheEventQueue(t *testing.T) { overBoth(t, testEventsComeByTheEventQueue) }

func testEventsComeByTheEventQueue(t *testing.T, cfg Config) {
	w, a, b := twoNICs(t, cfg)
	client, server := newEnd(t, a, 4096), newEnd(t, b, 4096)
	list := rdmaRamrods(b.dev, nil)
	srq, err := server.pd.CreateSRQ(8, 1)
	if err != nil {
		t.Fatal(err)
	}
	if server.qp, err = server.pd.CreateQP(verbs.QPConfig{SendCQ: server.cq, RecvCQ: server.cq, SRQ: srq}); err != nil {
		t.Fatal(err)
	}
	var heard []string
	b.dev.Verbs.OnAsync(func(ev verbs.AsyncEvent, _ frame.Time) { heard = append(heard, ev.Type.String()) })
	join(w, client, server, peer4)
	for range 2 {
		if _, err := srq.PostRecv(verbs.RecvWR{SGEs: []verbs.SGE{{Addr: server.mr.Addr(), Length: 4096,
			LKey: server.mr.LKey()}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := srq.SetLimit(2); err != nil {
		t.Fatal(err)
	}
	ramrods, closing := "CREATE_SRQ CREATE_QP MPA_OFFLOAD MODIFY_SRQ", []string{"EXCEPTION_DETECTED"}
	names := []string{"SRQ_LIMIT", "EXCEPTION_DETECTED", "QP_IN_ERROR_STATE"}
	if roce(cfg) {
		ramrods, closing = "CREATE_SRQ CREATE_QP MODIFY_QP CREATE_QP MODIFY_SRQ", nil
		names = []string{"SRQ_LIMIT", "LOCAL_ACCESS_ERR", "LAST_WQE_REACHED"}
	}
	if got := strings.Join(*list, " "); got != ramrods {
		t.Error(got)
	}
	sp := b.dev.IRQ().Hwfns[0].SP()
	masked := func(on bool) {
		sp.SetState(irq.Rx, map[bool]irq.State{true: irq.Stopped, false: irq.Disabled}[on], w.now)
	}
	masked(true)
	client.post(verbs.OpSend, 100, server)
	w.run(time.Millisecond)
	if len(heard) != 0 || srq.Len() != 1 || srq.Query().Limit != 0 {
		t.Errorf("heard %v by a masked interrupt, %d receives left", heard, srq.Len())
	}
	masked(false)
	w.run(time.Millisecond)
	if !slices.Equal(heard, []string{"SRQ limit reached"}) {
		t.Errorf("heard %v", heard)
	}
	wr := verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: server.mr.Addr(), RKey: server.mr.RKey() + 1,
		SGEs: []verbs.SGE{{Addr: client.mr.Addr(), Length: 8, LKey: client.mr.LKey()}}}
	if _, err := client.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	w.run(100 * time.Millisecond)
	if !slices.Equal(heard, []string{"SRQ limit reached", "QP access error", "last WQE reached"}) {
		t.Errorf("heard %v", heard)
	}
	for d, want := range map[*device][]string{b.dev: names, a.dev: closing} {
		for _, name := range want {
			if n := *value(t, d.ShowDevice(), "async_event", fmt.Sprint(protocolOf(d), " ", name)).Ever; n != 1 {
				t.Errorf("%s: %d times", name, n)
			}
		}
		if n := *value(t, d.ShowDevice(), "eq_async", "").Ever; n != len(want) {
			t.Errorf("%d events", n)
		}
	}
	if err := errors.Join(server.qp.Destroy(), srq.Destroy()); err != nil {
		t.Error(err)
	}
	if used := *value(t, b.dev.ShowDevice(), "srq_contexts", "").Used; used != 0 {
		t.Errorf("%d contexts of shared receive queues leak", used)
	}
}

// A ramrod that fails refuses what it was for, with one line, and leaves nothing
// behind: the firmware is stuck, the slowpath queue is full, or the firmware says no.
func TestRamrodsOfRDMAFail(t *testing.T) {
	for name, f := range map[string]struct {
		begin, end func(d *device)
		text       string
	}{
		"stuck": {func(d *device) { d.Chip().Engines[0].Faults(0).Stuck = true },
			func(d *device) { d.Chip().Engines[0].Faults(0).Stuck = false },
			"create QP: firmware of the device failed: ramrod CREATE_QP is not answered: BUSY"},
		"full": {func(d *device) {
			d.Chip().Engines[0].Faults(0).Stuck = true
			for i := range spq.Elements {
				_ = d.Slowpath(0).AddRule(l2.Rule{Tuple: l2.Tuple{Proto: ip.ProtoTCP, DstPort: uint16(1000 + i)}})
			}
		}, func(d *device) { d.Chip().Engines[0].Faults(0).Stuck = false },
			"create QP: firmware of the device failed: ramrod CREATE_QP is not answered: BUSY"},
		"refused": {func(d *device) { rdmaRamrods(d, func(c rdma.Command) bool { return c == rdma.CreateQP }) },
			func(d *device) { rdmaRamrods(d, nil) },
			"create QP: firmware of the device failed: ramrod CREATE_QP: the firmware returns 5: UNKNOWN_ERROR"},
	} {
		e := newEthernetHost(t, Config{})
		d := e.n.dev
		pd, _ := d.Verbs.AllocPD()
		cq, _ := d.Verbs.CreateCQ(16, nil)
		before := fmt.Sprint(d.Verbs.Usage(), d.Verbs.Objects())
		do := d.Chip().Engines[0].Handler(cxt.IWARP)
		f.begin(d)
		_, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
		if !errors.Is(err, verbs.ErrFirmware) || err.Error() != f.text {
			t.Errorf("%s: %v", name, err)
		}
		if now := fmt.Sprint(d.Verbs.Usage(), d.Verbs.Objects()); now != before {
			t.Errorf("%s: %s, before %s", name, now, before)
		}
		f.end(d)
		d.Chip().Engines[0].Handle(cxt.IWARP, do)
		e.w.run(5 * time.Second)
		q, err := pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
		if err != nil {
			t.Fatalf("%s: afterwards: %v", name, err)
		}
		if err := errors.Join(q.Destroy(), d.Close(e.w.now)); err != nil || d.Core().Health().Leaked != 0 {
			t.Errorf("%s: %v, %d ids leak", name, err, d.Core().Health().Leaked)
		}
	}
}

// A connection that the firmware does not take is refused on either side, and one
// that it does not close puts its queue pair to error, with the reason.
func TestRamrodsOfConnectionsFail(t *testing.T) {
	no := func(c rdma.Command) bool { return c == rdma.MPAOffload }
	w, a, b := twoNICs(t, Config{})
	rdmaRamrods(a.dev, no)
	client := newEnd(t, a, 64)
	client.id = a.dev.CM.NewID(client.handle, nil)
	err := client.id.Connect(netip.AddrPortFrom(peer4, rdmaPort), cm.Params{QP: client.qp}, w.now)
	if !errors.Is(err, verbs.ErrFirmware) || a.dev.TCPEngine.Stats().Open != 0 {
		t.Errorf("connect: %v, %d connections", err, a.dev.TCPEngine.Stats().Open)
	}
	server := newEnd(t, a, 64)
	var refused error
	if _, err := a.dev.CM.Listen(netip.AddrPortFrom(nic4, rdmaPort), 4, func(ev cm.Event, now frame.Time) {
		if ev.Type == cm.ConnectRequest {
			refused = ev.ID.Accept(cm.Params{QP: server.qp}, now)
		}
	}, nil); err != nil {
		t.Fatal(err)
	}
	peer := newEnd(t, b, 64)
	if err := b.dev.CM.NewID(peer.handle, nil).Connect(netip.AddrPortFrom(nic4, rdmaPort), cm.Params{QP: peer.qp},
		w.now); err != nil {
		t.Fatal(err)
	}
	w.until(time.Second, func() bool { return peer.saw(cm.Rejected) })
	if !errors.Is(refused, verbs.ErrFirmware) || server.qp.State() != verbs.Init && server.qp.State() != verbs.Reset {
		t.Errorf("accept: %v, state %v", refused, server.qp.State())
	}

	w, a, b = twoNICs(t, Config{})
	one, two := dial(w, a, b, peer4, 64)
	var why []error
	a.dev.Verbs.OnAsync(func(ev verbs.AsyncEvent, _ frame.Time) { why = append(why, ev.Err) })
	rdmaRamrods(a.dev, func(c rdma.Command) bool { return c == rdma.ModifyQP })
	if err := one.qp.Modify(verbs.SQD); err != nil {
		t.Fatal(err)
	}
	w.until(time.Second, func() bool { return one.qp.State() == verbs.Err && two.qp.State() == verbs.Err })
	if len(why) == 0 || why[0] == nil || !strings.Contains(why[0].Error(), "ramrod MODIFY_QP: the firmware returns 5") {
		t.Errorf("%v", why)
	}
}

// What a connection costs above ideal hardware are two ramrods of the side that
// closes, one of the other, and events only for errors; ideal hardware has neither.
func TestRamrodsOfAConnection(t *testing.T) {
	c := newConnections(t, &fastlinq.Config{})
	posted := func(d *device) uint64 { return d.Core().Show()[0].SPQ.Posted }
	a, b, events := posted(c.a), posted(c.b), c.a.Core().Show()[0].EQ.Async
	for range 10 {
		c.cycle(t)
	}
	if x, y := posted(c.a)-a, posted(c.b)-b; x != 40 || y != 30 {
		t.Errorf("%d and %d ramrods for 10 connections with a queue pair each", x, y)
	}
	if n := c.a.Core().Show()[0].EQ.Async - events; n != 0 {
		t.Errorf("%d events", n)
	}
	newConnections(t, &ideal.Config{}).cycle(t)
}

// connections are two NICs joined by lanes, between which connections come and go.
type connections struct {
	coupled
	pds   [2]*verbs.PD
	cqs   [2]*verbs.CQ
	qps   [2]*verbs.QP
	up    int
	serve cm.Handler
}

func newConnections(t testing.TB, kind hardware.Config) *connections {
	c := &connections{coupled: coupled{now: 1}}
	pool := buf.NewPool(4096, 0)
	mk := func(name, addr string, out *lane) *device {
		d, err := newNIC(Config{Name: name, Addrs: prefixes(addr), Hardware: kind.Clone()}, Env{Pool: pool, Wire: out})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	c.a, c.b = mk("a", "10.0.0.1/24", &c.ab), mk("b", "10.0.0.2/24", &c.ba)
	for i, d := range []*device{c.a, c.b} {
		c.pds[i], _ = d.Verbs.AllocPD()
		c.cqs[i], _ = d.Verbs.CreateCQ(16, nil)
	}
	c.serve = func(ev cm.Event, now frame.Time) {
		switch ev.Type {
		case cm.ConnectRequest:
			if err := ev.ID.Accept(cm.Params{QP: c.qps[1]}, now); err != nil {
				t.Error(err)
			}
		case cm.PassiveComplete, cm.ActiveComplete:
			c.up++
		}
	}
	if _, err := c.b.CM.Listen(netip.MustParseAddrPort("10.0.0.2:7174"), 1, c.serve, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// cycle makes a queue pair on each side, connects them, closes gracefully and
// destroys them.
func (c *connections) cycle(t testing.TB) {
	for i := range c.qps {
		var err error
		if c.qps[i], err = c.pds[i].CreateQP(verbs.QPConfig{SendCQ: c.cqs[i], RecvCQ: c.cqs[i]}); err != nil {
			t.Fatal(err)
		}
	}
	c.up = 0
	c.now += frame.Time(20 * time.Millisecond) // else TIME-WAIT holds all ports
	id := c.a.CM.NewID(c.serve, nil)
	if err := id.Connect(netip.MustParseAddrPort("10.0.0.2:7174"), cm.Params{QP: c.qps[0]}, c.now); err != nil {
		t.Fatal(err)
	}
	c.until(t, func() bool { return c.up == 2 })
	if err := id.Disconnect(false, c.now); err != nil {
		t.Fatal(err)
	}
	c.until(t, func() bool { return c.qps[0].State() == verbs.Err && c.qps[1].State() == verbs.Err })
	for _, q := range c.qps {
		if err := q.Destroy(); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *connections) until(t testing.TB, done func() bool) {
	for range 1000 {
		if done() {
			return
		}
		c.step()
	}
	t.Fatal("not done")
}

// BenchmarkConnections makes and ends connections in virtual time, each with a new
// queue pair on both sides, in turns on both kinds of hardware. What the life cycle
// of a connection costs on FastLinQ hardware is the difference, both ends included,
// in CPU time of the thread. The budget is 10 microseconds. Between a third pair SYNs go
// to TCP at once: what light L2 costs a connection may be 5 % of it.
//
//	go test ./nic -run - -bench Connections -benchtime 100000x
func BenchmarkConnections(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const turn = 200
	kinds := []*connections{newConnections(b, &fastlinq.Config{}), newConnections(b, &ideal.Config{}),
		newConnections(b, &fastlinq.Config{})}
	kinds[2].b.tcp.SYN = (&ideal.Function{}).SYN
	var took [3]time.Duration
	round := func(n int) {
		for i, c := range kinds {
			begun := threadTime(b)
			for range n {
				c.cycle(b)
			}
			took[i] += threadTime(b) - begun
		}
	}
	round(100)
	took = [3]time.Duration{}
	b.ResetTimer()
	for n := b.N; n > 0; n -= turn {
		round(min(n, turn))
	}
	per := func(d time.Duration) float64 { return float64(d) / float64(b.N) / 1000 }
	b.ReportMetric(per(took[0]), "µs/fastlinq")
	b.ReportMetric(per(took[1]), "µs/ideal")
	b.ReportMetric(per(took[0]-took[1]), "µs/difference")
	b.ReportMetric(100*float64(took[0]-took[2])/float64(took[2]), "%/ll2")
}

// threadTime is the CPU time of this thread.
func threadTime(b *testing.B) time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Listeners that are paused drop SYNs, those that begin while they are, too; peers that
// go on asking get in when that ends.
//
// IW-27
func TestListenersArePaused(t *testing.T) {
	w, a, b := twoNICs(t, Config{})
	if _, err := b.dev.CM.Listen(netip.AddrPortFrom(peer4, 4000), 4, func(cm.Event, frame.Time) {}, nil); err != nil {
		t.Fatal(err)
	}
	b.set("listen_paused=1")
	client, server := newEnd(t, a, 64), newEnd(t, b, 64)
	if _, err := b.dev.CM.Listen(netip.AddrPortFrom(peer4, rdmaPort), 4, server.handle, nil); err != nil {
		t.Fatal(err)
	}
	client.id = a.dev.CM.NewID(client.handle, nil)
	if err := client.id.Connect(netip.AddrPortFrom(peer4, rdmaPort), cm.Params{QP: client.qp}, w.now); err != nil {
		t.Fatal(err)
	}
	w.run(3 * time.Second)
	if len(client.events) != 0 || b.dev.TCPEngine.Stats().Open != 0 {
		t.Errorf("while paused: %v, %d connections", client.events, b.dev.TCPEngine.Stats().Open)
	}
	if n := strings.Count(fmt.Sprint(eventsOf(b)), "LISTEN_PAUSE_COMP"); n != 2 {
		t.Errorf("%d of 2 listeners say that they are paused: %v", n, eventsOf(b))
	}
	b.set("listen_paused=0")
	w.until(10*time.Second, func() bool { return client.saw(cm.ActiveComplete) && server.saw(cm.PassiveComplete) })
}
