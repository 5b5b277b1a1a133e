package relay

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tapir/nic/uapi/ipc"
	"tapir/wire/frame"
)

// Pages that another process would have to bring are no pages for the NIC: the
// access fails, and nobody waits.
func TestStalledMemory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("userfaultfd(2) for accesses by the kernel, and FUSE, need root")
	}
	for name, what := range map[string]string{"userfaultfd": "unfilled", "FUSE": "unread"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			startNode(t).start(t, ways[0], what).want(t, "region ok, filled ok 1\n"+
				"100 commands of another file between accesses that fail\nanswer: EFAULT\ncommand: EFAULT\nregion: EFAULT")
		})
	}
}

// A program that has the kernel lock its mappings or a pipe for good, so that the
// NIC has to wait, is killed. Others are served on.
func TestHeldUp(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("userfaultfd(2) for accesses by the kernel, and FUSE, need root")
	}
	for what, want := range map[string]string{"jams": "region ok", "jams-bulk": "region ok", "clogs": "pipe ok"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := startNode(t)
			if out, code := n.start(t, ways[0], what).end(t); out != want || code != 128+9 {
				t.Errorf("exit code %d, output %s", code, out)
			}
			for !strings.HasPrefix(n.next(t), "killed process ") { // among others
			}
			n.start(t, ways[0], "move").want(t, "failed 0")
		})
	}
}

// deaf is a thread that answers only when it is told to.
type deaf struct {
	Thread
	asked []func(frame.Time)
}

func (d *deaf) Do(fn func(frame.Time)) { d.asked = append(d.asked, fn) }

// A thread is late when it has given no sign for two looks; a look after the machine stood
// still does not count.
func TestLooks(t *testing.T) {
	now := time.Now()
	d := &deaf{}
	l := looks{last: now, signs: map[Thread]*sign{}}
	for i, step := range []struct {
		after   time.Duration
		answers bool // before the look
		late    bool
	}{
		{stallLook, false, false}, {stallLook, true, false}, // asked, asked again
		{3 * stallLook, false, false}, {time.Hour, false, false}, // the machine stood still
		{stallLook, false, false}, {stallLook, false, true}, {stallLook, false, true},
		{stallLook, true, false}, {stallLook, false, false}, {stallLook, false, true},
	} {
		if step.answers {
			for _, fn := range d.asked {
				fn(0)
			}
			d.asked = nil
		}
		now = now.Add(step.after)
		if late := l.late(now, []Thread{d}); late != step.late {
			t.Errorf("look %d: late %v", i+1, late)
		}
	}
}

// passes is a supervisor that passes files of its own choice as a program's
// memory.
type passes struct {
	t   *testing.T
	l   *link
	fds map[kind]string // what it opens for each question
}

func passing(t *testing.T, n *nodeProcess, files map[kind]string) *passes {
	t.Helper()
	conn, _, err := Greet(t.Context(), n.path, Ask{})
	must(t, err)
	p := &passes{t: t, l: newLink(conn), fds: files}
	t.Cleanup(func() { conn.Close() })
	return p
}

// receive is the next message but questions for memory, which it answers.
func (p *passes) receive() message {
	p.t.Helper()
	for {
		m, _, fd, err := p.l.receive()
		must(p.t, err)
		p.t.Cleanup(func() { ipc.Close(fd) }) // the file lasts as long
		name, asked := p.fds[m.Kind]
		if !asked {
			return m
		}
		out := message{Kind: reply, ID: m.ID}
		fd, err = unix.Open(name, unix.O_RDWR, 0)
		if err != nil {
			fd, err = unix.Open(name, unix.O_RDONLY, 0)
		}
		if err != nil {
			out.Errno = uint32(unix.EACCES)
		}
		p.l.send(&out, "", fd)
		ipc.Close(fd)
	}
}

// echo is the errno of a command that thread is said to have written, at addr.
func (p *passes) echo(thread int, addr uint64) unix.Errno {
	p.t.Helper()
	p.l.send(&message{Kind: open, ID: 1, Thread: int32(thread)}, "toy0", -1)
	m := p.receive()
	if m.Kind != opened || m.Errno != 0 {
		p.t.Fatalf("%+v", m)
	}
	p.l.send(&message{Kind: command, ID: 2, File: m.File, Thread: int32(thread), Addr: addr, Len: 24}, "", -1)
	if m = p.receive(); m.Kind != done {
		p.t.Fatalf("%+v", m)
	}
	return unix.Errno(m.Errno)
}

// The NIC reads no memory by its own rights: who names a thread and cannot open
// its memory, or passes something else, gets nothing, and blocks nobody.
func TestMemoryIsTheSupervisors(t *testing.T) {
	n := startNode(t)
	fifo := t.TempDir() + "/mem"
	must(t, unix.Mkfifo(fifo, 0o600))
	for name, files := range map[string]map[kind]string{
		"nothing":  {memory: "/proc/none/mem", maps: "/proc/self/maps"},
		"a pipe":   {memory: fifo, maps: "/proc/self/maps"},
		"messages": {memory: "/proc/kmsg", maps: "/proc/self/maps"},
		"no list":  {memory: "/proc/self/mem", maps: "/proc/self/status"},
	} {
		if err := passing(t, n, files).echo(n.cmd.Process.Pid, 4096); err != unix.EFAULT {
			t.Errorf("%s: %v", name, err)
		}
	}
	n.start(t, ways[0], "move").want(t, "failed 0")
}

// A ledger that could be taken away under the NIC is refused.
func TestLedgerIsSealed(t *testing.T) {
	memfd := func(size, seals int) int {
		fd, err := unix.MemfdCreate("ledger", unix.MFD_ALLOW_SEALING)
		must(t, err)
		must(t, unix.Ftruncate(fd, int64(size)))
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		must(t, err)
		return fd
	}
	for name, fd := range map[string]int{"not sealed": memfd(8*ipc.LedgerSlots, unix.F_SEAL_GROW), "short": memfd(4096, unix.F_SEAL_SHRINK)} {
		if l, err := ipc.OpenLedger(fd); err == nil {
			l.Close()
			t.Errorf("%s: taken", name)
		}
		unix.Close(fd)
	}
}

// What is passed as a listener and is none is given back, before a thread of a
// NIC has touched it.
func TestListenerIsOne(t *testing.T) {
	n := startNode(t)
	p := passing(t, n, nil)
	l, fd, err := ipc.NewLedger()
	must(t, err)
	defer l.Close()
	var pipe [2]int
	must(t, unix.Pipe(pipe[:]))
	defer ipc.Close(fd, pipe[0], pipe[1])
	p.l.send(&message{Kind: paper}, "", fd)
	p.l.send(&message{Kind: take}, "{}", pipe[0])
	if m := p.receive(); m.Kind != back {
		t.Errorf("%+v", m)
	}
}
