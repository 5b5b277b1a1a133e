// Package ipc is what processes of one machine give each other: descriptors
// along with messages, memory, and access to their own.
package ipc

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Rights is the control message that carries these descriptors; nil if there are
// none. A negative one is left out.
func Rights(fds ...int) []byte {
	var list []int
	for _, fd := range fds {
		if fd >= 0 {
			list = append(list, fd)
		}
	}
	if list == nil {
		return nil
	}
	return unix.UnixRights(list...)
}

// Descriptors are those that came with a message.
func Descriptors(oob []byte) (fds []int) {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		got, _ := unix.ParseUnixRights(&messages[i]) // none, if it is of another kind
		fds = append(fds, got...)
	}
	return fds
}

// Descriptor is the only one that came with a message, -1 if none did.
func Descriptor(oob []byte) int {
	fds := Descriptors(oob)
	if len(fds) == 0 {
		return -1
	}
	Close(fds[1:]...)
	return fds[0]
}

// Close closes descriptors; a negative one is none.
func Close(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// NewMemory makes memory of a size that nobody can change, all of it there and
// charged to this process, and the descriptor by which another one can map it.
func NewMemory(name string, size int) (mem []byte, fd int, err error) {
	if fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return nil, -1, err
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		err = unix.Fallocate(fd, 0, 0, int64(size))
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		mem, err = mapShared(fd, size)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, -1, err
	}
	return mem, fd, nil
}

// Map maps size octets of memory that another process has made with NewMemory or
// by itself, and whose descriptor stays the caller's. Memory that could vanish,
// so that an access kills this process, and that which is not there yet, so that
// this process would have to pay for it, is refused. Errors: EPERM, EINVAL if it is
// shorter, those of mmap(2).
func Map(fd, size int) ([]byte, error) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil, unix.EPERM
	}
	// Reserved huge pages count against nobody and may be missing.
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || unix.Fstat(fd, &st) != nil {
		return nil, unix.EPERM
	}
	switch {
	case size <= 0 || int64(size) > st.Size:
		return nil, unix.EINVAL
	case st.Blocks*blockSize < st.Size:
		return nil, unix.EPERM
	}
	return mapShared(fd, size)
}

// blockSize is the unit of st_blocks, stat(2).
const blockSize = 512

func mapShared(fd, size int) ([]byte, error) {
	return unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Peer is the process at the other end of a connection (SO_PEERCRED, unix(7));
// its id is 0 if it cannot be seen from here.
func Peer(c *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	if failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); failed != nil {
		return nil, failed
	}
	return cred, err
}

// NoAnswer says that the NIC at the other end of a connection lets its clients
// wait, why if that can be found out, and what to do. The socket has its name.
func NoAnswer(c net.Conn) (what, remedy string) {
	name := filepath.Base(c.RemoteAddr().String())
	what = fmt.Sprintf("NIC %s does not answer", strings.TrimSuffix(name, filepath.Ext(name)))
	u, ok := c.(*net.UnixConn)
	if !ok {
		return what, "try again"
	}
	cred, err := Peer(u) // which made the socket
	if err != nil || cred.Pid == 0 {
		return what, "end its process and start it again"
	}
	state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cred.Pid)) // of one that is gone nothing is known
	_, state, _ = bytes.Cut(state, []byte(") "))
	if len(state) > 0 && (state[0] == 'T' || state[0] == 't') {
		return fmt.Sprintf("%s: its process %d is stopped", what, cred.Pid),
			fmt.Sprintf("continue it with: kill -CONT %d, or end it with: kill -KILL %[1]d", cred.Pid)
	}
	return fmt.Sprintf("%s: its process %d is busy", what, cred.Pid),
		fmt.Sprintf("try again, or end it with: kill -KILL %d", cred.Pid)
}
