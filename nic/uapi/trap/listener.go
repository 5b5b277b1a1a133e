package trap

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Notification is struct seccomp_notif: a trapped call as the kernel tells of
// it. It means the same to every process that has the listener.
type Notification struct {
	ID    uint64
	PID   uint32 // the thread's id
	Flags uint32
	Nr    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// addFd is struct seccomp_notif_addfd.
type addFd struct {
	id         uint64
	flags      uint32
	srcfd      uint32
	newfd      uint32
	newfdFlags uint32
}

// Terms are what a process must know of a listener that it did not make.
type Terms struct {
	Reserved Range // the numbers that files with served writes have
	ProcMem  bool  // arguments of calls are reached by /proc/PID/mem alone
	// Before Linux 5.19 a signal interrupts a call that is being served, and the
	// kernel makes it again. Its answer is found then, unless the signal came in
	// the very moment of the answer.
	Repeats bool
}

// Listener is where the kernel asks what a supervised program's calls return.
// Several processes may share it: any may answer, one may receive.
type Listener struct {
	fd       int
	terms    Terms
	mem      foreign
	roots    []string    // of handlers that are Rooted
	twoSteps atomic.Bool // before Linux 5.14 a descriptor cannot be added and the call ended at once

	placing sync.Mutex // held from finding a free number to using it
	raised  processes  // by the preloaded library, while a descriptor is installed

	repeats repeats
}

// NewListener is the listener that fd, which stays the caller's, is open on.
func NewListener(fd int, terms Terms) *Listener {
	return &Listener{fd: fd, terms: terms, mem: foreign{terms.ProcMem},
		raised:  processes{held: map[int]chan struct{}{}},
		repeats: newRepeats()}
}

// Fd is its descriptor, which polls as readable when a call waits, and as
// POLLHUP when no process is left.
func (l *Listener) Fd() int { return l.fd }

// Terms are those of the listener.
func (l *Listener) Terms() Terms { return l.terms }

// Call is a call that another process received.
func (l *Listener) Call(n Notification) *Call { return &Call{l: l, n: n} }

// Receive takes the next call and blocks while there is none. Nil: the caller
// is gone, or needs no other answer than it had.
func (l *Listener) Receive() (*Call, error) {
	c := new(Call)
	if ok, err := l.receive(c, false); !ok {
		return nil, err
	}
	return c, nil
}

// ReceiveTo is Receive of a call that waits, as poll(2) has said, into memory of
// the caller's, which no other call needs any more. False stands for nil.
func (l *Listener) ReceiveTo(c *Call) (ok bool, err error) { return l.receive(c, true) }

func (l *Listener) receive(c *Call, brief bool) (ok bool, err error) {
	*c = Call{l: l}
	_, err = ioctl(l.fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&c.n), brief)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, err
	}
	return !l.repeated(c), nil
}

// syncWakeUp asks the kernel to wake each side on the other's processor,
// which halves the cost of a call; older kernels cannot, and need not.
func (l *Listener) syncWakeUp() {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS,
		unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

func (l *Listener) waits(c *Call) bool {
	id := c.n.ID
	_, err := ioctl(l.fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id), true)
	return err == nil
}

func (l *Listener) finish(c *Call, a Answer) {
	var r response
	switch {
	case a.kind == descriptor:
		l.finishAdd(c, a)
		return
	case a.kind == pass:
		r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	case a.errno != 0:
		r.errno = -int32(a.errno)
	default:
		r.val = a.value
	}
	l.send(c, r)
}

// send answers. To a caller that is interrupted the answer is kept, unless it
// is that the call could not be carried out because of that.
func (l *Listener) send(c *Call, r response) {
	if l.terms.Repeats {
		l.sendRepeated(c, r)
		return
	}
	_ = l.answer(c.n.ID, r) // a caller that is gone needs none
}

func (l *Listener) answer(id uint64, r response) error {
	r.id = id
	_, err := ioctl(l.fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r), true)
	return err
}

// finishAdd ends the call with a new descriptor. If the caller is gone,
// closing ours lets go of the file.
func (l *Listener) finishAdd(c *Call, a Answer) {
	fd := int(a.value)
	defer unix.Close(fd)
	if !l.twoSteps.Load() {
		_, err := l.add(c, c.n.ID, fd, a.flags, a.where, unix.SECCOMP_ADDFD_FLAG_SEND)
		if !errors.Is(err, unix.EINVAL) {
			l.failAdd(c, err)
			return
		}
		l.twoSteps.Store(true)
	}
	n, err := l.add(c, c.n.ID, fd, a.flags, a.where, 0)
	if err != nil {
		l.failAdd(c, err)
		return
	}
	l.finish(c, Return(int64(n)))
}

// failAdd tells the caller why it gets no descriptor, such as EMFILE.
func (l *Listener) failAdd(c *Call, err error) {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != unix.ENOENT {
		l.finish(c, Fail(errno))
	}
}

// add gives the caller a duplicate of fd and returns its number. With
// SECCOMP_ADDFD_FLAG_SEND the call ends with it.
func (l *Listener) add(c *Call, id uint64, fd, flags int, where Place, send uint32) (n int, err error) {
	req := addFd{id: id, flags: send, srcfd: uint32(fd), newfdFlags: uint32(flags & unix.O_CLOEXEC)}
	if where == InReserved {
		l.placing.Lock()
		defer l.placing.Unlock()
		at, restore, err := l.terms.Reserved.free(c)
		if err != nil {
			return -1, err
		}
		defer restore()
		req.flags |= unix.SECCOMP_ADDFD_FLAG_SETFD
		req.newfd = uint32(at)
	}
	return l.addUninterrupted(&req)
}

// addUninterrupted adds a descriptor. A signal, such as those of Go's
// scheduler, would end the wait for the caller, whose call would then return 0.
func (l *Listener) addUninterrupted(req *addFd) (n int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		return -1, err
	}
	n, err = ioctl(l.fd, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(req), false)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) // what was set can be set
	return n, err
}

// ioctl makes an ioctl with a pointer, again if a signal interrupts it: the
// lock of a listener that others use too is waited for interruptibly.
//
// Of one that is brief and waits for nothing the runtime is not told: as the
// answer of a call lets another process run before this one, its monitor would
// find the thread in the kernel, give its processor away and, for milliseconds,
// look again every 20 microseconds.
func ioctl(fd int, req uint, p unsafe.Pointer, brief bool) (int, error) {
	for {
		var n uintptr
		var errno syscall.Errno
		if brief {
			n, _, errno = unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(p))
		} else {
			n, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(p))
		}
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}
