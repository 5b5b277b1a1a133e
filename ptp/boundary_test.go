package ptp

import (
	"fmt"
	"testing"
	"time"

	"tapir/ptp/msg"
)

// chain is a grandmaster, boundary clocks and a slave in a row; clock i is i
// ppm off.
func chain(t testing.TB, p Profile, hops int, change func(i int, c *Config)) (*world, []*node) {
	w := newWorld(t)
	var nodes []*node
	for i := range hops + 2 {
		ports := 2
		if i == 0 || i == hops+1 {
			ports = 1
		}
		cfg := fast(p, i+1, ports)
		if i == 0 {
			cfg.Quality.Class = 187
		}
		if change != nil {
			change(i, &cfg)
		}
		nodes = append(nodes, w.add(fmt.Sprint("clock", i+1), cfg, clockOff(float64(1000*i), time.Duration(i)*time.Millisecond)))
		if i > 0 {
			up := nodes[i-1]
			link(500*time.Nanosecond, up.ends[len(up.ends)-1], nodes[i].ends[0])
		}
	}
	return w, nodes
}

func (n *node) lastPort() msg.PortState { return n.state(len(n.ports) - 1) }

// TestBoundaryClock: time, steps, path trace and grandmaster pass through
// boundary clocks, in several profiles.
func TestBoundaryClock(t *testing.T) {
	for _, p := range []Profile{DefaultE2E, DefaultP2P, GPTP, G8275x1} {
		t.Run(p.String(), func(t *testing.T) {
			w, nodes := chain(t, p, 3, func(_ int, c *Config) { c.PathTrace = true })
			last := nodes[4]
			w.until("lock", 60*time.Second, last.converged(nodes[0], 100))
			w.run(30 * time.Second)
			for i, n := range nodes {
				if off := n.off(nodes[0]); off > 20 || off < -20 {
					t.Errorf("clock %d is %v off", i+1, off)
				}
				s := n.Snapshot()
				if s.Current.StepsRemoved != uint16(i) || s.Parent.Grandmaster.Identity != id(1) || len(s.PathTrace) != i {
					t.Errorf("clock %d: %d steps from %v by %v", i+1, s.Current.StepsRemoved, s.Parent.Grandmaster.Identity, s.PathTrace)
				}
				if i > 0 && n.state(0) != msg.StateSlave || i < 4 && n.lastPort() != msg.StateMaster {
					t.Errorf("clock %d: %v and %v", i+1, n.state(0), n.lastPort())
				}
			}
		})
	}
}

// TestPreMaster: a boundary clock's port towards a worse clock waits in
// PRE_MASTER before it becomes master (M3), for one announce interval more than
// it is steps away from the grandmaster.
func TestPreMaster(t *testing.T) {
	w, nodes := chain(t, DefaultE2E, 1, func(i int, c *Config) {
		for p := range c.Ports {
			c.Ports[p].Disabled = i == 1
		}
	})
	w.run(5 * time.Second) // both ends are masters
	bc := nodes[1]
	for p := range bc.ports {
		bc.Set(msg.IDEnablePort, p, &msg.Empty{}, w.now)
		bc.poll()
		w.until("slave", 5*time.Second, func() bool { return bc.state(0) == msg.StateSlave })
	}
	w.until("PRE_MASTER", 10*time.Second, func() bool { return bc.state(1) == msg.StatePreMaster })
	since := w.now
	w.until("MASTER", 10*time.Second, func() bool { return bc.state(1) == msg.StateMaster })
	if d := w.now.Sub(since); d < 480*time.Millisecond || d > 520*time.Millisecond { // 2 intervals of 250 ms
		t.Errorf("PRE_MASTER for %v", d)
	}
	if s := bc.Stats(1); s.QualificationTimeout != 1 || s.Tx[msg.Announce] > 1 {
		t.Errorf("%d qualifications, %d Announces", s.QualificationTimeout, s.Tx[msg.Announce])
	}
	w.until("lock", 10*time.Second, nodes[2].converged(nodes[0], 100))
}

// TestLoop: boundary clocks in a ring come to rest with one port passive, and
// each has one way to the grandmaster.
func TestLoop(t *testing.T) {
	w := newWorld(t)
	var nodes []*node
	for i := range 4 {
		cfg := fast(DefaultE2E, i+1, 2)
		if i == 0 {
			cfg.Priority1 = 1
		}
		nodes = append(nodes, w.add(fmt.Sprint("clock", i+1), cfg, clockOff(float64(1000*i), 0)))
	}
	for i, n := range nodes {
		link(500*time.Nanosecond, n.ends[1], nodes[(i+1)%4].ends[0])
	}
	w.run(30 * time.Second)
	states := map[msg.PortState]int{}
	for _, n := range nodes {
		states[n.state(0)]++
		states[n.state(1)]++
	}
	if states[msg.StateSlave] != 3 || states[msg.StatePassive] != 1 || states[msg.StateMaster] != 4 {
		t.Fatalf("states %v\n%s", states, w.dump())
	}
	// A link breaks: the passive way is used.
	drop := func(*msg.Message) fate { return fate{drop: true} }
	nodes[0].ends[1].alter, nodes[1].ends[0].alter = drop, drop
	w.until("the other way round", 20*time.Second, func() bool {
		return nodes[1].converged(nodes[0], 100)() && nodes[1].slavePort.index == 1 && nodes[1].current.StepsRemoved == 3
	})
}

// TestSamePath: two ports of a boundary clock on one link: the one with the
// higher number is passive.
func TestSamePath(t *testing.T) {
	w := newWorld(t)
	gm := fast(DefaultE2E, 1, 1)
	gm.Priority1 = 1
	a, b := w.add("gm", gm, clockOff(0, 0)), w.add("bc", fast(DefaultE2E, 2, 2), clockOff(5000, 0))
	link(500*time.Nanosecond, a.ends[0], b.ends[0], b.ends[1])
	w.until("lock", 20*time.Second, b.converged(a, 100))
	if b.state(0) != msg.StateSlave || b.state(1) != msg.StatePassive {
		t.Errorf("%v and %v", b.state(0), b.state(1))
	}
}

// TestPropagatedTLVs: a boundary clock passes on TLVs that it does not know if
// they are to be propagated, and no others.
func TestPropagatedTLVs(t *testing.T) {
	w, nodes := chain(t, DefaultE2E, 1, nil)
	var seen msg.TLVs
	nodes[0].ends[0].alter = func(m *msg.Message) fate {
		if m.Type == msg.Announce {
			m.TLVs = msg.AppendTLV(msg.AppendTLV(nil, msg.TLVPad, []byte{0, 0}), msg.TLVOrganizationPropagate, []byte{1, 2, 3, 4, 5, 6})
		}
		return fate{}
	}
	nodes[1].ends[1].alter = func(m *msg.Message) fate {
		if m.Type == msg.Announce {
			seen = append(seen[:0], m.TLVs...)
		}
		return fate{}
	}
	w.until("lock", 20*time.Second, nodes[2].converged(nodes[0], 100))
	if want := string(msg.AppendTLV(nil, msg.TLVOrganizationPropagate, []byte{1, 2, 3, 4, 5, 6})); string(seen) != want {
		t.Errorf("TLVs % x", seen)
	}
}

// TestMasterOnly: a port that is never slave hears no better clock.
func TestMasterOnly(t *testing.T) {
	w, nodes := chain(t, G8275x1, 1, func(i int, c *Config) {
		if i == 1 {
			c.Ports[1].MasterOnly = true
		}
		if i == 2 {
			c.Quality.Class = 6
		}
	})
	w.until("lock", 20*time.Second, nodes[1].converged(nodes[0], 100))
	w.run(10 * time.Second)
	if nodes[1].state(1) != msg.StateMaster || nodes[1].Stats(1).Drops[DropState] == 0 {
		t.Errorf("state %v\n%s", nodes[1].state(1), w.dump())
	}
}

// TestLocalPriority: of two ways to equal primary clocks a telecom boundary
// clock takes the port with the lower localPriority.
func TestLocalPriority(t *testing.T) {
	for _, better := range []int{0, 1} {
		w := newWorld(t)
		var gms []*node
		for i := range 2 {
			cfg := fast(G8275x1, i+1, 1)
			cfg.Quality = msg.ClockQuality{Class: 6, Accuracy: 0x21, Variance: 0x4e5d}
			gms = append(gms, w.add(fmt.Sprint("gm", i), cfg, clockOff(0, 0)))
		}
		cfg := fast(G8275x1, 3, 2)
		cfg.Quality.Class = 165
		cfg.Ports[better].LocalPriority = 100
		bc := w.add("bc", cfg, clockOff(3000, time.Millisecond))
		link(500*time.Nanosecond, gms[0].ends[0], bc.ends[0])
		link(500*time.Nanosecond, gms[1].ends[0], bc.ends[1])
		w.until("lock", 20*time.Second, bc.converged(gms[better], 100))
		if bc.slavePort.index != better {
			t.Errorf("slave on port %d, want %d", bc.slavePort.index+1, better+1)
		}
	}
}

// TestNotGrandmasterCapable: a clock that may not be grandmaster listens while
// there is none, and still is master of those behind it.
func TestNotGrandmasterCapable(t *testing.T) {
	w, nodes := chain(t, GPTP, 1, func(i int, c *Config) { c.GrandmasterCapable = i == 0 })
	w.until("lock", 20*time.Second, nodes[2].converged(nodes[0], 100))
	nodes[0].ends[0].alter = func(*msg.Message) fate { return fate{drop: true} }
	w.run(10 * time.Second)
	for i, n := range nodes[1:] {
		for _, p := range n.ports {
			if p.state != msg.StateListening {
				t.Errorf("clock %d: %v", i+2, p.state)
			}
		}
	}
}

// TestPowerProfile: the TLV of the power profile reaches a slave behind a
// boundary clock as the grandmaster sent it.
func TestPowerProfile(t *testing.T) {
	want := msg.Power{Year: 2017, GrandmasterID: 7, TotalInaccuracy: 50}
	w, nodes := chain(t, Power, 1, func(i int, c *Config) {
		if i == 0 {
			c.Power = want
		}
	})
	var seen []msg.Power
	nodes[1].ends[1].alter = func(m *msg.Message) fate {
		if m.Type == msg.Announce {
			seen = seen[:0]
			for tlv := range m.TLVs.All() {
				var p msg.Power
				if tlv.Type == msg.TLVOrganization && p.Parse(tlv.Value) == nil {
					seen = append(seen, p)
				}
			}
		}
		return fate{}
	}
	w.until("lock", 20*time.Second, nodes[2].converged(nodes[0], 100))
	if len(seen) != 1 || seen[0] != want {
		t.Errorf("%+v", seen)
	}
}
