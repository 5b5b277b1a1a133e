// Package virtual runs the labs of package topo in virtual time: the same
// engines, links and workloads as in package testbed, without namespaces,
// TAPs and processes. A lab is one goroutine and draws all chance from its
// seed: equal files have equal captures, logs and results, to the last octet.
package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"tapir/lab/host/rundir"
	"tapir/lab/run/result"
	"tapir/lab/run/vtime"
	"tapir/lab/topo"
	"tapir/wire/frame"
)

// Options say how to run a lab. The zero value is good.
type Options struct {
	Out   string    // directory for captures, log and reports; empty: none are kept
	Draw  bool      // draw the ladders of failures even if nothing is kept
	Print io.Writer // what happens, a line each; nil: nowhere
	// Step is told of each event, which it borrows, before the next one happens.
	// Time stands still meanwhile. An error of it ends the lab; the last events,
	// of connections that close, come without it. nil: nobody is told.
	Step func(ctx context.Context, e *Event) error
}

// Lab is a lab in virtual time.
type Lab struct {
	topo  *topo.Lab
	opt   Options
	world *vtime.World
	nodes []*node // in the file's order, as are links
	named map[string]*node
	links []*link
	busy  *node // the NIC that was found at work last
	// programs are those that steps have started, in order.
	programs []*program
	log      *log
	files    string // the directory of the capture
	rec      *recording
	sides    []*side  // of the workloads under way
	later    []*later // what is to happen to nodes
	steps    *stepper // nil: nobody is told of events
	undo     []func()
	err      error // of the world: it cannot go on
}

// prefix begins the name of the directory of a capture that is not kept.
const prefix = "tapir-virtual"

// Collect removes the directories that labs left whose process was killed, and
// returns their names.
func Collect() []string { return rundir.Sweep(prefix) }

// mostOctets is what a frame of the world may have.
const mostOctets = 66 << 10

// Run runs a lab from its start to its end. The error says why its result could
// not be written; everything else is in the result, which there always is.
func Run(ctx context.Context, lab *topo.Lab, o Options) (*result.Result, error) {
	l, err := Up(ctx, lab, o)
	if err != nil {
		r := result.New(lab)
		r.Judge(0, err)
		if o.Out != "" {
			return r, result.Write(o.Out, r)
		}
		return r, nil
	}
	r := l.Steps(ctx)
	return r, l.Finish(ctx, r)
}

// Up makes everything; Finish ends it. The lab's clock has to be virtual.
func Up(ctx context.Context, lab *topo.Lab, o Options) (*Lab, error) {
	if lab.Clock != topo.Virtual {
		return nil, fmt.Errorf("lab %s is of the %s clock", lab.Name, lab.Clock)
	}
	l := &Lab{topo: lab, opt: o, world: vtime.New(mostOctets), named: map[string]*node{}}
	if o.Step != nil {
		l.steps = &stepper{lab: l}
	}
	if err := l.build(ctx); err != nil {
		l.close()
		return nil, err
	}
	l.log.printf("lab %s is up: nodes: %d, links: %d", lab.Name, len(lab.Nodes), len(lab.Links))
	return l, nil
}

func (l *Lab) build(ctx context.Context) (err error) {
	if l.opt.Out != "" {
		if err := os.MkdirAll(l.opt.Out, 0o777); err != nil {
			return err
		}
		l.files = l.opt.Out
	} else if l.filters() || l.opt.Draw {
		var remove func()
		if l.files, remove, err = rundir.Make(prefix); err != nil {
			return err
		}
		l.atClose(remove)
	}
	if l.log, err = openLog(l.now, l.opt.Print, l.opt.Out); err != nil {
		return err
	}
	l.atClose(l.log.close)
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
		n.place = l.world.Add(n)
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

func (l *Lab) atClose(fn func()) { l.undo = append(l.undo, fn) }

// Events is the number of events so far: arrivals and times to wake up.
func (l *Lab) Events() uint64 { return l.world.Done() }

// now is the lab's time.
func (l *Lab) now() time.Duration { return time.Duration(l.world.Now()) }

func (l *Lab) node(name string) *node { return l.named[name] }

func (l *Lab) link(name string) *link {
	for _, k := range l.links {
		if k.Name == name {
			return k
		}
	}
	return nil
}

var errInterrupted = errors.New("interrupted")

// never is done for what takes until its end.
func never() bool { return false }

// until lets things happen until done says that this is enough, or the time
// end has come. It reports whether it was done.
func (l *Lab) until(ctx context.Context, end frame.Time, done func() bool) (bool, error) {
	for n := 0; !done(); n++ {
		if l.world.Next() > end {
			l.world.Run(end)
			return done(), l.err
		}
		if err := l.advance(ctx); err != nil {
			return false, err
		}
		l.look()
		if n&0xfff == 0 && ctx.Err() != nil {
			return false, errInterrupted
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

// end closes the connections of all NICs; captures are complete then. The
// error names what was left over.
func (l *Lab) end(ctx context.Context) error {
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
	return err
}

// idle tells that no NIC has anything to do for its connections. Of thousands,
// the one that had is asked first.
func (l *Lab) idle() bool {
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

// close releases everything.
func (l *Lab) close() {
	for _, n := range l.nodes {
		if n.sw != nil {
			n.sw.Close()
		}
	}
	for i := len(l.undo) - 1; i >= 0; i-- {
		l.undo[i]()
	}
	l.undo = nil
}
