// Package testbed runs the labs of package topo in real time: each node in a
// network namespace of its own, each link a cable between two TAPs, NICs and
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
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tapir/lab/host/process"
	"tapir/lab/host/rundir"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
)

// prefix begins the names of the directories of labs that are up.
const prefix = "tapir-lab"

// Options say how to run a lab. The zero value is good but for Tapir.
type Options struct {
	Tapir string    // the program that nodes are processes of
	Out   string    // directory for captures, log and reports; empty: none are kept
	Draw  bool      // draw the ladders of failures even if nothing is kept
	Print io.Writer // what happens, a line each; nil: nowhere
	Echo  bool      // what programs say, too
}

// Bed is a lab that is up.
type Bed struct {
	lab     *topo.Lab
	opt     Options
	dir     string // of the control sockets; what this process makes goes with it
	files   string // of captures
	start   time.Time
	nodes   map[string]*node
	links   map[string]*cable
	mu      sync.Mutex
	started []*program // in order; mu, until the steps are over
	pending []*pending // what is to happen to nodes
	log     *journal
	failed  error // see Fail
	undo    []func()
	ending  sync.Once
	ptp     context.Context // of the PTP instances
	endPTP  func()          // nil before startPTP
}

// Up makes everything and returns when all nodes are ready. An error leaves
// nothing behind. Down ends the lab.
func Up(ctx context.Context, lab *topo.Lab, o Options) (*Bed, error) {
	b := &Bed{lab: lab, opt: o, start: time.Now(), nodes: map[string]*node{}, links: map[string]*cable{}}
	err := b.build(ctx)
	if err != nil {
		b.log.printf("%v", err)
		return nil, errors.Join(err, b.Down())
	}
	b.log.printf("lab %s is up: nodes: %d, links: %d", lab.Name, len(lab.Nodes), len(lab.Links))
	return b, nil
}

func (b *Bed) later(fn func()) { b.undo = append(b.undo, fn) }

func (b *Bed) build(ctx context.Context) error {
	dir, remove, err := rundir.Make(prefix)
	if err != nil {
		return err
	}
	b.dir, b.files = dir, dir
	b.later(remove)
	if b.opt.Out != "" {
		if err := os.MkdirAll(b.opt.Out, 0o777); err != nil {
			return err
		}
		b.files = b.opt.Out
	}
	if b.log, err = openJournal(b.start, b.opt.Print, b.opt.Out); err != nil {
		return err
	}
	b.later(b.log.close)
	for i := range b.lab.Nodes {
		n := &b.lab.Nodes[i]
		if b.nodes[n.Name], err = b.addNode(n); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
	}
	for i := range b.lab.Links {
		l := &b.lab.Links[i]
		if b.links[l.Name], err = b.addLink(l); err != nil {
			return fmt.Errorf("link %s: %w", l.Name, err)
		}
	}
	if err := b.startNodes(ctx); err != nil {
		return err
	}
	if err := b.startPTP(ctx); err != nil {
		return err
	}
	return b.register()
}

// startNodes starts the processes side by side and waits until frames pass.
func (b *Bed) startNodes(ctx context.Context) error {
	limit, err := b.startLimit()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	errs := make([]error, len(b.lab.Nodes))
	var wait sync.WaitGroup
	for i := range b.lab.Nodes {
		n := b.nodes[b.lab.Nodes[i].Name]
		wait.Go(func() {
			if err := n.start(ctx, b); err != nil {
				errs[i] = fmt.Errorf("%s: %w", n.Name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// startWithin bounds the start of all nodes together.
const startWithin = 30 * time.Second

// env makes programs find the lab's NICs, and Collect find the programs.
func (b *Bed) env() []string {
	env := []string{"XDG_RUNTIME_DIR=" + b.dir, marker + "=" + b.dir}
	if dir, name := filepath.Split(b.opt.Tapir); name == "tapir" { // shells of steps find it, too
		env = append(env, "PATH="+filepath.Clean(dir)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	return env
}

// spawn starts argv in the namespace of a node. It ends with the lab at the
// latest, not with ctx of a step.
func (b *Bed) spawn(n *node, name string, argv []string) (*process.Process, error) {
	o := process.Options{Argv: argv, Env: b.env(), Echo: b.log.voice(name, b.opt.Echo)}
	return process.Start(context.Background(), n.ns, o)
}

// Sockets is the directory in which the lab's NICs have theirs, as tapir(1) and
// the packages lab/tool/ctl and nic/umode look for them.
func (b *Bed) Sockets() string { return filepath.Join(b.dir, "tapir") }

// dial reaches a node's process.
func (b *Bed) dial(name string) (*ctl.Client, error) {
	return ctl.DialIn(b.Sockets(), name)
}

// Down ends programs, then nodes, then links, and removes everything. The
// error names nodes that had ended before, and RDMA objects that were left.
func (b *Bed) Down() error {
	err := b.end()
	b.removeAll()
	return err
}

// end ends everything that runs; captures are complete then.
func (b *Bed) end() (err error) {
	b.ending.Do(func() {
		b.cancelPending()
		stopAll(b.started, func(p *program) *process.Process { return p.proc })
		err = b.stopPTP()
		var running []*node
		for i := range b.lab.Nodes {
			if n := b.nodes[b.lab.Nodes[i].Name]; n != nil && n.proc != nil {
				n.err = n.lost()
				running = append(running, n)
			}
		}
		stopAll(running, func(n *node) *process.Process { return n.proc })
		for _, n := range running {
			n.err = errors.Join(n.err, n.leaks())
			err = errors.Join(err, n.err)
		}
		for i := range b.lab.Links {
			if c := b.links[b.lab.Links[i].Name]; c != nil {
				err = errors.Join(err, c.close())
			}
		}
		err = errors.Join(err, b.join())
	})
	return err
}

func (b *Bed) removeAll() {
	for i := len(b.undo) - 1; i >= 0; i-- {
		b.undo[i]()
	}
	b.undo = nil
}

// stopAll ends processes side by side.
func stopAll[T any](all []T, proc func(T) *process.Process) {
	var wait sync.WaitGroup
	for _, v := range all {
		wait.Go(proc(v).Stop)
	}
	wait.Wait()
}
