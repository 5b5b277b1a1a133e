package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// OutOfTime is the exit code of a command that the guest has killed because
// its time was up.
const OutOfTime = 124

const (
	greetIn = 5 * time.Second  // an idle agent answers at once
	grace   = 10 * time.Second // for the end of a command that the guest kills
)

// Handle is the way to run commands in a guest, also for other processes than
// the one that started it.
type Handle struct{ dir string }

// Open finds a running guest by its Config.Dir.
func Open(dir string) (*Handle, error) {
	h := &Handle{dir}
	conn, err := net.Dial("unix", filepath.Join(dir, "0.sock"))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("no guest runs in %s", dir)
	case errors.Is(err, unix.EAGAIN): // it runs: others wait for this channel
		return h, nil
	case err != nil:
		return nil, err
	}
	return h, conn.Close()
}

// channel is one command's way to the guest.
type channel struct {
	conn net.Conn
	lock *os.File
	in   *bufio.Reader
	id   string
}

func (c *channel) close() {
	c.conn.Close()
	c.lock.Close()
}

var serial atomic.Uint64

// open finds a free channel.
func (h *Handle) open(ctx context.Context) (*channel, error) {
	for {
		for i := range channels {
			c, err := h.take(ctx, filepath.Join(h.dir, fmt.Sprintf("%d.sock", i)))
			if err != nil {
				return nil, err
			}
			if c != nil {
				return c, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no channel to the guest: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// take locks the channel behind a socket and greets the agent; nil if someone
// else has it or no one answers.
func (h *Handle) take(ctx context.Context, socket string) (*channel, error) {
	lock, err := os.OpenFile(socket+".lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the guest has gone: %w", err)
	}
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		lock.Close()
		return nil, nil
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		lock.Close()
		if errors.Is(err, unix.EAGAIN) {
			return nil, nil
		}
		return nil, fmt.Errorf("the guest has gone: %w", err)
	}
	c := &channel{conn: conn, lock: lock, in: bufio.NewReader(conn),
		id: fmt.Sprintf("%d.%d", os.Getpid(), serial.Add(1))}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if !c.greet() {
		c.close()
		return nil, nil
	}
	return c, nil
}

// greet skips what an earlier command left in the channel.
func (c *channel) greet() bool {
	c.conn.SetDeadline(time.Now().Add(greetIn))
	defer c.conn.SetDeadline(time.Time{})
	if _, err := fmt.Fprintf(c.conn, "\nS %s\n", c.id); err != nil {
		return false
	}
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return false
		}
		if strings.HasSuffix(line, "Y "+c.id+"\n") {
			return true
		}
	}
}

// result copies the command's output until its end.
func (c *channel) result(out io.Writer) (code int, err error) {
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		f := strings.Fields(line)
		if len(f) != 3 {
			return 0, fmt.Errorf("the agent says %q", line)
		}
		n, err := strconv.Atoi(f[2])
		if err != nil {
			return 0, fmt.Errorf("the agent says %q", line)
		}
		if f[0] == "X" && f[1] == c.id {
			return n, nil
		}
		to := io.Discard
		if f[1] == c.id {
			to = out
		}
		if f[0] == "O" {
			if _, err := io.CopyN(to, c.in, int64(n)); err != nil {
				return 0, err
			}
		}
	}
}

// Run runs a shell command in the guest and copies its output, both streams,
// to out as it comes. It returns the command's exit code: 128 and more for a
// signal, OutOfTime if it took longer than limit. When ctx ends, the command
// and its children are killed.
func (h *Handle) Run(ctx context.Context, limit time.Duration, command string, out io.Writer) (code int, err error) {
	c, err := h.open(ctx)
	if err != nil {
		return 0, err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	c.conn.SetDeadline(time.Now().Add(limit + grace))
	if _, err = fmt.Fprintf(c.conn, "R %s %d %d\n%s", c.id, int(limit.Seconds()+0.999), len(command), command); err ==
		nil {
		code, err = c.result(out)
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, fmt.Errorf("channel to the guest: %w", err)
	}
	return code, nil
}

// Put writes data to a file of the guest.
func (h *Handle) Put(ctx context.Context, name string, mode fs.FileMode, data []byte) error {
	c, err := h.open(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	code := 0
	if _, err = fmt.Fprintf(c.conn, "P %s %o %d %d\n%s", c.id, mode.Perm(), len(name), len(data), name); err == nil {
		if _, err = c.conn.Write(data); err == nil {
			code, err = c.result(io.Discard)
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("channel to the guest: %w", err)
	case code != 0:
		return fmt.Errorf("the guest cannot write %s", name)
	}
	return nil
}

// PowerOff ends the guest and returns when it is gone.
func (h *Handle) PowerOff(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, diesIn)
	defer cancel()
	_, err := h.Run(ctx, greetIn, "poweroff -f", io.Discard) // an error is what is to be expected
	for {
		if _, gone := Open(h.dir); gone != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the guest does not end: %w", errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
