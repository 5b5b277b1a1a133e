package demo

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"tapir/lab/host/link"
)

// stopWithin bounds how long a process may take to end in order.
const stopWithin = time.Minute

// process is a program inside a namespace.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of the end; valid after ended

	mu    sync.Mutex
	text  []string
	lines chan string
}

// endedError says that a process ended by itself.
type endedError struct {
	name string
	pid  int
	err  error
	said string
}

func (e *endedError) Error() string {
	s := fmt.Sprintf("%s (process %d) ended by itself", e.name, e.pid)
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	if e.said != "" {
		s += ": " + strings.TrimPrefix(e.said, "tapir: ")
	}
	return s
}

func spawn(name string, side *link.Space, program string, args ...string) (*process, error) {
	p := &process{name: name, ended: make(chan struct{}), lines: make(chan string, 64)}
	p.cmd = exec.Command(program, args...)
	r, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err = side.NS.Start(p.cmd)
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
		p.text = append(p.text, s.Text())
		p.mu.Unlock()
		select {
		case p.lines <- s.Text():
		default: // nobody waits for it any more
		}
	}
	p.err = p.cmd.Wait()
	close(p.ended)
	close(p.lines)
}

// said is the first line after the one that says that the process is ready:
// its complaint, if it has one.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := ""
	for _, line := range p.text {
		switch {
		case strings.HasPrefix(line, "ready "):
			first = ""
		case first == "":
			first = line
		}
	}
	return first
}

// next returns the process's next line.
func (p *process) next(ctx context.Context, within time.Duration) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", &endedError{p.name, p.cmd.Process.Pid, p.err, p.said()}
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(within):
		return "", fmt.Errorf("%s does not answer within %v", p.name, within)
	}
}

// await returns when the process has printed a line with the prefix.
func (p *process) await(ctx context.Context, prefix string) error {
	for {
		line, err := p.next(ctx, startWithin)
		if err != nil || strings.HasPrefix(line, prefix) {
			return err
		}
	}
}

// dumpWithin bounds how long tcpdump may take to read what the kernel holds
// for it; the kernel hands a block over after a second at the latest.
const dumpWithin = time.Minute

// drain waits until tcpdump has read every frame that its filter let through.
// At SIGUSR1 it prints how far it is; at an interrupt it would drop the rest.
func (p *process) drain() error {
	const report = "tcpdump: %d packets captured, %d packets received by filter, %d packets dropped by kernel"
	for deadline := time.Now().Add(dumpWithin); time.Now().Before(deadline); {
		if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return err
		}
		line, err := p.next(context.Background(), dumpWithin)
		if err != nil {
			return err
		}
		var captured, received, dropped int
		if n, _ := fmt.Sscanf(line, report, &captured, &received, &dropped); n != 3 {
			continue
		}
		if dropped > 0 {
			return fmt.Errorf("%s lost %d frames", p.name, dropped)
		}
		if captured == received {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s does not keep up: %s", p.name, p.said())
}

// stop interrupts the process and waits for its end.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return &endedError{p.name, p.cmd.Process.Pid, p.err, p.said()}
	default:
	}
	_ = p.cmd.Process.Signal(os.Interrupt) // it may end at this moment
	select {
	case <-p.ended:
		if p.err != nil {
			return &endedError{p.name, p.cmd.Process.Pid, p.err, p.said()}
		}
		return nil
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("%s did not end within %v", p.name, stopWithin)
	}
}
