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
			if master.state(0) != msg.StateMaster || slave.state(0) != msg.StateSlave {
				t.Errorf("states %v and %v", master.state(0), slave.state(0))
			}
		})
	}
}
