package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tapir/lab/run/result"
	"tapir/lab/topo"
)

// serveWithin bounds the time until a target serves.
const serveWithin = 30 * time.Second

// Serve has the targets of the lab serve their disks, and returns when initiators may come.
func (r *Runner) Serve(ctx context.Context) error {
	for i := range r.Lab.Nodes {
		if err := r.serve(ctx, &r.Lab.Nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// serve has a node serve, if it is a target: as a program of a step in the background would.
func (r *Runner) serve(ctx context.Context, n *topo.Node) error {
	if n.Target == nil {
		return nil
	}
	s := &topo.Step{Verb: topo.Run, Name: n.Name, On: n.Name, Argv: n.Target.Argv(topo.Tapir, n.Name),
		Background: true}
	ctx, cancel := r.World.Limit(ctx, serveWithin)
	defer cancel()
	started, err := r.World.Start(s)
	if err != nil {
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	p := r.note(&program{Program: started, step: s, res: &result.Step{Verdict: result.Passed}, serves: n.Name})
	err = r.World.Poll(ctx, serveWithin, func() (bool, error) {
		if p.HasEnded() {
			return false, errors.New(strings.TrimSpace(p.Tail()))
		}
		return strings.Contains(p.Said(), n.Name+" serves "), nil
	})
	if err != nil {
		p.killed.Store(true) // it is told here
		return fmt.Errorf("%s does not serve: %w", n.Name, err)
	}
	return nil
}
