package ptp

import (
	"fmt"
	"testing"
	"time"

	"tapir/ptp/msg"
)

// TestMasterLossAndReturn: a slave-only clock listens and holds its frequency
// while its master is away.
func TestMasterLossAndReturn(t *testing.T) {
	w, master, slave := pair(t, func(_, s *Config) { s.SlaveOnly = true })
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	freq := slave.discipline.Frequency()
	master.ends[0].alter = func(*msg.Message) fate { return fate{drop: true} }
	since := w.now
	w.until("loss", 5*time.Second, func() bool { return slave.state(0) == msg.StateListening })
	if d := w.now.Sub(since); d < 500*time.Millisecond || d > 1100*time.Millisecond { // 3 to 4 intervals
		t.Errorf("lost after %v", d)
	}
	w.run(30 * time.Second)
	if got := slave.discipline.Frequency(); got-freq > 5 || freq-got > 5 || slave.state(0) != msg.StateListening {
		t.Errorf("frequency %v, then %v; state %v", freq, got, slave.state(0))
	}
	if s := slave.Snapshot(); s.Parent.Port.Clock != id(2) || s.Current.StepsRemoved != 0 {
		t.Errorf("without a master: %+v", s.Parent)
	}
	master.ends[0].alter = nil
	w.until("return", 5*time.Second, slave.converged(master, 100))
}

// bus joins n clocks on one link; change may alter each configuration.
func bus(t testing.TB, n int, change func(i int, c *Config)) (*world, []*node) {
	w := newWorld(t)
	var nodes []*node
	var ends []*end
	for i := range n {
		cfg := fast(DefaultE2E, i+1, 1)
		if change != nil {
			change(i, &cfg)
		}
		nodes = append(nodes, w.add(fmt.Sprint("clock", i+1), cfg, clockOff(float64(1000*i), time.Duration(i)*time.Millisecond)))
		ends = append(ends, nodes[i].ends[0])
	}
	link(500*time.Nanosecond, ends...)
	return w, nodes
}

// masters counts the ports in state MASTER.
func masters(nodes []*node) (n int, which *node) {
	for _, x := range nodes {
		if x.state(0) == msg.StateMaster {
			n, which = n+1, x
		}
	}
	return n, which
}

// TestEqualPriority: of two masters with equal priority the one with the
// smaller identity wins, whoever came first, and there is never a lasting
// second one.
func TestEqualPriority(t *testing.T) {
	w, nodes := bus(t, 2, func(i int, c *Config) { c.Ports[0].Disabled = i == 0 }) // the better one comes late
	w.until("the first is master", 19*time.Second, func() bool { return nodes[1].state(0) == msg.StateMaster })
	nodes[0].Set(msg.IDEnablePort, 0, &msg.Empty{}, w.now)
	w.run(20 * time.Second)
	if n, which := masters(nodes); n != 1 || which != nodes[0] {
		t.Fatalf("%d masters\n%s", n, w.dump())
	}
	w.until("lock", 5*time.Second, nodes[1].converged(nodes[0], 100))
	states := len(nodes[0].states) + len(nodes[1].states)
	w.run(60 * time.Second)
	if len(nodes[0].states)+len(nodes[1].states) != states {
		t.Errorf("roles do not last\n%s", w.dump())
	}
}

// TestManyClocks: eight clocks on one link agree on one master and follow it;
// without it, on the next.
func TestManyClocks(t *testing.T) {
	w, nodes := bus(t, 8, func(i int, c *Config) { c.Priority1 = uint8(100 - i) })
	all := func(nodes []*node, best *node) func() bool {
		return func() bool {
			for _, n := range nodes {
				if n != best && !n.converged(best, 100)() {
					return false
				}
			}
			return best.state(0) == msg.StateMaster
		}
	}
	w.until("all follow the last", 20*time.Second, all(nodes, nodes[7]))
	nodes[7].ends[0].alter = func(*msg.Message) fate { return fate{drop: true} }
	w.until("all follow the next", 20*time.Second, all(nodes[:7], nodes[6]))
}

// TestClockClass: below 128 a clock is never slave: the worse one is passive.
func TestClockClass(t *testing.T) {
	w, nodes := bus(t, 2, func(i int, c *Config) { c.Quality.Class = uint8(6 + i) })
	w.run(10 * time.Second)
	if nodes[0].state(0) != msg.StateMaster || nodes[1].state(0) != msg.StatePassive {
		t.Fatalf("%v and %v", nodes[0].state(0), nodes[1].state(0))
	}
	// The good one degrades: the other leaves PASSIVE.
	nodes[0].Set(msg.IDGrandmasterSettings, 0, &msg.GrandmasterSettings{Quality: msg.ClockQuality{Class: 187}}, w.now)
	w.until("change of roles", 10*time.Second, func() bool {
		return nodes[1].state(0) == msg.StateMaster && nodes[0].state(0) == msg.StateSlave
	})
	// And vanishes altogether; its successor stays.
	nodes[1].ends[0].alter = func(*msg.Message) fate { return fate{drop: true} }
	w.until("takeover", 10*time.Second, func() bool { return nodes[0].state(0) == msg.StateMaster })
}

// TestAnnounceRefused: Announces that must not be followed are counted by
// reason.
func TestAnnounceRefused(t *testing.T) {
	base := msg.Message{
		Header:      msg.Header{Type: msg.Announce, Source: msg.PortIdentity{Clock: id(9), Port: 1}},
		Grandmaster: msg.Grandmaster{Priority1: 1, Identity: id(9)},
	}
	for _, tc := range []struct {
		name   string
		change func(c *Config, m *msg.Message)
		want   Drop
	}{
		{"good", func(c *Config, m *msg.Message) {}, DropNone},
		{"254 steps", func(c *Config, m *msg.Message) { m.Grandmaster.StepsRemoved = 254 }, DropNone},
		{"255 steps", func(c *Config, m *msg.Message) { m.Grandmaster.StepsRemoved = 255 }, DropSteps},
		{"steps configured", func(c *Config, m *msg.Message) { c.MaxStepsRemoved, m.Grandmaster.StepsRemoved = 4, 4 }, DropSteps},
		{"clockClass", func(c *Config, m *msg.Message) { c.MaxClockClass, m.Grandmaster.Quality.Class = 7, 8 }, DropClass},
		{"own grandmaster", func(c *Config, m *msg.Message) { m.Grandmaster.Identity = id(1) }, DropOwn},
		{"own message", func(c *Config, m *msg.Message) { m.Source.Clock = id(1) }, DropOwn},
		{"alternate master", func(c *Config, m *msg.Message) { m.Flags = msg.FlagAlternateMaster }, DropAlternate},
		{"domain", func(c *Config, m *msg.Message) { m.Domain = 1 }, DropDomain},
		{"sdoId", func(c *Config, m *msg.Message) { m.SdoID = 0x100 }, DropSdoID},
		{"port 0", func(c *Config, m *msg.Message) { m.Source.Port = 0 }, DropMalformed},
		{"master only", func(c *Config, m *msg.Message) { c.Ports[0].MasterOnly = true }, DropState},
		{"minor version", func(c *Config, m *msg.Message) { m.MinorVersion = 7 }, DropNone},
		{"path trace", func(c *Config, m *msg.Message) {
			c.PathTrace, m.TLVs = true, msg.AppendPathTrace(nil, []msg.ClockIdentity{id(9), id(1)}, id(8))
		}, DropLoop},
		{"path trace of others", func(c *Config, m *msg.Message) {
			c.PathTrace, m.TLVs = true, msg.AppendPathTrace(nil, nil, id(9))
		}, DropNone},
		{"path trace not checked", func(c *Config, m *msg.Message) { m.TLVs = msg.AppendPathTrace(nil, nil, id(1)) }, DropNone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			cfg, m := fast(DefaultE2E, 1, 1), base
			tc.change(&cfg, &m)
			n := w.add("clock", cfg, clockOff(0, 0))
			w.run(10 * time.Millisecond)
			for range 2 {
				n.deliver(0, m.Append(nil), n.addr())
			}
			if s := n.Stats(0); tc.want != DropNone && s.Drops[tc.want] != 2 {
				t.Errorf("drops %v", s.Drops)
			}
			if following := n.state(0) == msg.StateUncalibrated; following != (tc.want == DropNone) {
				t.Errorf("state %v", n.state(0))
			}
		})
	}
}

// TestAnnounceFlood: a flood of Announces of many identities, in and out of
// their qualification, leaves the slave with its master and memory bounded.
func TestAnnounceFlood(t *testing.T) {
	w, master, slave := pair(t, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	m := msg.Message{Header: msg.Header{Type: msg.Announce}, Grandmaster: msg.Grandmaster{Priority1: 200, Quality: msg.ClockQuality{Class: 248}}}
	m.TLVs = msg.AppendPathTrace(nil, make([]msg.ClockIdentity, 150), id(7))
	for i := range 20000 {
		m.Source = msg.PortIdentity{Clock: msg.ClockIdentity{1, byte(i >> 16), byte(i >> 8), byte(i)}, Port: 1}
		m.Grandmaster.Identity = m.Source.Clock
		b := m.Append(nil)
		slave.deliver(0, b, slave.addr())
		slave.deliver(0, b, slave.addr())
		if i%20 == 0 {
			w.run(time.Millisecond)
		}
	}
	if slave.state(0) != msg.StateSlave || slave.parent.Port.Clock != id(1) || len(slave.states) > 4 {
		t.Errorf("state %v of %v\n%s", slave.state(0), slave.parent.Port, w.dump())
	}
	if n := slave.Snapshot().Ports[0].Foreign; n > 16 {
		t.Errorf("%d foreign masters", n)
	}
	if off := slave.off(master); off > 10 || off < -10 {
		t.Errorf("offset %v", off)
	}
	buf := make([]byte, 2000)
	if allocs := testing.AllocsPerRun(1000, func() {
		m.Source.Clock[7]++
		slave.Receive(0, m.Append(buf[:0]), Meta{Now: w.now, Stamp: 1})
	}); allocs != 0 {
		t.Errorf("%v allocations for a hostile Announce", allocs)
	}
}

// TestRequestFlood: requests beyond the limit are dropped, and answered again
// afterwards.
func TestRequestFlood(t *testing.T) {
	w, master, slave := pair(t, func(m, _ *Config) { m.Limits.RequestRate = 100 })
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	req := msg.Message{Header: msg.Header{Type: msg.DelayReq, Source: msg.PortIdentity{Clock: id(9), Port: 1}}}
	before := master.Stats(0)
	for range 5000 {
		master.deliver(0, req.Append(nil), slave.addr())
	}
	s := master.Stats(0)
	if sent := s.Tx[msg.DelayResp] - before.Tx[msg.DelayResp]; sent < 5 || sent > 20 {
		t.Errorf("%d answers at once", sent)
	}
	if s.Drops[DropRate] < 4900 {
		t.Errorf("%d dropped", s.Drops[DropRate])
	}
	n := len(slave.samples)
	w.run(2 * time.Second)
	if master.Stats(0).Tx[msg.DelayResp]-s.Tx[msg.DelayResp] < 10 || len(slave.samples) < n+10 {
		t.Error("no answers after the flood")
	}
}

// TestQueueFull: answers that do not find room before the next Poll are
// dropped.
func TestQueueFull(t *testing.T) {
	w, master, slave := pair(t, func(m, _ *Config) { m.Limits.Requests, m.Limits.RequestRate = 8, 1_000_000 })
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	req := msg.Message{Header: msg.Header{Type: msg.DelayReq, Source: msg.PortIdentity{Clock: id(9), Port: 1}}}
	sent := master.Stats(0).Tx[msg.DelayResp]
	for range 20 {
		master.Receive(0, req.Append(nil), Meta{Stamp: epoch, Stamped: true, Now: w.now})
	}
	master.poll()
	if s := master.Stats(0); s.Drops[DropQueue] != 12 || s.Tx[msg.DelayResp] != sent+8 {
		t.Errorf("dropped %d, sent %d", s.Drops[DropQueue], s.Tx[msg.DelayResp]-sent)
	}
}
