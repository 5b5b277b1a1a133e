package steps

import (
	"context"
	"fmt"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/topo"
)

// samples are what a condition was like while it was looked at.
type samples struct {
	taken, wrong int
	worst        error     // why the last of the wrong ones was
	truth        []float64 // true offsets of a clock, in nanoseconds
}

// throughout looks at a condition for as long as it says.
func (r *Runner) throughout(ctx context.Context, c *topo.Condition) error {
	if c.Throughout == 0 {
		return r.expect(ctx, c)
	}
	var s samples
	began, every := r.World.Now(), c.Every()
	for due := began; ; due += every {
		if err := r.sample(ctx, c, &s); err != nil {
			return err
		}
		if s.wrong > 0 && c.Percentile == 0 {
			return fmt.Errorf("after %v: %w", (r.World.Now() - began).Round(time.Millisecond), s.worst)
		}
		if r.World.Now() >= began+c.Throughout {
			return s.judge(c)
		}
		if wait := due + every - r.World.Now(); wait > 0 {
			if err := r.World.Sleep(ctx, wait); err != nil {
				return err
			}
		}
	}
}

// sample looks once. The error says why it cannot look any more.
func (r *Runner) sample(ctx context.Context, c *topo.Condition, s *samples) error {
	err := r.expect(ctx, c)
	if err := hopeless(err); err != nil || ctx.Err() != nil {
		return err
	}
	if s.taken++; err != nil {
		s.wrong, s.worst = s.wrong+1, err
	}
	if c.MTIE.Tau == 0 && c.TDEV.Tau == 0 {
		return nil
	}
	_, truth, err := r.World.PTP(ctx, c.Node)
	s.truth = append(s.truth, float64(truth))
	return err
}

// judge judges all samples together.
func (s *samples) judge(c *topo.Condition) error {
	if right := 100 * float64(s.taken-s.wrong) / float64(s.taken); right < c.Percentile {
		return fmt.Errorf("of %d samples %.3g %% are right, expected %v %%; the last wrong one: %w", s.taken, right,
			c.Percentile, s.worst)
	}
	for _, x := range []struct {
		name  string
		bound topo.Stability
		of    func([]float64, int) float64
	}{{"MTIE", c.MTIE, result.MTIE}, {"TDEV", c.TDEV, result.TDEV}} {
		if x.bound.Tau == 0 {
			continue
		}
		// A value that cannot be computed from so few samples is not right.
		if v := x.of(s.truth, int(x.bound.Tau/c.Every())); !(v <= float64(x.bound.Max)) {
			return fmt.Errorf("the %s over %v is %.4g ns, expected at most %v", x.name, x.bound.Tau, v, x.bound.Max)
		}
	}
	return nil
}
