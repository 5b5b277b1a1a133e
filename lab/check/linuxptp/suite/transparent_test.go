package suite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tapir/lab/conf/swconf"
	"tapir/lab/run/result"
	"tapir/lab/run/virtual/ptpsim"
	"tapir/ptp"
	"tapir/ptp/clock"
	"tapir/ptp/msg"
)

// TestTransparent runs on the fabric switch in Tapir's own simulation:
//
//	1 --- 2 --- 3
//	      |     |
//	      4 --- 5 --- 6
//
// Between transparent clocks alone this is a loop, for which ptp4l has
// tc_spanning_tree: there the link from 3 to 5 is cut.
func TestTransparent(t *testing.T) {
	t.Parallel()
	links := [][2]int{{1, 2}, {2, 3}, {2, 4}, {3, 5}, {4, 5}, {5, 6}}
	for _, mechanism := range []msg.DelayMechanism{msg.DelayE2E, msg.DelayP2P} {
		for _, syntonize := range []bool{true, false} {
			for _, transparent := range [][]int{{2}, {3, 4}, {2, 3, 4, 5}} {
				l := DefaultLimits()
				l.MinSync, l.MaxSync, l.From = 0, 100*time.Second, 100*time.Second
				l.TimeMax, l.FreqMax = 30, 20
				if mechanism == msg.DelayP2P {
					l.TimeMax, l.FreqMax = 5e3, 5e3
				}
				c := ptpsim.Config{Seed: 37, Duration: l.End}
				for n := 1; n <= 6; n++ {
					c.Nodes = append(c.Nodes, transparentNode(n, mechanism, slices.Contains(transparent, n), syntonize))
				}
				for _, ends := range links {
					cut := len(transparent) == 4 && ends == [2]int{3, 5}
					c.Links = append(c.Links, ptpsim.LinkConfig{Ends: [2]string{name(ends[0]), name(ends[1])}, Delay: 100, Down: cut})
				}
				what := fmt.Sprintf("mechanism %d, transparent %v, syntonized %v", mechanism, transparent, syntonize)
				judgeTransparent(t, what, c, transparent, l)
			}
		}
	}
}

func name(n int) string { return fmt.Sprintf("node%d", n) }

func transparentNode(n int, mechanism msg.DelayMechanism, tc, syntonize bool) ptpsim.NodeConfig {
	node := ptpsim.NodeConfig{Name: name(n), Offset: 100 * time.Millisecond,
		Clock: clock.Config{Oscillator: clock.Oscillator{PPB: 1e5, RandomWalkFM: 0.577, Seed: uint64(n)}}}
	if n == 1 {
		node.Offset, node.Clock = 0, clock.Config{}
	}
	if tc {
		node.Switch = &swconf.Config{Mode: swconf.E2ETransparent, Syntonize: syntonize, Delay: swconf.Delay{Dist: swconf.Exponential, Max: 100}}
		if mechanism == msg.DelayP2P {
			node.Switch.Mode = swconf.P2PTransparent
		}
		return node
	}
	node.PTP = ptp.NewConfig(ptp.DefaultE2E, msg.ClockIdentity{}, 1)
	node.PTP.Ports[0].DelayMechanism = mechanism
	if n == 1 {
		node.PTP.Quality.Class = 6
	}
	return node
}

func judgeTransparent(t *testing.T, what string, c ptpsim.Config, transparent []int, l Limits) {
	t.Helper()
	s, err := ptpsim.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, series := range s.Series() {
		if slices.ContainsFunc(transparent, func(n int) bool { return name(n) == series.Name }) {
			continue // a transparent clock's own clock is not steered
		}
		judged++
		if err := Judge([]result.Point(series.Points), l).Check(l); err != nil {
			t.Errorf("%s, %s: %v", what, series.Name, err)
		}
	}
	if want := 5 - len(transparent); judged != want {
		t.Errorf("%s: judged %d clocks, want %d", what, judged, want)
	}
}
