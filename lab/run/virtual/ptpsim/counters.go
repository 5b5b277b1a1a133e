package ptpsim

import (
	"fmt"
	"io"
	"text/tabwriter"

	"tapir/wire/frame"
)

// Counter is a count with its name.
type Counter struct {
	Of    string // a port such as slave/1
	Name  string
	Value uint64
}

// Counters are all counters that are not zero: of what the links did to frames
// that a port sent, of frames that did not reach a node's instance or switch,
// and of each port of these.
func (s *Sim) Counters() (all []Counter) {
	for _, n := range s.nodes {
		for i, e := range n.ends {
			add := func(name string, v uint64) {
				if v > 0 {
					all = append(all, Counter{n.ports[i].label, name, v})
				}
			}
			c := &e.counts
			add("link_sent", c.Sent)
			add("link_lost", c.Lost)
			add("link_duplicated", c.Duplicated)
			add("link_reordered", c.Reordered)
			add("link_corrupted", c.Corrupted)
			d := &n.ports[i].drops
			add("drop_not_ptp", d.NotPTP)
			add("drop_not_ours", d.NotOurs)
			add("drop_wrong_tag", d.WrongTag)
			add("drop_down", d.Down)
			n.engineCounters(i, add)
		}
	}
	return all
}

// engineCounters are those of the instance's or the switch's port.
func (n *Node) engineCounters(port int, add func(name string, v uint64)) {
	if n.Instance != nil {
		stats := n.Instance.Stats(port)
		for _, c := range stats.Counters() {
			add(c.Name, c.Value)
		}
		return
	}
	c := n.Switch.Counts(port)
	add("rx_frames", c.RxFrames)
	add("tx_frames", c.TxFrames)
	add("flooded", c.Flooded)
	for r := range frame.DropReasons() {
		add("rx_drop: "+r.String(), c.RxDrops[r])
		add("tx_drop: "+r.String(), c.TxDrops[r])
	}
}

// WriteCounters writes the counters, a line each.
func (s *Sim) WriteCounters(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, c := range s.Counters() {
		fmt.Fprintf(t, "%s\t%s\t%d\n", c.Of, c.Name, c.Value)
	}
	return t.Flush()
}
