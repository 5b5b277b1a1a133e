package result

import (
	"slices"
	"time"

	"tapir/ptp"
	"tapir/ptp/msg"
)

// Clock is what happened to the clock of a node while a lab ran. Offsets and delays are in
// nanoseconds; values of one index belong together, nil ones are not known.
type Clock struct {
	Name     string     `json:"name"`
	At       []float64  `json:"at"` // seconds, at equal intervals
	True     []*float64 `json:"true_ns"`
	Believed []*float64 `json:"believed_ns"`
	Delay    []*float64 `json:"delay_ns"`
	State    []string   `json:"state"`
	// Stability is that of the second half, in which a servo has settled.
	Stability []StabilityRow `json:"stability,omitempty"`
}

// Bounds of the points of clocks: of one, and of all together.
const (
	clockPoints = 400
	clocksMost  = 40_000
	clocksLeast = 20
)

// Clocks samples the clocks of a lab. When there are many samples, every other is dropped,
// and they are taken half as often.
type Clocks struct {
	every, next time.Duration
	most        int
	all         []Clock
}

// NewClocks samples the clocks of nodes from now on; nil: there are none.
func NewClocks(nodes []string, now, every time.Duration) *Clocks {
	if len(nodes) == 0 {
		return nil
	}
	c := &Clocks{every: every, next: now, most: max(clocksLeast, min(clockPoints, clocksMost/len(nodes)))}
	for _, n := range nodes {
		c.all = append(c.all, Clock{Name: n})
	}
	return c
}

// Next is when the next sample is due.
func (c *Clocks) Next() time.Duration { return c.next }

// Take takes the sample that is due. read returns the instance of a node and its clock's
// true offset in nanoseconds; no instance: nothing is known.
func (c *Clocks) Take(read func(node string) (*ptp.Snapshot, int64)) {
	if len(c.all[0].At) == c.most {
		for i := range c.all {
			k := &c.all[i]
			k.At, k.True, k.Believed, k.Delay, k.State = halve(k.At), halve(k.True), halve(k.Believed), halve(k.Delay),
				halve(k.State)
		}
		c.every *= 2
	}
	for i := range c.all {
		k := &c.all[i]
		k.At, k.State = append(k.At, c.next.Seconds()), append(k.State, "")
		last := len(k.State) - 1
		var truth, believed, delay *float64
		if s, offset := read(k.Name); s != nil {
			v := float64(offset)
			truth = &v
			k.State[last], believed, delay = Believes(s)
		}
		k.True, k.Believed, k.Delay = append(k.True, truth), append(k.Believed, believed), append(k.Delay, delay)
	}
	c.next += c.every
}

// halve keeps every other value.
func halve[T any](all []T) (kept []T) {
	for i := 0; i < len(all); i += 2 {
		kept = append(kept, all[i])
	}
	return kept
}

// Believes is what a clock believes: the state of the port that follows a master, or of the
// first, and of a slave the offset from its master and the path delay, in nanoseconds.
func Believes(s *ptp.Snapshot) (state string, offset, delay *float64) {
	ns := func(t msg.TimeInterval) *float64 { v := float64(t) / (1 << 16); return &v }
	for _, p := range s.Ports {
		if state == "" || p.State == msg.StateSlave {
			state = p.StateName
		}
		if p.State == msg.StateSlave {
			offset, delay = ns(s.Current.OffsetFromMaster), ns(s.Current.MeanDelay)
		}
	}
	return state, offset, delay
}

// Done returns the clocks with their stability.
func (c *Clocks) Done() []Clock {
	if c == nil || len(c.all[0].At) < 2 {
		return nil
	}
	for i := range c.all {
		k := &c.all[i]
		half := k.True[len(k.True)/2:]
		if slices.Contains(half, nil) {
			continue
		}
		x := make([]float64, len(half))
		for j, v := range half {
			x[j] = *v
		}
		k.Stability = Stability(x, c.every.Seconds())
	}
	return c.all
}
