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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tapir/ptp/msg"
	"tapir/wire/frame"
)

// Server answers what clients send; *mgmt.Server is one.
type Server interface {
	Local(client string, b []byte, now frame.Time)
}

// Socket is a listening socket. It implements mgmt.Local.
type Socket struct {
	conn   *net.UnixConn
	raw    syscall.RawConn
	path   string
	out    chan answer
	closed chan struct{}
	once   sync.Once // of Close
	wait   sync.WaitGroup
	lost   atomic.Uint64
}

// answer is a message to a client.
type answer struct {
	client string
	b      []byte
}

const (
	maxAnswers = 1024             // that wait to be sent
	pause      = time.Millisecond // for a client whose queue is full
	maxTries   = 100              // before it has lost its answer
)

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
	s := &Socket{conn: conn, path: path, out: make(chan answer, maxAnswers), closed: make(chan struct{})}
	if s.raw, err = conn.SyscallConn(); err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("PTP management socket: %w", err)
	}
	s.wait.Add(1)
	go s.write()
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
	s.wait.Add(1)
	go func() {
		defer s.wait.Done()
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

// Send sends b (borrowed) to a client. It never waits: what a client does not
// read in time is lost.
func (s *Socket) Send(client string, b []byte) {
	select {
	case s.out <- answer{client, bytes.Clone(b)}:
	default:
		s.lost.Add(1)
	}
}

// write sends the answers in order. The kernel holds no more than ten for a
// client, which must be given the time to read.
func (s *Socket) write() {
	defer s.wait.Done()
	for {
		select {
		case <-s.closed:
			return
		case a := <-s.out:
			for try := 0; ; try++ {
				err := s.sendTo(a)
				if err == nil {
					break
				}
				if !errors.Is(err, syscall.EAGAIN) || try == maxTries {
					s.lost.Add(1)
					break
				}
				time.Sleep(pause)
			}
		}
	}
}

func (s *Socket) sendTo(a answer) (err error) {
	closed := s.raw.Control(func(fd uintptr) {
		err = syscall.Sendto(int(fd), a.b, syscall.MSG_DONTWAIT, &syscall.SockaddrUnix{Name: a.client})
	})
	return errors.Join(closed, err)
}

// Lost is how many requests had no sender to answer to, and how many answers
// found no reader.
func (s *Socket) Lost() uint64 { return s.lost.Load() }

// Close ends the service and removes the socket; once more, it does nothing. It
// must not be called on the thread of the instance.
func (s *Socket) Close() (err error) {
	s.once.Do(func() {
		close(s.closed)
		err = s.conn.Close()
		s.wait.Wait()
		err = errors.Join(err, os.Remove(s.path))
	})
	return err
}
