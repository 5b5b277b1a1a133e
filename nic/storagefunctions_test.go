package nic

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tapir/nic/cm"
	"tapir/nic/fastlinq"
	"tapir/nic/fcoe"
	"tapir/nic/iscsi"
	"tapir/nic/scsi"
	"tapir/nic/toe"
	"tapir/nic/verbs"
	"tapir/wire/arp"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// Ethernet, RDMA, iSCSI and FCoE functions of one device work side by side. The reset of one
// leaves the others without an error.
//
// IS-07 IS-17 FC-02 FC-04
func TestStorageBesideOtherFunctions(t *testing.T) {
	kinds := []verbs.Personality{verbs.Ethernet, verbs.IWARP, verbs.IWARP, verbs.ISCSI, verbs.ISCSI, verbs.FCoE, verbs.FCoE}
	x := newFunctions(t, "1x25G", fastlinq.NPAR, make([]int, len(kinds)), func(i int, c *Config) {
		if c.RDMA.Personality = kinds[i]; i == 4 {
			c.Hardware.(*fastlinq.Config).ISCSI.Target = true
		}
	})
	nodeOf := func(i int) *node { return &node{w: &world{t: t}, dev: &device{Device: x.devs[i]}} }
	s := &storage{world: &world{t: t}, a: nodeOf(3), b: nodeOf(4)}
	u, err := scsi.New(scsi.Config{Size: 4 << 20, Block: 512, Physical: 512, Store: scsi.NewMemory(4 << 20)})
	must(t, err)
	s.target = iscsi.NewTarget(iscsi.Config{Nodes: []*iscsi.Node{{Name: diskName, Units: []*scsi.Unit{u}}},
		Random: rand.NewPCG(3, 4)})
	_, err = s.b.dev.TCP().Listen(netip.MustParseAddrPort("10.0.0.5:3260"), 4, func(c *toe.Conn, now frame.Time) toe.Handler {
		e := &targetEnd{s: s, tcp: c, take: true}
		e.c = s.target.Accept(c.Local(), c.Remote(), c, now)
		s.ends = append(s.ends, e)
		return e
	})
	must(t, err)
	s.tcp, err = s.a.dev.TCP().Connect(netip.MustParseAddrPort("10.0.0.4:0"), netip.MustParseAddrPort("10.0.0.5:3260"), s, x.now)
	must(t, err)
	until := func(what string, done func() bool) {
		t.Helper()
		for i := 0; i < 2000 && !done() && s.err == nil; i++ {
			x.rest()
			x.now = x.now.Add(10 * time.Millisecond)
		}
		if !done() || s.err != nil {
			t.Fatalf("%s: %v", what, s.err)
		}
	}
	until("login", func() bool { return s.ready })
	s.a.dev.Schedule(x.now, func(frame.Time) { s.conn, s.tcp = handOver(s.a, s.i, s.tcp, s) })
	x.rest()
	fc := &fabricless{world: s.world, i: nodeOf(6), d: nodeOf(5)}
	fc.d.dev.FCoE.Start(fcoe.Config{VN2VN: true, Ports: []fcoe.PortConfig{{Units: []*scsi.Unit{memoryUnit(t, 4<<20)}}}},
		fcoe.Env{}, x.now)
	fc.in = fc.i.dev.FCoE.Start(fcoe.Config{VN2VN: true, Ports: []fcoe.PortConfig{{Initiator: true}}}, fcoe.Env{}, x.now)
	until("FCoE login", func() bool { return target(fc.in) != nil })
	attention := false
	target(fc.in).Submit(&fcoe.Request{Done: func(*fcoe.Request, frame.Time) { attention = true }}, x.now)
	until("the unit tells that it is new", func() bool { return attention })
	write := func(what string) {
		t.Helper()
		done := 0
		fc.now = x.now
		fc.submit(8, 4096, true, &done)
		until(what+", FCoE", func() bool { return done == 8 && fc.bad == 0 })
		if x.devs[4] == nil {
			return
		}
		left := 8
		for k := range 8 {
			s.i.Submit(command(uint64(k), bytes.Repeat([]byte{1}, 4096), nil, func(*iscsi.Request) { left-- }))
		}
		until(what, func() bool { return left == 0 })
	}
	write("all functions")
	client, server := newEnd(t, nodeOf(1), 4096), newEnd(t, nodeOf(2), 4096)
	to := netip.MustParseAddrPort("10.0.0.3:4444")
	_, err = x.devs[2].CM.Listen(to, 1, server.handle, nil)
	must(t, err)
	must(t, x.devs[1].CM.NewID(client.handle, nil).Connect(to, cm.Params{QP: client.qp}, x.now))
	until("RDMA", func() bool { return client.saw(cm.ActiveComplete) })
	answers := func(fn int) bool { // whatever else there is on the wire
		x.ask(0, fn)
		for range 100 {
			for _, b := range x.wires[0].sent {
				h, n, err := ether.Parse(b)
				if p, bad := arp.Parse(b[n:]); err == nil && bad == nil && p.Op == arp.Reply &&
					h.Src == x.devs[fn].Config().MAC {
					return true
				}
			}
			x.now = x.now.Add(10 * time.Millisecond)
			x.rest()
		}
		return false
	}
	if !answers(0) {
		t.Error("the Ethernet function does not answer")
	}
	x.card.Slot(1).Leave() // RDMA
	x.chip.FLR(1)
	write("after the reset of an RDMA function")
	if !answers(0) {
		t.Error("the Ethernet function does not answer after the reset of a neighbour")
	}
	x.card.Slot(4).Leave() // the target: its initiator alone notices
	x.chip.FLR(4)
	x.devs[4] = nil
	write("after the reset of the iSCSI target")
	x.card.Slot(5).Leave() // the target of FCoE: its initiator alone notices, as soon as beacons are missing
	x.chip.FLR(5)
	until("the session with the FCoE target ends", func() bool { return target(fc.in) == nil })
	if !answers(0) || !answers(2) || !answers(3) || !answers(6) {
		t.Error("a function does not answer after the reset of a target's")
	}
	for _, i := range []int{0, 2, 3, 6} {
		if n, err := x.fastlinq(i).Failures(); n > 0 {
			t.Errorf("function %d: %v", i, err)
		}
	}
	if e := s.a.iscsiRow("iscsi_event", "ISCSI_CONN_ERROR"); e != "" || s.err != nil {
		t.Errorf("the initiator's function has %s errors, %v", e, s.err)
	}
	if n := len(fc.i.fcFunction().Conns()); n != 0 || fc.i.iscsiRow("fcoe_event", "ERROR") != "" || fc.bad > 0 {
		_, errs := fc.i.fcFunction().Events()
		t.Errorf("the FCoE function has %d connections, %s errors: %v", n, fc.i.iscsiRow("fcoe_event", "ERROR"), errs)
	}
}
