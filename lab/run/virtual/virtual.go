// Package virtual runs the labs of package topo in virtual time: the same
// engines, links and workloads as in package real, without namespaces,
// TAPs and processes. A lab is one goroutine and draws all chance from its
// seed: equal files have equal captures, logs and results, to the last octet.
package virtual

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	lifecycle "tapir/lab/node"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/run/virtual/vtime"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/disk"
	"tapir/lab/tool/ui/record"
	"tapir/lab/topo"
	"tapir/nic/uapi/rundir"
	"tapir/wire/frame"
)

// Options say how to run a lab. The zero value is good.
type Options struct {
	steps.Options
	// Step gets each event (borrowed) before the next one happens; virtual time
	// stands still meanwhile. Its error ends the lab; the last events, of closing
	// connections, come without it. May be nil.
	Step func(ctx context.Context, e *Event) error
}

// Lab is a lab that is up.
type Lab struct {
	*steps.Runner
	lab *lab
}

// Events is the number of events so far: arrivals and times to wake up.
func (l *Lab) Events() uint64 { return l.lab.world.Done() }

// lab is the world of a lab in virtual time: it implements steps.World.
type lab struct {
	topo  *topo.Lab
	opt   Options
	world *vtime.World
	nodes []*node // in the file's order, as are links
	named map[string]*node
	links []*link
	busy  *node // the NIC that was found at work last
	// programs are those that steps have started, in order.
	programs []steps.Program
	disks    disk.Files // in place of files
	log      *steps.Log
	files    string // the directory of the capture
	rec      *recording
	sides    []*side        // of the workloads under way
	deferred []*deferred    // faults that wait for a condition
	steps    *stepper       // nil without Options.Step
	clocks   *result.Clocks // nil: nobody reads them
	tables   *record.Tables // nil: likewise
	undo     lifecycle.Undo
	err      error // of the world: it cannot go on
}

// prefix begins the name of the directory of a capture that is not kept.
const prefix = "tapir-virtual"

// Collect removes the directories that labs left whose process was killed, and
// returns their names.
func Collect() []string { return rundir.Sweep(prefix) }

// maxFrame is the longest frame of the world in octets.
const maxFrame = 66 << 10

// Run runs a lab from its start to its end. The error says why its result could
// not be written; everything else is in the result, which there always is.
func Run(ctx context.Context, lab *topo.Lab, o Options) (*result.Result, error) {
	l, err := Up(ctx, lab, o)
	if err != nil {
		return o.Failed(lab, time.Time{}, 0, err)
	}
	r := l.Steps(ctx)
	return r, l.Finish(ctx, r)
}

// Up makes everything; Finish ends it. The lab's clock has to be virtual.
func Up(ctx context.Context, t *topo.Lab, o Options) (*Lab, error) {
	if t.Clock != topo.Virtual {
		return nil, fmt.Errorf("lab %s is of the %s clock", t.Name, t.Clock)
	}
	l := &lab{topo: t, opt: o, world: vtime.New(maxFrame), named: map[string]*node{}, disks: disk.Files{}}
	if o.Step != nil {
		l.steps = &stepper{lab: l}
	}
	if err := l.build(ctx); err != nil {
		l.Close()
		return nil, err
	}
	l.watchClocks()
	l.watchTables()
	l.log.Printf("lab %s is up: nodes: %d, links: %d", t.Name, len(t.Nodes), len(t.Links))
	r := &steps.Runner{Lab: t, World: l, Options: o.Options, Log: l.log,
		Capture: filepath.Join(l.files, capture.LabFile), Epoch: int64(vtime.Epoch), Tables: l.tables}
	if err := r.Serve(ctx); err != nil {
		for _, p := range l.programs {
			p.Stop()
		}
		l.Close()
		return nil, err
	}
	return &Lab{r, l}, nil
}

func (l *lab) build(ctx context.Context) (err error) {
	if l.opt.Out != "" {
		if err := os.MkdirAll(l.opt.Out, 0o777); err != nil {
			return err
		}
		l.files = l.opt.Out
	} else if slices.ContainsFunc(l.topo.Links, func(k topo.Link) bool { return l.opt.Wanted(l.topo, &k) }) {
		var remove func()
		if l.files, remove, err = rundir.Make(prefix); err != nil {
			return err
		}
		l.undo.Add(remove)
	}
	if l.log, err = steps.OpenLog(l.Now, l.opt.Options); err != nil {
		return err
	}
	l.undo.Add(l.log.Close)
	for i := range l.topo.Nodes {
		n := &node{Node: &l.topo.Nodes[i], lab: l}
		l.nodes, l.named[n.Name] = append(l.nodes, n), n
	}
	for i := range l.topo.Links {
		l.links = append(l.links, l.addLink(&l.topo.Links[i]))
	}
	for _, n := range l.nodes {
		if err := n.build(); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	for _, k := range l.links {
		if err := k.join(); err != nil {
			return fmt.Errorf("link %s: %w", k.Name, err)
		}
	}
	for _, n := range l.nodes {
		if n.Card != "" {
			n.place = l.node(n.Card).place
		} else {
			n.place = l.world.Add(n)
		}
	}
	for _, n := range l.nodes {
		n.begin()
		if _, err := l.until(ctx, l.world.Now().Add(startEvery), never); err != nil {
			return err
		}
	}
	return nil
}

// startEvery is the time between the starts of two nodes, whose announcements
// reach all others.
const startEvery = 5 * time.Microsecond

func (l *lab) node(name string) *node { return l.named[name] }

func (l *lab) link(name string) *link {
	return l.links[slices.IndexFunc(l.links, func(k *link) bool { return k.Name == name })]
}

// never is the done function of what lasts until its end.
func never() bool { return false }

// until runs the world until done returns true or time end has come. It returns
// whether it was done.
func (l *lab) until(ctx context.Context, end frame.Time, done func() bool) (bool, error) {
	for n := 0; !done(); n++ {
		if at := min(l.world.Next(), end); l.sampleClocks(at) || l.sampleTables(at) {
			continue
		}
		if l.world.Next() > end {
			l.world.Run(end)
			return done(), l.err
		}
		if err := l.advance(ctx); err != nil {
			return false, err
		}
		l.checkDeferred()
		if n&0xfff == 0 && ctx.Err() != nil {
			return false, steps.ErrInterrupted
		}
		if l.err != nil {
			return false, l.err
		}
	}
	return true, nil
}

// Bounds of a lab's end.
const (
	arriveWithin = 100 * time.Millisecond // for what is on its way
	closeWithin  = 2 * time.Second        // for connections to close in order
	abortWithin  = 100 * time.Millisecond // for the resets of those that did not
)

// End implements steps.World: it closes the connections of all NICs.
func (l *lab) End(ctx context.Context, r *result.Result) error {
	r.Clocks, l.clocks, l.tables = l.clocks.Done(), nil, nil
	for _, p := range l.programs {
		p.Stop()
	}
	for i, k := range l.links {
		r.Links[i].Counts = k.counts()
		if l.opt.Out != "" && k.rec != nil {
			r.Links[i].Capture = capture.LabFile
		}
	}
	if _, err := l.until(ctx, l.world.Now().Add(arriveWithin), never); err != nil {
		return err
	}
	for _, n := range l.nodes {
		n.stopPTP()
	}
	for _, stage := range []struct {
		within time.Duration
		do     func(n *node)
	}{
		{closeWithin, func(n *node) { n.dev.Shutdown(l.world.Now()) }},
		{abortWithin, func(n *node) { n.dev.Abort(l.world.Now()) }},
	} {
		busy := 0
		for _, n := range l.nodes {
			if n.works() {
				busy++
				stage.do(n)
				l.world.Touch(n.place)
			}
		}
		if busy == 0 {
			break
		}
		if _, err := l.until(ctx, l.world.Now().Add(stage.within), l.idle); err != nil {
			return err
		}
	}
	var err error
	for _, n := range l.nodes {
		err = errors.Join(err, n.leaks())
	}
	err = errors.Join(err, l.rec.finish())
	for _, n := range l.nodes {
		err = errors.Join(err, n.unload(l.world.Now()))
	}
	l.world.Pool.Trim(0)
	return err
}

// idle tells that no NIC has anything to do for its connections. Of thousands,
// the one that had is asked first.
func (l *lab) idle() bool {
	if l.busy != nil && l.busy.works() {
		return false
	}
	i := slices.IndexFunc(l.nodes, (*node).works)
	if i < 0 {
		return true
	}
	l.busy = l.nodes[i]
	return false
}

func (n *node) works() bool { return n.dev != nil && !n.dead && !n.dev.Idle() }

// Close implements steps.World.
func (l *lab) Close() {
	for _, n := range l.nodes {
		if n.sw != nil {
			n.sw.Close()
		}
	}
	l.undo.Run()
}
