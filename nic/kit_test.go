package nic

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/nic/al"
	"tapir/nic/cm"
	"tapir/nic/iwarp"
	"tapir/nic/verbs"
	"tapir/wire/ether"
	"tapir/wire/frame"
	"tapir/wire/ib"
	"tapir/wire/ip"
	"tapir/wire/udp"
)

// owner is an object of a program, which it gives to the calls that make objects
// of the NIC.
type owner struct{ done, events []string }

// Completion implements al.CompletionHandler.
func (o *owner) Completion(cq *verbs.CQ, _ frame.Time) {
	var wcs [4]verbs.WC
	for _, wc := range wcs[:cq.Poll(wcs[:])] {
		o.done = append(o.done, fmt.Sprint(wc.ID, wc.Status))
	}
}

// AsyncEvent implements al.EventHandler.
func (o *owner) AsyncEvent(ev al.Event, _ frame.Time) { o.events = append(o.events, ev.Type.String()) }

// A program gets back in each callback what it gave to the call that made the
// object, never a handle that it would have to look up: contexts, completion
// queues, and queue pairs, of two that do the same.
func TestCallbacksBringTheContext(t *testing.T) { overBoth(t, testCallbacksBringTheContext) }

func testCallbacksBringTheContext(t *testing.T, cfg Config) {
	w, a, b := twoNICs(t, cfg)
	ca, err := al.New(nil).RegisterCI(b.dev.CI(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	var owners [2]owner
	var said []string
	for i := range owners {
		o := &owners[i]
		var ctx *al.Context
		ctx, err = ca.Open(al.EventFunc(func(ev al.Event, _ frame.Time) {
			said = append(said, fmt.Sprint(ev.Context.Value, " ", ev.Type))
		}), fmt.Sprint("owner ", i))
		if err != nil {
			t.Fatal(err)
		}
		s := newEnd(t, b, 4096)
		s.pd, err = ctx.AllocPD()
		if err == nil {
			s.cq, err = ctx.CreateCQ(16, 0, nil)
		}
		if err == nil {
			s.mr, err = s.pd.RegMR(s.mem, verbs.LocalWrite)
		}
		if err == nil {
			s.qp, err = s.pd.CreateQP(verbs.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, Context: o})
		}
		if err != nil {
			t.Fatal(err)
		}
		s.qp.Private = s.qp.Context
		al.Retarget(s.cq, o)
		if err := s.qp.Modify(verbs.Init); err != nil {
			t.Fatal(err)
		}
		if _, err := s.qp.PostRecv(verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{s.sge(0, 64)}}); err != nil {
			t.Fatal(err)
		}
		s.cq.ReqNotify(false)
		c := newEnd(t, a, 4096)
		if _, err := b.dev.CM.Listen(netip.AddrPortFrom(peer4, rdmaPort+uint16(i)), 1, s.handle, nil); err != nil {
			t.Fatal(err)
		}
		c.id = a.dev.CM.NewID(c.handle, nil)
		if err := c.id.Connect(netip.AddrPortFrom(peer4, rdmaPort+uint16(i)), cm.Params{QP: c.qp, IRD: 1, ORD: 1},
			w.now); err != nil {
			t.Fatal(err)
		}
		w.until(10*time.Second, func() bool { return c.saw(cm.ActiveComplete) && s.saw(cm.PassiveComplete) })
		c.post(verbs.OpSend, 64, s)
		w.run(time.Second)
		s.cq.ReqNotify(false)
		_, err = c.qp.PostSend(verbs.SendWR{Opcode: verbs.OpWrite, SGEs: []verbs.SGE{c.sge(0, 8)}, RKey: s.mr.RKey() + 1})
		must(t, err)
		w.run(time.Second)
	}
	for i := range owners {
		if o := &owners[i]; !slices.Equal(o.done, []string{fmt.Sprint(i, verbs.StatusSuccess)}) || !slices.Equal(o.events,
			[]string{"QP_ACCESS_ERR"}) {
			t.Errorf("owner %d was told %q and %q", i, o.done, o.events)
		}
	}
	b.dev.LinkDown(w.now)
	w.run(time.Millisecond)
	if !slices.Equal(said, []string{"owner 0 PORT_ERR", "owner 1 PORT_ERR"}) {
		t.Errorf("contexts were told %q", said)
	}
}

// mad asks the subnet management agent of a NIC at a LID, and returns the
// attribute that it answers with.
func mad(t *testing.T, ca *al.CA, lid uint16, method uint8, attr uint16, data []byte) ([]byte, error) {
	t.Helper()
	h := ib.Header{BaseVersion: 1, Class: ib.ClassSubnLID, ClassVersion: 1, Method: method, TID: 7, Attr: attr}
	b, err := ca.MADTo(0, lid, h.Append(nil, data))
	if err != nil {
		return nil, err
	}
	got, data, err := ib.Parse(b)
	if err == nil && (got.Status != ib.StatusOK || got.TID != 7) {
		t.Errorf("answer %+v", got)
	}
	return data, err
}

// A manager of the subnet rules the port of a NIC by datagrams alone: the agent is
// the access layer's, and what it sets is the port's. Traffic ends with the state,
// and goes on when the port is active again; the agent has the LID that it was
// given; contexts are told.
func TestManagedByMADs(t *testing.T) { overBoth(t, testManagedByMADs) }

func testManagedByMADs(t *testing.T, cfg Config) {
	w, a, b := twoNICs(t, cfg)
	c, s := dial(w, a, b, peer4, 4096)
	ca, err := al.New(nil).RegisterCI(a.dev.CI(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	if _, err = ca.Open(al.EventFunc(func(ev al.Event, _ frame.Time) { told = append(told, ev.Type.String()) }),
		nil); err != nil {
		t.Fatal(err)
	}
	lid := uint16(0)
	set := func(change func(p *ib.PortInfo)) {
		t.Helper()
		data, err := mad(t, ca, lid, ib.MethodGet, ib.AttrPortInfo, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := ib.ParsePortInfo(data)
		p.State, p.PhysState = 0, 0
		change(&p)
		if _, err := mad(t, ca, lid, ib.MethodSet, ib.AttrPortInfo, p.Append(nil)); err != nil {
			t.Fatal(err)
		}
		lid = p.LID
		w.run(time.Millisecond)
	}
	set(func(p *ib.PortInfo) { p.LID, p.MasterSMLID, p.LMC = 0x20, 1, 2 })
	for _, at := range []struct {
		lid  uint16
		here bool
	}{{0x20, true}, {0x23, true}, {0x24, false}, {0, false}} {
		data, err := mad(t, ca, at.lid, ib.MethodGet, ib.AttrNodeDescription, nil)
		if at.here != (err == nil && strings.HasPrefix(string(data), "tapir ")) || !at.here && !errors.Is(err,
			al.ErrNotHere) {
			t.Errorf("LID %#x: %q, %v", at.lid, data, err)
		}
	}
	sent := func() (n int) {
		for _, r := range a.all {
			if r.Dir == frame.Outbound && r.Drop == frame.DropNone {
				n++
			}
		}
		return n
	}
	arrived := func() bool { return s.mem[0] == c.mem[0] }
	write := func() { c.mem[0]++; c.post(verbs.OpWrite, 100, s) }
	write()
	w.until(time.Second, arrived)
	set(func(p *ib.PortInfo) { p.State = uint8(verbs.PortDown) })
	before := sent()
	write()
	w.run(100 * time.Millisecond)
	if n := sent() - before; n != 0 || arrived() {
		t.Errorf("%d frames from a port that is down, arrived %v", n, arrived())
	}
	set(func(p *ib.PortInfo) { p.State = uint8(verbs.PortArmed) })
	set(func(p *ib.PortInfo) { p.State = uint8(verbs.PortActive) })
	w.until(10*time.Second, arrived)
	if want := []string{"LID_CHANGE", "SM_CHANGE", "PORT_ERR", "PORT_ACTIVE"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A NIC has no reliable datagrams, and says so in its attributes before anyone
// asks for a domain of them; who does has what it had.
func TestNoReliableDatagrams(t *testing.T) { overBoth(t, testNoReliableDatagrams) }

func testNoReliableDatagrams(t *testing.T, cfg Config) {
	_, a, _ := twoNICs(t, cfg)
	e := newEnd(t, a, 64)
	before := a.dev.Verbs.Objects()
	if err := e.pd.AllocRDD(); !errors.Is(err, verbs.ErrUnsupported) || a.dev.Verbs.Attr().MaxRDD != 0 {
		t.Errorf("a domain of reliable datagrams: %v, %d are promised", err, a.dev.Verbs.Attr().MaxRDD)
	}
	if after := a.dev.Verbs.Objects(); !slices.Equal(before, after) {
		t.Errorf("objects %v, before %v", after, before)
	}
}

// ringOf is a receive queue in a program's memory, in which one request is no
// request any more.
type ringOf struct {
	wrs []verbs.RecvWR
	bad int
}

func (r *ringOf) Len() int { return len(r.wrs) }

func (r *ringOf) Next(wr *verbs.RecvWR) (verbs.Status, bool) {
	if len(r.wrs) == 0 {
		return 0, false
	}
	*wr, r.wrs = r.wrs[0], r.wrs[1:]
	if r.bad--; r.bad < 0 {
		return verbs.StatusLocalQPOp, true
	}
	return verbs.StatusSuccess, true
}

func (r *ringOf) Resize(int) error { return nil }

// A shared receive queue whose memory holds what cannot be read is lost: its owner
// is told SRQ_ERR once, no queue pair gets a receive of it any more, and nothing
// can be posted to it.
func TestSharedQueueFails(t *testing.T) { overBoth(t, testSharedQueueFails) }

func testSharedQueueFails(t *testing.T, cfg Config) {
	w, a, b := twoNICs(t, cfg)
	_, err := al.New(nil).RegisterCI(b.dev.CI(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	var told owner
	var clients, servers [2]*rdmaEnd
	var srq *verbs.SRQ
	for i := range servers {
		s := newEnd(t, b, 4096)
		if srq == nil {
			if srq, err = s.pd.CreateSRQ(8, 1); err != nil {
				t.Fatal(err)
			}
			srq.Private = &told
			ring := &ringOf{bad: 1}
			for range 4 {
				ring.wrs = append(ring.wrs, verbs.RecvWR{SGEs: []verbs.SGE{s.sge(0, 64)}})
			}
			srq.SetRecvSource(ring)
		}
		if s.qp, err = s.pd.CreateQP(verbs.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, SRQ: srq}); err != nil {
			t.Fatal(err)
		}
		c := newEnd(t, a, 4096)
		if _, err := b.dev.CM.Listen(netip.AddrPortFrom(peer4, rdmaPort+uint16(i)), 1, s.handle, nil); err != nil {
			t.Fatal(err)
		}
		c.id = a.dev.CM.NewID(c.handle, nil)
		if err := c.id.Connect(netip.AddrPortFrom(peer4, rdmaPort+uint16(i)), cm.Params{QP: c.qp, IRD: 1, ORD: 1},
			w.now); err != nil {
			t.Fatal(err)
		}
		w.until(10*time.Second, func() bool { return c.saw(cm.ActiveComplete) && s.saw(cm.PassiveComplete) })
		clients[i], servers[i] = c, s
	}
	send := func(i int, ended bool) {
		t.Helper()
		clients[i].post(verbs.OpSend, 64, servers[i])
		w.run(10 * time.Second)
		if (servers[i].qp.State() == verbs.Err) != ended {
			t.Errorf("connection %d: ended %v, want %v", i, !ended, ended)
		}
	}
	send(0, false)
	send(0, true) // takes the one that cannot be read
	if !slices.Equal(told.events, []string{"SRQ_ERR"}) || b.dev.Verbs.Raised(verbs.EventSRQError) != 1 {
		t.Errorf("the owner was told %q", told.events)
	}
	send(1, true)
	if _, err := srq.PostRecv(verbs.RecvWR{}); !errors.Is(err, verbs.ErrState) || len(told.events) != 1 {
		t.Errorf("posted to a queue that has failed: %v, told %q", err, told.events)
	}
}

// The responder's owner waits for the first frame of the initiator in the
// peer-to-peer model, and is told COMM_EST with it, once; in the model of RFC 5044
// it is told by the connection manager before, and never by an event. With RoCE the
// first packet takes the place of an RTU that was lost.
func TestCommunicationEstablished(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want []string
	}{
		"RFC 5044":     {},
		"peer to peer": {cfg: Config{IWARP: iwarp.Config{PeerToPeer: true}}, want: []string{"COMM_EST"}},
		"RoCE":         {cfg: roceConfig()},
		"RoCE, no RTU": {cfg: roceConfig(), want: []string{"COMM_EST"}},
	} {
		w, a, b := twoNICs(t, c.cfg)
		if name == "RoCE, no RTU" {
			w.lose = func(_ *node, b []byte) bool { return isMAD(b, ib.AttrRTU) }
		}
		if _, err := al.New(nil).RegisterCI(b.dev.CI(nil, nil)); err != nil {
			t.Fatal(err)
		}
		var told owner
		client, server := newEnd(t, a, 4096), newEnd(t, b, 4096)
		server.qp.Private = &told
		begin(w, client, server, netip.AddrPortFrom(peer4, rdmaPort))
		w.until(10*time.Second, func() bool { return client.saw(cm.ActiveComplete) })
		client.post(verbs.OpWrite, 8, server)
		w.until(10*time.Second, func() bool { return client.completions() == 1 && server.saw(cm.PassiveComplete) })
		exercise(w, client, server, 1000)
		if !slices.Equal(told.events, c.want) {
			t.Errorf("%s: told %q, want %q", name, told.events, c.want)
		}
	}
}

// isMAD tells whether a frame with RoCE v2 over IPv4 is a management datagram of the
// connection manager with attribute attr.
func isMAD(b []byte, attr uint16) bool {
	const at = ether.HeaderLen + ip.HeaderLen4 + udp.HeaderLen + ib.BTHLen + ib.DETHLen
	if len(b) < at+ib.MADLen {
		return false
	}
	h, _, err := ib.Parse(b[at:][:ib.MADLen])
	return err == nil && h.Class == ib.ClassCM && h.Attr == attr
}

// The agent of performance management answers with what the port has counted.
func TestCountersByMADs(t *testing.T) { overBoth(t, testCountersByMADs) }

func testCountersByMADs(t *testing.T, cfg Config) {
	w, a, b := twoNICs(t, cfg)
	ca, err := al.New(nil).RegisterCI(a.dev.CI(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method uint8, attr uint16, port uint8) (status uint16, b []byte) {
		t.Helper()
		h := ib.Header{BaseVersion: 1, Class: ib.ClassPerf, ClassVersion: 1, Method: method, TID: 7, Attr: attr}
		b, err := ca.MADTo(1, 0, h.Append(nil, []byte{0, port}))
		if err != nil {
			t.Fatal(err)
		}
		got, _, _ := ib.Parse(b)
		return got.Status, b
	}
	for what, c := range map[string]struct {
		method uint8
		attr   uint16
		port   uint8
		want   uint16
	}{
		"all ports":    {ib.MethodGet, ib.AttrPortCounters, ib.AllPorts, ib.StatusOK},
		"class":        {ib.MethodGet, ib.AttrClassPortInfo, 0, ib.StatusOK},
		"port 2":       {ib.MethodGet, ib.AttrPortCounters, 2, ib.StatusBadField},
		"a reset":      {ib.MethodSet, ib.AttrPortCounters, 1, ib.StatusBadMethod},
		"no attribute": {ib.MethodGet, 0x99, 1, ib.StatusBadAttr},
	} {
		if status, _ := ask(c.method, c.attr, c.port); status != c.want {
			t.Errorf("%s: status %#x, want %#x", what, status, c.want)
		}
	}
	if _, err := ca.MADTo(0, 0, make([]byte, ib.MADLen)); !errors.Is(err, al.ErrNotHere) {
		t.Errorf("another class on queue pair 0: %v", err)
	}
	c, s := dial(w, a, b, peer4, 64<<10)
	exercise(w, c, s, 64<<10)
	a.dev.LinkDown(w.now)
	c.post(verbs.OpWrite, 100, s)
	w.run(10 * time.Millisecond)
	_, narrow := ask(ib.MethodGet, ib.AttrPortCounters, 1)
	got := ib.ParsePortCounters(narrow)
	_, wide := ask(ib.MethodGet, ib.AttrPortCountersExtended, 1)
	got.ParseExtended(wide)
	if got.XmitData != a.counter("tx_bytes")/4 || got.RcvData != a.counter("rx_bytes")/4 ||
		got.XmitPkts != a.counter("tx_packets") ||
		got.RcvPkts != a.counter("rx_packets") || got.XmitPkts != got.UnicastXmit+got.MulticastXmit || got.UnicastRcv < 40 {
		t.Errorf("%+v", got)
	}
	if got.Downed != 1 || got.XmitDiscards != a.counter("tx_drop_link_refused") || got.XmitDiscards == 0 ||
		got.RcvErrors != 0 {
		t.Errorf("%+v", got)
	}
}
