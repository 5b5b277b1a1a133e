package trap

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/errno"
)

// Call is one trapped system call. The calling thread sleeps until the call
// is answered. A Call may be used from any goroutine, by one at a time.
type Call struct {
	l    *Listener
	n    Notification
	conn *connection // of the preloaded library; nil: by seccomp
	named
	blocked uint64 // by the preloaded library: the thread's own signal mask
	unsure  int    // looks that left it open whether a signal is for the thread
}

// named remembers the path that a call names, for the next handler.
type named struct {
	known bool
	path  string
	err   error
}

// Notification is how the kernel told of the call; with the preloaded library,
// what it would have said.
func (c *Call) Notification() Notification { return c.n }

// Native tells whether the call is one of this architecture; those of others,
// such as of 32-bit programs, have other numbers and layouts.
func (c *Call) Native() bool { return c.n.Arch == nativeArch && c.n.Nr&foreignBit == 0 }

// Nr is the system call's number on this architecture.
func (c *Call) Nr() uint32 { return uint32(c.n.Nr) }

// Arg is argument i, from 0.
func (c *Call) Arg(i int) uint64 { return c.n.Args[i] }

// Int is argument i where it is a C int.
func (c *Call) Int(i int) int { return int(int32(c.n.Args[i])) }

// Thread is the id of the calling thread.
func (c *Call) Thread() int { return int(c.n.PID) }

// Process is the id of the calling process. Error: ESRCH.
func (c *Call) Process() (int, error) {
	s, err := readSignals(c.proc("status"))
	if err != nil || s.tgid == 0 {
		return 0, unix.ESRCH
	}
	return s.tgid, nil
}

// Valid tells whether the calling thread still waits for the answer. While it
// does, its id, memory and descriptors are those of the call.
func (c *Call) Valid() bool {
	if c.conn != nil {
		return c.conn.waitsFor(c.n.ID)
	}
	return c.l.waits(c)
}

// Present tells whether the caller waits, or is interrupted and makes the call
// again.
func (c *Call) Present() bool { return c.Valid() || c.l.terms.Repeats }

// Read copies len(p) octets from address addr of the caller. Error: EFAULT.
func (c *Call) Read(addr uint64, p []byte) error {
	return c.l.mem.move(c.Thread(), addr, p, false)
}

// Write copies p to address addr of the caller. Error: EFAULT, also when the
// caller is no longer the one that made the call.
func (c *Call) Write(addr uint64, p []byte) error {
	if !c.Present() {
		return unix.EFAULT
	}
	return c.l.mem.move(c.Thread(), addr, p, true)
}

// Text reads the zero-terminated string at addr. Errors: EFAULT, ENAMETOOLONG.
func (c *Call) Text(addr uint64) (string, error) { return c.l.mem.text(c.Thread(), addr) }

func (c *Call) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", c.Thread(), name) }

// Fd returns a duplicate of the caller's descriptor fd: the same open file.
// Errors: EBADF, ESRCH.
func (c *Call) Fd(fd int) (int, error) {
	pid, err := c.Process()
	if err != nil {
		return -1, err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pidfd)
	dup, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err == nil && !c.Valid() {
		unix.Close(dup)
		return -1, unix.ESRCH
	}
	return dup, err
}

// FileID tells one file of the system from all others.
type FileID struct{ Dev, Ino uint64 }

// File identifies what the caller's descriptor fd is open on, however the
// descriptor came about: by dup, fork, execve or a message. Error: EBADF.
func (c *Call) File(fd int) (FileID, error) {
	var st unix.Stat_t
	if fd < 0 || unix.Stat(c.proc("fd/"+strconv.Itoa(fd)), &st) != nil {
		return FileID{}, unix.EBADF
	}
	return FileID{st.Dev, st.Ino}, nil
}

// Path resolves the path at addr, relative to descriptor dir or AT_FDCWD, to
// an absolute one without following symbolic links.
func (c *Call) Path(dir int, addr uint64) (string, error) {
	if !c.known {
		c.known = true
		c.path, c.err = c.resolve(dir, addr)
	}
	return c.path, c.err
}

func (c *Call) resolve(dir int, addr uint64) (string, error) {
	name, err := c.Text(addr)
	if err != nil || name == "" {
		return "", err
	}
	if name[0] != '/' {
		base, err := c.Dir(dir)
		if err != nil {
			return "", err
		}
		name = base + "/" + name
	}
	return path.Clean(name), nil
}

// Dir is what the program calls the directory of descriptor dir; AT_FDCWD: its working
// directory. Error: EBADF.
func (c *Call) Dir(dir int) (string, error) {
	link := c.proc("cwd")
	if dir != unix.AT_FDCWD {
		link = c.proc("fd/" + strconv.Itoa(dir))
	}
	base, err := os.Readlink(link)
	if err != nil {
		return "", unix.EBADF
	}
	return c.seen(base), nil
}

// seen is what the program calls a directory: from its own root directory on,
// and where a handler shows it.
func (c *Call) seen(dir string) string {
	for _, root := range c.l.roots {
		if below, ok := strings.CutPrefix(dir, root+"/"); ok {
			return "/" + below
		}
	}
	if root, err := os.Readlink(c.proc("root")); err == nil && root != "/" {
		if below, ok := strings.CutPrefix(dir+"/", root+"/"); ok {
			return "/" + below
		}
	}
	return dir
}

// Answer is how a call ends.
type Answer struct {
	kind  answerKind
	value int64
	errno syscall.Errno
	flags int
	where Place
}

type answerKind uint8

const (
	pass answerKind = iota
	later
	result
	descriptor
)

// errRestart is the kernel's ERESTARTSYS: after the signal's handler the call
// is made again, or fails with EINTR, as SA_RESTART says.
const errRestart = syscall.Errno(512)

// Pass leaves the call to the next handler and in the end to the kernel.
func Pass() Answer { return Answer{} }

// Later says that Finish will be called, from another goroutine.
func Later() Answer { return Answer{kind: later} }

// Return ends the call with a value.
func Return(v int64) Answer { return Answer{kind: result, value: v} }

// Fail ends the call with an error number; an error that holds none is EIO.
func Fail(err error) Answer {
	return Answer{kind: result, errno: errno.Of(err)}
}

// Result ends the call with a value, or the error number of err.
func Result(v int64, err error) Answer {
	if err != nil {
		return Fail(err)
	}
	return Return(v)
}

// Restart ends a waiting call because of a signal.
func Restart() Answer { return Answer{kind: result, errno: errRestart} }

// Install gives the caller a new descriptor for the file that fd is open on
// and ends the call with its number; fd is taken and closed. Of flags,
// O_CLOEXEC is used.
func Install(fd, flags int) Answer {
	return Answer{kind: descriptor, value: int64(fd), flags: flags & unix.O_CLOEXEC}
}

// InstallReserved is Install with a number of the reserved range.
func InstallReserved(fd, flags int) Answer {
	a := Install(fd, flags)
	a.where = InReserved
	return a
}

// Install gives the caller a new descriptor for the file that fd is open on and
// returns its number; fd is taken and closed. The call goes on. Of flags,
// O_CLOEXEC is used. Errors: EMFILE, ESRCH, and others of the kernel.
func (c *Call) Install(fd, flags int, where Place) (number int, err error) {
	defer unix.Close(fd)
	if c.conn != nil {
		return c.conn.install(c, fd, flags, where)
	}
	for {
		id := c.l.present(c)
		number, err = c.l.add(c, id, fd, flags, where, 0)
		switch {
		case err != unix.ENOENT:
			return number, err
		case c.l.gone(c, id):
			return number, unix.ESRCH
		}
	}
}

// Finish ends a call that was answered Later.
func (c *Call) Finish(a Answer) {
	if c.conn != nil {
		c.conn.finish(c, a)
		return
	}
	c.l.finish(c, a)
}
