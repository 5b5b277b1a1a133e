package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/run/vtime"
	"tapir/lab/tool/capture"
	"tapir/lab/topo"
	"tapir/wire/frame"
)

// Steps runs the lab's steps in order until one fails or ctx ends. What is
// judged by captures is judged by Finish.
func (l *Lab) Steps(ctx context.Context) *result.Result {
	r := result.New(l.topo)
	for i, res := range r.Steps {
		s := &l.topo.Steps[i]
		res.Begin(l.now())
		if s.Condition.Filter != "" {
			continue // till the capture is complete
		}
		err := l.act(ctx, s, res)
		if res.End(l.now(), err); err != nil {
			l.log.printf("FAIL  line %d: %s: %v", s.Line, s.Text, err)
			break
		}
		note := ""
		if s.Background {
			note = " (in the background)"
		} else if s.Later {
			note = " (later)"
		} else if s.Fails != nil {
			note = ": it failed as it should"
		} else if res.Perf != nil {
			note = ": " + res.Perf.String()
		}
		l.log.printf("ok    %s%s", s.Text, note)
	}
	return r
}

func (l *Lab) act(ctx context.Context, s *topo.Step, res *result.Step) error {
	switch s.Verb {
	case topo.Run:
		return l.run(ctx, s, res)
	case topo.Perf:
		return s.Outcome(l.perf(ctx, s, res))
	case topo.Fault:
		k := l.link(s.Link)
		k.set(s.Fault)
		if k.rules == nil {
			return nil
		}
		return k.rules.SetRules(s.Rules)
	case topo.Plug:
		l.link(s.Link).plug(s.Down)
		return nil
	case topo.Kill, topo.Start, topo.PHC:
		return l.disturb(s, res)
	case topo.Wait:
		return l.wait(ctx, s)
	case topo.Expect:
		return l.expect(&s.Condition)
	}
	return fmt.Errorf("%s: not in virtual time", s.Verb)
}

// lookEvery is how often a wait looks at its condition.
const lookEvery = time.Millisecond

// wait waits for what the step says.
func (l *Lab) wait(ctx context.Context, s *topo.Step) error {
	if s.For > 0 {
		_, err := l.until(ctx, l.world.Now().Add(s.For), never)
		return err
	}
	if s.Condition.Ended {
		return l.finish(ctx, l.program(s.Condition.Step), s.Timeout)
	}
	end := l.world.Now().Add(s.Timeout)
	for {
		if err := l.broken(); err != nil {
			return err
		}
		last := l.expect(&s.Condition)
		if last == nil || errors.As(last, new(hopeless)) {
			return last
		}
		if l.world.Now() >= end {
			return fmt.Errorf("not done after %v: %w", s.Timeout, last)
		}
		if _, err := l.until(ctx, min(end, l.world.Now().Add(lookEvery)), never); err != nil {
			return err
		}
	}
}

// hopeless is the failure of a condition that cannot come to hold any more.
type hopeless struct{ error }

// expect says why a condition does not hold now.
func (l *Lab) expect(c *topo.Condition) error {
	if c.Node != "" && l.node(c.Node).dead {
		return hopeless{errKilled(c.Node)}
	}
	switch {
	case c.Output != nil:
		return l.says(c)
	case c.Port != 0:
		return l.listens(c)
	case c.OfPTP():
		return l.node(c.Node).keepsTime(c)
	case c.InSync || c.Role != "":
		s := l.node(c.Node).hfi.mgr.Status()
		return c.Manages(s.Role, s.InSync)
	case c.Link != "":
		counts := l.link(c.Link).counts()
		n, _ := counts.Get(c.Counter) // the file was checked
		return c.Bounds(n)
	}
	list := l.node(c.Node).counters()
	if c.VESW != 0 {
		var err error
		if list, err = l.node(c.Node).hfi.vportCounters(c.VESW); err != nil {
			return err // a manager makes vports
		}
	}
	for _, x := range list {
		if x.Name == c.Counter {
			return c.Bounds(x.Value)
		}
	}
	return hopeless{fmt.Errorf("%s has no counter %s: tapir show lists them, and tapir ethtool -S --all those of vports", c.Node, c.Counter)}
}

// listens says that a NIC has no listener on the port.
func (l *Lab) listens(c *topo.Condition) error {
	for _, e := range l.node(c.Node).dev.ShowCEP() {
		if e.Phase == "listening" && e.Local.Port() == c.Port {
			return nil
		}
	}
	return fmt.Errorf("%s does not listen on port %d", c.Node, c.Port)
}

// Finish ends the lab, judges what only its end shows, and writes the result
// into the output directory.
func (l *Lab) Finish(ctx context.Context, r *result.Result) error {
	defer l.close()
	l.cancelLater()
	l.collect(r)
	err := l.end(ctx)
	if err != nil {
		l.log.printf("FAIL  %v", err)
	}
	at := l.now()
	r.JudgeCaptures(l.topo.Steps, l.now, func(s *topo.Step) error { return l.filter(ctx, s) }, l.log.printf)
	r.Judge(at, err)
	if l.opt.Out != "" || l.opt.Draw {
		r.Draw(result.Recording{Open: l.recorded, Start: int64(vtime.Epoch)})
	}
	l.log.printf("lab %s: %s after %d of %d steps", l.topo.Name, r.Verdict, r.Done(), len(r.Steps))
	if l.opt.Out == "" {
		return nil
	}
	return result.Write(l.opt.Out, r)
}

// recorded opens the complete capture of a link.
func (l *Lab) recorded(link string) (io.ReadCloser, error) {
	if l.link(link).rec == nil {
		return nil, nil
	}
	return os.Open(l.rec.path)
}

// collect notes what NICs and links have to tell before they end.
func (l *Lab) collect(r *result.Result) {
	l.collectPrograms()
	for i, n := range l.nodes {
		r.Nodes[i].Counters = slices.DeleteFunc(n.counters(), func(c result.Counter) bool { return c.Value == 0 })
	}
	for i, k := range l.links {
		r.Links[i].Counts = k.counts()
		if l.opt.Out != "" && k.rec != nil {
			r.Links[i].Capture = capture.LabFile
		}
	}
}

// filter judges a step by the complete capture. Time stands still meanwhile.
func (l *Lab) filter(ctx context.Context, s *topo.Step) error {
	if l.link(s.Condition.Link).rec == nil {
		return errors.New("the link was not captured")
	}
	err := result.Filter(ctx, l.rec.path, &s.Condition)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

var _ frame.Link = (*end)(nil)
