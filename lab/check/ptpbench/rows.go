package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/run/result"
	"tapir/lab/run/virtual/ptpsim"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
)

// check is one measured value and its limit.
type check struct {
	what    string
	value   float64
	limit   float64
	atLeast bool // the limit is the least, not the most
	unit    string
}

// met tells whether the value keeps its limit.
func (c check) met() bool {
	if c.atLeast {
		return c.value >= c.limit
	}
	return c.value <= c.limit
}

// simulated are the rows in virtual time. Their values are exact, the same on
// every machine, but for S8.
func simulated() []row {
	return []row{
		{"S1", "37 ppm and a random walk of 1 ppb/sqrt(s), 1 Sync/s, stamps of 1 ns", exact(accuracy(0, 2.0, 1.5))},
		{"S2", "the same with 8 Sync/s", exact(accuracy(-3, 0.8, 0.6))},
		{"S3", "a switch with 10 us of queueing, exponential: transparent clock against plain", exact(throughSwitch)},
		{"S4", "coarse stamps: five transparent clocks at 8 ns, one link at 16 ns", exact(coarse)},
		{"S5", "ten boundary clocks in a row, G.8275.1, stamps of 8 ns", exact(chain)},
		{"S6", "a link that is 100 ns longer one way", exact(asymmetric)},
		{"S7", "Allan deviation of oscillators against what they were asked for", exact(noise)},
		{"S8", "speed of simulations, all of the engine and its messages", exact(speed)},
		{"S9", "the same seed again: log and capture", exact(repeated)},
		{"S10", "from the first Sync until the clock stays within 100 ns", exact(convergence)},
	}
}

// sims runs the simulations of a row. After the first error it runs none.
type sims struct {
	seeds int
	err   error
}

// exact returns what measures a row in virtual time.
func exact(measure func(s *sims) []check) func(b *bench) ([]check, error) {
	return func(b *bench) ([]check, error) {
		s := &sims{seeds: b.seeds}
		checks := measure(s)
		return checks, s.err
	}
}

// run runs one simulation and has read look at it.
func (s *sims) run(c ptpsim.Config, read func(sim *ptpsim.Sim)) {
	if s.err != nil {
		return
	}
	var sim *ptpsim.Sim
	if sim, s.err = ptpsim.New(c); s.err != nil {
		return
	}
	defer sim.Close()
	if s.err = sim.Run(); s.err == nil {
		read(sim)
	}
}

// worst runs scenarios with seeds from 1 on and returns the largest value.
func (s *sims) worst(scenario func(seed uint64) ptpsim.Config, value func(sim *ptpsim.Sim) float64) float64 {
	most := math.Inf(-1)
	for seed := range uint64(s.seeds) {
		s.run(scenario(seed+1), func(sim *ptpsim.Sim) { most = max(most, value(sim)) })
	}
	return most
}

func settled(s *ptpsim.Sim, node string) []result.Point { return s.Node(node).Series.Settled(s.Skip()) }

func statsOf(s *ptpsim.Sim, node string) result.Stats {
	return result.Summarize(result.Truth(settled(s, node)))
}

func slaveRMS(s *ptpsim.Sim) float64 { return statsOf(s, "slave").RMS }

// xo is a crystal.
var xo, _ = clock.Preset("xo") // there is one

// onePair are master and slave on one link.
func onePair(logSync int8, o clock.Oscillator, quantum time.Duration) func(seed uint64) ptpsim.Config {
	return func(seed uint64) ptpsim.Config { return ptpsim.OnePair(seed, logSync, o, quantum) }
}

// accuracy measures a pair; reference is what ptp4l 3.1.1 does in clknetsim.
func accuracy(logSync int8, limit, reference float64) func(s *sims) []check {
	return func(s *sims) []check {
		rms := s.worst(onePair(logSync, ptpsim.Walk, 1), slaveRMS)
		return []check{
			{what: "true rms", value: rms, limit: limit, unit: "ns"},
			{what: "against ptp4l in clknetsim", value: rms / reference, limit: 1.25, unit: "times"},
		}
	}
}

// queueing is that of the switches.
var queueing = swconf.Delay{Dist: swconf.Exponential, Max: 10 * time.Microsecond}

func throughSwitch(s *sims) []check {
	with := func(mode swconf.Mode) float64 {
		return s.worst(func(seed uint64) ptpsim.Config {
			return ptpsim.OnePair(seed, -3, ptpsim.Walk, 1).Through(1, mode, queueing)
		}, slaveRMS)
	}
	tc, plain := with(swconf.E2ETransparent), with(swconf.Plain)
	return []check{
		{what: "true rms behind the transparent clock", value: tc, limit: 1, unit: "ns"},
		{what: "plain switch against it", value: plain / tc, limit: 4000, atLeast: true, unit: "times"},
	}
}

func coarse(s *sims) []check {
	five := s.worst(func(seed uint64) ptpsim.Config {
		return ptpsim.OnePair(seed, -3, xo, 8).Through(5, swconf.E2ETransparent, queueing)
	}, slaveRMS)
	return []check{
		{what: "true rms behind five transparent clocks, 8 ns", value: five, limit: 3, unit: "ns"},
		{what: "true rms at 16 ns", value: s.worst(onePair(0, xo, 16), slaveRMS), limit: 8, unit: "ns"},
	}
}

// chain measures each boundary clock against the one before it.
func chain(s *sims) []check {
	const hops = 10
	scenario := func(seed uint64) ptpsim.Config {
		c := ptpsim.Config{Seed: seed, Duration: 30 * time.Minute}
		for i := range hops + 1 {
			n := ptpsim.NodeConfig{Name: fmt.Sprintf("bc%d", i), PTP: ptp.NewConfig(ptp.G8275x1, msg.ClockIdentity{},
				1), Clock: clock.Config{Quantum: 8, Oscillator: ptpsim.Inexact}}
			if i == 0 {
				n.PTP.Quality.Class = 6
			} else {
				n.Clock.Oscillator = xo
				n.Clock.Oscillator.PPB = []float64{12_000, -37_000, 25_000, -9_000, 41_000}[i%5]
				c.Links = append(c.Links, ptpsim.LinkConfig{Ends: [2]string{c.Nodes[i-1].Name, n.Name}, Delay: 500})
			}
			c.Nodes = append(c.Nodes, n)
		}
		return c
	}
	most := s.worst(scenario, func(s *ptpsim.Sim) (most float64) {
		for i := 1; i <= hops; i++ {
			from, to := settled(s, fmt.Sprint("bc", i-1)), settled(s, fmt.Sprint("bc", i))
			for k := range to {
				most = max(most, math.Abs(to[k].True-from[k].True))
			}
		}
		return most
	})
	return []check{{what: "largest time error of a node (class C of G.8273.2)", value: most, limit: 30, unit: "ns"}}
}

func asymmetric(s *sims) []check {
	const asymmetry = 100
	scenario := func(correction time.Duration) func(seed uint64) ptpsim.Config {
		return func(seed uint64) ptpsim.Config {
			c := ptpsim.OnePair(seed, -3, ptpsim.Walk, 1)
			c.Links[0].Asymmetry = asymmetry
			c.Nodes[1].PTP.Ports[0].DelayAsymmetry = msg.IntervalOf(correction)
			return c
		}
	}
	away := s.worst(scenario(0), func(s *ptpsim.Sim) float64 {
		return math.Abs(math.Abs(statsOf(s, "slave").Mean) - asymmetry/2)
	})
	// The way in is longer than the mean by half of the asymmetry.
	return []check{
		{what: "offset away from half of the asymmetry", value: away, limit: 2, unit: "ns"},
		{what: "true rms with delayAsymmetry set", value: s.worst(scenario(asymmetry/2), slaveRMS), limit: 1,
			unit: "ns"},
	}
}

// noise compares free oscillators with their configuration, over 40,000 s.
func noise(s *sims) (all []check) {
	const points, tau = 400_000, 0.1
	for _, c := range []struct {
		what  string
		o     clock.Oscillator
		ideal func(s float64) float64
		limit float64
	}{
		{"white FM", clock.Oscillator{WhiteFM: 1, Seed: 1}, func(s float64) float64 { return 1 / math.Sqrt(s) }, 12},
		{"random walk FM", clock.Oscillator{RandomWalkFM: 1, Seed: 2}, math.Sqrt, 12},
		{"flicker FM", clock.Oscillator{FlickerFM: 1, Seed: 3}, func(float64) float64 { return 1 }, 40},
	} {
		var x []float64
		if x, s.err = result.FreeRun(c.o, points, time.Duration(tau*1e9)); s.err != nil {
			return nil
		}
		most := 0.0
		for _, n := range []int{1, 10, 100, 1000} {
			most = max(most, 100*math.Abs(result.ADEV(x, n, tau)/c.ideal(float64(n)*tau)-1))
		}
		all = append(all, check{what: c.what + " at 0.1, 1, 10 and 100 s: largest difference", value: most,
			limit: c.limit, unit: "%"})
	}
	return all
}

// repeated counts the seeds with which two runs of a scenario with chance
// everywhere differ in log or capture.
func repeated(s *sims) []check {
	differ := 0.0
	for seed := range uint64(s.seeds) {
		if s.digest(seed+1) != s.digest(seed+1) {
			differ++
		}
	}
	return []check{{what: "seeds whose log and capture differ", value: differ, limit: 0}}
}

// digest is the SHA-256 of log and capture of a scenario full of chance.
func (s *sims) digest(seed uint64) [32]byte {
	var out bytes.Buffer
	c := ptpsim.OnePair(seed, -3, clock.Oscillator{PPB: -9000, WhiteFM: 1, FlickerFM: 1, RandomWalkFM: 1}, 8).Through(1,
		swconf.E2ETransparent, swconf.Delay{Dist: swconf.Exponential, Max: 10_000})
	c.Duration, c.Log, c.Capture = time.Minute, &out, &out
	l := &c.Links[1]
	l.PDV, l.Loss, l.Duplicate, l.Reorder, l.ReorderBy = swconf.Delay{Dist: swconf.Uniform, Max: 5000}, 0.05, 0.05,
		0.05, 20*time.Microsecond
	c.Nodes[1].Clock.Jitter = 4
	s.run(c, func(*ptpsim.Sim) {})
	return sha256.Sum256(out.Bytes())
}

func convergence(s *sims) []check {
	after := func(logSync int8) float64 {
		return s.worst(func(seed uint64) ptpsim.Config {
			c := ptpsim.OnePair(seed, logSync, ptpsim.Walk, 1)
			c.Duration, c.Sample = time.Minute, 50*time.Millisecond
			return c
		}, func(s *ptpsim.Sim) float64 {
			at, ok := s.Node("slave").Series.Converged(100)
			if !ok {
				return math.Inf(1)
			}
			return (at - s.Node("slave").Heard).Seconds()
		})
	}
	return []check{{what: "1 Sync/s", value: after(0), limit: 8, unit: "s"},
		{what: "8 Sync/s", value: after(-3), limit: 4, unit: "s"}}
}

// speed measures how many times faster than real time simulations run on
// this machine, the best of some runs. Limits are multiples of what stock
// ptp4l does in clknetsim.
func speed(s *sims) (all []check) {
	for _, c := range []struct {
		nodes int
		limit float64
	}{{2, 10_000}, {20, 1_900}} {
		best := 0.0
		for range 5 {
			best = max(best, s.speedOf(star(c.nodes)))
		}
		all = append(all, check{what: fmt.Sprintf("%d clocks, 1 Sync/s", c.nodes), value: best, limit: c.limit,
			atLeast: true, unit: "times real time"})
	}
	return all
}

func (s *sims) speedOf(c ptpsim.Config) (times float64) {
	begin := time.Now()
	s.run(c, func(sim *ptpsim.Sim) { times = sim.Now().Seconds() / time.Since(begin).Seconds() })
	return times
}

// star is a grandmaster and slaves: on one link or, if there are more, on a
// plain switch.
func star(clocks int) ptpsim.Config {
	c := ptpsim.OnePair(1, 0, ptpsim.Walk, 1)
	c.Duration = 10 * time.Minute
	if clocks == 2 {
		return c
	}
	c.Nodes = append(c.Nodes, ptpsim.NodeConfig{Name: "sw", Switch: &swconf.Config{}})
	c.Links = []ptpsim.LinkConfig{{Ends: [2]string{"gm", "sw"}, Delay: 500},
		{Ends: [2]string{"slave", "sw"}, Delay: 500}}
	for i := 2; i < clocks; i++ {
		n := c.Nodes[1]
		n.Name = fmt.Sprintf("slave%d", i)
		c.Nodes = append(c.Nodes, n)
		c.Links = append(c.Links, ptpsim.LinkConfig{Ends: [2]string{n.Name, "sw"}, Delay: 500})
	}
	return c
}
