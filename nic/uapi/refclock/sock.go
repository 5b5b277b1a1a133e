package refclock

import (
	"encoding/binary"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// sockSample is chrony's struct sock_sample on 64-bit machines (refclock_sock.c;
// "SOCK" in chrony.conf(5)), in native byte order.
type sockSample struct {
	Sec, Usec   int64   // of the system's clock
	Offset      float64 // the reference's lead over it in seconds
	Pulse, Leap int32
	_, Magic    int32
}

const (
	sockLen   = 40
	sockMagic = 0x534f434b
)

func (s Sample) sock() [sockLen]byte {
	system := unix.NsecToTimespec(s.System)
	b, _ := binary.Append(nil, binary.NativeEndian, &sockSample{Sec: system.Sec, Usec: system.Nsec / 1000,
		Offset: float64(s.Clock-s.System) / 1e9, Leap: int32(s.Leap), Magic: sockMagic}) // it is of fixed size
	return [sockLen]byte(b)
}

// Sock sends samples to chronyd's Unix socket, which the daemon makes when it
// starts, at the path of its line "refclock SOCK path".
type Sock struct {
	path string
	conn *net.UnixConn
}

// OpenSock returns the sink of the socket at path.
func OpenSock(path string) *Sock { return &Sock{path: path} }

// Write sends a sample. A socket that was replaced is found again.
func (s *Sock) Write(sample Sample) error {
	if s.conn == nil {
		conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.path, Net: "unixgram"})
		if err != nil {
			return fmt.Errorf("reach chronyd: %w: chrony.conf needs the line \"refclock SOCK %s\"", err, s.path)
		}
		s.conn = conn
	}
	b := sample.sock()
	if _, err := s.conn.Write(b[:]); err != nil {
		s.Close()
		return fmt.Errorf("reach chronyd: %w", err)
	}
	return nil
}

// Close closes the sink. A later Write opens it again.
func (s *Sock) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
