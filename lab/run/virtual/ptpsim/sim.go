// Package ptpsim runs networks of PTP clocks in virtual time: the engine of
// package ptp and the switches of lab/node/sw with the frames that they exchange,
// over links with delay, asymmetry and faults, driven by oscillators with noise.
// The true time is known.
//
// A simulation is one goroutine and draws all chance from its seed: equal
// configurations have equal logs, captures and results, to the last octet.
package ptpsim

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/run/result"
	"tapir/lab/run/virtual/vtime"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/transport"
	"tapir/wire/frame"
)

// Epoch is the true time at which a simulation begins: 2026-01-01 TAI.
const Epoch = vtime.Epoch

// Config describes a simulation.
type Config struct {
	Seed     uint64
	Duration time.Duration // default 10 minutes
	// Skip is what statistics leave out; default a third of Duration.
	Skip   time.Duration
	Sample time.Duration // between two points of the series; default 1 s
	// Within is the bound of "converged"; default 100 ns.
	Within time.Duration
	// Reference is the clock that true offsets are from; default the first.
	Reference string
	Nodes     []NodeConfig
	Links     []LinkConfig
	Events    []Event

	Log     io.Writer // gets a line for each thing that happens; nil: none
	Capture io.Writer // gets a pcapng file; nil: none
}

// NodeConfig describes a clock with its ports, or a switch. A node's ports are
// its links, in the order of the configuration.
type NodeConfig struct {
	Name string
	// PTP configures an ordinary or boundary clock. A single element of its
	// Ports stands for all links; no ClockIdentity means one of the node's MAC
	// address, no Seed one of the simulation's.
	PTP ptp.Config
	// Switch makes the node a switch; its name, transport and number of ports
	// are filled in.
	Switch    *swconf.Config
	Transport transport.Kind
	Local     bool // everything goes to the group that bridges do not forward
	VLAN      uint16
	Clock     clock.Config  // Start and Initial are filled in
	Offset    time.Duration // by which the clock is ahead at the start
	// TxStampDelay is how long after a frame left its stamp is known.
	TxStampDelay time.Duration
	// UnicastMasters are nodes that all ports ask for unicast service, by their
	// first ports.
	UnicastMasters []string
}

func (c Config) withDefaults() Config {
	c.Duration = cmp.Or(c.Duration, 10*time.Minute)
	c.Skip = cmp.Or(c.Skip, c.Duration/3)
	c.Sample = cmp.Or(c.Sample, time.Second)
	c.Within = cmp.Or(c.Within, 100*time.Nanosecond)
	return c
}

// Sim is a simulation.
type Sim struct {
	cfg       Config
	world     *vtime.World
	nodes     []*Node
	links     []*wire
	log       *log
	capture   *capture
	reference *Node
}

// New returns a simulation at its beginning. Close it.
func New(cfg Config) (*Sim, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Sim{cfg: cfg, world: vtime.New(2048), log: &log{w: cfg.Log}}
	if cfg.Capture != nil {
		s.capture = newCapture(cfg.Capture)
	}
	for i := range cfg.Nodes {
		s.nodes = append(s.nodes, newNode(s, i))
	}
	if err := s.join(); err != nil {
		return nil, err
	}
	for _, n := range s.nodes {
		if err := n.build(); err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
		n.place = s.world.Add(n)
	}
	s.reference = s.nodes[0]
	if cfg.Reference != "" {
		s.reference = s.Node(cfg.Reference)
	}
	for i := range cfg.Events {
		e := &cfg.Events[i]
		if err := e.Do.check(s); err != nil {
			return nil, fmt.Errorf("event at %v: %w", e.At, err)
		}
		s.world.Schedule(frame.Time(e.At), vtime.ScenarioFirst, func() { s.act(e.Do) })
	}
	s.world.Schedule(0, vtime.LookLast, s.sample)
	return s, nil
}

func (c *Config) validate() (err error) {
	for i, n := range c.Nodes {
		err = cmp.Or(err, expect(n.Name != "", "node %d has no name", i),
			expect(c.node(n.Name) == i, "two nodes are called %s", n.Name))
	}
	return cmp.Or(err,
		expect(len(c.Nodes) > 0, "a simulation needs a node"),
		expect(c.Reference == "" || c.node(c.Reference) >= 0, "reference: there is no node %s", c.Reference),
		expect(c.Duration >= 0 && c.Skip >= 0 && c.Sample > 0 && c.Within > 0,
			"duration, skip, sample and within are not negative"),
		expect(c.Skip < c.Duration, "skip: %v leaves nothing of %v", c.Skip, c.Duration))
}

func (c *Config) node(name string) int {
	return slices.IndexFunc(c.Nodes, func(n NodeConfig) bool { return n.Name == name })
}

// Node returns the node of that name, nil if there is none.
func (s *Sim) Node(name string) *Node {
	if i := s.cfg.node(name); i >= 0 {
		return s.nodes[i]
	}
	return nil
}

// Now is the time since the beginning.
func (s *Sim) Now() time.Duration { return time.Duration(s.world.Now()) }

// RunUntil lets the simulation go on up to and including time t.
func (s *Sim) RunUntil(t time.Duration) error {
	s.world.Run(frame.Time(t))
	return s.failed()
}

// Run lets the simulation go on to its end.
func (s *Sim) Run() error { return s.RunUntil(s.cfg.Duration) }

// failed is the first error of an output.
func (s *Sim) failed() error {
	if s.capture != nil {
		if err := s.capture.flush(); err != nil {
			return fmt.Errorf("capture: %w", err)
		}
	}
	if s.log.err != nil {
		return fmt.Errorf("log: %w", s.log.err)
	}
	return nil
}

// Close releases what is on its way.
func (s *Sim) Close() {
	s.world.Close()
	for _, n := range s.nodes {
		if n.Switch != nil {
			n.Switch.Close()
		}
	}
}

// Series are the offsets of all clocks but the reference.
func (s *Sim) Series() []result.Series {
	var all []result.Series
	for _, n := range s.nodes {
		if n != s.reference && n.Instance != nil {
			all = append(all, n.Series)
		}
	}
	return all
}

// Skip is what statistics leave out.
func (s *Sim) Skip() time.Duration { return s.cfg.Skip }

// WriteReport writes a line for each clock, its true offset next to its estimated
// one, and the stability of the true offset.
func (s *Sim) WriteReport(w io.Writer) error {
	all := s.Series()
	if err := result.WriteSummary(w, all, s.cfg.Skip, float64(s.cfg.Within)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return result.WriteStability(w, all, s.cfg.Skip)
}

// sample notes where all clocks are, now and every Sample.
func (s *Sim) sample() {
	now := s.world.Now()
	truth := s.reference.Clock.Exact(now)
	for _, n := range s.nodes {
		n.sample(now, truth)
	}
	s.world.Schedule(now.Add(s.cfg.Sample), vtime.LookLast, s.sample)
}
