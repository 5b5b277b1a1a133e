// Package fuse is a file system whose file is never read.
package fuse

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// FS is a file system of one file, "memory", whose octets never come (fuse(4),
// linux/fuse.h).
type FS struct {
	fd   int
	dir  string
	Held atomic.Int64 // reads that wait
	// leave is closed to end serve, which then closes done.
	leave, done chan struct{}
}

// Size is the length of the file in octets.
const Size = 1 << 20

// Opcodes of linux/fuse.h.
const (
	fuseLookup  = 1
	fuseForget  = 2
	fuseGetattr = 3
	fuseOpen    = 14
	fuseRead    = 15
	fuseRelease = 18
	fuseInit    = 26
)

const (
	fuseHeader = 40 // octets before the body of a request
	fuseFile   = 2  // the file's node; 1 is the root
)

// Missing says why there can be none; empty: it can.
func Missing() string {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Sprintf("/dev/fuse: %v", err)
	}
	_ = unix.Close(fd)
	return ""
}

// Mount mounts the file system at dir.
func Mount(dir string) (*FS, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := &FS{fd: fd, dir: dir, leave: make(chan struct{}), done: make(chan struct{})}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("attack", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("mount a FUSE file system: %w", err)
	}
	go f.serve()
	// The first close is told that there is no flush, so that no other one waits: not
	// that of this process's end, which nobody would answer.
	file, err := unix.Open(dir+"/memory", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		f.Leave()
		f.Unmount()
		return nil, err
	}
	return f, unix.Close(file)
}

// Descriptor is that of /dev/fuse.
func (f *FS) Descriptor() int { return f.fd }

// Leave ends the service: what waits does so until whoever has a duplicate of the
// descriptor closes it.
func (f *FS) Leave() {
	close(f.leave)
	<-f.done
	_ = unix.Close(f.fd)
}

// Unmount removes the file system. Without a duplicate of the descriptor all that
// waits fails.
func (f *FS) Unmount() {
	_ = unix.Unmount(f.dir, unix.MNT_FORCE)
	_ = unix.Unmount(f.dir, unix.MNT_DETACH) // who has the file open keeps it
}

// serve answers until the end of the mount.
func (f *FS) serve() {
	defer close(f.done)
	poll := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}
	for buf := make([]byte, 1<<20); ; {
		// A read that waits would hold the file open beyond its closing.
		if _, err := unix.Poll(poll,
			100); err != nil && err != unix.EINTR || poll[0].Revents&(unix.POLLERR|unix.POLLNVAL) != 0 {
			return
		}
		select {
		case <-f.leave:
			return
		default:
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			continue
		}
		n, err := unix.Read(f.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOENT):
			continue
		case err != nil:
			return
		}
		f.answer(buf[:n])
	}
}

// answer answers one request.
func (f *FS) answer(request []byte) {
	order := binary.NativeEndian
	node := order.Uint64(request[16:])
	var body []byte
	failed := unix.Errno(0)
	switch order.Uint32(request[4:]) {
	case fuseInit:
		body = make([]byte, 64)
		order.PutUint32(body, 7)
		order.PutUint32(body[4:], 31)
		order.PutUint32(body[8:], order.Uint32(request[fuseHeader+8:]))
		order.PutUint32(body[20:], 64<<10) // of a write
	case fuseLookup:
		if string(request[fuseHeader:len(request)-1]) != "memory" {
			failed = unix.ENOENT
			break
		}
		body = make([]byte, 40)
		order.PutUint64(body, fuseFile)
		order.PutUint64(body[16:], 3600) // seconds that the name and
		order.PutUint64(body[24:], 3600) // the attributes are good
		body = append(body, attributes(fuseFile)...)
	case fuseGetattr:
		body = append(make([]byte, 16), attributes(node)...)
	case fuseOpen:
		body = make([]byte, 16)
	case fuseRead:
		f.Held.Add(1)
		return
	case fuseForget:
		return
	case fuseRelease:
	default:
		failed = unix.ENOSYS
	}
	out := make([]byte, 16, 16+len(body))
	order.PutUint32(out, uint32(cap(out)))
	order.PutUint32(out[4:], uint32(-int32(failed)))
	copy(out[8:], request[8:16])
	_, _ = unix.Write(f.fd, append(out, body...)) // who asked may be gone
}

// attributes are a fuse_attr.
func attributes(node uint64) []byte {
	a := make([]byte, 88)
	binary.NativeEndian.PutUint64(a, node)
	binary.NativeEndian.PutUint64(a[8:], Size)
	mode := uint32(unix.S_IFDIR | 0o700)
	if node == fuseFile {
		mode = unix.S_IFREG | 0o600
	}
	binary.NativeEndian.PutUint32(a[60:], mode)
	binary.NativeEndian.PutUint32(a[64:], 1)
	return a
}
