package ptpsim

import (
	"fmt"
	"io"
	"slices"
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
			of, c, d := n.ports[i].label, &e.counts, &n.ports[i].drops
			all = append(all, []Counter{
				{of, "link_sent", c.Sent}, {of, "link_lost", c.Lost}, {of, "link_duplicated", c.Duplicated},
				{of, "link_reordered", c.Reordered}, {of, "link_corrupted", c.Corrupted},
				{of, "drop_not_ptp", d.NotPTP}, {of, "drop_not_ours", d.NotOurs},
				{of, "drop_wrong_tag", d.WrongTag}, {of, "drop_down", d.Down},
			}...)
			all = append(all, n.engineCounters(i, of)...)
		}
	}
	return slices.DeleteFunc(all, func(c Counter) bool { return c.Value == 0 })
}

// engineCounters are those of the instance's or the switch's port.
func (n *Node) engineCounters(port int, of string) (all []Counter) {
	if n.Instance != nil {
		for _, c := range new(n.Instance.Stats(port)).Counters() {
			all = append(all, Counter{of, c.Name, c.Value})
		}
		return all
	}
	c := n.Switch.Counts(port)
	all = []Counter{{of, "rx_frames", c.RxFrames}, {of, "tx_frames", c.TxFrames}, {of, "flooded", c.Flooded}}
	for r := range frame.DropReasons() {
		all = append(all, Counter{of, "rx_drop: " + r.String(), c.RxDrops[r]},
			Counter{of, "tx_drop: " + r.String(), c.TxDrops[r]})
	}
	return all
}

// WriteCounters writes the counters, a line each.
func (s *Sim) WriteCounters(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, c := range s.Counters() {
		fmt.Fprintf(t, "%s\t%s\t%d\n", c.Of, c.Name, c.Value)
	}
	return t.Flush()
}
