package em

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tapir/opa"
	"tapir/opa/mad"
	"tapir/vnic"
	"tapir/wire/ether"
)

// kind is what a MAD is, in short.
type kind struct {
	class  uint8
	method mad.Method
	attr   uint16
}

func kindOf(b []byte) kind {
	h, _ := mad.Parse(b)
	return kind{h.Class, h.Method, h.Attr}
}

// changes reports whether a MAD changes a virtual port.
func (k kind) changes() bool {
	return k.class == mad.ClassVEMA && k.method == mad.MethodSet && k.attr != mad.AttrClassPortInfo
}

func twoManagers(t *testing.T, seed uint64) (w *world, cfg Config, first, second *Manager) {
	t.Helper()
	w = fabric(seed, 4)
	cfg = twoVESWs()
	first = w.nodes[1].manage(cfg, Options{Priority: 8})
	second = w.nodes[3].manage(cfg, Options{Priority: 3})
	mustSettle(t, w, first, &cfg)
	stations(w, 2, 5)
	w.run(5 * time.Second)
	mustSettle(t, w, first, &cfg)
	if first.Role() != mad.SMMaster || second.Role() != mad.SMStandby {
		t.Fatalf("%v and %v", first.Role(), second.Role())
	}
	return w, cfg, first, second
}

// stations gives each port of a vESW n addresses of its own and a group.
func stations(w *world, id uint16, n int) {
	for i, node := range w.nodes {
		d := node.vports.VESW(id)
		if d == nil {
			continue
		}
		var list []ether.Addr
		for j := range n {
			list = append(list, ether.Addr{2, 0, byte(id), byte(i), byte(j >> 8), byte(j)})
		}
		d.SetRxMode(list, []ether.Addr{{1, 0, 0x5e, 0, 1, byte(i)}})
		node.poke()
	}
}

// TestTakeover: the master goes, with its node or without it, and the standby
// finds everything as it is to be: no virtual port is touched.
func TestTakeover(t *testing.T) {
	for name, stop := range map[string]func(w *world){
		"manager ends": func(w *world) { w.nodes[1].stopManager() },
		"node dies":    func(w *world) { w.nodes[1].dead = true },
		"a member is slow to answer": func(w *world) {
			w.nodes[1].stopManager()
			w.nodes[0].cut = true
			w.run(3 * time.Second)
			w.nodes[0].cut = false
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, cfg, _, second := twoManagers(t, 2)
			touched := 0
			w.watch = func(_ *node, _ mad.Address, b []byte) bool {
				// The stations of a dead node have to go.
				if k := kindOf(b); k.changes() && !(w.nodes[1].dead && k.attr == mad.AttrMACEntries) {
					touched++
				}
				return false
			}
			stop(w)
			w.run(30 * time.Second)
			mustSettle(t, w, second, &cfg)
			if second.Role() != mad.SMMaster || touched != 0 {
				t.Errorf("%v, %d changes", second.Role(), touched)
			}
			for _, n := range w.nodes {
				if n.dead {
					continue
				}
				if n.smlid != w.nodes[3].lid || n.vema.TrapLID() != w.nodes[3].lid || n.pkeys[0]&opa.PKeyFull != 0 != (n == w.nodes[3]) {
					t.Errorf("%s: manager's LID %v, traps to %v, P_Keys %x", n.name, n.smlid, n.vema.TrapLID(), n.pkeys)
				}
			}
		})
	}
}

// TestTwoMasters: two parts of a fabric are joined; the better master stays.
func TestTwoMasters(t *testing.T) {
	w, cfg, first, second := twoManagers(t, 3)
	w.nodes[3].cut = true
	w.run(10 * time.Second)
	if first.Role() != mad.SMMaster || second.Role() != mad.SMMaster {
		t.Fatalf("apart: %v and %v", first.Role(), second.Role())
	}
	w.nodes[3].cut = false
	w.run(5 * time.Second)
	if first.Role() != mad.SMMaster || second.Role() != mad.SMStandby {
		t.Errorf("joined: %v and %v", first.Role(), second.Role())
	}
	mustSettle(t, w, first, &cfg)
	if !second.betterThanMe(&peer{info: mad.SMInfo{Priority: 3, PortGUID: guidBase}}) || second.betterThanMe(&peer{info: mad.SMInfo{Priority: 3, PortGUID: guidBase + 9}}) {
		t.Error("of two with the same priority the lower GUID is better")
	}
}

// TestElection: the better of two that start together becomes master; who
// comes later does not push it aside.
func TestElection(t *testing.T) {
	w := fabric(4, 3)
	cfg := twoVESWs()
	a, b := w.nodes[0].manage(cfg, Options{Priority: 1}), w.nodes[1].manage(cfg, Options{Priority: 2})
	w.run(3 * time.Second)
	if a.Role() != mad.SMStandby || b.Role() != mad.SMMaster {
		t.Errorf("together: %v and %v", a.Role(), b.Role())
	}
	c := w.nodes[2].manage(cfg, Options{Priority: 15})
	w.run(5 * time.Second)
	if b.Role() != mad.SMMaster || c.Role() != mad.SMStandby || c.Status().Managers != 2 {
		t.Errorf("later: %v and %v", b.Role(), c.Role())
	}
}

// TestAgentRestart: an agent that has forgotten everything is found by
// polling, and told again.
func TestAgentRestart(t *testing.T) {
	w := fabric(5, 4)
	cfg := twoVESWs()
	m := w.nodes[0].manage(cfg, Options{})
	mustSettle(t, w, m, &cfg)
	stations(w, 2, 3)
	w.run(5 * time.Second)
	w.nodes[1].startAgent()
	w.run(5 * time.Second)
	mustSettle(t, w, m, &cfg)
	if c := m.Counters(); c.Restarts != 1 || c.PortsDown != 0 {
		t.Errorf("%+v", c)
	}
	if w.nodes[1].vema.TrapLID() != m.LID() {
		t.Error("its traps go nowhere")
	}
	w.nodes[2].boot() // the whole HFI: it has no LID either
	w.run(5 * time.Second)
	mustSettle(t, w, m, &cfg)
}

// TestDigestZero: a table that was emptied behind the manager's back.
func TestDigestZero(t *testing.T) {
	w := fabric(6, 4)
	cfg := twoVESWs()
	m := w.nodes[0].manage(cfg, Options{})
	mustSettle(t, w, m, &cfg)
	stations(w, 2, 3)
	w.run(5 * time.Second)
	w.nodes[1].vports.VESW(2).SetMACTable(nil)
	w.run(5 * time.Second)
	mustSettle(t, w, m, &cfg)
	if m.Counters().Restarts != 1 {
		t.Errorf("%+v", m.Counters())
	}
}

// TestLostTraps: without any trap, polling finds the changes.
func TestLostTraps(t *testing.T) {
	w := fabric(7, 4)
	cfg := twoVESWs()
	m := w.nodes[0].manage(cfg, Options{})
	mustSettle(t, w, m, &cfg)
	lost := 0
	w.watch = func(_ *node, _ mad.Address, b []byte) bool {
		trap := kindOf(b).method == mad.MethodTrap
		if trap {
			lost++
		}
		return trap
	}
	stations(w, 2, 3)
	w.run(2*m.t.Poll + time.Second)
	mustSettle(t, w, m, &cfg)
	if lost == 0 || len(m.MACs(2)) != 3+9+3 {
		t.Errorf("%d traps lost, addresses %+v", lost, m.MACs(2))
	}
}

// TestTrapIsFaster: with traps it takes no poll, and each is acknowledged.
func TestTrapIsFaster(t *testing.T) {
	w := fabric(8, 4)
	cfg := twoVESWs()
	timing := DefaultTiming()
	timing.Poll = time.Hour
	m := w.nodes[0].manage(cfg, Options{Timing: timing})
	mustSettle(t, w, m, &cfg)
	stations(w, 2, 3)
	w.run(2 * time.Second)
	mustSettle(t, w, m, &cfg)
	c := m.Counters()
	repressed := uint64(0)
	for _, n := range w.nodes {
		repressed += n.vema.Counters().Repressed
	}
	if c.Traps == 0 || repressed != c.Traps || c.UnknownTraps != 0 {
		t.Errorf("%d repressed, %+v", repressed, c)
	}
}

// TestUntouched: a change of one vESW sends nothing to the ports of others,
// and to a port of both nothing about the other one.
func TestUntouched(t *testing.T) {
	w := fabric(9, 4)
	cfg := twoVESWs()
	timing := DefaultTiming()
	timing.Poll = time.Hour
	m := w.nodes[0].manage(cfg, Options{Timing: timing})
	mustSettle(t, w, m, &cfg)
	stations(w, 2, 20)
	w.run(5 * time.Second)
	sent := map[string]int{}
	w.watch = func(from *node, to mad.Address, b []byte) bool {
		if from == w.nodes[0] && kindOf(b).method != mad.MethodGetResp && kindOf(b) != (kind{mad.ClassSubnDirected, mad.MethodGet, mad.AttrSMInfo}) &&
			kindOf(b) != (kind{mad.ClassSubnDirected, mad.MethodGet, mad.AttrNodeInfo}) {
			s, _, err := mad.ParseSMP(b)
			for _, n := range w.nodes {
				if n.lid == to.LID || err == nil && s.GUID == n.guid {
					sent[n.name]++
				}
			}
			if h, data, err := mad.ParseVEMA(b); err == nil && h.Attr == mad.AttrVESWPortInfo && mad.ParseVESWPortInfo(data).VESW == 2 {
				sent["vESW 2"]++
			}
		}
		return false
	}
	cfg.VESWs = slices.Clone(cfg.VESWs)
	cfg.VESWs[0].MTU = 4000
	if err := m.Reconfigure(cfg); err != nil {
		t.Fatal(err)
	}
	w.nodes[0].poke()
	w.run(time.Second)
	mustSettle(t, w, m, &cfg)
	if sent["h2"] != 1 || sent["h4"] != 1 || len(sent) != 2 {
		t.Errorf("%v", sent)
	}
}

// TestRefusal: what an agent cannot do is told, does not stop the rest, and is
// tried again later.
func TestRefusal(t *testing.T) {
	w := fabric(10, 4)
	cfg := twoVESWs()
	w.nodes[2].mtu = 4096
	m := w.nodes[0].manage(cfg, Options{})
	w.run(4 * time.Second)
	var got []string
	for _, r := range m.VPorts() {
		got = append(got, fmt.Sprint(r.VESW, " ", r.Node, " ", r.Status))
	}
	want := []string{"2 h1 in sync", "2 h2 in sync", "2 h3 refused", "258 h2 in sync", "258 h4 in sync"}
	// A second time if what it is to have changed while the others came up.
	if n := m.Counters().Refused; !slices.Equal(got, want) || n < 1 || n > 2 {
		t.Errorf("%q, %+v", got, m.Counters())
	}
	w.nodes[2].mtu = 10344
	w.run(refusal * m.t.Poll)
	mustSettle(t, w, m, &cfg)
}

// TestDuplicates: LIDs, GUIDs, names and MAC addresses that two ports have.
func TestDuplicates(t *testing.T) {
	w := fabric(11, 5)
	cfg := twoVESWs()
	for _, n := range w.nodes[:3] { // set up by hand, as with tapir vnic --lid
		n.lid, n.state = 7, mad.PortActive
	}
	w.nodes[4].guid = w.nodes[3].guid
	w.nodes[3].lid, w.nodes[4].lid = 0x44, 0x45
	m := w.nodes[0].manage(cfg, Options{})
	w.run(5 * time.Second)
	if c := m.Counters(); c.DuplicateLIDs != 2 {
		t.Errorf("%+v", c)
	}
	if w.nodes[0].lid != 7 || w.nodes[1].lid == 7 || w.nodes[2].lid == 7 || w.nodes[1].lid == w.nodes[2].lid {
		t.Errorf("LIDs %v %v %v", w.nodes[0].lid, w.nodes[1].lid, w.nodes[2].lid)
	}
	if r := m.Ports()[3]; r.State != "duplicate GUID" || len(w.nodes[3].vports.Netdevs()) != 0 {
		t.Errorf("%+v", r)
	}
	w.nodes[4].dead = true
	w.nodes[3].cut = true
	w.run(5 * time.Second)
	w.nodes[3].cut = false
	w.run(5 * time.Second)
	same, hijack := ether.Addr{2, 9, 9, 9, 9, 9}, opa.LMAC{Fabric: 0x301, VESW: 2, LID: w.nodes[1].lid}.Addr()
	for _, i := range []int{2, 0} {
		w.nodes[i].vports.VESW(2).SetRxMode([]ether.Addr{same, hijack}, nil)
		w.nodes[i].poke()
	}
	w.run(5 * time.Second)
	if !w.settle(m, time.Minute) {
		dump(t, m)
		t.Fatal("not in sync")
	}
	var owner []string
	for _, r := range m.MACs(2) {
		if r.Kind == "station" {
			owner = append(owner, r.Node+" "+r.MAC.String())
		}
	}
	if !slices.Equal(owner, []string{"h1 " + same.String()}) {
		t.Errorf("stations %q", owner)
	}
	c := m.Counters()
	if p := m.VESWs()[0].Problems; c.DuplicateMACs == 0 || c.RefusedMACs == 0 || len(p) != 3 || !strings.Contains(strings.Join(p, "\n"), "claimed by h1 and h3") {
		t.Errorf("%+v, %q", c, p)
	}
	w.nodes[1].name = "h3"
	w.nodes[1].boot()
	w.run(5 * time.Second)
	if r := m.VESWs()[0]; r.Up != 1 {
		t.Errorf("with two ports called h3: %+v", r)
	}
}

// TestObserve: a dry run reads everything, changes nothing and tells what
// would be changed.
func TestObserve(t *testing.T) {
	w := fabric(12, 4)
	cfg := twoVESWs()
	m := w.nodes[0].manage(cfg, Options{})
	mustSettle(t, w, m, &cfg)
	w.nodes[0].stopManager()
	if _, err := w.nodes[3].vports.Create(9, vnic.Policy{}); err != nil {
		t.Fatal(err)
	}
	stray := vnic.PowerOn()
	stray.VESWID = 77
	if err := w.nodes[3].vports.Netdev(9).Configure(stray); err != nil {
		t.Fatal(err)
	}
	w.watch = func(_ *node, _ mad.Address, b []byte) bool {
		if kindOf(b).method == mad.MethodSet {
			t.Errorf("a Set of attribute %#x", kindOf(b).attr)
		}
		return false
	}
	next := twoVESWs()
	next.VESWs[1].MTU = 4000
	next.VESWs[1].Members = next.VESWs[1].Members[:2]
	next.VESWs[0].Members = append(next.VESWs[0].Members, members("h1", "h9")...)
	dry := w.nodes[0].manage(next, Options{Observe: true})
	if !w.runUntil(w.now.Add(time.Minute), func() bool { _, ready := dry.Plan(); return ready }) {
		dump(t, dry)
		t.Fatal("not ready")
	}
	got, _ := dry.Plan()
	want := []string{
		"~ port h1: P_Keys 0xffff 0x8002 0x7fff -> 0xffff 0x8002 0x8003 0x7fff",
		"~ port h1: vport 1 in vESW 2 blue: MTU 9000 -> 4000",
		"+ port h1: vport 2 in vESW 258 red: vESW 0 -> 258, fabric 0x0 -> 0x301, P_Key 0x0000 -> 0x8003, MAC 00:00:00:00:00:00 -> 06:2c:10:01:00:00, " +
			"SLID 0x000000 -> 0x000001, multicast DLID 0x000000 -> 0xf00102, port number 0x0 -> 0x102, state drop all -> forwarding",
		"~ port h2: vport 1 in vESW 2 blue: MTU 9000 -> 4000",
		"~ port h3: P_Keys 0x7fff 0x0002 -> 0x7fff",
		"- port h3: vport 1 of vESW 2",
		"- port h4: vport 9 of vESW 77",
		"! vESW 258 red: h9 is not there",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLargeFabric: 64 HFIs in one vESW, 255 vports on one of them.
func TestLargeFabric(t *testing.T) {
	w := fabric(13, 64)
	cfg := Config{}
	all := VESW{Name: "all", ID: 1, PKey: 1, MTU: 1500}
	for _, n := range w.nodes {
		all.Members = append(all.Members, Member{Node: Node{GUID: n.guid}})
	}
	cfg.VESWs = append(cfg.VESWs, all)
	for id := uint16(2); id <= 255; id++ {
		cfg.VESWs = append(cfg.VESWs, VESW{Name: fmt.Sprint("v", id), ID: id, PKey: 2, MTU: 1500, Members: members("h1")})
	}
	timing := DefaultTiming()
	timing.Poll, timing.Settle = time.Minute, time.Minute
	m := w.nodes[0].manage(cfg, Options{Timing: timing})
	mustSettle(t, w, m, &cfg)
	stations(w, 1, 30) // 1,920 stations and 64 groups
	w.run(5 * time.Second)
	mustSettle(t, w, m, &cfg)
	if r := m.VESWs()[0]; r.MACs != 64*31 || r.InSync != 64 {
		t.Errorf("%+v", r)
	}
	stations(w, 1, 40)
	w.run(5 * time.Second)
	if !w.settle(m, time.Minute) {
		t.Fatal("not in sync with more addresses than fit")
	}
	if r := m.VESWs()[0]; r.MACs != mad.MaxMACEntries || len(r.Problems) != 1 {
		t.Errorf("%d addresses, %q", r.MACs, r.Problems)
	}
}

// TestGatewayDown: a default port that is gone is one no more, until it is
// back.
func TestGatewayDown(t *testing.T) {
	w := fabric(14, 4)
	cfg := twoVESWs()
	m := w.nodes[1].manage(cfg, Options{})
	mustSettle(t, w, m, &cfg)
	gateways := func() (mask uint16) { return w.nodes[2].vports.VESW(2).Config().DefPortMask }
	if gateways() != 1 {
		t.Fatalf("default ports %#x", gateways())
	}
	w.nodes[0].cut = true
	w.run(5 * time.Second)
	if gateways() != 0 || m.Counters().PortsDown != 1 {
		t.Errorf("default ports %#x, %+v", gateways(), m.Counters())
	}
	w.nodes[0].cut = false
	w.run(5 * time.Second)
	mustSettle(t, w, m, &cfg)
	if gateways() != 1 {
		t.Errorf("back: default ports %#x", gateways())
	}
}

// TestListChangesWhileRead: a list too long for one MAD changes between its
// parts.
func TestListChangesWhileRead(t *testing.T) {
	w := fabric(15, 4)
	cfg := twoVESWs()
	timing := DefaultTiming()
	timing.Poll = time.Hour
	m := w.nodes[0].manage(cfg, Options{Timing: timing})
	mustSettle(t, w, m, &cfg)
	changed := false
	w.watch = func(_ *node, _ mad.Address, b []byte) bool {
		if h, data, err := mad.ParseVEMA(b); err == nil && h.Method == mad.MethodGet && h.Attr == mad.AttrUnicastMACs &&
			mad.IfaceMACs(data).Head().Start == mad.MaxMACsIn && !changed {
			changed = true
			stations(w, 258, 500)
		}
		return false
	}
	stations(w, 258, 900)
	w.run(3 * time.Second)
	mustSettle(t, w, m, &cfg)
	if !changed || len(m.MACs(258)) != 2+2*501 {
		t.Errorf("changed %v, %d addresses", changed, len(m.MACs(258)))
	}
}

// TestForgedAnswer: the right transaction from the wrong port is no answer.
func TestForgedAnswer(t *testing.T) {
	w := fabric(16, 4)
	cfg := twoVESWs()
	m := w.nodes[0].manage(cfg, Options{})
	mustSettle(t, w, m, &cfg)
	w.watch = func(from *node, to mad.Address, b []byte) bool {
		if from == w.nodes[0] && to.QP == opa.QPGeneral && kindOf(b).method == mad.MethodGet && kindOf(b).attr == mad.AttrVESWPortInfo {
			forged := make([]byte, mad.MaxLen)
			copy(forged, b)
			forged[3] = uint8(mad.MethodGetResp)
			w.inject(w.nodes[0], mad.Address{LID: to.LID + 1, QP: to.QP}, forged)
		}
		return false
	}
	w.run(5 * time.Second)
	if c := m.Counters(); c.Unexpected == 0 || c.Restarts != 0 || !m.InSync() {
		t.Errorf("%+v", c)
	}
}

// TestPKeysOverflow: what does not fit in a P_Key table is told.
func TestPKeysOverflow(t *testing.T) {
	w := fabric(17, 2)
	var cfg Config
	for id := uint16(1); id <= 20; id++ {
		cfg.VESWs = append(cfg.VESWs, VESW{Name: fmt.Sprint("v", id), ID: id, PKey: id, MTU: 1500, Members: members("h2")})
	}
	m := w.nodes[0].manage(cfg, Options{})
	if !w.settle(m, time.Minute) {
		t.Fatal("not in sync")
	}
	if p := w.nodes[1].pkeys; len(p) != 16 || p[15] != 15|opa.PKeyFull {
		t.Errorf("P_Keys %x", p)
	}
	if !slices.ContainsFunc(m.Events(0), func(e Event) bool {
		return e.Text == "port h2: 21 P_Keys for a table of 16: the last ones are left out"
	}) {
		t.Error("nobody was told")
	}
}
