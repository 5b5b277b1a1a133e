package real

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"tapir/lab/conf"
	"tapir/lab/host/netns"
	"tapir/lab/host/process"
	"tapir/lab/topo"
	"tapir/nic/uapi/rundir"
)

// marker is the environment variable by which a lab's programs are known.
const marker = "TAPIR_LAB"

// Running is a lab that is up, maybe in another process.
type Running struct {
	Name  string         `json:"name"`
	PID   int            `json:"pid"`
	Nodes map[string]int `json:"nodes"` // that have a namespace: descriptors of that process
	Drawn []Drawn        `json:"drawn"` // all nodes
	Links []Joined       `json:"links"`
	dir   string
}

// Drawn is a node as drawings have it.
type Drawn struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind"`
	Addrs []string `json:"addrs,omitempty"`
}

// Joined is a link between two nodes.
type Joined struct {
	Name   string    `json:"name"`
	Ends   [2]string `json:"ends"`
	Fabric bool      `json:"fabric,omitempty"` // of Omni-Path
	// Compensate is what the link tells PTP event messages: residence, or nothing.
	Compensate string `json:"compensate,omitempty"`
}

// Sockets is the directory of the control sockets of the lab's nodes.
func (r *Running) Sockets() string { return filepath.Join(r.dir, "tapir") }

// about is the file in a lab's directory that tells of it.
const about = "lab.json"

// register tells others of the lab.
func (b *bed) register() error {
	r := Running{Name: b.lab.Name, PID: os.Getpid(), Nodes: map[string]int{}}
	for name, n := range b.nodes {
		r.Nodes[name] = n.ns.Fd()
	}
	r.Drawn, r.Links = Describe(b.lab)
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, about), data, 0o600)
}

// Describe are the nodes and links of a lab.
func Describe(lab *topo.Lab) (nodes []Drawn, links []Joined) {
	for i := range lab.Nodes {
		n := &lab.Nodes[i]
		d := Drawn{Name: n.Name, Kind: string(n.Title())}
		for _, a := range n.Addrs() {
			d.Addrs = append(d.Addrs, a.String())
		}
		nodes = append(nodes, d)
	}
	for i := range lab.Links {
		l := &lab.Links[i]
		k := Joined{Name: l.Name, Ends: l.Ends, Fabric: l.Fabric}
		if l.Compensate {
			k.Compensate = "residence"
		}
		links = append(links, k)
	}
	return nodes, links
}

// List returns this user's labs that are up.
func List() (all []Running) {
	for _, dir := range rundir.Held(prefix) {
		data, err := os.ReadFile(filepath.Join(dir, about))
		r := Running{dir: dir}
		if err == nil && json.Unmarshal(data, &r) == nil { // else it is only starting
			all = append(all, r)
		}
	}
	return all
}

// Find returns the lab called name; an empty name means the only one that is
// up.
func Find(name string) (*Running, error) {
	all := List()
	var names []string
	for i, r := range all {
		if r.Name == name || name == "" && len(all) == 1 {
			return &all[i], nil
		}
		names = append(names, r.Name)
	}
	switch {
	case len(all) == 0:
		return nil, errors.New("no lab is up: start one with: tapir lab up FILE")
	case name == "":
		return nil, fmt.Errorf("several labs are up, choose one: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("lab %s is not up: %s", name, conf.OneOf(name, names))
}

// Stop ends a lab and returns when nothing of it is left.
func (r *Running) Stop(ctx context.Context) error {
	if err := syscall.Kill(r.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("lab %s (process %d): %w", r.Name, r.PID, err)
	}
	return process.Until(ctx, func() (bool, error) { return !slices.Contains(rundir.Held(prefix), r.dir), nil })
}

// Command returns a command that is to run argv in the namespace of a node,
// where it finds the lab's NICs. start starts it.
func (r *Running) Command(ctx context.Context, node string, argv []string) (cmd *exec.Cmd, start func() error,
	err error) {
	fd, ok := r.Nodes[node]
	if !ok {
		return nil, nil, fmt.Errorf("lab %s has no node %s; it has %s", r.Name, node,
			strings.Join(slices.Sorted(maps.Keys(r.Nodes)), ", "))
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", r.PID, fd)
	inside := netns.Privileged()
	if !inside { // the lab lies in a user namespace, which a Go program cannot enter
		argv = append([]string{"nsenter", fmt.Sprintf("--user=/proc/%d/ns/user", r.PID), "--preserve-credentials",
			"--net=" + path, "--"}, argv...)
	}
	cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+r.dir, marker+"="+r.dir)
	if !inside {
		return cmd, cmd.Start, nil
	}
	return cmd, func() error {
		ns, err := netns.Open(path)
		if err != nil {
			return err
		}
		defer ns.Close()
		return ns.Start(cmd)
	}, nil
}

// Collect ends what is left of labs whose process was killed: their programs,
// and with them their namespaces, and their directories. It returns what it
// has done, a line each.
func Collect() (done []string) {
	held := rundir.Held(prefix)
	for _, pid := range marked(held) {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			done = append(done, fmt.Sprintf("ended process %d", pid))
		}
	}
	for _, dir := range rundir.Sweep(prefix) {
		done = append(done, "removed "+dir)
	}
	return done
}

// marked are the processes of labs other than those of the directories held.
func marked(held []string) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue // gone, or another user's
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if dir, ok := bytes.CutPrefix(v, []byte(marker+"=")); ok && !slices.Contains(held, string(dir)) &&
				ours(string(dir)) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// ours tells whether a directory is one of labs of this user's temporary
// directory: others keep theirs elsewhere.
func ours(dir string) bool {
	return filepath.Dir(dir) == filepath.Clean(os.TempDir()) && strings.HasPrefix(filepath.Base(dir), prefix)
}
