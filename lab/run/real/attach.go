package real

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"tapir/lab/host/netns"
	"tapir/lab/run/result"
	"tapir/lab/run/steps"
	"tapir/lab/tool/ctl"
	"tapir/lab/topo"
)

// Attach runs the steps of a lab against nodes that somebody else has started: it
// finds each by its control socket, under the name that the lab has for it, in the
// directory of this user's sockets. Programs run in the network, mount and process
// namespaces of their node's process. The nodes stay up, and links are whatever joins
// them. The error says why the result could not be written, as of Run; a step that
// needs more than control sockets is refused with its line.
func Attach(ctx context.Context, lab *topo.Lab, o Options) (*result.Result, error) {
	start := time.Now()
	b := &bed{lab: lab, opt: o, start: start, nodes: map[string]*node{}, links: map[string]*cable{},
		socketDir: ctl.Dir(), files: o.Out}
	if err := b.attach(ctx); err != nil {
		b.Close()
		return o.Failed(lab, start, time.Since(start), err)
	}
	b.log.Printf("lab %s is attached: nodes: %d", lab.Name, len(b.order))
	r := &steps.Runner{Lab: lab, World: b, Options: o.Options, Log: b.log, Began: start, Epoch: start.UnixNano()}
	all := result.New(lab)
	all.Began = start
	if err := r.Serve(ctx); err != nil {
		r.Fail(err)
	} else {
		r.Next(ctx, all)
	}
	return all, r.Finish(ctx, all)
}

// attach finds the nodes that have a control socket.
func (b *bed) attach(ctx context.Context) (err error) {
	if b.opt.Out != "" {
		if err := os.MkdirAll(b.opt.Out, 0o777); err != nil {
			return err
		}
	}
	if b.log, err = steps.OpenLog(b.Now, b.opt.Options); err != nil {
		return err
	}
	b.undo.Add(b.log.Close)
	for i := range b.lab.Nodes {
		n := &node{Node: &b.lab.Nodes[i]}
		b.nodes[n.Name] = n
		if slices.Contains(silent, n.Kind) {
			continue
		}
		if err := b.adopt(ctx, n); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		b.order = append(b.order, n)
	}
	return nil
}

// silent are the kinds of nodes without a control socket. The functions of a card
// have theirs.
var silent = []topo.Kind{topo.Host, topo.Peer, topo.Card}

// adopt finds the process of a node and what namespaces it lives in.
func (b *bed) adopt(ctx context.Context, n *node) error {
	c, err := ctl.DialIn(b.sockets(), n.Name)
	if err != nil {
		return err
	}
	defer c.Close()
	pid, err := c.PID(ctx)
	if err != nil {
		return err
	}
	if n.ns, err = netns.Current(); err != nil {
		return err
	}
	b.undo.Add(func() { n.ns.Close() })
	n.enter, n.away = entering(pid)
	return nil
}

// entering is the command that puts a program into the namespaces of a process, nil
// if it lives in ours; away tells whether it sees other files than we do.
func entering(pid int) (command []string, away bool) {
	for _, ns := range []string{"user", "mnt", "net", "pid", "ipc"} {
		path := fmt.Sprintf("/proc/%d/ns/%s", pid, ns)
		there, err := os.Readlink(path)
		here, _ := os.Readlink("/proc/self/ns/" + ns)
		if err != nil || there == here { // what may not be read may not be entered: the program tells
			continue
		}
		if command == nil {
			command = []string{"nsenter", "--target", strconv.Itoa(pid)}
		}
		option := map[string]string{"mnt": "mount"}[ns]
		if option == "" {
			option = ns
		}
		command = append(command, "--"+option)
		switch ns {
		case "user":
			command = append(command, "--preserve-credentials")
		case "mnt":
			command, away = append(command, "--root", "--wd"), true
		}
	}
	if command != nil {
		command = append(command, "--")
	}
	return command, away
}

// Attachable refuses a lab with a step that a lab needs its own links or processes
// for, or a node without a control socket.
func Attachable(lab *topo.Lab) error {
	if lab.Clock != topo.Real {
		return fmt.Errorf("%s: nodes that are up have the real clock: give --clock real", lab.File)
	}
	for i := range lab.Steps {
		s := &lab.Steps[i]
		if why := notAttached(lab, s); why != "" {
			return fmt.Errorf("%s:%d: %s: %s", lab.File, s.Line, s.Text, why)
		}
	}
	return nil
}

func notAttached(lab *topo.Lab, s *topo.Step) string {
	const links = "links that are not the lab's have no faults, counters or captures here"
	switch {
	case s.Verb == topo.Fault, s.Verb == topo.Plug, s.Condition.Link != "":
		return links
	case s.Verb == topo.Kill && s.Program == "", s.Verb == topo.Start:
		return "a node that somebody else has started is not killed or started"
	}
	for _, name := range []string{s.On, s.Condition.Node} {
		if n := lab.Node(name); n != nil && slices.Contains(silent, n.Kind) {
			return fmt.Sprintf("%s: a %s has no control socket to find it by", n.Name, n.Kind)
		}
	}
	return ""
}
