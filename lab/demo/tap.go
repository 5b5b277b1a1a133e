package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"tapir/lab/link"
)

// stopWithin bounds how long a process may take to end in order.
const stopWithin = 5 * time.Second

// tapWire runs each NIC as a process of its own, on a TAP in a namespace of
// its own.
type tapWire struct {
	opt   Options
	pair  *link.Pair
	nics  []*process
	dumps []*process
}

func newTAPWire(o Options) (*tapWire, error) {
	mtu := 1500
	if o.Frames == "jumbo" {
		mtu = 9000
	}
	pair, err := link.NewPair(mtu, o.Frames != "wire")
	if err != nil {
		return nil, err
	}
	return &tapWire{opt: o, pair: pair}, nil
}

func (w *tapWire) kind() string { return "tap" }

func (w *tapWire) side(name string) *link.Side {
	if name == server {
		return w.pair.A
	}
	return w.pair.B
}

func (w *tapWire) start(ctx context.Context, name string) error {
	p, err := w.spawn(ctx, name, w.opt.Program, "nic", "--name", name, "--tap", link.PairTAP,
		"--ip", addresses[name].String(), "--frames", w.opt.Frames)
	if err != nil {
		return err
	}
	w.nics = append(w.nics, p)
	return p.await(ctx, "ready "+name)
}

func (w *tapWire) tcpdump(ctx context.Context, name, file string) error {
	// -Z root: no change of user, which a user namespace does not allow.
	p, err := w.spawn(ctx, name, "tcpdump", "-i", link.PairTAP, "-n", "-p", "-s", "0", "-B", "65536", "-Z", "root",
		"-U", "-w", file, "--nano")
	if err != nil {
		return fmt.Errorf("tcpdump: %w", err)
	}
	w.dumps = append(w.dumps, p)
	return p.await(ctx, "tcpdump: listening on")
}

// dumpWithin bounds how long tcpdump may take to read what the kernel holds
// for it; the kernel hands a block over after a second at the latest.
const dumpWithin = 20 * time.Second

func (w *tapWire) stopDumps() (err error) {
	for _, p := range w.dumps {
		err = errors.Join(err, p.drain(), p.stop())
	}
	w.dumps = nil
	return err
}

// drain waits until tcpdump has read every frame that its filter let through.
// At SIGUSR1 it prints how far it is; at an interrupt it would drop the rest.
func (p *process) drain() error {
	const report = "tcpdump: %d packets captured, %d packets received by filter, %d packets dropped by kernel"
	for deadline := time.Now().Add(dumpWithin); time.Now().Before(deadline); {
		if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return err
		}
		line, err := p.next(time.Second)
		if err != nil {
			return err
		}
		var captured, received, dropped int
		if n, _ := fmt.Sscanf(line, report, &captured, &received, &dropped); n != 3 {
			continue
		}
		if dropped > 0 {
			return fmt.Errorf("tcpdump of %s lost %d frames", p.name, dropped)
		}
		if captured == received {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("tcpdump of %s does not keep up: %s", p.name, p.output())
}

func (w *tapWire) close() (err error) {
	for _, p := range append(w.dumps, w.nics...) {
		err = errors.Join(err, p.stop())
	}
	w.pair.Close()
	return err
}

// process is a program inside a namespace.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan error

	mu    sync.Mutex
	text  bytes.Buffer
	lines chan string
}

func (w *tapWire) spawn(ctx context.Context, side, program string, args ...string) (*process, error) {
	p := &process{name: side, done: make(chan error, 1), lines: make(chan string, 64)}
	p.cmd = exec.Command(program, args...)
	r, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err = w.side(side).NS.Start(p.cmd)
	out.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	go p.watch(r)
	return p, nil
}

// watch reads what the process says until it ends.
func (p *process) watch(r *os.File) {
	defer r.Close()
	for s := bufio.NewScanner(r); s.Scan(); {
		p.mu.Lock()
		fmt.Fprintln(&p.text, s.Text())
		p.mu.Unlock()
		select {
		case p.lines <- s.Text():
		default: // nobody waits for it any more
		}
	}
	p.done <- p.cmd.Wait()
	close(p.lines)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// next returns the process's next line.
func (p *process) next(within time.Duration) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", fmt.Errorf("%s ended: %s", p.cmd.Path, strings.TrimSpace(p.output()))
		}
		return line, nil
	case <-time.After(within):
		return "", fmt.Errorf("%s does not answer within %v: %s", p.cmd.Path, within, strings.TrimSpace(p.output()))
	}
}

// await returns when the process has printed a line with the prefix.
func (p *process) await(ctx context.Context, prefix string) error {
	for {
		line, err := p.next(startWithin)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case strings.HasPrefix(line, prefix):
			return nil
		}
	}
}

// stop interrupts the process and waits for its end.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
	select {
	case err := <-p.done:
		p.done <- err
		if err != nil {
			return fmt.Errorf("%s of %s: %w: %s", p.cmd.Args[0], p.name, err, strings.TrimSpace(p.output()))
		}
		return nil
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("%s of %s did not end within %v", p.cmd.Args[0], p.name, stopWithin)
	}
}
