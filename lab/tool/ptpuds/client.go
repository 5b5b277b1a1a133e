package ptpuds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tapir/nic/uapi/rundir"
	"tapir/ptp/mgmt"
	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Client asks a PTP instance, or a ptp4l, through its socket. It serves one
// goroutine.
type Client struct {
	mgmt.Client
	conn   *net.UnixConn
	remove func()
	begun  time.Time
	buf    []byte
}

// Dial opens a client of the socket at path.
func Dial(path string) (*Client, error) {
	dir, remove, err := rundir.Make("tapir-pmc-")
	if err != nil {
		return nil, err
	}
	conn, err := net.DialUnix("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "pmc"), Net: "unixgram"},
		&net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		remove()
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
			return nil, fmt.Errorf("no PTP instance listens at %s", path)
		}
		return nil, fmt.Errorf("PTP management socket: %w", err)
	}
	c := &Client{conn: conn, remove: remove, begun: time.Now(), buf: make([]byte, msg.MaxLen)}
	c.Identity.Port = uint16(os.Getpid())
	return c, nil
}

func (c *Client) now() frame.Time { return frame.Time(time.Since(c.begun)) }

// quietTime is how long a client waits for another answer: others than the
// first are not far behind it.
const quietTime = mgmt.DefaultTimeout

// Ask sends a request and gives its answers to each, until there can be no
// more, none has come for a tenth of a second, or, without any, the client's
// timeout is over. Notifications that come meanwhile are given too. It returns
// how many answers there were.
func (c *Client) Ask(ctx context.Context, r mgmt.Request, each func(mgmt.Reply)) (answers int, err error) {
	if _, err := c.conn.Write(c.Append(nil, r, c.now())); err != nil {
		return 0, fmt.Errorf("PTP management socket: %w", err)
	}
	quiet := frame.Never
	err = c.read(ctx, func() frame.Time {
		now := c.now()
		if next := min(c.Poll(now), quiet); next > now {
			return next
		}
		return frame.Never
	}, func(reply mgmt.Reply) {
		if !reply.Notification {
			answers++
			quiet = c.now().Add(quietTime)
		}
		each(reply)
	})
	c.Poll(frame.Never) // what comes later is no answer
	return answers, err
}

// Request is one line of pmc's, parsed.
type Request struct {
	mgmt.Request
	Line string
}

// ParseRequests reads lines of pmc's for target, a port identity; empty: all.
func ParseRequests(target string, lines []string) (list []Request, err error) {
	var port msg.PortIdentity
	if target != "" {
		if port, err = msg.ParsePortIdentity(target); err != nil {
			return nil, err
		}
	}
	for _, l := range lines {
		r, err := mgmt.ParseCommand(l)
		if err != nil {
			return nil, err
		}
		r.Target = port
		list = append(list, Request{Request: r, Line: l})
	}
	return list, nil
}

// AskAll sends requests one after the other, prints their answers and then,
// for the time listen, notifications. A request without an answer, or with
// errors only, is an error.
func (c *Client) AskAll(ctx context.Context, w io.Writer, requests []Request, listen time.Duration) error {
	var failed []error
	for _, r := range requests {
		good := false
		n, err := c.Ask(ctx, r.Request, func(reply mgmt.Reply) {
			good = good || reply.Error == 0
			fmt.Fprint(w, reply.String())
		})
		switch {
		case err != nil:
			return err
		case n == 0:
			failed = append(failed, fmt.Errorf("%s: no answer within %v", r.Line, c.Timeout))
		case !good:
			failed = append(failed, fmt.Errorf("%s: refused", r.Line))
		}
	}
	if listen > 0 {
		failed = append(failed, c.Listen(ctx, listen, func(reply mgmt.Reply) { fmt.Fprint(w, reply.String()) }))
	}
	return errors.Join(failed...)
}

// Listen gives the notifications that come within d to each.
func (c *Client) Listen(ctx context.Context, d time.Duration, each func(mgmt.Reply)) error {
	end := c.now().Add(d)
	return c.read(ctx, func() frame.Time {
		if c.now() >= end {
			return frame.Never
		}
		return end
	}, each)
}

// read gives what comes to each, until the deadline is frame.Never.
func (c *Client) read(ctx context.Context, deadline func() frame.Time, each func(mgmt.Reply)) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		at := deadline()
		if at == frame.Never {
			return nil
		}
		if err := c.conn.SetReadDeadline(c.begun.Add(time.Duration(at))); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := c.conn.Read(c.buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return fmt.Errorf("PTP management socket: %w", err)
		}
		if reply, ok := c.Receive(c.buf[:n]); ok {
			each(reply)
		}
	}
}

// Close closes the client.
func (c *Client) Close() error {
	defer c.remove()
	return c.conn.Close()
}
