package ptpsim

import (
	"fmt"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
)

// Walk is the oscillator of clknetsim's scenarios: 37 ppm off, its frequency a
// random walk of 1 ppb per root of a second, which is an Allan deviation of
// 1/sqrt(3) ppb at 1 s.
var Walk = clock.Oscillator{PPB: 37_000, RandomWalkFM: 0.57735}

// Inexact is a grandmaster's oscillator. One without any fault would have all
// its edges on whole nanoseconds of simulated time: only the other clock's
// stamps would be rounded down, and be early by half a quantum on average.
var Inexact = clock.Oscillator{PPB: 0.37}

// clockNode is an ordinary clock.
func clockNode(name string, logSync int8, o clock.Oscillator, quantum time.Duration) NodeConfig {
	n := NodeConfig{Name: name, PTP: ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{}, 1),
		Clock: clock.Config{Oscillator: o, Quantum: quantum}}
	n.PTP.Ports[0].LogSyncInterval, n.PTP.Ports[0].LogMinDelayReqInterval = logSync, logSync
	return n
}

// OnePair is a grandmaster and a slave 1.23 ms off, on a link of 500 ns.
func OnePair(seed uint64, logSync int8, o clock.Oscillator, quantum time.Duration) Config {
	gm, slave := clockNode("gm", logSync, Inexact, quantum), clockNode("slave", logSync, o, quantum)
	gm.PTP.Priority1 = 100
	slave.PTP.SlaveOnly, slave.Offset = true, 1230*time.Microsecond
	return Config{
		Seed: seed, Duration: 30 * time.Minute, Nodes: []NodeConfig{gm, slave},
		Links: []LinkConfig{{Ends: [2]string{"gm", "slave"}, Delay: 500}},
	}
}

// Through puts switches between the two clocks of a OnePair.
func (c Config) Through(switches int, mode swconf.Mode, delay swconf.Delay) Config {
	c.Links = nil
	last := "gm"
	for i := range switches {
		o := clock.Oscillator{PPB: []float64{50_000, -20_000, 10_000, -5_000, 30_000}[i%5]}
		n := NodeConfig{Name: fmt.Sprintf("sw%d", i+1), Switch: &swconf.Config{Mode: mode, Delay: delay},
			Clock: clock.Config{Oscillator: o}}
		c.Nodes = append(c.Nodes, n)
		c.Links = append(c.Links, LinkConfig{Ends: [2]string{last, n.Name}, Delay: 500})
		last = n.Name
	}
	c.Links = append(c.Links, LinkConfig{Ends: [2]string{last, "slave"}, Delay: 500})
	return c
}
