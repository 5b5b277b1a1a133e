package relay

import (
	"encoding/binary"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
)

// kind of a message.
type kind uint32

const (
	// From the supervisor; ID is that of the call. With open and command a pidfd
	// of Thread's process comes along if Hello says Below.
	open    kind = iota + 1 // device Tail, with Flags of open(2), by Thread
	command                 // File, of Len octets at Addr of Thread, written to descriptor number FD; Flags 1: an ioctl
	cancel                  // the call has a signal to handle or its thread is gone
	reply                   // to the question ID: Value, or Errno; may carry a descriptor
	paper                   // the memory of a ledger comes along
	take                    // the listener comes along; Tail is its trap.Terms

	// From the NIC's process.
	opened    // call ID: File, with its descriptor, or Errno
	done      // call ID: Errno
	cancelled // call ID will not be done
	again     // call ID is to be sent again
	ended     // File
	install   // question ID: give Call the descriptor that comes along, with Flags
	waits     // question ID: does Call still wait?
	flags     // question ID: the file status flags of descriptor FD of Call
	memory    // question ID: /proc/Thread/mem
	maps      // question ID: /proc/Thread/maps
	foreign   // Tail is the trap.Notification of a call that is not for a device file
	back      // the listener is received from no more
	bells     // the memory of the doorbells of File comes along
	lastWords // Tail, for the descriptor that comes along if this process dies; without one, none of File are left
)

// message is what is exchanged after the greeting. Both ends are one machine's
// and one version's, so its fields lie in memory order.
type message struct {
	Kind   kind
	Errno  uint32
	ID     uint64
	Call   uint64
	File   uint64
	Addr   uint64
	Len    uint64
	Value  int64
	Thread int32
	FD     int32
	Flags  int64
}

// maxTail is the longest tail of a message in octets.
const maxTail = 256

var messageLen = binary.Size(message{})

// link is the connection. Messages are independent of each other, so that it
// does not matter if one overtakes another.
type link struct {
	c   *net.UnixConn
	raw syscall.RawConn
}

func newLink(c *net.UnixConn) *link {
	raw, _ := c.SyscallConn() // fails without a connection
	return &link{c, raw}
}

// send sends m, tail and the file that fd is open on, -1 for none. It never
// blocks. False: the other side is gone, which the reader finds, too.
func (l *link) send(m *message, tail string, fd int) (ok bool) {
	b, _ := binary.Append(make([]byte, 0, messageLen+len(tail)), binary.NativeEndian, m) // it is of fixed size
	b = append(b, tail...)
	var err error
	closed := l.raw.Control(func(sock uintptr) {
		err = unix.Sendmsg(int(sock), b, ipc.Rights(fd), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	if closed != nil || !errors.Is(err, unix.EAGAIN) {
		return closed == nil && err == nil
	}
	if fd >= 0 {
		kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			_ = l.c.Close()
			return false
		}
		fd = kept
	}
	go func() {
		_, _, _ = l.c.WriteMsgUnix(b, ipc.Rights(fd), nil)
		ipc.Close(fd)
	}()
	return true
}

// receive waits for a message. The descriptor that comes along, -1 for none,
// is the caller's.
func (l *link) receive() (m message, tail string, fd int, err error) {
	b, oob := make([]byte, messageLen+maxTail), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := l.c.ReadMsgUnix(b, oob)
	if err != nil {
		return m, "", -1, err
	}
	fd = ipc.Descriptor(oob[:oobn])
	if _, err = binary.Decode(b[:n], binary.NativeEndian, &m); err != nil { // also at the end, where n is 0
		ipc.Close(fd)
		return m, "", -1, err
	}
	return m, string(b[messageLen:n]), fd, nil
}
