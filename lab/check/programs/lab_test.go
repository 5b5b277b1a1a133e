// Package programs runs the stock RDMA programs of the distribution on two
// NICs, unmodified: server and client each under `tapir run`, in a network
// namespace of its own, over TAPs that a veth pair joins.
//
//	  rping -s                      rping -c -a 10.9.0.1
//	  tapir run --nic server        tapir run --nic client
//	  tapir nic, host TAP eth0      tapir nic, host TAP eth0
//	tap0 - br0 - veth0 ========== veth0 - br0 - tap0
package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tapir/lab/host/link"
	"tapir/lab/host/process"
	"tapir/lab/tool/ctl"
)

// The NICs, and the addresses of the server's.
const (
	server = "server"
	client = "client"

	IPv4 = "10.9.0.1"
	IPv6 = "fd09::1"
)

// hostTAP is the operating system's side of each NIC: programs that exchange
// their parameters over a socket need it.
const hostTAP = "eth0"

// Lab is two running NICs. Its control sockets are where package ctl looks.
type Lab struct {
	tapir string
	dir   string
	flags []string // of both NICs
	pair  *link.Pair
	nics  []*process.Process
	ctls  []*ctl.Client // the server's, then the client's

	timer   string // the library of Mode.Timer
	capture string // the file of the running capture, if there is one
}

// New starts the NICs. tapir is the program, dir an empty directory for files
// of the lab's, which stays the caller's, flags are those of both NICs beside their names
// and addresses; {host} in them is 1 for the server's and 2 for the client's. Close ends everything.
func New(ctx context.Context, tapir, dir string, flags ...string) (l *Lab, err error) {
	l = &Lab{tapir: tapir, dir: dir, flags: flags}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
			l = nil
		}
	}()
	if l.timer, err = timerLibrary(dir); err != nil {
		return l, err
	}
	if l.pair, err = link.NewPair(1500, false); err != nil {
		return l, err
	}
	for i, name := range []string{server, client} {
		if err := l.startNIC(ctx, name, l.side(name), i+1); err != nil {
			return l, fmt.Errorf("NIC %s: %w", name, err)
		}
	}
	return l, nil
}

func (l *Lab) side(name string) *link.Space {
	if name == server {
		return l.pair.A
	}
	return l.pair.B
}

func (l *Lab) startNIC(ctx context.Context, name string, side *link.Space, host int) error {
	if err := side.Net.Up("lo"); err != nil {
		return err
	}
	if err := side.NS.Sysctl("ipv6/conf/default/disable_ipv6", "0"); err != nil { // of the host TAP
		return err
	}
	var flags []string
	for _, f := range l.flags {
		flags = append(flags, strings.ReplaceAll(f, "{host}", fmt.Sprint(host)))
	}
	p, err := process.Start(ctx, side.NS, process.Options{Dir: l.dir,
		Argv: append([]string{l.tapir, "nic", "--name", name, "--tap", link.PairTAP,
			"--host-tap", hostTAP, "--ip", fmt.Sprintf("10.9.0.%d/24", host), "--ip6",
			fmt.Sprintf("fd09::%d/64", host)}, flags...)})
	if err != nil {
		return err
	}
	l.nics = append(l.nics, p)
	soon, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := p.Await(soon, "ready "+name); err != nil {
		return err
	}
	if err := side.Net.Up(hostTAP); err != nil {
		return err
	}
	c, err := ctl.Dial(name)
	if err != nil {
		return err
	}
	l.ctls = append(l.ctls, c)
	return nil
}

// Close stops the NICs and removes the namespaces. The error names RDMA objects
// that were left at the end.
func (l *Lab) Close() (err error) {
	for _, c := range l.ctls {
		c.Close()
	}
	for _, p := range l.nics {
		p.Stop()
		if left := p.Line("left at the end"); left != "" {
			err = errors.Join(err, errors.New(left))
		}
	}
	if l.pair != nil {
		l.pair.Close()
	}
	return err
}

// listens waits until so many programs, of which p is the last, listen on the server's NIC,
// or p has ended.
func (l *Lab) listens(ctx context.Context, p *process.Process, programs int) error {
	return process.Until(ctx, func() (bool, error) {
		if p.HasEnded() {
			return false, fmt.Errorf("the server has ended: %w", p.Err())
		}
		var ceps []struct{ Phase string }
		err := l.ctls[0].Show(ctx, "cep", &ceps)
		listening := 0
		for _, c := range ceps {
			if c.Phase == "listening" {
				listening++
			}
		}
		return listening >= programs, err
	})
}

// joins waits until the server's program has the address handle of its multicast group,
// or has ended.
func (l *Lab) joins(ctx context.Context, p *process.Process) error {
	return process.Until(ctx, func() (bool, error) {
		if p.HasEnded() {
			return false, fmt.Errorf("the server has ended: %w", p.Err())
		}
		var handles []struct{}
		err := l.ctls[0].Show(ctx, "ah", &handles)
		return len(handles) > 0, err
	})
}

// empty waits until no program has anything of the NICs any more: what it left,
// the NIC has taken back.
func (l *Lab) empty(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	left := ""
	err := process.Until(ctx, func() (bool, error) {
		left = ""
		for _, c := range l.ctls {
			var rows []struct {
				Name string
				Now  int
			}
			if err := c.Show(ctx, "stats", &rows); err != nil {
				return false, err
			}
			for _, r := range rows {
				switch r.Name {
				case "context", "pd", "qp", "cq", "srq", "mr", "mw", "cep_listening":
					if r.Now > 0 {
						left += fmt.Sprintf(" %s: %d %s", c.Hello.Name, r.Now, r.Name)
					}
				}
			}
		}
		return left == "", nil
	})
	if left != "" {
		return fmt.Errorf("left when both programs have ended:%s", left)
	}
	return err
}

// Capture writes what passes the server's NIC to a file until stop is called.
func (l *Lab) Capture(ctx context.Context, name string) (file string, stop func() error, err error) {
	file = filepath.Join(l.dir, name)
	f, err := os.Create(file)
	if err != nil {
		return "", nil, err
	}
	l.capture = file
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		st, err := l.ctls[0].Capture(ctx, ctl.CaptureOptions{Buffer: captureBuffer}, f)
		if err == nil && st.Lost > 0 {
			err = fmt.Errorf("%d frames did not fit into the capture's queue", st.Lost)
		}
		ended <- errors.Join(err, f.Close())
	}()
	return file, func() error {
		cancel()
		l.capture = ""
		return <-ended
	}, nil
}

// captureBuffer holds what waits for the disk, in octets.
const captureBuffer = 64 << 20
