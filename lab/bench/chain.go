package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"tapir/lab/bench/result"
	"tapir/nic/tap"
)

// chainCase is what umodeCase cannot be faster than: the same four processes,
// which wake each other in the same order, and the same frames, but nothing is
// done with them.
func chainCase(name string, set nicSetup) *testCase {
	return &testCase{name: name, run: func(ctx context.Context, b *bench) (s sample, err error) {
		bd, err := b.bed(set.mtu, set.lossy)
		if err != nil {
			return s, err
		}
		end := func(i int) (*child, error) {
			c, err := start(ctx, bd.middle.ns, set.pins.cpu(i), "chain", "-tap", set.nicName(i), "-end", fmt.Sprint(i), "-duration", b.opt.duration.String())
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
	name := flags.String("tap", "", "the TAP; empty: be the program, with doorbell and channel as files 3 and 4")
	end := flags.Int("end", 0, "0 begins and measures")
	d := flags.Duration("duration", time.Second, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	runtime.LockOSThread()
	if *name == "" {
		return chainProgram(3, 4, *end == 0, *d)
	}
	q, err := tap.Open(tap.Config{Name: *name})
	if err != nil {
		return err
	}
	defer q.Close()
	var events [2]int // doorbell, channel
	var files []*os.File
	for i := range events {
		fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if errno != 0 {
			return errno
		}
		events[i] = int(fd)
		files = append(files, os.NewFile(uintptr(events[i]), "event"))
	}
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
	err = chainNIC(q.Fd(), events[0], events[1], *end, ended)
	runtime.KeepAlive(files)
	return err
}

// chainNIC sends a frame for each doorbell, and an event for each frame.
func chainNIC(link, doorbell, channel, end int, ended <-chan error) error {
	ep, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	for _, fd := range []int{link, doorbell} {
		if err := syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
	}
	peer := chainMAC(1 - end)
	out, in := make([]byte, chainFrame), make([]byte, 2048)
	copy(out, peer)
	copy(out[6:], append(chainMAC(end), 0x88, 0xb5)) // for local experiments
	var ready [2]syscall.EpollEvent
	for {
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
		for _, e := range ready[:n] {
			if int(e.Fd) == doorbell {
				rawIO(syscall.SYS_READ, doorbell, in[:8])
				rawIO(syscall.SYS_WRITE, link, out)
			} else if n := rawIO(syscall.SYS_READ, link, in); n == chainFrame && bytes.Equal(in[6:12], peer) {
				rawIO(syscall.SYS_WRITE, channel, event[:])
			}
		}
	}
}

var event = [8]byte{1}

func rawIO(call uintptr, fd int, b []byte) int {
	n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return -1
	}
	return int(n)
}

// pollFd is struct pollfd of poll(2); 1 is POLLIN.
type pollFd struct {
	fd              int32
	events, revents int16
}

// chainProgram rings and waits, or the other way around.
func chainProgram(doorbell, channel int, first bool, d time.Duration) error {
	var count [8]byte
	wait := func() {
		for n := -1; n < 0; n = rawIO(syscall.SYS_READ, channel, count[:]) {
			fds, ts := [1]pollFd{{int32(channel), 1, 0}}, syscall.NsecToTimespec(int64(5*time.Millisecond))
			_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		}
	}
	result.Ready()
	if !first {
		for {
			wait()
			rawIO(syscall.SYS_WRITE, doorbell, event[:])
		}
	}
	trips := make([]time.Duration, 0, 1<<20)
	begin := time.Now()
	for at := begin; at.Before(begin.Add(d)); {
		rawIO(syscall.SYS_WRITE, doorbell, event[:])
		wait()
		now := time.Now()
		trips = append(trips, now.Sub(at))
		at = now
	}
	slices.Sort(trips)
	return result.Result{Messages: int64(len(trips)), Elapsed: time.Since(begin), Latency: trips[len(trips)/2] / 2}.Print()
}
