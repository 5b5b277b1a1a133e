package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"tapir/lab/netns"
)

// process is a program in a namespace. Its group ends with it.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // valid once ended
	said  output
}

// output keeps what a program prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// gentle is how long a program may take to end when it is asked to.
const gentle = 5 * time.Second

// start starts argv in directory dir. It ends with ctx at the latest.
func start(ctx context.Context, ns *netns.NS, dir string, argv ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = gentle
	if err := ns.Start(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// wait returns when the program has ended: its error, if it was not content.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return errors.New("it does not end")
	}
}

// stop ends the program.
func (p *process) stop() {
	if p.hasEnded() {
		return
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(gentle):
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
}

// line is the first line that contains text, "" if there is none yet.
func (p *process) line(text string) string {
	for l := range strings.Lines(p.said.String()) {
		if strings.Contains(l, text) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

// await waits for a line that contains text.
func (p *process) await(ctx context.Context, text string) error {
	return until(ctx, func() (bool, error) {
		if p.line(text) != "" {
			return true, nil
		}
		if p.hasEnded() {
			return false, fmt.Errorf("it has ended: %w: %s", p.err, p.tail())
		}
		return false, nil
	})
}

// tail is the end of what it said.
func (p *process) tail() string {
	const most = 600
	s := strings.TrimSpace(p.said.String())
	return s[max(0, len(s)-most):]
}
