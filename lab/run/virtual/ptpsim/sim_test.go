package ptpsim

import (
	"bytes"
	"crypto/sha256"
	"runtime"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/run/result"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
)

// pair is a grandmaster with an ideal clock and a slave whose clock is 37 ppm
// and 1.23 ms off.
func pair(change func(c *Config)) Config {
	gm, slave := ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{}, 1), ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{}, 1)
	gm.Priority1 = 100
	c := Config{
		Seed: 1, Duration: 5 * time.Minute,
		Nodes: []NodeConfig{
			{Name: "gm", PTP: gm},
			{Name: "slave", PTP: slave, Clock: clock.Config{Oscillator: clock.Oscillator{PPB: 37000, RandomWalkFM: 0.577}}, Offset: 1230 * time.Microsecond},
		},
		Links: []LinkConfig{{Ends: [2]string{"gm", "slave"}, Delay: 500}},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func run(t testing.TB, c Config) *Sim {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	return s
}

func settled(s *Sim, node string) result.Stats {
	n := s.Node(node)
	return result.Summarize(result.Truth(n.Series.Settled(s.Skip())))
}

func TestTransportsAndMechanisms(t *testing.T) {
	for _, kind := range []transport.Kind{transport.Ethernet, transport.UDPv4, transport.UDPv6} {
		for _, profile := range []ptp.Profile{ptp.DefaultE2E, ptp.DefaultP2P, ptp.GPTP, ptp.G8275x1} {
			for _, twoStep := range []bool{true, false} {
				if profile == ptp.GPTP && (kind != transport.Ethernet || !twoStep) {
					continue
				}
				var log bytes.Buffer
				s := run(t, pair(func(c *Config) {
					c.Duration, c.Log = 2*time.Minute, &log
					for i := range c.Nodes {
						n := &c.Nodes[i]
						n.Transport, n.VLAN, n.Local = kind, 5, i == 1
						n.PTP = ptp.NewConfig(profile, msg.ClockIdentity{}, 1)
						n.PTP.TwoStep, n.PTP.P2POneStep = twoStep, !twoStep
					}
					c.Nodes[0].PTP.Priority2 = 100
				}))
				if got := settled(s, "slave"); got.Max > 8 || s.Node("slave").State() != msg.StateSlave {
					t.Errorf("%v %v two-step %v: %v %+v\n%s", kind, profile, twoStep, s.Node("slave").State(), got, log.String())
				}
				if d := s.Node("slave").Drops(0); d != (Drops{}) {
					t.Errorf("%v %v: dropped %+v", kind, profile, d)
				}
			}
		}
	}
}

// Equal seeds give equal logs and captures, whatever the machine does beside
// and however often somebody looks.
func TestSameSeedSameBytes(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	faulty := func(seed uint64, look bool) (sum [2][32]byte, size int) {
		var log, capture bytes.Buffer
		c := pair(func(c *Config) {
			c.Seed, c.Duration, c.Log, c.Capture = seed, time.Minute, &log, &capture
			c.Nodes[1].Clock.Oscillator, _ = clock.Preset("xo")
			c.Nodes[1].Clock.Jitter = 4
			l := &c.Links[0]
			l.PDV, l.Loss, l.Duplicate, l.Reorder, l.ReorderBy, l.Corrupt = swconf.Delay{Dist: swconf.Exponential, Max: 10_000}, 0.05, 0.05, 0.05, 30*time.Microsecond, 0.01
			for i := range c.Nodes {
				c.Nodes[i].PTP.Ports[0].LogSyncInterval = -3
			}
			c.Events = []Event{{20 * time.Second, StepClock("slave", time.Millisecond)}, {30 * time.Second, NodeDown("gm", true)}, {45 * time.Second, NodeDown("gm", false)}}
		})
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for at := time.Duration(0); look && at < c.Duration; at += 7 * time.Millisecond {
			if err := s.RunUntil(at); err != nil {
				t.Fatal(err)
			}
			s.Node("slave").Clock.NextPPS(s.world.Now())
			s.Node("gm").TimeError()
			s.Node("slave").Instance.Snapshot()
		}
		if err := s.Run(); err != nil {
			t.Fatal(err)
		}
		return [2][32]byte{sha256.Sum256(log.Bytes()), sha256.Sum256(capture.Bytes())}, log.Len() + capture.Len()
	}
	want, size := faulty(7, false)
	if size < 100_000 {
		t.Fatalf("only %d octets", size)
	}
	for i, procs := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(procs)
		if got, _ := faulty(7, i > 0); got != want {
			t.Errorf("with %d processors, looked at %v: another log or capture", procs, i > 0)
		}
	}
	if got, _ := faulty(8, false); got == want {
		t.Error("another seed, the same log and capture")
	}
}

func TestScenarioActions(t *testing.T) {
	var log bytes.Buffer
	s := run(t, pair(func(c *Config) {
		c.Log = &log
		c.Events = []Event{
			{30 * time.Second, ChangeLink("slave", "gm", "3 us", func(l *LinkConfig) { l.Delay = 3000 })},
			{60 * time.Second, LinkDown("gm", "slave", true)},
			{90 * time.Second, LinkDown("gm", "slave", false)},
			{150 * time.Second, TxStamps("slave", StampsRefused, 0)},
			{190 * time.Second, TxStamps("slave", StampsTwice, time.Millisecond)},
			{200 * time.Second, Do("slave", "look", func(n *Node) error { n.Series.Points = nil; return nil })},
		}
	}))
	for _, want := range []string{
		"30.000000000 scenario slave - gm: 3 us\n",
		"60.000000000 scenario gm - slave: down\n",
		"slave/1 SLAVE -> MASTER",
		"FAULTY",
		"150.000000000 scenario slave: tx stamps refused\n",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log", want)
		}
	}
	if got := s.Node("slave").TimeError(); got > 50 || got < -50 || s.Node("slave").State() != msg.StateSlave {
		t.Errorf("at the end %v, %v ns\n%s", s.Node("slave").State(), got, log.String())
	}
	if n := len(s.Series()[0].Points); n != 101 {
		t.Errorf("%d points", n)
	}
}

func TestRefusedConfigs(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"needs a node":            func(c *Config) { c.Nodes, c.Links = nil, nil },
		"two nodes are called gm": func(c *Config) { c.Nodes[1].Name = "gm" },
		"has no name":             func(c *Config) { c.Nodes[1].Name = "" },
		`there is no node "gn"`:   func(c *Config) { c.Links[0].Ends[0] = "gn" },
		"there is no node gn":     func(c *Config) { c.Events = []Event{{0, StepClock("gn", 1)}} },
		"node gm is a switch": func(c *Config) {
			*c = c.Through(1, swconf.Plain, swconf.Delay{})
			c.Nodes[0].Switch, c.Events = c.Nodes[2].Switch, []Event{{0, ClockClass("gm", 6)}}
			c.Links = append(c.Links, c.Links[0])
		},
		"there is no link between": func(c *Config) { c.Events = []Event{{0, LinkDown("gm", "gm", true)}} },
		"half of the asymmetry":    func(c *Config) { c.Links[0].Asymmetry = 1002 },
		"a probability of 2":       func(c *Config) { c.Links[0].Loss = 2 },
		"reference":                func(c *Config) { c.Reference = "x" },
		"leaves nothing":           func(c *Config) { c.Skip = time.Hour },
		"as many ports as links":   func(c *Config) { c.Nodes[0].PTP.Ports = append(c.Nodes[0].PTP.Ports, c.Nodes[0].PTP.Ports...) },
		"oscillator":               func(c *Config) { c.Nodes[0].Clock.Oscillator.WhiteFM = -1 },
		"priority1": func(c *Config) {
			c.Nodes[0].PTP = ptp.NewConfig(ptp.G8275x1, msg.ClockIdentity{}, 1)
			c.Nodes[0].PTP.Priority1 = 1
		},
	} {
		if _, err := New(pair(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Whatever happens to a frame is counted.
func TestCounters(t *testing.T) {
	s := run(t, pair(func(c *Config) {
		l := &c.Links[0]
		l.Loss, l.Duplicate, l.Reorder, l.Corrupt = 0.1, 0.1, 0.1, 0.1
		c.Nodes[0].VLAN = 5
		c.Events = []Event{{time.Minute, NodeDown("gm", true)}}
	}))
	counts := map[string]uint64{}
	for _, c := range s.Counters() {
		counts[c.Of+" "+c.Name] = c.Value
	}
	for _, name := range []string{
		"gm/1 link_sent", "gm/1 link_lost", "slave/1 link_sent", "slave/1 link_lost", "slave/1 link_duplicated", "slave/1 link_reordered",
		"slave/1 link_corrupted", "gm/1 drop_down", "gm/1 drop_wrong_tag", "slave/1 tx_announce",
	} {
		if counts[name] == 0 {
			t.Errorf("no %s", name)
		}
	}
	arrived := counts["slave/1 link_sent"] - counts["slave/1 link_lost"] + counts["slave/1 link_duplicated"]
	if dropped := counts["gm/1 drop_down"] + counts["gm/1 drop_wrong_tag"] + counts["gm/1 drop_not_ptp"] + counts["gm/1 drop_not_ours"]; dropped != arrived {
		t.Errorf("%d frames arrived, %d are counted: %v", arrived, dropped, counts)
	}
	var out bytes.Buffer
	if err := s.WriteCounters(&out); err != nil || !strings.Contains(out.String(), "gm/1     link_sent") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TimeError is by how much the clock is ahead of the reference, in ns.
func (n *Node) TimeError() float64 {
	now := n.s.world.Now()
	return n.Clock.Exact(now).Sub(n.s.reference.Clock.Exact(now))
}
