package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
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

// endsCase has a subcommand be both ends of a wire, of which the first measures.
func endsCase(name string, set nicSetup, command string) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, b *bench) (s sample, err error) {
		bd, err := b.bed(set.mtu, set.lossy)
		if err != nil {
			return s, err
		}
		end := func(i int) (*child, error) {
			c, err := start(ctx, bd.middle.ns, set.pins.cpu(i), command, "-tap", set.nicName(i), "-end", fmt.Sprint(i), "-duration", b.opt.duration.String())
			if err == nil {
				err = c.ready()
			}
			return c, err
		}
		server, err := end(1)
		if err != nil {
			return s, err
		}
		defer server.stop()
		client, err := end(0)
		if err != nil {
			return s, err
		}
		r, err := client.result(b.opt.duration)
		return combine(r, result.Result{}), err
	}}
}

// chainFrame is as long as the frame of a Write of 8 octets.
const chainFrame = 126

// chainMAC is the address of an end.
func chainMAC(end int) []byte { return []byte{2, 0, 0, 0, 0xc4, byte(end)} }

// chainChild is the NIC's process of one end, which starts the program, or that.
func chainChild(args []string) error {
	flags := flag.NewFlagSet("chain", flag.ContinueOnError)
	name := flags.String("tap", "", "the TAP; empty: be the program, with doorbell and memory as files 3 and 4")
	end := flags.Int("end", 0, "0 begins and measures")
	d := flags.Duration("duration", time.Second, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	runtime.LockOSThread()
	if *name == "" {
		s, err := mapShared(4)
		if err != nil {
			return err
		}
		return chainProgram(3, s, *end == 0, *d)
	}
	q, err := tap.Open(tap.Config{Name: *name})
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
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := exec.Command(self, "chain", "-end", fmt.Sprint(*end), "-duration", d.String())
	program.Stdout, program.Stderr, program.ExtraFiles = os.Stdout, os.Stderr, files
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := program.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	err = chainNIC(q.Fd(), int(fd), s, *end, ended)
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

// chainNIC sends a frame for each doorbell, and wakes the program for each frame.
func chainNIC(link, doorbell int, s *shared, end int, ended <-chan error) error {
	ep, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	for fd, events := range map[int]uint32{link: syscall.EPOLLIN, doorbell: syscall.EPOLLIN | edge} {
		if err := syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
			return err
		}
	}
	peer := chainMAC(1 - end)
	out, in := make([]byte, chainFrame), make([]byte, 2048)
	copy(out, peer)
	copy(out[6:], append(chainMAC(end), 0x88, 0xb5)) // for local experiments
	var ready [2]syscall.EpollEvent
	for {
		s.looks.Store(0)
		for s.rung.Swap(0) != 0 {
			s.looks.Store(1)
			rawIO(syscall.SYS_WRITE, link, out)
			s.looks.Store(0)
		}
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&ready)), uintptr(len(ready)), ^uintptr(0), 0, 0)
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
	_, _, _ = syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(w)), op, v, uintptr(unsafe.Pointer(timeout)), 0, 0)
}

// chainProgram rings and waits, or the other way around.
func chainProgram(doorbell int, s *shared, first bool, d time.Duration) error {
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
	result.Ready()
	if !first {
		for {
			wait()
			ring()
		}
	}
	trips := make([]time.Duration, 0, 1<<20)
	begin := time.Now()
	for at := begin; at.Before(begin.Add(d)); {
		ring()
		wait()
		now := time.Now()
		trips = append(trips, now.Sub(at))
		at = now
	}
	slices.Sort(trips)
	return result.Result{Messages: int64(len(trips)), Elapsed: time.Since(begin), Latency: trips[len(trips)/2] / 2}.Print()
}
