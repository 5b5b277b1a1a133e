package em

import (
	"reflect"
	"testing"
	"time"

	"tapir/opa/mad"
)

// A manager brings settings and table of congestion control to all ports, again to one
// that has lost them, other ones when its file says so, and none when it says nothing
// any more; what ports log it reads.
func TestCongestion(t *testing.T) {
	w := fabric(21, 4)
	cfg := twoVESWs()
	cfg.Congestion = &Congestion{Increase: 2, Timer: 3 * time.Millisecond, Threshold: 4, Min: 1, Limit: 100,
		MaxDelay: 100 * time.Microsecond, SLs: []uint8{0, 3}}
	m := w.nodes[0].manage(cfg, Options{})
	w.run(5 * time.Second)
	mustSettle(t, w, m, &cfg)
	for _, n := range w.nodes {
		s := n.cca.Settings()
		want := mad.CongestionSetting{Increase: 2, Timer: 2929, Threshold: 4, Min: 1}
		if s.ControlMap != 9 || s.SLs[0] != want || s.SLs[3] != want || s.SLs[1] != (mad.CongestionSetting{}) || n.cca.Limit() != 100 {
			t.Errorf("%s: %+v", n.name, s)
		}
		for range 60 {
			n.cca.Notified(3, 0x77, w.now)
		}
		if l := n.cca.Levels(10240); l[1].Delay < 99*time.Microsecond || l[1].Delay > 101*time.Microsecond {
			t.Errorf("%s: %+v", n.name, l)
		}
	}
	w.run(3 * time.Second)
	r := m.Congestion()
	if len(r) != 4 || r[0].SLs != "0,3" || r[0].Limit != 100 || r[0].Events != 59 || r[0].Latest != "SL 3, LID 0x000077" ||
		r[0].Timer != 2929*1024*time.Nanosecond || !r[0].InSync {
		t.Errorf("%+v", r)
	}
	w.nodes[2].boot()
	w.run(5 * time.Second)
	mustSettle(t, w, m, &cfg)
	if w.nodes[2].cca.Limit() != 100 {
		t.Error("a port that began anew has no table")
	}
	before := m.Counters().Sets
	w.run(25 * time.Second)
	if n := m.Counters().Sets; n != before {
		t.Errorf("%d needless changes", n-before)
	}
	other := twoVESWs()
	must(m.Reconfigure(other))
	w.run(5 * time.Second)
	mustSettle(t, w, m, &other)
	if s := w.nodes[3].cca.Settings(); s != (mad.CongestionSettings{}) || w.nodes[3].cca.Active() {
		t.Errorf("%+v", s)
	}
}

// The table grows linearly to the delay that is wished, with the finest shift that fits.
func TestCongestionTable(t *testing.T) {
	for _, c := range []struct {
		limit uint16
		most  time.Duration
	}{{1, MostDelay}, {127, time.Millisecond}, {MaxCCTI, 5 * time.Microsecond}, {64, 100}} {
		g := Congestion{Limit: c.limit, MaxDelay: c.most}
		b := g.block(int(c.limit) / mad.CCTPerBlock)
		e := b.Entries[c.limit%mad.CCTPerBlock]
		got := time.Duration(int64(e.Multiplier()) * fullPacket / 1000 >> e.Shift())
		if d := c.most - got; d < 0 || d > c.most/16+103 || g.block(0).Entries[0].Multiplier() != 0 {
			t.Errorf("limit %d, %v: %v", c.limit, c.most, got)
		}
	}
	for bits, want := range map[uint32]string{0: "none", 1: "0", 0xffffffff: "0-31", 0x80000006: "1-2,31"} {
		if got := slsString(bits); got != want {
			t.Errorf("%#x: %s", bits, got)
		}
	}
	if d := diff(&Config{}, &Config{LIDs: LIDRange{1, 5}, Congestion: &Congestion{}}); !reflect.DeepEqual(d,
		[]string{"LIDs 0x1-0xbfff -> 0x1-0x5", "congestion control changed"}) {
		t.Errorf("%q", d)
	}
}

// A manager with a range of LIDs beyond those of 9B packets gives them out, and goes on
// to the next range when its file changes.
func TestLIDRange(t *testing.T) {
	w := fabric(22, 4)
	cfg := twoVESWs()
	cfg.LIDs = LIDRange{0x10000, 0xefffff}
	for i := range cfg.Nodes {
		if cfg.Nodes[i].LID != 0 {
			cfg.Nodes[i].LID = 0xefffff
		}
	}
	m := w.nodes[0].manage(cfg, Options{})
	w.run(5 * time.Second)
	mustSettle(t, w, m, &cfg)
	for _, n := range w.nodes {
		if !cfg.LIDs.Contains(n.lid) {
			t.Errorf("%s: LID %v", n.name, n.lid)
		}
	}
	cfg.LIDs = LIDRange{0xc000, 0xc003} // as many as there are ports
	for i := range cfg.Nodes {
		cfg.Nodes[i].LID = 0
	}
	must(m.Reconfigure(cfg))
	w.run(5 * time.Second)
	mustSettle(t, w, m, &cfg)
	for _, n := range w.nodes {
		if !cfg.LIDs.Contains(n.lid) {
			t.Errorf("%s: LID %v", n.name, n.lid)
		}
	}
}
