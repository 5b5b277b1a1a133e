package main

import (
	"os"
	"syscall"

	"tapir/nic/uapi/relay"
	"tapir/nic/uapi/trap"
	"tapir/wire/frame"
)

// trapped are device files of a program whose writes this process answers itself,
// without a look at what was written.
type trapped struct {
	*trap.Files
	supervisor *trap.Supervisor
	call       trap.Call
	write      func(octets uint64) // called before a write is answered
	opened     func() error        // called when a file is opened
}

// Attach implements trap.Attached.
func (t *trapped) Attach(s *trap.Supervisor) { t.supervisor = s }

// add makes a device file.
func (t *trapped) add(path string) *trappedFile {
	if t.Files == nil {
		t.Files = trap.NewFiles()
		t.ServeWrites()
	}
	f := &trappedFile{t: t}
	t.Add(path, f)
	return f
}

// start starts a program on the files; done gets how it has ended.
func (t *trapped) start(argv []string) (done <-chan error, err error) {
	p, err := trap.Start(trap.Options{Argv: argv, Stdout: os.Stdout, Stderr: os.Stderr,
		Handlers: []trap.Handler{t}})
	if err != nil {
		return nil, err
	}
	end := make(chan error, 1)
	go func() {
		code, err := p.Wait()
		end <- ended(argv[1], code, err)
	}()
	return end, nil
}

// serveOn has the thread of a NIC receive the program's calls from now on.
func (t *trapped) serveOn(thread relay.Thread) error {
	if err := t.supervisor.Suspend(); err != nil {
		return err
	}
	thread.Do(func(frame.Time) {
		var remove func()
		remove = thread.AddSource(t.supervisor.Fd(), func(_ frame.Time, hungUp bool) {
			if hungUp {
				t.supervisor.Resume() // sees the end itself
				remove()
				return
			}
			t.serve()
		}, func() {})
	})
	return nil
}

// serve answers the next call if it is a write to a device.
func (t *trapped) serve() {
	c := &t.call
	if ok, err := t.supervisor.ReceiveTo(c); !ok || err != nil {
		return
	}
	if c.Nr() != syscall.SYS_WRITE {
		go t.supervisor.Serve(c.Notification())
		return
	}
	t.write(c.Arg(2))
	c.Finish(trap.Return(int64(c.Arg(2))))
}

// trappedFile is one of the files; its writes come to trapped.serve.
type trappedFile struct {
	*trap.Pipe
	t *trapped
}

// Stat implements trap.Node.
func (*trappedFile) Stat() trap.Stat { return trap.Stat{Mode: syscall.S_IFCHR | 0o600} }

// Open implements trap.Node.
func (f *trappedFile) Open(flags int) (_ trap.File, err error) {
	if f.Pipe, err = trap.NewPipe(flags); err == nil {
		err = f.t.opened()
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Ioctl implements trap.File.
func (*trappedFile) Ioctl(*trap.Call, uint32, uint64) trap.Answer { return trap.Fail(syscall.ENOTTY) }

// Write implements trap.File.
func (*trappedFile) Write(*trap.Call, uint64, uint64) trap.Answer { return trap.Fail(syscall.EIO) }
