package refclock

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"

	"golang.org/x/sys/unix"
)

// Layout of chrony's struct sock_sample on 64-bit machines, in native byte
// order: timeval of the system clock at 0, the reference's lead over it as a
// double in seconds at 16, pulse at 24, leap at 28, padding at 32, magic at
// 36 (refclock_sock.c; "SOCK" in chrony.conf(5)).
const (
	sockLen   = 40
	sockMagic = 0x534f434b
)

func (s Sample) sock() (b [sockLen]byte) {
	system := unix.NsecToTimespec(s.System)
	binary.NativeEndian.PutUint64(b[0:], uint64(system.Sec))
	binary.NativeEndian.PutUint64(b[8:], uint64(system.Nsec/1000))
	binary.NativeEndian.PutUint64(b[16:], math.Float64bits(float64(s.Clock-s.System)/1e9))
	binary.NativeEndian.PutUint32(b[28:], uint32(s.Leap))
	binary.NativeEndian.PutUint32(b[36:], sockMagic)
	return b
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
