// Package ptpuds is the Unix datagram socket by which linuxptp's pmc and
// phc2sys talk to a PTP instance on the same machine: `pmc -u -s PATH`.
package ptpuds

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Server answers what clients send; *mgmt.Server is one.
type Server interface {
	Local(client string, b []byte, now frame.Time)
}

// Socket is a listening socket. It implements mgmt.Local.
type Socket struct {
	conn *net.UnixConn
	raw  syscall.RawConn
	path string
	done chan struct{}
	lost atomic.Uint64
}

// Listen makes the socket at path, for the user alone. A socket that nobody
// listens on any more is replaced.
func Listen(path string) (*Socket, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("PTP management socket: %w", err)
	}
	s := &Socket{conn: conn, path: path}
	if s.raw, err = conn.SyscallConn(); err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("PTP management socket: %w", err)
	}
	return s, nil
}

// removeStale removes a socket without a listener.
func removeStale(path string) error {
	if st, err := os.Lstat(path); err == nil && st.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("PTP management socket %s: there is a file of that name", path)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("PTP management socket %s: in use by another program", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("PTP management socket: %w", err)
}

// Path is the name of the socket.
func (s *Socket) Path() string { return s.path }

// Serve begins to give what comes to srv, by do, which must run its argument
// on the thread of the instance, as node.Do does; false ends it.
func (s *Socket) Serve(do func(func(now frame.Time)) bool, srv Server) {
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		buf := make([]byte, msg.MaxLen)
		for {
			n, from, err := s.conn.ReadFromUnix(buf)
			if err != nil {
				return // closed
			}
			if from == nil || from.Name == "" {
				s.lost.Add(1) // nowhere to answer to
				continue
			}
			b := bytes.Clone(buf[:n])
			if !do(func(now frame.Time) { srv.Local(from.Name, b, now) }) {
				return
			}
		}
	}()
}

// Send sends b (borrowed) to a client. It never waits: a client that does not
// read loses its answers.
func (s *Socket) Send(client string, b []byte) {
	err := s.raw.Write(func(fd uintptr) bool {
		if syscall.Sendto(int(fd), b, syscall.MSG_DONTWAIT, &syscall.SockaddrUnix{Name: client}) != nil {
			s.lost.Add(1)
		}
		return true
	})
	if err != nil {
		s.lost.Add(1)
	}
}

// Lost is how many requests had no sender to answer to, and how many answers
// found no reader.
func (s *Socket) Lost() uint64 { return s.lost.Load() }

// Close ends the service and removes the socket. It must not be called on the
// thread of the instance.
func (s *Socket) Close() error {
	err := s.conn.Close()
	if s.done != nil {
		<-s.done
	}
	return errors.Join(err, os.Remove(s.path))
}
