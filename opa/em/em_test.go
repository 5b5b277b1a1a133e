package em

import (
	"testing"
	"time"

	"tapir/wire/ether"
)

func members(names ...string) (list []Member) {
	for _, n := range names {
		list = append(list, Member{Node: Node{Name: n}})
	}
	return list
}

// blue and red are two vESWs over four nodes, whose ids are equal modulo 256.
func twoVESWs() Config {
	blue := VESW{Name: "blue", ID: 2, Fabric: 0x301, PKey: 2, MTU: 9000, Members: members("h1", "h2", "h3")}
	blue.Members[2].Limited = true
	blue.Gateways = []Node{{Name: "h1"}}
	red := VESW{Name: "red", ID: 258, Fabric: 0x301, PKey: 3, MTU: 1500, Members: members("h2", "h4")}
	return Config{Nodes: []NodeEntry{{Name: "h4", GUID: guidBase + 4, LID: 0x44}}, VESWs: []VESW{red, blue}}
}

func fabric(seed uint64, nodes int) *world {
	w := newWorld(seed)
	for i := 1; i <= nodes; i++ {
		w.add(i)
	}
	return w
}

func dump(t *testing.T, m *Manager) {
	t.Helper()
	const most = 40
	events := m.Events(0)
	for _, e := range events[max(0, len(events)-most):] {
		t.Logf("%12.6f %s", float64(e.At)/1e9, e.Text)
	}
	lines, _ := m.Plan()
	for _, l := range lines[:min(len(lines), most)] {
		t.Log("plan: ", l)
	}
}

func mustSettle(t *testing.T, w *world, m *Manager, cfg *Config) {
	t.Helper()
	if !w.settle(m, time.Minute) {
		dump(t, m)
		t.Fatalf("not in sync after a minute; %+v", m.Counters())
	}
	if err := w.check(cfg); err != nil {
		dump(t, m)
		t.Fatal(err)
	}
}

func TestBringUp(t *testing.T) {
	w := fabric(1, 4)
	cfg := twoVESWs()
	m := w.nodes[0].manage(cfg, Options{})
	mustSettle(t, w, m, &cfg)
	if w.nodes[3].lid != 0x44 {
		t.Errorf("static LID %v", w.nodes[3].lid)
	}
	if c := m.Counters(); c.Timeouts != 0 || c.Refused != 0 || c.Unexpected != 0 {
		t.Errorf("%+v", c)
	}
	n := w.nodes[1].vports.VESW(2)
	n.SetRxMode([]ether.Addr{{2, 1, 1, 1, 1, 1}}, []ether.Addr{{1, 0, 0x5e, 0, 0, 9}})
	w.nodes[1].poke()
	w.run(100 * time.Millisecond)
	mustSettle(t, w, m, &cfg)
	if m.Counters().Traps == 0 || len(m.MACs(2)) != 5 {
		t.Errorf("%+v, %+v", m.Counters(), m.MACs(2))
	}
}
