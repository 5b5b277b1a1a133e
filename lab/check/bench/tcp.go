package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"slices"
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

// tcpChild is one end of a kernel connection.
func tcpChild(args []string) error {
	flags := flag.NewFlagSet("tcp", flag.ContinueOnError)
	listen := flags.String("listen", "", "address to serve on")
	connect := flags.String("connect", "", "address to connect to")
	ping := flags.Bool("ping", false, "ping-pong instead of a stream")
	d := flags.Duration("duration", time.Second, "how long to send")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptString(fd, syscall.IPPROTO_TCP, tcpCongestion, congestion); err != nil {
		return fmt.Errorf("congestion control %s: %w", congestion, err)
	}
	if *listen != "" {
		return tcpServe(fd, *listen, *ping)
	}
	return tcpSend(fd, *connect, *ping, *d)
}

func sockaddr(s string) (*syscall.SockaddrInet4, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return nil, err
	}
	return &syscall.SockaddrInet4{Port: tcpPort, Addr: a.As4()}, nil
}

func noDelay(fd int) error {
	return syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
}

func tcpServe(fd int, addr string, ping bool) error {
	sa, err := sockaddr(addr)
	if err != nil {
		return err
	}
	if err := errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), syscall.Bind(fd, sa), syscall.Listen(fd, 1)); err != nil {
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

func tcpSend(fd int, addr string, ping bool, d time.Duration) error {
	sa, err := sockaddr(addr)
	if err != nil {
		return err
	}
	if err := errors.Join(noDelay(fd), syscall.Connect(fd, sa)); err != nil {
		return err
	}
	result.Ready()
	cpu := result.CPU()
	begin := time.Now()
	var r result.Result
	if ping {
		r, err = tripsOf(fd, begin.Add(d))
	} else {
		r, err = flood(fd, begin.Add(d))
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

func tripsOf(fd int, deadline time.Time) (r result.Result, err error) {
	var b [pingSize]byte
	trips := make([]time.Duration, 0, 1<<20)
	for begin := time.Now(); begin.Before(deadline); {
		if _, err := syscall.Write(fd, b[:]); err != nil {
			return r, err
		}
		if _, err := readFull(fd, b[:]); err != nil {
			return r, err
		}
		end := time.Now()
		trips = append(trips, end.Sub(begin))
		begin = end
	}
	slices.Sort(trips)
	r.Messages = int64(len(trips))
	r.Bytes = r.Messages * pingSize
	r.Latency = trips[len(trips)/2] / 2
	return r, nil
}
