package umad

import (
	"golang.org/x/sys/unix"

	"tapir/nic/uapi/trap"
	"tapir/wire/ib"
)

// record is what the program has not read yet: as much of it as fits a page is
// in the pipe, so that the program is woken.
type record struct {
	b    []byte
	pipe int // octets of it there
}

// put has the program read a record, which is lost if there is no room.
func (f *file) put(b []byte) {
	r := record{b, min(len(b), f.header+mostMAD)}
	if f.Put(b[:r.pipe]) == nil {
		f.unread = append(f.unread, r)
	}
}

// trim forgets the records that were read.
func (f *file) trim() {
	_, w := f.Descriptor()
	waiting, err := unix.IoctlGetInt(w, unix.TIOCINQ)
	if err != nil {
		return
	}
	total := 0
	for i := len(f.unread) - 1; i >= 0; i-- {
		if total >= waiting {
			f.unread = f.unread[i+1:]
			return
		}
		total += f.unread[i].pipe
	}
	if waiting == 0 {
		f.unread = f.unread[:0]
	}
}

// Read implements trap.Reader: a record that is longer than what the program has
// room for, or than a page, is not read from the pipe alone. As in the kernel it
// stays, and the program gets its first datagram with ENOSPC.
func (f *file) Read(c *trap.Call, addr, n uint64) trap.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trim()
	if len(f.unread) == 0 || f.unread[0].pipe == len(f.unread[0].b) && uint64(len(f.unread[0].b)) <= n {
		return trap.Pass()
	}
	r := f.unread[0]
	if first := min(len(r.b), f.header+ib.MADLen); uint64(len(r.b)) > n {
		if n < uint64(first) {
			return trap.Fail(unix.EINVAL)
		}
		if err := c.Write(addr, r.b[:first]); err != nil {
			return trap.Fail(err)
		}
		return trap.Fail(unix.ENOSPC)
	}
	fd, err := c.Fd(c.Int(0))
	if err != nil {
		return trap.Fail(err)
	}
	defer unix.Close(fd)
	if err := c.Write(addr, r.b); err != nil {
		return trap.Fail(err)
	}
	if _, err := unix.Read(fd, make([]byte, r.pipe)); err != nil { // another thread has read it
		return trap.Fail(err)
	}
	f.unread = f.unread[1:]
	return trap.Return(int64(len(r.b)))
}
