package sw_test

import (
	"math"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/run/result"
	"tapir/lab/run/virtual/ptpsim"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
)

// behind is the true error of a slave's clock at the end of a chain of
// switches, each of whose clocks is 100 ppm fast.
func behind(t *testing.T, hops int, c swconf.Config) result.Stats {
	t.Helper()
	profile := ptp.DefaultE2E
	if c.Mode == swconf.P2PTransparent {
		profile = ptp.DefaultP2P
	}
	gm, slave := ptp.NewConfig(profile, msg.ClockIdentity{}, 1), ptp.NewConfig(profile, msg.ClockIdentity{}, 1)
	gm.Priority1, slave.SlaveOnly = 100, true
	for _, p := range []*ptp.PortConfig{&gm.Ports[0], &slave.Ports[0]} {
		p.LogAnnounceInterval, p.LogSyncInterval, p.LogMinDelayReqInterval = 0, -3, -3
	}
	sim := ptpsim.Config{Seed: 3, Duration: 3 * time.Minute, Nodes: []ptpsim.NodeConfig{
		{Name: "gm", PTP: gm}, {Name: "slave", PTP: slave, Clock: clock.Config{Oscillator: clock.Oscillator{PPB: 37_000}}},
	}}
	last := "gm"
	for i := range hops {
		name := string(rune('a' + i))
		sim.Nodes = append(sim.Nodes, ptpsim.NodeConfig{Name: name, Switch: &c, Clock: clock.Config{Oscillator: clock.Oscillator{PPB: 100_000}}})
		sim.Links = append(sim.Links, ptpsim.LinkConfig{Ends: [2]string{last, name}, Delay: 500})
		last = name
	}
	sim.Links = append(sim.Links, ptpsim.LinkConfig{Ends: [2]string{last, "slave"}, Delay: 500})
	s, err := ptpsim.New(sim)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	n := s.Node("slave")
	if n.State() != msg.StateSlave {
		t.Fatalf("%v: the slave is %v", c.Mode, n.State())
	}
	return result.Summarize(result.Truth(s.Series()[0].Settled(s.Skip()))) // the only clock but the reference
}

// Behind transparent clocks a queueing delay of up to 500 us does not show;
// behind plain switches it does. A clock that runs free measures it wrongly by
// as much as it is off, a syntonised one does not.
func TestQueueingInVirtualTime(t *testing.T) {
	t.Parallel()
	queueing := swconf.Delay{Dist: swconf.Uniform, Max: 500 * time.Microsecond}
	for _, hops := range []int{1, 5} {
		plain := behind(t, hops, swconf.Config{Mode: swconf.Plain, Delay: queueing})
		if plain.RMS < 10_000 {
			t.Errorf("%d plain switches: %+v", hops, plain)
		}
		for _, mode := range []swconf.Mode{swconf.E2ETransparent, swconf.P2PTransparent} {
			for _, oneStep := range []bool{false, true} {
				c := swconf.Config{Mode: mode, OneStep: oneStep, Delay: queueing}
				free := behind(t, hops, c)
				c.Syntonize = true
				following := behind(t, hops, c)
				// A hop's residence is 250 us on average, 25 ns at 100 ppm.
				if p2p := mode == swconf.P2PTransparent; p2p && math.Abs(free.Mean) < 15*float64(hops) || free.RMS > 40*float64(hops) {
					t.Errorf("%d hops, %v, free: %+v", hops, mode, free)
				}
				if following.Max > 6 {
					t.Errorf("%d hops, %v, one step %v, syntonised: %+v", hops, mode, oneStep, following)
				}
			}
		}
	}
}
