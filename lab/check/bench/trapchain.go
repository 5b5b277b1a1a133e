package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"tapir/nic/sched"
	"tapir/nic/tap"
	"tapir/nic/uapi/trap"
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
	argv, err := spec.program("trapchain")
	if err != nil {
		return err
	}
	n := &trapChainNIC{Files: trap.NewFiles(), link: q.Fd(), end: spec.End, begin: make(chan struct{})}
	n.ServeWrites()
	n.Add(sentPath, &eventNode{n: n, pipe: &n.sent})
	n.Add(camePath, &eventNode{n: n, pipe: &n.came})
	p, err := trap.Start(trap.Options{Argv: argv,
		Stdout: os.Stdout, Stderr: os.Stderr, Handlers: []trap.Handler{n}})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		code, err := p.Wait()
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d", code)
		}
		ended <- err
	}()
	select {
	case <-n.begin:
	case err := <-ended:
		return errors.Join(err, errors.New("the program has ended before it began"))
	}
	return errors.Join(n.run(), <-ended)
}

// trapChainNIC sends a frame for each doorbell, and tells of each frame.
type trapChainNIC struct {
	*trap.Files
	supervisor *trap.Supervisor
	link, end  int
	sent, came *trap.Pipe
	begin      chan struct{} // closed when the program has both files open
	call       trap.Call
	out, in    []byte
}

// Attach implements trap.Attached.
func (n *trapChainNIC) Attach(s *trap.Supervisor) { n.supervisor = s }

// eventNode is one of the files.
type eventNode struct {
	n    *trapChainNIC
	pipe **trap.Pipe
}

// Stat implements trap.Node.
func (*eventNode) Stat() trap.Stat { return trap.Stat{Mode: syscall.S_IFCHR | 0o600} }

// Open implements trap.Node: with the second file the NIC's thread receives.
func (e *eventNode) Open(flags int) (trap.File, error) {
	p, err := trap.NewPipe(flags)
	if err != nil {
		return nil, err
	}
	*e.pipe = p
	if e.n.sent != nil && e.n.came != nil {
		if err := e.n.supervisor.Suspend(); err != nil {
			return nil, err
		}
		close(e.n.begin)
	}
	return minimalFile{p}, nil
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

func (n *trapChainNIC) serve() {
	c := &n.call
	if ok, err := n.supervisor.ReceiveTo(c); !ok || err != nil {
		return
	}
	if c.Nr() != syscall.SYS_WRITE {
		go n.supervisor.Serve(c.Notification())
		return
	}
	if c.Arg(2) == doorbellLen {
		rawIO(syscall.SYS_WRITE, n.link, n.out)
		_ = n.sent.Put(event[:]) // there is room: the program reads each
	}
	c.Finish(trap.Return(int64(c.Arg(2))))
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
