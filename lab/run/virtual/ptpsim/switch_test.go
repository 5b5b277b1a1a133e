package ptpsim

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
	"tapir/ptp/transport"
	"tapir/wire/pcapng"
)

// Transparent clocks of every kind take a queueing delay out.
func TestThroughTransparentClocks(t *testing.T) {
	queue := swconf.Delay{Dist: swconf.Exponential, Max: 10 * time.Microsecond}
	for _, kind := range []transport.Kind{transport.Ethernet, transport.UDPv4, transport.UDPv6} {
		for _, mode := range []swconf.Mode{swconf.E2ETransparent, swconf.P2PTransparent, swconf.Boundary} {
			for _, twoStep := range []bool{true, false} {
				c := OnePair(1, -3, Walk, 1).Through(2, mode, queue)
				c.Duration = 2 * time.Minute
				profile := ptp.DefaultE2E
				if mode == swconf.P2PTransparent {
					profile = ptp.DefaultP2P
				}
				for i := range c.Nodes {
					n := &c.Nodes[i]
					n.Transport = kind
					if n.Switch != nil {
						n.Switch.OneStep = !twoStep
						continue
					}
					n.PTP = ptp.NewConfig(profile, msg.ClockIdentity{}, 1)
					n.PTP.TwoStep = twoStep
				}
				c.Nodes[0].PTP.Priority1, c.Nodes[1].PTP.SlaveOnly = 100, true
				s := run(t, c)
				want := 8.0
				if mode == swconf.Boundary { // at 1 Sync/s, each adds its own
					want = 25
				}
				if got := settled(s, "slave"); got.Max > want || s.Node("slave").State() != msg.StateSlave {
					t.Errorf("%v %v, two-step %v: %v %+v", kind, mode, twoStep, s.Node("slave").State(), got)
				}
			}
		}
	}
}

// A capture shows each frame in true time and in that of the hardware clock.
func TestCaptureHasBothTimes(t *testing.T) {
	var out bytes.Buffer
	c := OnePair(1, -3, clock.Oscillator{PPB: 37_000}, 1)
	c.Duration, c.Capture = 10*time.Second, &out
	c.Nodes[1].PTP.FreeRunning = true
	run(t, c)
	r := pcapng.NewReader(&out)
	var names []string
	var before *pcapng.Packet
	type reading struct{ truth, shown int64 }
	var readings []reading
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch b := b.(type) {
		case *pcapng.Interface:
			names = append(names, b.Name)
		case *pcapng.Packet:
			switch {
			case b.Interface%2 == 0:
				p := *b
				p.Data = bytes.Clone(b.Data)
				before = &p
			case before == nil || before.Interface != b.Interface-1 || before.ID != b.ID || !bytes.Equal(before.Data, b.Data) || before.Flags != b.Flags:
				t.Fatalf("a hardware stamp without its frame: %+v", b)
			case b.Interface == 3:
				readings = append(readings, reading{before.Stamp, b.Stamp})
				if len(b.Comments) != 1 || !strings.Contains(b.Comments[0], "stamp hw=") {
					t.Fatalf("comments %q", b.Comments)
				}
			}
		}
	}
	if got := strings.Join(names, " "); got != "gm/1 gm/1/phc slave/1 slave/1/phc" {
		t.Errorf("interfaces %s", got)
	}
	if len(readings) < 30 {
		t.Fatalf("%d frames", len(readings))
	}
	a, z := readings[0], readings[len(readings)-1]
	if ppm := (float64(z.shown-a.shown)/float64(z.truth-a.truth) - 1) * 1e6; math.Abs(ppm-37) > 0.01 {
		t.Errorf("the hardware clock is %v ppm fast", ppm)
	}
}

// Telecom clocks negotiate unicast service across a switch.
func TestUnicast(t *testing.T) {
	for _, kind := range []string{"L2", "UDPv4", "UDPv6"} {
		c, err := Parse("unicast.yaml", []byte(`
duration: 3m
profile: g8275.2
transport: `+kind+`
nodes:
  - {name: gm, clock_class: 6}
  - {name: sw, switch: {mode: e2e-tc, delay: gauss:10us}}
  - {name: one, oscillator: xo, slave_only: true, unicast_masters: gm, tx_stamp_delay: 50us}
  - {name: two, oscillator: tcxo, slave_only: true, unicast_masters: [gm]}
links:
  - {ends: [gm, sw], delay: 1us}
  - {ends: [one, sw], delay: 1us}
  - {ends: [two, sw], delay: 1us}
`))
		if err != nil {
			t.Fatal(err)
		}
		s := run(t, c)
		for _, node := range []string{"one", "two"} {
			if got := settled(s, node); got.Max > 8 || s.Node(node).State() != msg.StateSlave {
				t.Errorf("%s %s: %v %+v", kind, node, s.Node(node).State(), got)
			}
		}
	}
}

// What comes twice does no harm: the residence in a Follow_Up is that of the
// Sync that came first.
func TestDuplicatesThroughTransparentClocks(t *testing.T) {
	queue := swconf.Delay{Dist: swconf.Uniform, Max: 50 * time.Microsecond}
	for _, mode := range []swconf.Mode{swconf.E2ETransparent, swconf.P2PTransparent} {
		for _, oneStep := range []bool{false, true} {
			c := OnePair(1, -3, Walk, 1).Through(1, mode, queue)
			c.Duration = 2 * time.Minute
			for i := range c.Links {
				c.Links[i].Duplicate = 0.1
			}
			for i := range c.Nodes {
				if n := &c.Nodes[i]; n.Switch != nil {
					n.Switch.OneStep = oneStep
				} else if mode == swconf.P2PTransparent {
					n.PTP.Ports[0].DelayMechanism = msg.DelayP2P
				}
			}
			s := run(t, c)
			if got := settled(s, "slave"); got.Max > 8 {
				t.Errorf("%v, one-step %v: %+v", mode, oneStep, got)
			}
			if n := s.links[0].ends[0].counts.Duplicated; n < 20 {
				t.Errorf("only %d duplicates", n)
			}
		}
	}
}
