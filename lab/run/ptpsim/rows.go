package ptpsim

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/sw"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
)

// Row is one line of the table of what simulated clocks must achieve. Its
// values are exact, the same on every machine.
type Row struct {
	ID, What string
	// Run measures, with as many seeds; the worst counts.
	Run func(seeds int) ([]Check, error)
}

// Check is one measured value and its limit.
type Check struct {
	What    string
	Value   float64
	Limit   float64
	AtLeast bool // the limit is the least, not the most
	Unit    string
}

// Met tells whether the value keeps its limit.
func (c Check) Met() bool {
	if c.AtLeast {
		return c.Value >= c.Limit
	}
	return c.Value <= c.Limit
}

func (c Check) String() string {
	sign, met := "<=", "met"
	if c.AtLeast {
		sign = ">="
	}
	if !c.Met() {
		met = "missed"
	}
	return fmt.Sprintf("%s: %.4g %s (%s %g): %s", c.What, c.Value, c.Unit, sign, c.Limit, met)
}

// Rows are those of the table but S8, which Speed measures.
func Rows() []Row {
	return []Row{
		{"S1", "37 ppm and a random walk of 1 ppb/sqrt(s), 1 Sync/s, stamps of 1 ns", func(seeds int) ([]Check, error) { return accuracy(seeds, 0, 2.0, 1.5) }},
		{"S2", "the same with 8 Sync/s", func(seeds int) ([]Check, error) { return accuracy(seeds, -3, 0.8, 0.6) }},
		{"S3", "a switch with 10 us of queueing, exponential: transparent clock against plain", throughSwitch},
		{"S4", "coarse stamps: five transparent clocks at 8 ns, one link at 16 ns", coarse},
		{"S5", "ten boundary clocks in a row, G.8275.1, stamps of 8 ns", chain},
		{"S6", "a link that is 100 ns longer one way", asymmetric},
		{"S7", "Allan deviation of oscillators against what they were asked for", func(int) ([]Check, error) { return noise() }},
		{"S9", "the same seed again: log and capture", repeated},
		{"S10", "from the first Sync until the clock stays within 100 ns", convergence},
	}
}

// walk is the oscillator of clknetsim's scenarios: 37 ppm off, its frequency a
// random walk of 1 ppb per root of a second, which is an Allan deviation of
// 1/sqrt(3) ppb at 1 s.
var walk = clock.Oscillator{PPB: 37_000, RandomWalkFM: 0.57735}

// inexact is a grandmaster's oscillator. One without any fault would have all
// its edges on whole nanoseconds of simulated time: only the other clock's
// stamps would be rounded down, and be early by half a quantum on average.
var inexact = clock.Oscillator{PPB: 0.37}

// clockNode is an ordinary clock.
func clockNode(name string, logSync int8, o clock.Oscillator, quantum time.Duration) NodeConfig {
	n := NodeConfig{Name: name, PTP: ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{}, 1), Clock: clock.Config{Oscillator: o, Quantum: quantum}}
	n.PTP.Ports[0].LogSyncInterval, n.PTP.Ports[0].LogMinDelayReqInterval = logSync, logSync
	return n
}

// onePair is a grandmaster and a slave 1.23 ms off, on a link of 500 ns.
func onePair(seed uint64, logSync int8, o clock.Oscillator, quantum time.Duration) Config {
	gm, slave := clockNode("gm", logSync, inexact, quantum), clockNode("slave", logSync, o, quantum)
	gm.PTP.Priority1 = 100
	slave.PTP.SlaveOnly, slave.Offset = true, 1230*time.Microsecond
	return Config{
		Seed: seed, Duration: 30 * time.Minute, Nodes: []NodeConfig{gm, slave},
		Links: []LinkConfig{{Ends: [2]string{"gm", "slave"}, Delay: 500}},
	}
}

// through puts switches between the two.
func through(c Config, switches int, mode sw.Mode, delay sw.Delay) Config {
	c.Links = nil
	last := "gm"
	for i := range switches {
		o := clock.Oscillator{PPB: []float64{50_000, -20_000, 10_000, -5_000, 30_000}[i%5]}
		n := NodeConfig{Name: fmt.Sprintf("sw%d", i+1), Switch: &sw.Config{Mode: mode, Delay: delay}, Clock: clock.Config{Oscillator: o}}
		c.Nodes = append(c.Nodes, n)
		c.Links = append(c.Links, LinkConfig{Ends: [2]string{last, n.Name}, Delay: 500})
		last = n.Name
	}
	c.Links = append(c.Links, LinkConfig{Ends: [2]string{last, "slave"}, Delay: 500})
	return c
}

// worst runs scenarios with seeds from 1 on and returns the largest value.
func worst(seeds int, scenario func(seed uint64) Config, value func(s *Sim) float64) (float64, error) {
	most := math.Inf(-1)
	for seed := range uint64(max(seeds, 1)) {
		s, err := New(scenario(seed + 1))
		if err != nil {
			return 0, err
		}
		err = s.Run()
		most = max(most, value(s))
		s.Close()
		if err != nil {
			return 0, err
		}
	}
	return most, nil
}

func statsOf(s *Sim, node string) result.Stats {
	return result.Summarize(result.Truth(s.Node(node).series.Settled(s.Skip())))
}

func rmsOf(node string) func(s *Sim) float64 {
	return func(s *Sim) float64 { return statsOf(s, node).RMS }
}

// accuracy is S1 and S2; reference is what ptp4l 3.1.1 does in clknetsim.
func accuracy(seeds int, logSync int8, limit, reference float64) ([]Check, error) {
	rms, err := worst(seeds, func(seed uint64) Config { return onePair(seed, logSync, walk, 1) }, rmsOf("slave"))
	return []Check{
		{What: "true rms", Value: rms, Limit: limit, Unit: "ns"},
		{What: "against ptp4l in clknetsim", Value: rms / reference, Limit: 1.25, Unit: "times"},
	}, err
}

func throughSwitch(seeds int) ([]Check, error) {
	queue := sw.Delay{Dist: sw.Exponential, Max: 10 * time.Microsecond}
	with := func(mode sw.Mode) (float64, error) {
		return worst(seeds, func(seed uint64) Config { return through(onePair(seed, -3, walk, 1), 1, mode, queue) }, rmsOf("slave"))
	}
	tc, err := with(sw.E2ETransparent)
	if err != nil {
		return nil, err
	}
	plain, err := with(sw.Plain)
	return []Check{
		{What: "true rms behind the transparent clock", Value: tc, Limit: 1, Unit: "ns"},
		{What: "plain switch against it", Value: plain / tc, Limit: 4000, AtLeast: true, Unit: "times"},
	}, err
}

func coarse(seeds int) ([]Check, error) {
	xo, err := clock.Preset("xo")
	if err != nil {
		return nil, err
	}
	queue := sw.Delay{Dist: sw.Exponential, Max: 10 * time.Microsecond}
	five, err := worst(seeds, func(seed uint64) Config { return through(onePair(seed, -3, xo, 8), 5, sw.E2ETransparent, queue) }, rmsOf("slave"))
	if err != nil {
		return nil, err
	}
	single, err := worst(seeds, func(seed uint64) Config { return onePair(seed, 0, xo, 16) }, rmsOf("slave"))
	return []Check{
		{What: "true rms behind five transparent clocks, 8 ns", Value: five, Limit: 3, Unit: "ns"},
		{What: "true rms at 16 ns", Value: single, Limit: 8, Unit: "ns"},
	}, err
}

// chain measures each boundary clock against the one before it.
func chain(seeds int) ([]Check, error) {
	const hops = 10
	xo, err := clock.Preset("xo")
	if err != nil {
		return nil, err
	}
	scenario := func(seed uint64) Config {
		c := Config{Seed: seed, Duration: 30 * time.Minute}
		for i := range hops + 1 {
			n := NodeConfig{Name: fmt.Sprintf("bc%d", i), PTP: ptp.NewConfig(ptp.G8275x1, msg.ClockIdentity{}, 1), Clock: clock.Config{Quantum: 8, Oscillator: inexact}}
			if i == 0 {
				n.PTP.Quality.Class = 6
			} else {
				n.Clock.Oscillator = xo
				n.Clock.Oscillator.PPB = []float64{12_000, -37_000, 25_000, -9_000, 41_000}[i%5]
				c.Links = append(c.Links, LinkConfig{Ends: [2]string{c.Nodes[i-1].Name, n.Name}, Delay: 500})
			}
			c.Nodes = append(c.Nodes, n)
		}
		return c
	}
	most, err := worst(seeds, scenario, func(s *Sim) (most float64) {
		for i := 1; i <= hops; i++ {
			from, to := s.nodes[i-1].series.Settled(s.Skip()), s.nodes[i].series.Settled(s.Skip())
			for k := range to {
				most = max(most, math.Abs(to[k].True-from[k].True))
			}
		}
		return most
	})
	return []Check{{What: "largest time error of a node (class C of G.8273.2)", Value: most, Limit: 30, Unit: "ns"}}, err
}

func asymmetric(seeds int) ([]Check, error) {
	const asymmetry = 100
	scenario := func(corrected bool) func(seed uint64) Config {
		return func(seed uint64) Config {
			c := onePair(seed, -3, walk, 1)
			c.Links[0].Asymmetry = asymmetry
			if corrected { // the way in is longer than the mean by half of it
				c.Nodes[1].PTP.Ports[0].DelayAsymmetry = msg.IntervalOf(asymmetry / 2)
			}
			return c
		}
	}
	away, err := worst(seeds, scenario(false), func(s *Sim) float64 { return math.Abs(math.Abs(statsOf(s, "slave").Mean) - asymmetry/2) })
	if err != nil {
		return nil, err
	}
	left, err := worst(seeds, scenario(true), rmsOf("slave"))
	return []Check{
		{What: "offset away from half of the asymmetry", Value: away, Limit: 2, Unit: "ns"},
		{What: "true rms with delayAsymmetry set", Value: left, Limit: 1, Unit: "ns"},
	}, err
}

// noise compares free oscillators with their configuration, over 40,000 s.
func noise() (all []Check, err error) {
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
		x, err := result.FreeRun(c.o, points, time.Duration(tau*1e9))
		if err != nil {
			return nil, err
		}
		most := 0.0
		for _, n := range []int{1, 10, 100, 1000} {
			most = max(most, 100*math.Abs(result.ADEV(x, n, tau)/c.ideal(float64(n)*tau)-1))
		}
		all = append(all, Check{What: c.what + " at 0.1, 1, 10 and 100 s: largest difference", Value: most, Limit: c.limit, Unit: "%"})
	}
	return all, nil
}

// repeated is 0 if two runs of a scenario with chance everywhere have the same
// log and capture, else 1.
func repeated(seeds int) ([]Check, error) {
	differ, err := 0.0, error(nil)
	for seed := range uint64(max(seeds, 1)) {
		var first, second [32]byte
		if first, err = digest(seed + 1); err == nil {
			second, err = digest(seed + 1)
		}
		if err != nil {
			return nil, err
		}
		if first != second {
			differ++
		}
	}
	return []Check{{What: "seeds whose log and capture differ", Value: differ, Limit: 0}}, nil
}

// digest is the SHA-256 of log and capture of a scenario full of chance.
func digest(seed uint64) (sum [32]byte, err error) {
	var out bytes.Buffer
	c := through(onePair(seed, -3, clock.Oscillator{PPB: -9000, WhiteFM: 1, FlickerFM: 1, RandomWalkFM: 1}, 8), 1, sw.E2ETransparent, sw.Delay{Dist: sw.Exponential, Max: 10_000})
	c.Duration, c.Log, c.Capture = time.Minute, &out, &out
	l := &c.Links[1]
	l.PDV, l.Loss, l.Duplicate, l.Reorder, l.ReorderBy = sw.Delay{Dist: sw.Uniform, Max: 5000}, 0.05, 0.05, 0.05, 20*time.Microsecond
	c.Nodes[1].Clock.Jitter = 4
	s, err := New(c)
	if err != nil {
		return sum, err
	}
	defer s.Close()
	err = s.Run()
	return sha256.Sum256(out.Bytes()), err
}

func convergence(seeds int) ([]Check, error) {
	after := func(logSync int8) (float64, error) {
		scenario := func(seed uint64) Config {
			c := onePair(seed, logSync, walk, 1)
			c.Duration, c.Sample = time.Minute, 50*time.Millisecond
			return c
		}
		return worst(seeds, scenario, func(s *Sim) float64 {
			at, ok := s.Node("slave").series.Converged(100)
			if !ok {
				return math.Inf(1)
			}
			return (at - s.Node("slave").heard).Seconds()
		})
	}
	slow, err := after(0)
	if err != nil {
		return nil, err
	}
	fast, err := after(-3)
	return []Check{{What: "1 Sync/s", Value: slow, Limit: 8, Unit: "s"}, {What: "8 Sync/s", Value: fast, Limit: 4, Unit: "s"}}, err
}
