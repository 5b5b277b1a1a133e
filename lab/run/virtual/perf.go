package virtual

import (
	"cmp"
	"context"
	"fmt"

	"tapir/lab/run/steps"
	"tapir/lab/tool/perf"
	"tapir/lab/topo"
)

// side is one side of a workload.
type side struct {
	node   *node
	run    *perf.Run
	report perf.Report
	ended  bool
	done   func(err error)
	lost   func() // its NIC was killed
}

func (x *side) end(r perf.Report, err error) {
	x.report, x.ended = r, true
	x.done(err)
}

// Perf implements steps.World.
func (l *lab) Perf(ctx context.Context, s *topo.Step) ([]perf.Report, error) {
	var sides []*side
	left := 0
	var failed, lost error
	begin := func(node string, job perf.Job) *side {
		x := &side{node: l.node(node)}
		x.done = func(err error) {
			if left--; err != nil && failed == nil {
				failed = err
			}
		}
		x.lost = func() {
			x.ended, lost = true, steps.Killed(node)
			if left--; !job.Serves() && failed == nil { // else its client says what became of it
				failed = lost
			}
		}
		if x.node.dead {
			failed = steps.Killed(node)
			return x
		}
		if x.run, failed = perf.Start(x.node.dev, job, l.world.Now(), x.end, nil); failed == nil {
			left++
			sides, l.sides = append(sides, x), append(l.sides, x)
			l.world.Touch(x.node.place)
		}
		return x
	}
	var clients []*side
	for i := range s.Pairs {
		p := &s.Pairs[i]
		if begin(p.Server, p.Job.Server()); failed == nil {
			clients = append(clients, begin(p.Client, p.Job))
		}
		if failed != nil {
			break
		}
	}
	ended, err := l.until(ctx, l.world.Now().Add(s.Timeout), func() bool { return left == 0 || failed != nil })
	l.sides = nil
	if failed = cmp.Or(failed, lost); failed != nil {
		err = failed
	} else if !ended && err == nil {
		err = fmt.Errorf("not done after %v", s.Timeout)
	}
	for _, x := range sides {
		if !x.ended {
			x.run.Cancel(l.world.Now())
			l.world.Touch(x.node.place)
		}
	}
	if err != nil {
		return nil, err
	}
	reports := make([]perf.Report, len(clients))
	for i, c := range clients {
		reports[i] = c.report
	}
	all := perf.Together(reports)
	return reports, all.Verdict()
}
