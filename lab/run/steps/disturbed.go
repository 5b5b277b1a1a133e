package steps

import (
	"cmp"
	"fmt"
	"time"

	"tapir/lab/host/fault"
	"tapir/lab/topo"
)

// lateness is how late frames left each link so far.
func (r *Runner) lateness(c *topo.Condition) map[string]*fault.Late {
	if bound(c) == 0 {
		return nil
	}
	all := map[string]*fault.Late{}
	for i := range r.Lab.Links {
		name := r.Lab.Links[i].Name
		all[name] = r.World.LinkCounts(name).Late
	}
	return all
}

// bound is the least offset that a condition tells from none; 0: it is not about offsets.
func bound(c *topo.Condition) time.Duration {
	if c.Offset.Given() && c.TrueOffset.Given() {
		return min(c.Offset.Width(), c.TrueOffset.Width())
	}
	return cmp.Or(c.Offset.Width(), c.TrueOffset.Width(), c.MTIE.Max, c.TDEV.Max)
}

// disturbed says what makes a verdict on a clock doubtful: links left frames later than the
// offset that is judged, as of a machine that has other work. It is about the time since
// before, and one in a hundred frames of all time; empty: nothing does.
func (r *Runner) disturbed(c *topo.Condition, before map[string]*fault.Late) string {
	limit := float64(bound(c)) / 1e3
	after := r.lateness(c)
	for i := range r.Lab.Links {
		name := r.Lab.Links[i].Name
		now := after[name]
		if now == nil {
			continue
		}
		if most := max(now.P99, now.Since(before[name])); most > limit {
			told := ""
			if r.Lab.Links[i].Compensate {
				told = ", which it told PTP"
			}
			return fmt.Sprintf("disturbed: link %s left frames up to %v late%s", name,
				time.Duration(most*1e3).Round(time.Microsecond), told)
		}
	}
	return ""
}
