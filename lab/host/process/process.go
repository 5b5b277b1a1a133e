// Package process runs programs in the network namespaces of a lab and keeps
// what they say.
package process

import (
	"bytes"
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

// Options say what to start.
type Options struct {
	Argv []string
	Dir  string
	Env  []string  // added to this process's own
	Echo io.Writer // gets what the program says, too; nil: nobody
}

// Process is a program in a namespace. Its group ends with it.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // valid once ended
	said  output
}

// output keeps what a program prints.
type output struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	echo io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.echo != nil {
		_, _ = o.echo.Write(p) // who does not listen misses it
	}
	return o.buf.Write(p)
}

// gentle is how long a program may take to end when it is asked to: longer than a
// NIC that waits for its clients and connections in vain.
const gentle = 10 * time.Second

// Start starts a program. It ends with ctx at the latest, and with this
// process.
func Start(ctx context.Context, ns *netns.NS, o Options) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, o.Argv[0], o.Argv[1:]...), ended: make(chan struct{})}
	p.said.echo = o.Echo
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = o.Dir, &p.said, &p.said
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = gentle
	nothing, err := ended()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdin = nothing
	err = ns.Start(p.cmd)
	nothing.Close()
	if err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// ended is an input that has ended. Unlike /dev/null, it is there in an empty container.
func ended() (*os.File, error) {
	r, w, err := os.Pipe()
	if err == nil {
		err = w.Close()
	}
	return r, err
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// HasEnded tells whether it has.
func (p *Process) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Err is how an ended program ended, if it was not content.
func (p *Process) Err() error { return p.err }

// ExitCode is that of an ended program; -1 if a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Wait returns when the program has ended: its error, if it was not content.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return errors.New("it does not end")
	}
}

// Stop ends the program.
func (p *Process) Stop() {
	if p.HasEnded() {
		return
	}
	syscall.Kill(-p.PID(), syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(gentle):
		syscall.Kill(-p.PID(), syscall.SIGKILL)
		<-p.ended
	}
}

// Kill ends the program and its group with SIGKILL.
func (p *Process) Kill() {
	if !p.HasEnded() {
		syscall.Kill(-p.PID(), syscall.SIGKILL)
		<-p.ended
	}
}

// Said is everything that the program has said so far.
func (p *Process) Said() string {
	p.said.mu.Lock()
	defer p.said.mu.Unlock()
	return p.said.buf.String()
}

// Line is the first line that contains text, "" if there is none yet.
func (p *Process) Line(text string) string {
	for l := range strings.Lines(p.Said()) {
		if strings.Contains(l, text) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

// Await waits for a line that contains text.
func (p *Process) Await(ctx context.Context, text string) error {
	return Until(ctx, func() (bool, error) {
		if p.Line(text) != "" {
			return true, nil
		}
		if p.HasEnded() {
			return false, fmt.Errorf("it has ended: %w: %s", p.err, p.Tail())
		}
		if ctx.Err() != nil {
			return false, fmt.Errorf("it does not say %q: %w: %s", text, ctx.Err(), p.Tail())
		}
		return false, nil
	})
}

// Tail is the end of what it said.
func (p *Process) Tail() string {
	const most = 1500
	s := strings.TrimSpace(p.Said())
	return s[max(0, len(s)-most):]
}

// poll is how often Until looks.
const poll = 20 * time.Millisecond

// Until waits until done says so.
func Until(ctx context.Context, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if ctx.Err() != nil { // which done, asked last, has put better if it could
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
		case <-time.After(poll):
		}
	}
}
