package linuxptp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"tapir/lab/host/netns"
)

// Program is a running program.
type Program struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // valid once ended

	mu    sync.Mutex
	lines []string
	news  chan struct{} // closed and replaced with each line
}

func (p *Program) start(ns *netns.NS) error {
	// One pipe for both, so that lines stay in order.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	err = ns.Start(p.cmd)
	w.Close()
	if err != nil {
		r.Close()
		return err
	}
	go p.read(r)
	return nil
}

func (p *Program) read(r io.ReadCloser) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
	}
	io.Copy(io.Discard, r)
	r.Close()
	p.err = p.cmd.Wait()
	close(p.ended)
}

func (p *Program) kill() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// gentle is how long a program may take to end when it is asked to.
const gentle = 3 * time.Second

// Stop ends the program and waits for its end.
func (p *Program) Stop() {
	select {
	case <-p.ended:
		return
	default:
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(gentle):
		p.kill()
		<-p.ended
	}
}

// Lines returns what the program has printed so far.
func (p *Program) Lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines[:len(p.lines):len(p.lines)]
}

// Log returns the same as ptp4l's log.
func (p *Program) Log() Log { return Log(p.Lines()) }

// errEnded is the error of a wait for a program that has ended.
var errEnded = errors.New("the program has ended")

// Await waits until what the program has printed satisfies done. The error
// names what was awaited and quotes the program's last lines.
func (p *Program) Await(ctx context.Context, what string, done func(Log) bool) error {
	for {
		p.mu.Lock()
		lines, news := p.lines, p.news
		p.mu.Unlock()
		if done(Log(lines)) {
			return nil
		}
		var err error
		select {
		case <-news:
			continue
		case <-p.ended:
			if done(p.Log()) {
				return nil
			}
			err = errEnded
		case <-ctx.Done():
			err = ctx.Err()
		}
		return fmt.Errorf("%s: waiting for %s: %w%s", p.name, what, err, p.tail())
	}
}

// AwaitState waits until a port of a ptp4l is in a state, such as "SLAVE".
func (p *Program) AwaitState(ctx context.Context, port int, state string) error {
	return p.Await(ctx, fmt.Sprintf("port %d %s", port, state), func(l Log) bool { return l.State(port) == state })
}

// tail is the end of the output, for errors.
func (p *Program) tail() string {
	lines := p.Lines()
	const most = 12
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	if len(lines) == 0 {
		return ""
	}
	return "\n" + strings.Join(lines, "\n")
}
