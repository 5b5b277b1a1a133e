package ptpsim

import (
	"fmt"
	"time"

	"tapir/lab/sw"
)

// Speed is row S8: how many times faster than real time simulations run on
// this machine, the best of some runs. Limits are multiples of what stock
// ptp4l does in clknetsim.
func Speed() ([]Check, error) {
	var all []Check
	for _, c := range []struct {
		nodes int
		limit float64
	}{{2, 10_000}, {20, 1_900}} {
		best := 0.0
		for range 5 {
			times, err := speedOf(star(c.nodes))
			if err != nil {
				return nil, err
			}
			best = max(best, times)
		}
		all = append(all, Check{What: fmt.Sprintf("%d clocks, 1 Sync/s", c.nodes), Value: best, Limit: c.limit, AtLeast: true, Unit: "times real time"})
	}
	return all, nil
}

func speedOf(c Config) (times float64, err error) {
	s, err := New(c)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	begin := time.Now()
	err = s.Run()
	return s.Now().Seconds() / time.Since(begin).Seconds(), err
}

// star is a grandmaster and slaves: on one link or, if there are more, on a
// plain switch.
func star(clocks int) Config {
	c := onePair(1, 0, walk, 1)
	c.Duration = 10 * time.Minute
	if clocks == 2 {
		return c
	}
	c.Nodes = append(c.Nodes, NodeConfig{Name: "sw", Switch: &sw.Config{}})
	c.Links = []LinkConfig{{Ends: [2]string{"gm", "sw"}, Delay: 500}, {Ends: [2]string{"slave", "sw"}, Delay: 500}}
	for i := 2; i < clocks; i++ {
		n := c.Nodes[1]
		n.Name = fmt.Sprintf("slave%d", i)
		c.Nodes = append(c.Nodes, n)
		c.Links = append(c.Links, LinkConfig{Ends: [2]string{n.Name, "sw"}, Delay: 500})
	}
	return c
}
