package steps

import (
	"context"
	"fmt"
	"slices"

	"tapir/lab/topo"
)

// Act does now what somebody asks for while the lab is up, in the words of a step of the
// file, such as {fault: a-b, loss: 10%}. It may be called from any goroutine.
func (r *Runner) Act(ctx context.Context, text string) error {
	s, err := r.read(text)
	if err != nil {
		return err
	}
	ctx, cancel := r.World.Limit(ctx, s.Timeout)
	defer cancel()
	switch {
	case s.Later, s.Program != "":
		err = fmt.Errorf("%s: only nodes and links can be struck, at once", s.Text)
	case s.Verb == topo.Fault, s.Verb == topo.Plug:
		err = r.World.Change(s)
	case s.Verb == topo.Kill, s.Verb == topo.Start, s.Verb == topo.PHC:
		err = r.strike(ctx, s)
	default:
		err = fmt.Errorf("%s: expected one of %s, %s, %s, %s, %s", s.Verb, topo.Fault, topo.Plug, topo.Kill,
			topo.Start, topo.PHC)
	}
	if err != nil {
		return err
	}
	r.Log.Printf("asked %s", s.Text)
	return nil
}

// read reads a step, and leaves the lab as it is.
func (r *Runner) read(text string) (*topo.Step, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	lab := *r.Lab
	lab.Steps = slices.Clip(lab.Steps)
	if err := lab.Extend(text); err != nil {
		return nil, err
	}
	return &lab.Steps[len(lab.Steps)-1], nil
}
