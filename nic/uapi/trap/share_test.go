package trap

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
)

// sharer is a command device that gives the receiving of calls away when it is
// opened, and takes it back after some commands.
type sharer struct {
	*Files
	dev   *commander
	s     *Supervisor
	there *Listener
	until int // commands that the other end serves

	received int // by the other end
}

func (h *sharer) Attach(s *Supervisor) { h.s = s }

func (h *sharer) Stat() Stat { return h.dev.Stat() }

func (h *sharer) Open(int) (File, error) { return nil, unix.ENXIO } // ServeOpen stands before it

// ServeOpen serves the opening elsewhere: by another end of the listener, which
// only the terms are known of.
func (h *sharer) ServeOpen(c *Call, flags int) Answer {
	fd, f, err := h.dev.openElsewhere(h.Files, flags)
	if err != nil {
		return Fail(err)
	}
	if err := h.s.Suspend(); err != nil {
		return Fail(err)
	}
	h.there = NewListener(h.s.Fd(), h.s.Terms())
	made := c.Notification()
	go func() {
		h.there.Call(made).Finish(InstallReserved(fd, flags))
		h.receive(f)
	}()
	return Later()
}

// receive serves writes and passes everything else back.
func (h *sharer) receive(f Writer) {
	for h.received < h.until {
		c, err := h.there.Receive()
		switch {
		case err != nil:
			return
		case c == nil:
		case c.Nr() == unix.SYS_WRITE:
			h.received++
			c.Finish(f.Write(c, c.Arg(1), c.Arg(2)))
		default:
			h.s.Serve(c.Notification())
		}
	}
	h.s.Resume()
}

// TestSharedListener: another end of the listener receives for a while, and
// then the supervisor again.
func TestSharedListener(t *testing.T) {
	t.Parallel()
	w, d := commands(t, "timer", 400)
	h := &sharer{Files: w.opt.Handlers[0].(*Files), dev: d, until: 150}
	h.Add(commandPath, h)
	w.opt.Handlers = []Handler{h}
	w.once(t, 400)
	d.allReleased(t)
	if n := d.calls.Load(); n != 400 || h.received != 150 {
		t.Errorf("%d commands, of which %d were received elsewhere", n, h.received)
	}
}

// TestWatch: only what was opened anew counts, and its last mapping.
func TestWatch(t *testing.T) {
	t.Parallel()
	held, err := unix.MemfdCreate("watched", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(held)
	if err := unix.Ftruncate(held, 4096); err != nil {
		t.Fatal(err)
	}
	again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", held), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	if _, err := Watch(held, func() { close(ended) }); err != nil {
		t.Fatal(err)
	}
	dup, err := unix.Dup(again)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(dup, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	for i, let := range []func() error{func() error { return unix.Close(again) }, func() error { return unix.Close(dup) }} {
		if err := let(); err != nil {
			t.Fatal(err)
		}
		seen(t)
		select {
		case <-ended:
			t.Fatalf("the end came after step %d", i)
		default:
		}
	}
	if err := unix.Munmap(mem); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, ended, "the end of a file")
}

// seen returns when the end of another file has been seen.
func seen(t *testing.T) {
	t.Helper()
	p, err := NewPipe(0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	ended := make(chan struct{})
	if _, err := Watch(p.w, func() { close(ended) }); err != nil {
		t.Fatal(err)
	}
	unix.Close(p.r)
	testenv.Await(t, ended, "the end of a file")
}

func TestWatchStops(t *testing.T) {
	t.Parallel()
	p, err := NewPipe(0)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := Watch(p.w, func() { t.Error("the end was told") })
	if err != nil {
		t.Fatal(err)
	}
	stop()
	unix.Close(p.r)
	seen(t)
	p.Release()
	stop()
	if _, err := Watch(-1, nil); err == nil {
		t.Error("no descriptor at all is watched")
	}
}

// TestReadSignals reads a status file of proc(5).
func TestReadSignals(t *testing.T) {
	t.Parallel()
	s, err := readSignals("testdata/status")
	want := signals{tgid: 4711, thread: 1 << 13, shared: 1 << 9, blocked: 1<<13 | 1<<11, ignored: 1 << 12, caught: 1<<1 | 1<<9}
	if err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := readSignals("testdata/none"); !os.IsNotExist(err) {
		t.Error(err)
	}
}
