package vnic

import (
	"slices"
	"testing"
	"time"

	"tapir/opa"
	"tapir/wire/drop"
	"tapir/wire/ether"
	"tapir/wire/frame"
)

// reconfigure changes the configuration in force.
func (h *host) reconfigure(t *testing.T, change func(*Config)) {
	t.Helper()
	c := h.nd.Config()
	change(&c)
	must(t, h.nd.Configure(c))
}

// table puts a MAC table of those entries in force.
func (h *host) table(t *testing.T, entries ...Entry) {
	t.Helper()
	table, err := (*MACTable)(nil).Set(0, entries, 1)
	must(t, err)
	h.nd.SetMACTable(table)
}

// injects gives the node a packet with the Ethernet frame b.
func (n *node) injects(h opa.Header, b []byte) {
	f := n.fab.copyOf(h.AppendTo(nil, b, opa.ICRCv1))
	if _, fake := n.Lower().(*fakeHFI); !fake {
		opa.FramingNSH.Wrap(f, fabricID)
	}
	n.receive(f)
}

func TestReceiveDrops(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 1, make)
		n := fab.nodes[0]
		h := n.join(t, 0, 2, Policy{Filter: true, RxStorm: frame.Rate{PerSecond: 1, Burst: 1}})
		h.table(t, Entry{MAC: ether.Addr{0, 0, 0, 0, 0, 9}, DLID: 9, Flags: SourceMAC}, Entry{MAC: ether.Addr{0, 0, 0, 0, 0, 8}, Flags: SourceMAC})
		far := ether.Addr{0, 0, 0, 0, 0, 7}
		at6 := opa.LMAC{Fabric: fabricID, VESW: 2, LID: 6}.Addr()
		group := h.nd.Config().McastDLID
		for _, c := range []struct {
			name   string
			header opa.Header
			b      []byte
			drop   frame.DropReason
		}{
			{"good", opa.Header{SLID: 6}, eth(h.mac, at6, 60, 0), 0},
			{"1518 octets", opa.Header{SLID: 6}, tagged(h.mac, far, 1, 1518), 0},
			{"oversize", opa.Header{SLID: 6}, eth(h.mac, far, 1519, 0), drop.Oversize},
			{"runt", opa.Header{SLID: 6}, eth(h.mac, far, 59, 0), opa.DropRunt},
			{"limited member", opa.Header{SLID: 6, PKey: 0x0001}, eth(h.mac, far, 60, 0), 0},
			{"our address", opa.Header{SLID: 6}, eth(h.mac, h.mac, 60, 0), opa.DropSpoofed},
			{"group as source", opa.Header{SLID: 6}, eth(h.mac, ether.Broadcast, 60, 0), drop.Source},
			{"no source", opa.Header{SLID: 6}, eth(h.mac, ether.Addr{}, 60, 0), drop.Source},
			{"LMAC from elsewhere", opa.Header{SLID: 7}, eth(h.mac, at6, 60, 0), opa.DropSpoofed},
			{"source entry from elsewhere", opa.Header{SLID: 6}, eth(h.mac, ether.Addr{0, 0, 0, 0, 0, 9}, 60, 0), opa.DropSpoofed},
			{"source entry", opa.Header{SLID: 9}, eth(h.mac, ether.Addr{0, 0, 0, 0, 0, 9}, 60, 0), 0},
			{"source entry for any LID", opa.Header{SLID: 6}, eth(h.mac, ether.Addr{0, 0, 0, 0, 0, 8}, 60, 0), 0},
			{"not our station", opa.Header{SLID: 6}, eth(far, far, 60, 0), drop.NotOurMAC},
			{"broadcast", opa.Header{SLID: 6, DLID: group}, eth(ether.Broadcast, far, 60, 0), 0},
			{"broadcast too soon", opa.Header{SLID: 6, DLID: group}, eth(ether.Broadcast, far, 60, 0), opa.DropStorm},
		} {
			if c.header.PKey == 0 {
				c.header.PKey = 0x8001
			}
			if c.header.DLID == 0 {
				c.header.DLID = 1
			}
			c.header.VESW = 2
			want := h.nd.Stats()
			n.injects(c.header, c.b)
			fab.run()
			if c.drop == 0 {
				h.wants(t, c.name, c.b)
				continue
			}
			want.RxDrops.Count(c.drop)
			if got := h.nd.Stats(); got.RxDrops != want.RxDrops || len(h.take()) != 0 {
				t.Errorf("%s: %v", c.name, got.RxDrops)
			}
		}
		must(t, h.nd.SetMAC(far))
		n.injects(opa.Header{SLID: 6, DLID: 1, PKey: 0x8001, VESW: 2}, eth(at6, far, 60, 0))
		if d := h.nd.Stats().RxDrops[opa.DropSpoofed]; d != 4 {
			t.Errorf("an address of our own that carries no LID: %d drops", d)
		}
		h.reconfigure(t, func(c *Config) { c.PKey = 0x0001 })
		n.injects(opa.Header{SLID: 6, DLID: 1, PKey: 0x0001, VESW: 2}, eth(h.mac, far, 60, 0))
		if d := h.nd.Stats().RxDrops[opa.DropPKey]; d != 1 {
			t.Errorf("limited to limited: %d drops", d)
		}
		if n := fab.pool.Lent(); n != 0 {
			t.Errorf("%d frames lost", n)
		}
	})
}

func TestTransmitDrops(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 1, make)
		h := fab.nodes[0].join(t, 0, 2, Policy{Unknown: ToDefaultPort, TxStorm: frame.Rate{PerSecond: 1, Burst: 2}})
		far := opa.LMAC{Fabric: fabricID, VESW: 2, LID: 6}.Addr()
		for _, c := range []struct {
			name string
			b    []byte
			drop frame.DropReason
		}{
			{"good", eth(far, h.mac, 1514, 0), 0},
			{"with a tag", tagged(far, h.mac, 1, 1518), 0},
			{"oversize", eth(far, h.mac, 1519, 0), drop.Oversize},
			{"half a header", zeros(13), drop.Truncated},
			{"group as source", eth(far, ether.Broadcast, 60, 0), drop.Source},
			{"unknown station", eth(ether.Addr{0, 1}, h.mac, 60, 0), opa.DropNoDLID},
			{"broadcast", eth(ether.Broadcast, h.mac, 60, 0), 0},
			{"broadcast", eth(ether.Broadcast, h.mac, 60, 0), 0},
			{"broadcast too soon", eth(ether.Broadcast, h.mac, 60, 0), opa.DropStorm},
		} {
			want := h.nd.Stats().TxDrops
			h.send(c.b)
			fab.run()
			if c.drop != 0 {
				want.Count(c.drop)
			}
			if got := h.nd.Stats().TxDrops; got != want {
				t.Errorf("%s: %v", c.name, got)
			}
		}
		h.table(t, Entry{MAC: h.mac, Flags: SourceMAC})
		h.send(eth(far, h.mac, 60, 0))
		h.send(eth(far, ether.Addr{0, 9}, 60, 0))
		if s := h.nd.Stats(); s.TxDrops[opa.DropSpoofed] != 1 || s.Tx.Unicast != 3 {
			t.Errorf("source filter: %d drops, %d sent", s.TxDrops[opa.DropSpoofed], s.Tx.Unicast)
		}
		fab.run()
		if n := fab.pool.Lent(); n != 0 {
			t.Errorf("%d frames lost", n)
		}
	})
}

func zeros(n int) []byte { return make([]byte, n) }

// Virtual machines behind a vport have any addresses; they are learned, move
// and are forgotten.
func TestLearning(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 3, make)
		var hosts []*host
		for _, n := range fab.nodes {
			hosts = append(hosts, n.join(t, 0, 2, Policy{Learn: true, Age: time.Minute}))
		}
		a, b, c := hosts[0], hosts[1], hosts[2]
		vm1, vm2 := ether.Addr{0x52, 0x54, 0, 1, 2, 3}, ether.Addr{0x52, 0x54, 0, 4, 5, 6}
		ask, answer := eth(vm2, vm1, 60, 1), eth(vm1, vm2, 60, 2)
		a.send(ask)
		fab.run()
		b.wants(t, "flooded", ask)
		c.wants(t, "flooded", ask)
		b.send(answer)
		fab.run()
		a.send(ask)
		fab.run()
		a.wants(t, "learned", answer)
		b.wants(t, "learned", ask)
		c.wants(t, "not concerned")
		c.send(eth(ether.Broadcast, vm2, 60, 3)) // vm2 has moved
		fab.run()
		a.take()
		b.take()
		a.send(ask)
		fab.run()
		b.wants(t, "moved away")
		c.wants(t, "moved here", ask)
		if s := a.nd.Stats(); s.Moved != 1 || s.Flooded != 1 {
			t.Errorf("%d moved, %d flooded", s.Moved, s.Flooded)
		}
		fab.now += frame.Time(61 * time.Second)
		fab.run()
		if n := a.nd.stations.n; n != 0 {
			t.Errorf("%d stations after their time", n)
		}
		a.send(ask)
		fab.run()
		b.wants(t, "forgotten", ask)
	})
}

func TestLearningLimits(t *testing.T) {
	fab := newFabric(t, 1, newFakeHFI)
	h := fab.nodes[0].join(t, 0, 2, Policy{Learn: true, MaxStations: 50, MaxPerLID: 20})
	for lid := opa.LID(2); lid < 6; lid++ {
		for i := range 30 {
			fab.nodes[0].injects(opa.Header{SLID: lid, DLID: 1, PKey: 0x8001, VESW: 2}, eth(h.mac, ether.Addr{0, byte(lid), 0, 0, 0, byte(i)}, 60, 0))
		}
	}
	if s := h.nd.Stats(); s.Learned != 50 || s.NotLearned != 70 || s.Rx.Unicast != 120 {
		t.Errorf("%d learned, %d not, %d received", s.Learned, s.NotLearned, s.Rx.Unicast)
	}
}

// A proxy relays what it gets as default port for a station that it knows,
// with the sender's LID, once.
func TestRelay(t *testing.T) {
	onBoth(t, func(t *testing.T, make makeHFI) {
		fab := newFabric(t, 3, make)
		policy := Policy{Learn: true}
		a, proxy, c := fab.nodes[0].join(t, 0, 2, policy), fab.nodes[1].join(t, 0, 2, Policy{Learn: true, Relay: true}), fab.nodes[2].join(t, 0, 2, policy)
		for _, h := range []*host{a, c} {
			h.reconfigure(t, func(cfg *Config) { cfg.DefPortMask, cfg.UcastDLID[3] = 1<<3, 2 })
		}
		vm1, vm2 := ether.Addr{0x52, 0, 0, 0, 0, 1}, ether.Addr{0x52, 0, 0, 0, 0, 2}
		c.send(eth(proxy.mac, vm2, 60, 1))
		fab.run()
		proxy.take()
		f := eth(vm2, vm1, 60, 2)
		a.send(f)
		fab.run()
		proxy.wants(t, "relayed")
		c.wants(t, "relayed", f)
		if lid, ok := c.nd.stations.find(keyOf(vm1, 0), fab.now); !ok || lid != 1 {
			t.Errorf("vm1 seems to be behind %v", lid)
		}
		// A frame that was relayed already goes no further.
		fab.nodes[1].injects(opa.Header{SLID: 1, DLID: 2, PKey: 0x8001, VESW: 2, Age: 1}, f)
		fab.run()
		proxy.wants(t, "relayed before", f)
		c.wants(t, "relayed before")
		if s := proxy.nd.Stats(); s.Relayed != 1 {
			t.Errorf("%d relayed", s.Relayed)
		}
		if n := fab.pool.Lent(); n != 0 {
			t.Errorf("%d frames lost", n)
		}
	})
}

func TestHostQueue(t *testing.T) {
	fab := newFabric(t, 2, newFakeHFI)
	a, b := fab.nodes[0].join(t, 0, 2, Policy{}), fab.nodes[1].join(t, 0, 2, Policy{HostQueue: 5})
	b.full = true
	for i := range uint32(8) {
		a.send(eth(b.mac, a.mac, 60, i))
	}
	fab.run()
	if s := b.nd.Stats(); s.RxFIFOErrors() != 3 || s.Rx.Packets != 5 || fab.nodes[1].Waiting() != 5 {
		t.Errorf("%d lost, %d wait", s.RxFIFOErrors(), fab.nodes[1].Waiting())
	}
	b.full = false
	fab.run()
	if got := b.take(); len(got) != 5 {
		t.Errorf("%d frames", len(got))
	}
	b.nd.SetHost(nil)
	a.send(eth(b.mac, a.mac, 60, 9))
	fab.run()
	b.nd.SetHost(b)
	b.full = true
	a.send(eth(b.mac, a.mac, 60, 9))
	fab.run()
	fab.nodes[1].Remove(0)
	if s := b.nd.Stats(); s.RxFIFOErrors() != 4 || s.RxDrops[opa.DropState] != 1 || fab.pool.Lent() != 0 {
		t.Errorf("%d lost, %d at the end, %d frames left", s.RxFIFOErrors(), s.RxDrops[opa.DropState], fab.pool.Lent())
	}
}

// Frames come in buffers without room in front or behind.
func TestFrameWithoutRoom(t *testing.T) {
	fab := newFabric(t, 2, newFakeHFI)
	a, b := fab.nodes[0].join(t, 0, 2, Policy{}), fab.nodes[1].join(t, 0, 2, Policy{})
	for _, size := range []int{30, 60, 1514} {
		for _, front := range []int{0, 40, frame.DefaultHeadroom} {
			want := eth(b.mac, a.mac, size, 5)
			f := frame.New(zeros(frame.DefaultHeadroom+size), nil)
			f.Prepend(frame.DefaultHeadroom - front)
			f.Truncate(0)
			f.Append(want)
			a.nd.Transmit([]*frame.Frame{f}, 0)
			fab.run()
			b.wants(t, "frame", append(want, zeros(max(0, 60-size))...))
		}
	}
	if n := fab.pool.Lent(); n != 0 {
		t.Errorf("%d frames lost", n)
	}
}

// events notes what a port tells.
type events struct{ list []Event }

func (e *events) VPortEvent(_ *Netdev, ev Event) { e.list = append(e.list, ev) }

func (e *events) take() []Event {
	list := e.list
	e.list = nil
	return list
}

func TestEventsAndLists(t *testing.T) {
	fab := newFabric(t, 1, newFakeHFI)
	n := fab.nodes[0]
	seen := &events{}
	n.Observe(seen)
	nd, err := n.Create(7, Policy{Learn: true, Report: true})
	must(t, err)
	base, own := ether.Addr{2, 0, 0, 0, 0, 1}, ether.Addr{2, 0, 0, 0, 0, 2}
	vm, group := ether.Addr{2, 0, 0, 0, 0, 9}, ether.Addr{1, 0, 0x5e, 1, 2, 3}
	cfg := veswConfig(2, 1)
	cfg.BaseMAC = base
	for _, s := range []struct {
		name   string
		do     func()
		events []Event
		uc, mc []ether.Addr
		ug, mg uint16
	}{
		{"created", func() {}, []Event{Added}, nil, nil, 0, 0},
		{"configured", func() { must(t, nd.Configure(cfg)) }, []Event{AddressChanged, Configured}, nil, nil, 1, 0},
		{"again", func() { must(t, nd.Configure(cfg)) }, []Event{Configured}, nil, nil, 1, 0},
		{"opened", nd.Open, []Event{OperChanged, LinkChanged}, nil, nil, 1, 0},
		{"own address", func() { must(t, nd.SetMAC(own)) }, []Event{AddressChanged, UnicastChanged}, []ether.Addr{own}, nil, 3, 0},
		{"rx mode", func() { nd.SetRxMode([]ether.Addr{vm}, []ether.Addr{group}) }, []Event{UnicastChanged, MulticastChanged},
			[]ether.Addr{own, vm}, []ether.Addr{group}, 4, 1},
		{"the same rx mode", func() { nd.SetRxMode([]ether.Addr{vm}, []ether.Addr{group}) }, nil, []ether.Addr{own, vm}, []ether.Addr{group}, 4, 1},
		{"a station behind", func() {
			nd.Transmit([]*frame.Frame{fab.copyOf(eth(base, ether.Addr{8}, 60, 0))}, 0)
		}, []Event{UnicastChanged}, []ether.Addr{own, vm, {8}}, []ether.Addr{group}, 5, 1},
		{"MTU", func() { c := cfg; c.EthMTU = 9000; must(t, nd.Configure(c)) }, []Event{MTUChanged, Configured},
			[]ether.Addr{own, vm, {8}}, []ether.Addr{group}, 5, 1},
		{"own MTU", func() { must(t, nd.SetMTU(2000)) }, []Event{MTUChanged}, []ether.Addr{own, vm, {8}}, []ether.Addr{group}, 5, 1},
		{"closed", nd.Close, []Event{OperChanged, LinkChanged}, []ether.Addr{own, vm, {8}}, []ether.Addr{group}, 5, 1},
		{"reset", nd.Reset, []Event{UnicastChanged, MTUChanged, Configured, Reset}, []ether.Addr{own, vm}, []ether.Addr{group}, 6, 1},
		{"removed", func() { n.Remove(7) }, []Event{Removed}, []ether.Addr{own, vm}, []ether.Addr{group}, 6, 1},
	} {
		s.do()
		if got := seen.take(); !slices.Equal(got, s.events) {
			t.Errorf("%s: events %v, want %v", s.name, got, s.events)
		}
		uc, ug := nd.UnicastMACs()
		mc, mg := nd.MulticastMACs()
		if !slices.Equal(uc, s.uc) || !slices.Equal(mc, s.mc) || ug != s.ug || mg != s.mg {
			t.Errorf("%s: %v (%d), %v (%d); want %v (%d), %v (%d)", s.name, uc, ug, mc, mg, s.uc, s.ug, s.mc, s.mg)
		}
	}
	if nd.MAC() != own || nd.Config() != PowerOn() {
		t.Errorf("after DELETE_VESW: %v, %+v", nd.MAC(), nd.Config())
	}
	for _, bad := range []ether.Addr{{}, ether.Broadcast} {
		if nd.SetMAC(bad) == nil {
			t.Errorf("address %v", bad)
		}
	}
}

func TestMTU(t *testing.T) {
	nd, err := newFabric(t, 1, newFakeHFI).nodes[0].Create(0, Policy{})
	must(t, err)
	set := func(eth uint16) {
		c := nd.Config()
		c.EthMTU = eth
		must(t, nd.Configure(c))
	}
	for _, s := range []struct {
		do        func()
		mtu, most int
	}{
		{func() {}, 1500, 1500},
		{func() { set(9000) }, 9000, 9000},
		{func() { must(t, nd.SetMTU(1400)) }, 1400, 9000},
		{func() { set(10240) }, 1400, 10240},
		{func() { set(1000) }, 1000, 1000},
		{func() { set(10) }, 68, 68},
		{func() { set(0) }, 68, 68},
	} {
		s.do()
		if nd.MTU() != s.mtu || nd.MaxMTU() != s.most {
			t.Errorf("MTU %d of %d, want %d of %d", nd.MTU(), nd.MaxMTU(), s.mtu, s.most)
		}
	}
	for _, bad := range []int{67, 69} {
		if nd.SetMTU(bad) == nil {
			t.Errorf("MTU %d", bad)
		}
	}
}

// Waiting is the number of frames that wait for hosts without room.
func (p *Port) Waiting() (frames int) {
	for _, n := range p.waiting {
		frames += n.toHost.Len()
	}
	return frames
}
