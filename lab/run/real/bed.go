// Package real runs the labs of package topo in real time: each node in a
// separate network namespace, each link a cable between two TAPs, NICs and
// switches as processes.
//
//	    namespace of NIC a                      namespace of host h
//	tapir nic                                        kernel
//	  tap0 - br0 - link0 ======= link.Cable ======== eth0
//	  eth0 (the operating system's side)
//
// All of it belongs to this process: when that ends, however it does, the
// kernel removes namespaces, TAPs and processes.
package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tapir/lab/host/process"
	lifecycle "tapir/lab/node"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/tool/capture"
	"tapir/lab/tool/ctl"
	"tapir/lab/tool/ui/record"
	"tapir/lab/topo"
	"tapir/nic/uapi/rundir"
)

// prefix begins the names of the directories of labs that are up.
const prefix = "tapir-lab"

// Options say how to run a lab. The zero value is good but for Tapir.
type Options struct {
	steps.Options
	Tapir string // the program that nodes are processes of
	Echo  bool   // print the output of programs, too
	// Control is the version that the lab's control socket tells; empty: it has none.
	Control string
}

// Bed is a lab that is up.
type Bed struct {
	*steps.Runner
	bed     *bed
	control *ctl.Server // nil: there is none
}

// bed is the world of a lab: it implements steps.World.
type bed struct {
	lab   *topo.Lab
	opt   Options
	dir   string // of the control sockets; what this process makes goes with it
	files string // of captures
	// socketDir has the control sockets of nodes that somebody else has started;
	// empty: those in dir.
	socketDir string
	start     time.Time
	nodes     map[string]*node
	order     []*node // as in the file, those that were made
	links     map[string]*cable
	cables    []*cable           // as in the file, those that were made
	wires     int                // that were made
	started   []*process.Process // of steps
	log       *steps.Log
	undo      lifecycle.Undo
	changing  sync.Mutex // of faults, and what is plugged
	ending    sync.Once
	ptp       context.Context     // of the PTP instances
	endPTP    func()              // nil before startPTP
	tables    *record.Tables      // nil: nobody reads them
	clocks    chan []result.Clock // that were sampled until then; nil: none
}

// Run runs a lab from its start to its end. The error says why its result could
// not be written; everything else is in the result, which there always is.
func Run(ctx context.Context, lab *topo.Lab, o Options) (*result.Result, error) {
	start := time.Now()
	b, err := Up(ctx, lab, o)
	if err != nil {
		return o.Failed(lab, start, time.Since(start), err)
	}
	r := b.Steps(ctx)
	return r, b.Finish(ctx, r)
}

// Up makes everything and returns when all nodes are ready. An error leaves
// nothing behind. Down or Finish ends the lab.
func Up(ctx context.Context, lab *topo.Lab, o Options) (*Bed, error) {
	b := &bed{lab: lab, opt: o, start: time.Now(), nodes: map[string]*node{}, links: map[string]*cable{}}
	if err := b.build(ctx); err != nil {
		b.log.Printf("%v", err)
		err = errors.Join(err, b.end())
		b.Close()
		return nil, err
	}
	b.log.Printf("lab %s is up: nodes: %d, links: %d", lab.Name, len(lab.Nodes), len(lab.Links))
	r := &steps.Runner{Lab: lab, World: b, Options: o.Options, Log: b.log,
		Capture: filepath.Join(b.files, capture.LabFile), Began: b.start, Epoch: b.start.UnixNano(),
		Tables: b.tables}
	up := &Bed{Runner: r, bed: b}
	if err := r.Serve(ctx); err != nil {
		b.log.Printf("%v", err)
		return nil, errors.Join(err, up.Down())
	}
	up.serve()
	return up, nil
}

// Sockets is the directory in which the lab's NICs have theirs, as tapir(1) and
// the packages lab/tool/ctl and nic/umode look for them.
func (b *Bed) Sockets() string { return b.bed.sockets() }

// Finish ends the lab as steps.Runner does, and its control socket.
func (b *Bed) Finish(ctx context.Context, all *result.Result) error {
	b.unserve()
	return b.Runner.Finish(ctx, all)
}

// Down ends programs, then nodes, then links, and removes everything. The
// error names nodes that had ended before, and RDMA objects that were left.
func (b *Bed) Down() error {
	b.unserve()
	b.Cancel()
	err := b.bed.end()
	b.bed.Close()
	return err
}

func (b *bed) build(ctx context.Context) error {
	dir, remove, err := rundir.Make(prefix)
	if err != nil {
		return err
	}
	b.dir, b.files = dir, dir
	b.undo.Add(remove)
	if b.opt.Out != "" {
		if err := os.MkdirAll(b.opt.Out, 0o777); err != nil {
			return err
		}
		b.files = b.opt.Out
	}
	if b.log, err = steps.OpenLog(b.Now, b.opt.Options); err != nil {
		return err
	}
	b.undo.Add(b.log.Close)
	if err := Prepare(ctx, b.log.Voice("peer", b.opt.Echo), b.lab); err != nil {
		return err
	}
	for i := range b.lab.Nodes {
		n := &b.lab.Nodes[i]
		if b.nodes[n.Name], err = b.addNode(n); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		b.order = append(b.order, b.nodes[n.Name])
	}
	for i := range b.lab.Links {
		l := &b.lab.Links[i]
		if b.links[l.Name], err = b.addLink(l); err != nil {
			return fmt.Errorf("link %s: %w", l.Name, err)
		}
		b.cables = append(b.cables, b.links[l.Name])
	}
	return lifecycle.InOrder(func() error { return b.startNodes(ctx) },
		func() error { return b.negotiate(ctx, b.cables) },
		func() error { return b.startPTP(ctx) }, b.register)
}

// startNodes starts the processes side by side and waits until frames pass.
func (b *bed) startNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.startLimit())
	defer cancel()
	return lifecycle.Each(b.order, func(n *node) error {
		if err := n.start(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		return nil
	})
}

// startWithin bounds the start of all nodes together.
const startWithin = 30 * time.Second

// env makes programs find the lab's NICs, and Collect find the programs.
func (b *bed) env() (env []string) {
	if b.socketDir == "" {
		env = []string{"XDG_RUNTIME_DIR=" + b.dir, marker + "=" + b.dir}
	}
	if dir, name := filepath.Split(b.opt.Tapir); name == "tapir" { // shells of steps find it, too
		env = append(env, "PATH="+filepath.Clean(dir)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	return env
}

// spawn starts argv in the namespace of a node. It ends with the lab at the
// latest, not with ctx of a step.
func (b *bed) spawn(n *node, name string, argv []string) (*process.Process, error) {
	o := process.Options{Argv: argv, Env: b.env(), Echo: b.log.Voice(name, b.opt.Echo)}
	return process.Start(context.Background(), n.ns, o)
}

func (b *bed) sockets() string { return cmp.Or(b.socketDir, filepath.Join(b.dir, "tapir")) }

// dial reaches a node's process. Without it, no condition of the node can come
// true.
func (b *bed) dial(name string) (*ctl.Client, error) {
	c, err := ctl.DialIn(b.sockets(), name)
	if err != nil {
		return nil, steps.Never(err)
	}
	return c, nil
}

// ask has do reach a node's process.
func (b *bed) ask(name string, do func(c *ctl.Client) error) error {
	c, err := b.dial(name)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// end ends everything that runs; captures are complete then.
func (b *bed) end() (err error) {
	b.ending.Do(func() {
		stopAll(b.started)
		for _, c := range b.cables {
			c.talks.end()
		}
		err = b.stopPTP()
		var running []*process.Process
		for _, n := range b.order {
			if n.proc != nil && n.Card == "" {
				n.err = n.lost()
				running = append(running, n.proc)
			}
		}
		stopAll(running)
		for _, n := range b.order {
			n.err = errors.Join(n.err, n.leaks())
			err = errors.Join(err, n.err)
		}
		for _, c := range b.cables {
			err = errors.Join(err, c.close())
		}
		err = errors.Join(err, b.join())
	})
	return err
}

// End implements steps.World. Links tell what they have counted when nothing can
// come any more: that is what their captures hold.
func (b *bed) End(_ context.Context, r *result.Result) error {
	err := b.end()
	if b.clocks != nil {
		r.Clocks = <-b.clocks
	}
	for i := range r.Links {
		l := &r.Links[i]
		if b.links[l.Name] == nil {
			continue
		}
		l.Counts = b.LinkCounts(l.Name)
		if b.opt.Out != "" && b.Captured(l.Name) {
			l.Capture = capture.LabFile
		}
	}
	for i := range r.Nodes {
		if n := b.nodes[r.Nodes[i].Name]; n.err != nil {
			r.Nodes[i].Error, r.Nodes[i].Output = n.err.Error(), n.proc.Tail()
		}
	}
	return err
}

// Captured implements steps.World.
func (b *bed) Captured(link string) bool { return b.links[link] != nil && b.links[link].part != nil }

// Close implements steps.World.
func (b *bed) Close() {
	b.undo.Run()
}

// stopAll ends processes side by side.
func stopAll(all []*process.Process) {
	_ = lifecycle.Each(all, func(p *process.Process) error { p.Stop(); return nil })
}
