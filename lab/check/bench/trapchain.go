package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"tapir/nic/sched"
	"tapir/nic/tap"
)

// trapChainCase is what ib_send_lat -e cannot be faster than under any supervisor
// that traps its commands: the same four processes, frames, trapped calls and
// events, of which each wakes whom it wakes there, but no command is read and
// nothing is done with it.
func trapChainCase(name string, set nicSetup) *testCase {
	return endsCase(name, set, "trapchain")
}

// The completion channels of sends and receives: events are read from them, and
// commands written to them are trapped, told apart by their octets alone.
const (
	sentPath = "/dev/tapir-sent"
	camePath = "/dev/tapir-came"

	doorbellLen = 32 // POST_SEND
	armLen      = 16 // REQ_NOTIFY_CQ
	eventLen    = 8
)

// trapChainChild is the NIC's process of one end, which starts the program, or
// that.
func trapChainChild(_ context.Context, spec *chainSpec) error {
	runtime.LockOSThread()
	if spec.TAP == "" {
		return trapChainProgram(spec)
	}
	q, err := tap.Open(tap.Config{Name: spec.TAP})
	if err != nil {
		return err
	}
	defer q.Close()
	n := &trapChainNIC{link: q.Fd(), end: spec.End, begin: make(chan struct{})}
	n.sent, n.came = n.add(sentPath), n.add(camePath)
	n.write = n.post
	n.opened = func() error {
		if n.sent.Pipe == nil || n.came.Pipe == nil {
			return nil
		}
		defer close(n.begin)
		return n.supervisor.Suspend()
	}
	done, err := n.start(spec.program("trapchain"))
	if err != nil {
		return err
	}
	select {
	case <-n.begin:
	case err := <-done:
		return errors.Join(err, errors.New("the program has ended before it began"))
	}
	return errors.Join(n.run(), <-done)
}

// trapChainNIC sends a frame for each doorbell, and tells of each frame.
type trapChainNIC struct {
	trapped
	link, end  int
	sent, came *trappedFile
	begin      chan struct{} // closed when the program has both files open
	out, in    []byte
}

func (n *trapChainNIC) run() error {
	defer sched.Short()()
	n.out, n.in = newChainFrame(n.end), make([]byte, 2048)
	ep, err := newEpoll(map[int]uint32{n.link: syscall.EPOLLIN, n.supervisor.Fd(): syscall.EPOLLIN})
	if err != nil {
		return err
	}
	defer syscall.Close(ep)
	var ready [2]syscall.EpollEvent
	for {
		found, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&ready)),
			uintptr(len(ready)), ^uintptr(0), 0, 0)
		if errno != 0 { // the runtime wants the processor
			runtime.Gosched()
			continue
		}
		for _, e := range ready[:found] {
			switch {
			case int(e.Fd) == n.link:
				n.receive()
			case e.Events&syscall.EPOLLIN != 0:
				n.serve()
			case e.Events&syscall.EPOLLHUP != 0: // the program has ended
				n.supervisor.Resume()
				return nil
			}
		}
	}
}

func (n *trapChainNIC) receive() {
	if got := rawIO(syscall.SYS_READ, n.link, n.in); got == chainFrame && bytes.Equal(n.in[6:12], n.out[:6]) {
		_ = n.came.Put(event[:]) // there is room: the peer waits for an answer
	}
}

// post sends a frame if the program has written a doorbell.
func (n *trapChainNIC) post(octets uint64) {
	if octets == doorbellLen {
		rawIO(syscall.SYS_WRITE, n.link, n.out)
		_ = n.sent.Put(event[:]) // there is room: the program reads each
	}
}

// trapChainProgram posts and waits, or the other way around, as ib_send_lat -e.
func trapChainProgram(spec *chainSpec) error {
	var fds [2]int
	for i, path := range []string{sentPath, camePath} {
		fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		fds[i] = fd
	}
	sent, came := fds[0], fds[1]
	command, got := make([]byte, doorbellLen), make([]byte, eventLen)
	await := func(fd int) {
		rawIO(syscall.SYS_READ, fd, got)
		rawIO(syscall.SYS_WRITE, fd, command[:armLen])
	}
	send := func() {
		rawIO(syscall.SYS_WRITE, sent, command)
		await(sent)
	}
	return spec.pingPong(send, func() { await(came) })
}
