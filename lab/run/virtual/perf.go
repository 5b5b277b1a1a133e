package virtual

import (
	"cmp"
	"context"
	"fmt"

	"tapir/lab/conf/perfconf"
	"tapir/lab/run/result"
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

// workload is a workload under way.
type workload struct {
	lab          *lab
	sides        []*side
	left         int // sides that have not ended
	failed, lost error
}

// begin starts one side.
func (w *workload) begin(node string, job perfconf.Job) *side {
	x := &side{node: w.lab.node(node)}
	x.done = func(err error) {
		if w.left--; err != nil && w.failed == nil {
			w.failed = err
		}
	}
	x.lost = func() {
		x.ended, w.lost = true, steps.Killed(node)
		if w.left--; !job.Serves() && w.failed == nil { // else its client says what became of it
			w.failed = w.lost
		}
	}
	if x.node.dead {
		w.failed = steps.Killed(node)
		return x
	}
	if x.run, w.failed = perf.Start(x.node.dev, job, w.lab.world.Now(), x.end, nil); w.failed == nil {
		w.left++
		w.sides, w.lab.sides = append(w.sides, x), append(w.lab.sides, x)
		w.lab.world.Touch(x.node.place)
	}
	return x
}

// Perf implements steps.World.
func (l *lab) Perf(ctx context.Context, s *topo.Step) ([]perf.Report, []result.Samples, error) {
	w := workload{lab: l}
	var clients []*side
	for i := range s.Pairs {
		p := &s.Pairs[i]
		if w.begin(p.Server, p.Job.Server()); w.failed == nil {
			clients = append(clients, w.begin(p.Client, p.Job))
		}
		if w.failed != nil {
			break
		}
	}
	end := l.world.Now().Add(s.Timeout)
	sampler := l.sampler()
	ended, err := sampler.until(ctx, end, &w)
	l.sides = nil
	if failed := cmp.Or(w.failed, w.lost); failed != nil {
		err = failed
	} else if !ended && err == nil {
		err = fmt.Errorf("not done after %v", s.Timeout)
	}
	for _, x := range w.sides {
		if !x.ended {
			x.run.Cancel(l.world.Now())
			l.world.Touch(x.node.place)
		}
	}
	if err != nil {
		return nil, sampler.samples(), err
	}
	reports := make([]perf.Report, len(clients))
	for i, c := range clients {
		reports[i] = c.report
	}
	all := perf.Together(reports)
	return reports, sampler.samples(), all.Verdict()
}
