package ptp

import (
	"math"
	"testing"
	"time"

	"tapir/ptp/msg"
)

// TestAsCapable: a link longer than neighborPropDelayThresh carries no time;
// one that stops answering no more.
func TestAsCapable(t *testing.T) {
	w, master, slave := pairOf(t, GPTP, func(m, s *Config) {
		m.Ports[0].NeighborPropDelayThresh, s.Ports[0].NeighborPropDelayThresh = 400, 400
	})
	w.run(5 * time.Second)
	s := slave.Stats(0)
	if slave.state(0) == msg.StateSlave || s.Tx[msg.Announce]+s.Tx[msg.Sync] != 0 || slave.Snapshot().Ports[0].AsCapable {
		t.Fatalf("a link of 500 ns is asCapable at 400 ns\n%s", w.dump())
	}
	for _, n := range []*node{master, slave} {
		n.ports[0].cfg.NeighborPropDelayThresh = 800
	}
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	master.ends[0].alter = only(msg.PdelayResp, 1, 1<<30, fate{drop: true})
	w.until("the link is not asCapable", 5*time.Second, func() bool { return !slave.ports[0].capable })
	if lost := slave.ports[0].link.Lost(); lost != 10 {
		t.Errorf("after %d lost responses", lost)
	}
	w.until("the slave gives up", 2*time.Second, func() bool { return slave.state(0) != msg.StateSlave })
	if d := slave.Stats(0).Drops[DropCapable]; d == 0 {
		t.Error("messages over a link that is not asCapable are used")
	}
}

// TestSeveralNeighbors: three exchanges with several answers make a port
// faulty.
func TestSeveralNeighbors(t *testing.T) {
	w, nodes := bus(t, 3, func(_ int, c *Config) {
		*c = func() Config { d := fast(DefaultP2P, int(c.ClockIdentity[7]), 1); return d }()
	})
	w.until("fault", 5*time.Second, func() bool { return nodes[0].state(0) == msg.StateFaulty })
	if s := nodes[0].Stats(0); s.Drops[DropPeers] < 3 || s.Tx[msg.PdelayReq] > 5 {
		t.Errorf("drops %v after %d requests", s.Drops[DropPeers], s.Tx[msg.PdelayReq])
	}
}

// TestNeighborRateRatio: the ratio is that of the clocks, also while one is
// steered.
func TestNeighborRateRatio(t *testing.T) {
	w, master, slave := pairOf(t, GPTP, func(_, s *Config) { s.FreeRunning = true })
	w.run(10 * time.Second)
	ports := []PortSnapshot{master.Snapshot().Ports[0], slave.Snapshot().Ports[0]}
	if r := ports[0].RateRatio; math.Abs(r-1.000037) > 1e-8 {
		t.Errorf("the slave's clock against the master's: %.9f", r)
	}
	if r := ports[1].RateRatio; math.Abs(r-1/1.000037) > 1e-8 {
		t.Errorf("the master's clock against the slave's: %.9f", r)
	}
	if off := slave.off(master); off < 1500*time.Microsecond {
		t.Errorf("a free-running clock was steered: %v off", off)
	}
	if slave.state(0) != msg.StateSlave || len(slave.samples) < 20 {
		t.Errorf("%v, %d samples", slave.state(0), len(slave.samples))
	}
}

// TestFollowUpInformation: a boundary clock adds its own ratio to the
// cumulative rate offset, and a Follow_Up without the TLV is refused.
func TestFollowUpInformation(t *testing.T) {
	w, nodes := chain(t, GPTP, 1, func(i int, c *Config) { c.FreeRunning = i == 1 })
	var sent msg.FollowUpInfo
	var valid bool
	nodes[1].ends[1].alter = func(m *msg.Message) fate {
		if m.Type == msg.FollowUp {
			sent, valid = followUpInfo(m.TLVs)
		}
		return fate{}
	}
	nodes[0].ends[0].alter = func(m *msg.Message) fate {
		if m.Type == msg.FollowUp {
			f := msg.FollowUpInfo{CumulativeRateOffset: 1 << 21, TimeBaseIndicator: 7}
			m.TLVs = f.Append(nil)
		}
		return fate{}
	}
	w.run(10 * time.Second)
	// Clock 2 is 1 ppm fast: the grandmaster runs at 1 - 1 ppm against it.
	want := 1<<21 - 1e-6*(1<<41)
	if got := float64(sent.CumulativeRateOffset); !valid || math.Abs(got-want) > 1e4 || sent.TimeBaseIndicator != 7 {
		t.Errorf("%+v, want an offset of %v", sent, want)
	}
	n := len(nodes[1].samples)
	nodes[0].ends[0].alter = func(m *msg.Message) fate {
		if m.Type == msg.FollowUp {
			m.TLVs = nil
		}
		return fate{}
	}
	w.run(time.Second)
	if len(nodes[1].samples) > n+1 || nodes[1].Stats(0).Drops[DropMalformed] < 7 {
		t.Errorf("%d samples of Follow_Ups without information", len(nodes[1].samples)-n)
	}
}

// TestSyncReceiptTimeout: without Syncs the master is lost though it still
// announces.
func TestSyncReceiptTimeout(t *testing.T) {
	w, master, slave := pairOf(t, GPTP, func(_, s *Config) { s.GrandmasterCapable = false })
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	master.ends[0].alter = only(msg.Sync, 1, 1<<30, fate{drop: true})
	since := w.now
	w.until("loss", 5*time.Second, func() bool { return slave.state(0) != msg.StateSlave })
	if d := w.now.Sub(since); d < 240*time.Millisecond || d > 390*time.Millisecond || slave.Stats(0).SyncTimeout != 1 {
		t.Errorf("lost after %v, %d timeouts", d, slave.Stats(0).SyncTimeout)
	}
}

// TestAutomotive: roles are fixed, nobody announces, the slave asks for slower
// messages once it has locked, and finds the master again after a loss.
func TestAutomotive(t *testing.T) {
	w, master, slave := pairOf(t, Automotive, func(m, s *Config) {
		m.Ports[0].Role, s.Ports[0].Role = MasterRole, SlaveRole
		s.Ports[0].OperLogSyncInterval, s.Ports[0].OperLogPdelayReqInterval = -1, 0
		m.Ports[0].AsCapable, s.Ports[0].AsCapable = true, true
	})
	w.until("lock", 2*time.Second, slave.converged(master, 100))
	w.run(time.Second)
	before := master.Stats(0)
	w.run(10 * time.Second)
	after := master.Stats(0)
	if n := after.Tx[msg.Sync] - before.Tx[msg.Sync]; n < 19 || n > 21 {
		t.Errorf("%d Syncs in 10 s", n)
	}
	if n := after.Rx[msg.PdelayReq] - before.Rx[msg.PdelayReq]; n < 9 || n > 11 {
		t.Errorf("%d Pdelay_Req in 10 s", n)
	}
	if after.Tx[msg.Announce]+slave.Stats(0).Tx[msg.Announce] != 0 {
		t.Error("Announces with static roles")
	}
	master.ends[0].alter = func(*msg.Message) fate { return fate{drop: true} }
	w.until("loss", 10*time.Second, func() bool { return slave.state(0) == msg.StateUncalibrated })
	master.ends[0].alter = nil
	w.until("return", 10*time.Second, slave.converged(master, 100))
}

// TestIntervalRequest: requests change intervals, stop messages and start them
// again; what cannot be served is counted.
func TestIntervalRequest(t *testing.T) {
	w, master, slave := pairOf(t, GPTP, nil)
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	request := func(sync, announce int8) {
		r := msg.IntervalRequest{LinkDelay: msg.IntervalUnchanged, TimeSync: sync, Announce: announce}
		m := msg.Message{Header: msg.Header{Type: msg.Signaling, SdoID: 0x100, Source: msg.PortIdentity{Clock: id(2), Port: 1}}, Port: msg.AllPorts, TLVs: r.Append(nil)}
		master.deliver(0, m.Append(nil), slave.addr())
	}
	count := func(kind msg.Type) uint64 {
		before := master.Stats(0).Tx[kind]
		w.run(2 * time.Second)
		return master.Stats(0).Tx[kind] - before
	}
	for _, tc := range []struct {
		sync, announce int8
		syncs, ann     uint64
	}{
		{-4, msg.IntervalUnchanged, 32, 8}, {msg.IntervalUnchanged, -1, 32, 4}, {msg.IntervalStop, msg.IntervalStop, 0, 0},
		{msg.IntervalInitial, msg.IntervalInitial, 16, 8},
	} {
		request(tc.sync, tc.announce)
		slave.ports[0].stop(syncReceipt, announceReceipt)
		s := master.Stats(0).Tx[msg.Announce]
		if n := count(msg.Sync); n < tc.syncs-min(tc.syncs, 1) || n > tc.syncs+1 {
			t.Errorf("%+v: %d Syncs in 2 s", tc, n)
		}
		if n := master.Stats(0).Tx[msg.Announce] - s; n < tc.ann-min(tc.ann, 1) || n > tc.ann+1 {
			t.Errorf("%+v: %d Announces in 2 s", tc, n)
		}
	}
	request(-11, 17)
	if d := master.Stats(0).Drops[DropRange]; d != 2 {
		t.Errorf("impossible intervals: %d drops", d)
	}
}
