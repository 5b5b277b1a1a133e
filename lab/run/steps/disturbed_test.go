package steps

import (
	"testing"
	"time"

	"tapir/lab/host/fault"
	"tapir/lab/topo"
)

// late is a world with a link.
type late struct {
	World
	fault.Lateness
}

func within(d time.Duration) topo.Range { return topo.Range{Min: -d, Max: d} }

func (l *late) LinkCounts(string) topo.LinkCounts { return topo.LinkCounts{Late: l.Late()} }

// TestDisturbed: a link that was late makes a verdict on a smaller offset doubtful, if that
// was meanwhile or is usual.
func TestDisturbed(t *testing.T) {
	w := &late{}
	r := Runner{Lab: &topo.Lab{Links: []topo.Link{{Name: "a-b"}}}, World: w}
	c := &topo.Condition{Offset: within(time.Second), TrueOffset: within(time.Millisecond)}
	judge := func(c *topo.Condition, add ...time.Duration) string {
		before := r.lateness(c)
		for _, d := range add {
			w.Add(d)
		}
		return r.disturbed(c, before)
	}
	for range 1000 {
		w.Add(time.Microsecond)
	}
	if got := judge(c, 2*time.Microsecond); got != "" {
		t.Error(got)
	}
	if got := judge(c, 86*time.Millisecond); got != "disturbed: link a-b left frames up to 86ms late" {
		t.Error(got)
	}
	if got := judge(c, time.Microsecond); got != "" { // the one before is forgotten
		t.Error(got)
	}
	if got := judge(&topo.Condition{PTP: "SLAVE"}, time.Second); got != "" {
		t.Error(got)
	}
	for range 100 {
		w.Add(3 * time.Millisecond)
	}
	if got := judge(c); got == "" {
		t.Error("one in a hundred frames is late")
	}
}
