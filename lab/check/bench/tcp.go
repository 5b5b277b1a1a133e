package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"tapir/lab/check/bench/result"
)

// The reference: the kernel's TCP on plain blocking sockets. The default
// congestion control of some systems is a slow one for such a path, so it is
// chosen here.
const (
	congestion    = "cubic"
	tcpCongestion = 13 // TCP_CONGESTION
	tcpPort       = 5001
	streamWrite   = 128 << 10
	streamRead    = 256 << 10
	pingSize      = 64
)

// tcpSpec is one end of a kernel connection.
type tcpSpec struct {
	Server   bool
	Address  string // of the server
	Ping     bool   // ping-pong instead of a stream
	Duration time.Duration
}

func tcpChild(_ context.Context, spec *tcpSpec) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptString(fd, syscall.IPPROTO_TCP, tcpCongestion, congestion); err != nil {
		return fmt.Errorf("congestion control %s: %w", congestion, err)
	}
	sa := &syscall.SockaddrInet4{Port: tcpPort, Addr: netip.MustParseAddr(spec.Address).As4()}
	if spec.Server {
		return tcpServe(fd, sa, spec.Ping)
	}
	return tcpSend(fd, sa, spec)
}

func noDelay(fd int) error {
	return syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
}

func tcpServe(fd int, sa syscall.Sockaddr, ping bool) error {
	if err := errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), syscall.Bind(fd, sa),
		syscall.Listen(fd, 1)); err != nil {
		return err
	}
	result.Ready()
	conn, _, err := syscall.Accept(fd)
	if err != nil {
		return err
	}
	defer syscall.Close(conn)
	if err := noDelay(conn); err != nil {
		return err
	}
	cpu := result.CPU()
	var r result.Result
	if ping {
		err = echo(conn)
	} else {
		r, err = drain(conn)
	}
	if err != nil {
		return err
	}
	r.CPU = result.CPU() - cpu
	return r.Print()
}

// drain reads the stream to its end; the receiver's timing counts.
func drain(fd int) (r result.Result, err error) {
	buf := make([]byte, streamRead)
	var begin time.Time
	for {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return r, err
		}
		if begin.IsZero() {
			begin = time.Now()
		}
		if n == 0 {
			r.Elapsed = time.Since(begin)
			return r, nil
		}
		r.Bytes += int64(n)
	}
}

func readFull(fd int, b []byte) (n int, err error) {
	for n < len(b) {
		k, err := syscall.Read(fd, b[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || k == 0 {
			return n, err
		}
		n += k
	}
	return n, nil
}

func echo(fd int) error {
	var b [pingSize]byte
	for {
		n, err := readFull(fd, b[:])
		if err != nil || n == 0 {
			return err
		}
		if _, err := syscall.Write(fd, b[:]); err != nil {
			return err
		}
	}
}

func tcpSend(fd int, sa syscall.Sockaddr, spec *tcpSpec) (err error) {
	if err := errors.Join(noDelay(fd), syscall.Connect(fd, sa)); err != nil {
		return err
	}
	result.Ready()
	cpu := result.CPU()
	begin := time.Now()
	var r result.Result
	if spec.Ping {
		var b [pingSize]byte
		r, err = roundTrips(spec.Duration, func() error {
			if _, err := syscall.Write(fd, b[:]); err != nil {
				return err
			}
			_, err := readFull(fd, b[:])
			return err
		})
		r.Bytes = r.Messages * pingSize
	} else {
		r, err = flood(fd, begin.Add(spec.Duration))
	}
	if err != nil {
		return err
	}
	r.Elapsed = time.Since(begin)
	if err := syscall.Shutdown(fd, syscall.SHUT_WR); err != nil {
		return err
	}
	r.CPU = result.CPU() - cpu
	return r.Print()
}

func flood(fd int, deadline time.Time) (r result.Result, err error) {
	buf := make([]byte, streamWrite)
	for time.Now().Before(deadline) {
		n, err := syscall.Write(fd, buf)
		if err != nil && err != syscall.EINTR {
			return r, err
		}
		r.Bytes += int64(max(0, n))
		r.Messages++
	}
	return r, nil
}
