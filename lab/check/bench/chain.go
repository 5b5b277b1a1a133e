package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"tapir/lab/check/bench/result"
	"tapir/nic/tap"
)

// chainCase is what umodeCase cannot be faster than: the same four processes,
// which wake each other in the same order, and the same frames, but nothing is
// done with them.
func chainCase(name string, set nicSetup) *testCase { return endsCase(name, set, "chain") }

// endsCase has a role be both ends of a wire, of which the first measures.
func endsCase(name string, set nicSetup, role string) *testCase {
	return set.on(name, func(ctx context.Context, m *measurement) (sample, error) {
		r, server, err := client(m.duration, func(i int) (*child, error) {
			return m.role(ctx, set.pins.cpu(i), role, chainSpec{set.nicName(i), i, m.duration})
		})
		if err == nil {
			server.Kill()
		}
		return combine(r, result.Result{}), err
	})
}

// chainFrame is as long as the frame of a Write of 8 octets.
const chainFrame = 126

// chainMAC is the address of an end.
func chainMAC(end int) []byte { return []byte{2, 0, 0, 0, 0xc4, byte(end)} }

// chainSpec is the process of a NIC at one end, which starts the program, or the
// program itself.
type chainSpec struct {
	TAP      string // empty: be the program
	End      int    // 0 begins and measures
	Duration time.Duration
}

// program is the command line of the program of this end.
func (s chainSpec) program(role string) []string {
	s.TAP = ""
	return command(role, s)
}

// chainChild runs a NIC or, with doorbell and memory as files 3 and 4, a program.
func chainChild(_ context.Context, spec *chainSpec) error {
	runtime.LockOSThread()
	if spec.TAP == "" {
		s, err := mapShared(4)
		if err != nil {
			return err
		}
		return chainProgram(3, s, spec)
	}
	q, err := tap.Open(tap.Config{Name: spec.TAP})
	if err != nil {
		return err
	}
	defer q.Close()
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return errno
	}
	memory, err := os.CreateTemp("/dev/shm", "chain")
	if err != nil {
		return err
	}
	defer memory.Close()
	if err := errors.Join(os.Remove(memory.Name()), memory.Truncate(4096)); err != nil {
		return err
	}
	s, err := mapShared(int(memory.Fd()))
	if err != nil {
		return err
	}
	files := []*os.File{os.NewFile(fd, "doorbell"), memory}
	argv := spec.program("chain")
	program := exec.Command(argv[0], argv[1:]...)
	program.Stdout, program.Stderr, program.ExtraFiles = os.Stdout, os.Stderr, files
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := program.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	err = chainNIC(q.Fd(), int(fd), s, spec.End, ended)
	runtime.KeepAlive(files)
	return err
}

// shared is the memory of an end's NIC and program.
type shared struct {
	rung, looks atomic.Uint32 // the doorbell; the NIC looks by itself
	asleep      atomic.Uint32 // the program, until the NIC wakes it
}

func mapShared(fd int) (*shared, error) {
	mem, err := syscall.Mmap(fd, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*shared)(unsafe.Pointer(&mem[0])), nil
}

// newChainFrame is the frame of an end to the other.
func newChainFrame(end int) []byte {
	out := make([]byte, chainFrame)
	copy(out, chainMAC(1-end))
	copy(out[6:], append(chainMAC(end), 0x88, 0xb5)) // for local experiments
	return out
}

// newEpoll waits for the events of descriptors.
func newEpoll(fds map[int]uint32) (ep int, err error) {
	if ep, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return ep, err
	}
	for fd, events := range fds {
		err = errors.Join(err, syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, fd,
			&syscall.EpollEvent{Events: events, Fd: int32(fd)}))
	}
	return ep, err
}

// chainNIC sends a frame for each doorbell, and wakes the program for each frame.
func chainNIC(link, doorbell int, s *shared, end int, ended <-chan error) error {
	ep, err := newEpoll(map[int]uint32{link: syscall.EPOLLIN, doorbell: syscall.EPOLLIN | edge})
	if err != nil {
		return err
	}
	out, in := newChainFrame(end), make([]byte, 2048)
	peer := out[:6]
	var ready [2]syscall.EpollEvent
	for {
		s.looks.Store(0)
		for s.rung.Swap(0) != 0 {
			s.looks.Store(1)
			rawIO(syscall.SYS_WRITE, link, out)
			s.looks.Store(0)
		}
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&ready)),
			uintptr(len(ready)), ^uintptr(0), 0, 0)
		if errno != 0 { // the runtime wants the processor
			select {
			case err := <-ended:
				return err
			default:
				runtime.Gosched()
			}
			continue
		}
		s.looks.Store(1)
		for _, e := range ready[:n] {
			if int(e.Fd) == doorbell {
				continue
			}
			if n := rawIO(syscall.SYS_READ, link, in); n == chainFrame && bytes.Equal(in[6:12], peer) {
				s.asleep.Store(0)
				futex(&s.asleep, futexWake, 1, nil)
				if s.rung.Load() == 0 {
					_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
				}
			}
		}
	}
}

// edge is EPOLLET.
const edge = 1 << 31

var event = [8]byte{1}

func rawIO(call uintptr, fd int, b []byte) int {
	n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return -1
	}
	return int(n)
}

// Operations of futex(2), between processes.
const (
	futexWait = 0
	futexWake = 1
)

func futex(w *atomic.Uint32, op, v uintptr, timeout *syscall.Timespec) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(w)), op, v,
		uintptr(unsafe.Pointer(timeout)), 0, 0)
}

// chainProgram rings and waits, or the other way around.
func chainProgram(doorbell int, s *shared, spec *chainSpec) error {
	ring := func() {
		s.asleep.Store(1)
		s.rung.Store(1)
		if s.looks.Load() == 0 {
			rawIO(syscall.SYS_WRITE, doorbell, event[:])
		}
	}
	wait := func() {
		for s.asleep.Load() != 0 {
			ts := syscall.NsecToTimespec(int64(5 * time.Millisecond))
			futex(&s.asleep, futexWait, 1, &ts)
		}
	}
	s.asleep.Store(1)
	return spec.pingPong(ring, wait)
}

// pingPong sends and waits for an answer, or answers until it is killed.
func (s *chainSpec) pingPong(send, await func()) error {
	result.Ready()
	if s.End != 0 {
		for {
			await()
			send()
		}
	}
	r, err := roundTrips(s.Duration, func() error {
		send()
		await()
		return nil
	})
	if err != nil {
		return err
	}
	return r.Print()
}
