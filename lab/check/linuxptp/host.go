// Package linuxptp runs the stock programs of linuxptp and chrony against a
// NIC: ptp4l, pmc, phc2sys, ts2phc and chronyd, in given network namespaces,
// with generated configurations, and reads what they print.
//
// No program that it starts can set the machine's clock: all run without
// CAP_SYS_TIME, and System V shared memory is the program's own unless it is
// told otherwise.
package linuxptp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"tapir/lab/host/link"
	"tapir/lab/host/netns"
	"tapir/lab/host/process"
)

// Host runs programs in one network namespace. Their configurations and
// sockets are in a directory of the host's, which Close removes. Its methods
// may be called from any goroutine.
type Host struct {
	ns    *netns.NS
	space *link.Space // of NewIsolated, whose namespace ns is
	dir   string

	mu       sync.Mutex
	programs []*process.Process
	files    int
}

// NewHost makes a host in ns, which stays the caller's and must outlive it.
func NewHost(ns *netns.NS) (*Host, error) {
	dir, err := os.MkdirTemp("", "tapir-ptp")
	if err != nil {
		return nil, err
	}
	return &Host{ns: ns, dir: dir}, nil
}

// NewIsolated makes a host in a namespace of its own.
func NewIsolated() (*Host, error) { return isolated(nil) }

func isolated(prepare func(*netns.NS) error) (*Host, error) {
	s, err := link.NewSpace(prepare)
	if err != nil {
		return nil, err
	}
	h, err := NewHost(s.NS)
	if err != nil {
		s.Close()
		return nil, err
	}
	h.space = s
	return h, nil
}

// NewPair makes two isolated hosts, joined by a veth pair that is eth0 in each.
// prepare, such as link.Quiet, sets the namespaces up first; it may be nil.
func NewPair(prepare func(*netns.NS) error) (pair [2]*Host, err error) {
	for i := range pair {
		if pair[i], err = isolated(prepare); err != nil {
			return pair, err
		}
	}
	a, b := pair[0].space.Net, pair[1].space.Net
	return pair, errors.Join(a.AddVeth("eth0", b, "eth0"), a.Up("eth0"), b.Up("eth0"))
}

// NS is the namespace of the host.
func (h *Host) NS() *netns.NS { return h.ns }

// Close stops all programs and removes the host's directory, and the namespace
// that NewIsolated made. A nil host is closed already.
func (h *Host) Close() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	programs := h.programs
	h.programs = nil
	h.mu.Unlock()
	for _, p := range programs {
		p.Stop()
	}
	err := os.RemoveAll(h.dir)
	h.space.Close()
	return err
}

// Path returns the name of a new file in the host's directory; no two calls
// return the same.
func (h *Host) Path(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files++
	return filepath.Join(h.dir, fmt.Sprintf("%d.%s", h.files, name))
}

func (h *Host) write(name, text string) (string, error) {
	path := h.Path(name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Command is a program to start.
type Command struct {
	Name string
	Args []string
	// Under is a command line that runs another, such as {"tapir", "run", "--"}.
	Under []string
	// SharedMemory leaves System V shared memory common with the machine's
	// other programs, for those that meet there.
	SharedMemory bool
}

// folders are where Debian and others keep the programs when PATH leaves
// them out, as an ordinary user's does.
var folders = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// Find returns the file of a program of linuxptp or chrony.
func Find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, f := range folders {
		if path, err := exec.LookPath(filepath.Join(f, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: not installed: it is in the packages linuxptp and chrony", name)
}

// argv is the whole command line: setpriv takes away the right to set clocks.
func (c Command) argv() ([]string, error) {
	path, err := Find(c.Name)
	if err != nil {
		return nil, err
	}
	var argv []string
	if !c.SharedMemory {
		argv = []string{"unshare", "--ipc", "--"}
	}
	argv = append(argv, "setpriv", "--bounding-set=-sys_time", "--inh-caps=-sys_time", "--")
	return slices.Concat(argv, c.Under, []string{path}, c.Args), nil
}

// Start starts a program. It ends with ctx at the latest.
func (h *Host) Start(ctx context.Context, c Command) (*Program, error) {
	argv, err := c.argv()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(ctx, h.ns, process.Options{Argv: argv, Dir: h.dir})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.programs = append(h.programs, p)
	return &Program{p, c.Name}, nil
}

// Run runs a program to its end and returns its lines.
func (h *Host) Run(ctx context.Context, c Command) ([]string, error) {
	p, err := h.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	<-p.Ended()
	if err := p.Err(); err != nil {
		return p.Lines(), fmt.Errorf("%s: %w\n%s", c.Name, errors.Join(err, ctx.Err()), p.Tail())
	}
	return p.Lines(), nil
}
