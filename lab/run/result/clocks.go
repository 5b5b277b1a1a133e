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
	Servo    []string   `json:"servo"`
	Freq     []*float64 `json:"freq_ppb"` // correction in force
	// The correctionFields of the last messages that the port took.
	Sync      []*float64 `json:"sync_ns"`
	FollowUp  []*float64 `json:"follow_up_ns"`
	DelayResp []*float64 `json:"delay_resp_ns"` // of peer-to-peer ports: Pdelay_Resp with its Follow_Up
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
			k.At, k.State, k.Servo = halve(k.At), halve(k.State), halve(k.Servo)
			for _, list := range k.values() {
				*list = halve(*list)
			}
		}
		c.every *= 2
	}
	for i := range c.all {
		k, v := &c.all[i], View{}
		var truth *float64
		if s, offset := read(k.Name); s != nil {
			at := float64(offset)
			truth, v = &at, ViewOf(s)
		}
		k.At, k.State, k.Servo = append(k.At, c.next.Seconds()), append(k.State, v.State), append(k.Servo, v.Servo)
		now := [...]*float64{truth, v.Believed, v.Delay, v.Freq, v.Sync, v.FollowUp, v.DelayResp}
		for i, list := range k.values() {
			*list = append(*list, now[i])
		}
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

// values are the lists of numbers.
func (k *Clock) values() [7]*[]*float64 {
	return [...]*[]*float64{&k.True, &k.Believed, &k.Delay, &k.Freq, &k.Sync, &k.FollowUp, &k.DelayResp}
}

// View is what a clock knows of itself. Times are in nanoseconds; those of a clock without a
// port that is a slave are nil.
type View struct {
	State     string   `json:"state,omitempty"` // of the port that follows a master, or of the first
	Servo     string   `json:"servo,omitempty"`
	Believed  *float64 `json:"believed_ns,omitempty"` // offset from the master
	Delay     *float64 `json:"delay_ns,omitempty"`    // of the path
	Freq      *float64 `json:"freq_ppb,omitempty"`
	Sync      *float64 `json:"sync_ns,omitempty"` // correctionFields, as those of Clock
	FollowUp  *float64 `json:"follow_up_ns,omitempty"`
	DelayResp *float64 `json:"delay_resp_ns,omitempty"`
}

// ViewOf is the view of an instance.
func ViewOf(s *ptp.Snapshot) (v View) {
	ns := func(t msg.TimeInterval) *float64 { v := float64(t) / (1 << 16); return &v }
	freq := s.Servo.Freq
	v.Servo, v.Freq = s.Servo.State, &freq
	for i := range s.Ports {
		p := &s.Ports[i]
		if v.State == "" || p.State == msg.StateSlave {
			v.State = p.StateName
		}
		if p.State != msg.StateSlave {
			continue
		}
		c := &p.Corrections
		v.Believed, v.Delay = ns(s.Current.OffsetFromMaster), ns(s.Current.MeanDelay)
		v.Sync, v.FollowUp, v.DelayResp = ns(c.Sync), ns(c.FollowUp), ns(c.DelayResp)
		if p.Mechanism == msg.DelayP2P {
			v.DelayResp = ns(c.PdelayResp.Add(c.PdelayRespFollowUp))
		}
	}
	return v
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
