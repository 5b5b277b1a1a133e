package ptp

import (
	"testing"
	"time"

	"tapir/ptp/msg"
)

// TestMasterSlave lets a slave follow a master with every delay mechanism, in
// one and two steps.
func TestMasterSlave(t *testing.T) {
	for _, tc := range []struct {
		name    string
		profile Profile
		change  func(master, slave *Config)
	}{
		{"E2E two-step", DefaultE2E, nil},
		{"E2E one-step", DefaultE2E, func(m, s *Config) { m.TwoStep = false }},
		{"P2P two-step", DefaultP2P, nil},
		{"P2P one-step", DefaultP2P, func(m, s *Config) { m.TwoStep, m.P2POneStep, s.P2POneStep = false, true, true }},
		{"gPTP", GPTP, nil},
		{"gPTP one-step", GPTP, func(m, s *Config) { m.TwoStep = false }},
		{"G.8275.1", G8275x1, nil},
		{"power", Power, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, master, slave := pairOf(t, tc.profile, tc.change)
			w.until("lock", 10*time.Second, slave.converged(master, 10))
			w.run(10 * time.Second)
			if off := slave.off(master); off < -5 || off > 5 {
				t.Errorf("slave is %v off", off)
			}
			if got := slave.samples[len(slave.samples)-1].Delay.Duration(); got < 495 || got > 505 {
				t.Errorf("delay = %v", got)
			}
			// The sender's time between the stamp and the wire is in the Sync, or in the Pdelay_Resp.
			if c := slave.Snapshot().Ports[0].Corrections; tc.name == "E2E one-step" && c.FollowUp != 0 ||
				slave.Instance.ports[0].cfg.DelayMechanism == msg.DelayE2E && c.PdelayResp != 0 {
				t.Errorf("correctionFields %+v", c)
			}
			if master.state(0) != msg.StateMaster || slave.state(0) != msg.StateSlave {
				t.Errorf("states %v and %v", master.state(0), slave.state(0))
			}
		})
	}
}

// TestAutoDelay: two automatic ports stay with E2E; one that meets a P2P
// neighbor becomes P2P, and begins with E2E again after a fault.
func TestAutoDelay(t *testing.T) {
	auto := func(c *Config) { c.Ports[0].AutoDelay = true }
	w, master, slave := pair(t, func(m, s *Config) { auto(m); auto(s) })
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	if tx := slave.Stats(0).Tx; tx[msg.PdelayReq] != 0 || tx[msg.DelayReq] == 0 {
		t.Errorf("sent %v", tx)
	}
	w, master, slave = pair(t, func(m, s *Config) { auto(s); m.Ports[0].DelayMechanism = msg.DelayP2P })
	w.until("lock", 10*time.Second, slave.converged(master, 100))
	sent := slave.Stats(0).Tx
	w.run(5 * time.Second)
	if tx := slave.Stats(0).Tx; tx[msg.DelayReq] != sent[msg.DelayReq] || tx[msg.PdelayReq] < sent[msg.PdelayReq]+30 {
		t.Errorf("sent %v, then %v", sent, tx)
	}
	if e := slave.Set(msg.IDLogAnnounceInterval, 0, &msg.Octet{Value: 0xff}, w.now); e != 0 {
		t.Errorf("SET after the change: %v", e)
	}
	slave.Set(msg.IDDisablePort, 0, &msg.Empty{}, w.now)
	slave.Set(msg.IDEnablePort, 0, &msg.Empty{}, w.now)
	if got := slave.Snapshot().Ports[0].Mechanism; got != msg.DelayE2E {
		t.Errorf("mechanism %v after a new beginning", got)
	}
}
