package proxy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
	"tapir/nic/loop"
	"tapir/nic/uapi/abi"
	"tapir/nic/uapi/abi/abitest"
	"tapir/nic/uapi/ipc"
	"tapir/nic/verbs"
	"tapir/wire/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// toy is a device whose commands try what a Caller can do: the first octet
// says what.
type toy struct {
	t      *testing.T
	closed chan struct{}
	waits  abi.Caller // of the command that was answered later
	region verbs.Memory
	rung   []byte // what doorbells posted
}

const addr = 1 << 20

func (d *toy) Command(c abi.Caller, b []byte) error {
	if len(b) == 0 {
		return syscall.EINVAL
	}
	args := append(slices.Clone(b), 0, 0, 0)
	switch b[0] {
	case 'e': // echo
		return c.Write(Base, b[1:])
	case 'u': // upper case of memory
		p := make([]byte, 5)
		if err := c.Read(Base, p); err != nil {
			return err
		}
		return c.Write(Base, bytes.ToUpper(p))
	case 'f': // a fault
		return c.Write(Base+uint64(args[1]), []byte("xx"))
	case 'i': // a file
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		_, _ = unix.Write(p[1], []byte("pipe"))
		_ = unix.Close(p[1])
		n, err := c.Install(p[0], 0)
		if err != nil {
			return err
		}
		return c.Write(Base, []byte{byte(n)})
	case 'l':
		d.waits = c
		return abi.Later
	case 'b':
		d.rung = append(d.rung, args[1])
		return nil
	case 'B':
		rung := d.rung
		d.rung = nil
		return c.Write(Base, rung)
	case 'd':
		if d.waits == nil {
			return syscall.EINVAL
		}
		d.waits.Done(syscall.EXDEV)
		return nil
	case 'r':
		m, err := c.Region(addr+uint64(args[1]), uint64(args[2]), true)
		if err != nil {
			return err
		}
		d.region = m
		copy(m.Slice(0, int(m.Len())), args[3:])
		return nil
	}
	return syscall.EOPNOTSUPP
}

// Ioctl implements abi.File.
func (*toy) Ioctl(abi.Caller, uint64, []byte) error { return syscall.ENOTTY }

func (d *toy) Cancel(c abi.Caller) bool {
	was := d.waits == c
	d.waits = nil
	return was
}

func (d *toy) Close() { close(d.closed) }

// home is a loop without a NIC.
type home struct{ *loop.Loop }

func (h home) Do(fn func(now frame.Time)) { h.Loop.Do(fn) }

func (h home) AddSource(fd int, serve func(now frame.Time, hungUp bool), lost func()) func() {
	s := h.Loop.AddSource(fd, serve, lost)
	return func() { h.Loop.RemoveSource(s) }
}

func (h home) AddBell(fd int, b Doorbells) func() { return h.Loop.AddBell(fd, b, func() {}) }

// idle is no NIC.
type idle struct{}

func (idle) Receive(frame.Port, []*frame.Frame, frame.Time) {}
func (idle) Dispatch(frame.Time) bool                       { return false }
func (idle) Poll(frame.Time) frame.Time                     { return frame.Never }
func (idle) TxDone(_ uint64, _, _ frame.Time) bool          { return false }

// bed is a session with a toy behind it, and the client's end.
type bed struct {
	t      *testing.T
	conn   *net.UnixConn
	toy    *toy
	served chan struct{} // closed when the session has ended
	hangUp func()
}

func newBed(t *testing.T) *bed {
	t.Helper()
	ours, theirs := abitest.SocketPair(t)
	b := &bed{t: t, conn: ours, toy: &toy{t: t, closed: make(chan struct{})}, served: make(chan struct{})}
	opened := false
	open := func(abi.Caller, int) (abi.File, int, error) {
		fd, err := unix.MemfdCreate("toy", unix.MFD_CLOEXEC)
		d := b.toy
		if opened {
			d = &toy{t: t, closed: make(chan struct{})}
		}
		opened = true
		return d, fd, err
	}
	l, err := loop.New(loop.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l.SetEngine(idle{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx)
	}()
	conn, err := theirs.File()
	if err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	b.hangUp = Serve(home{l}, conn, 42, map[string]abi.Opener{"toy": open}, func() { close(b.served) })
	t.Cleanup(func() {
		b.end()
		cancel()
		testenv.Await(t, ended, "the loop's end")
	})
	if a, fds := b.ask(Request{Kind: Open, File: 1, Command: []byte("toy")}); a.Errno != 0 || len(fds) != 1 {
		t.Fatalf("open: %+v, %d descriptors", a, len(fds))
	}
	return b
}

// end hangs up and waits until the session has ended.
func (b *bed) end() {
	_ = b.conn.Close()
	testenv.Await(b.t, b.served, "the session's end")
}

func (b *bed) send(r Request, fds ...int) {
	b.t.Helper()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := b.conn.WriteMsgUnix(r.Append(nil), rights, nil); err != nil {
		b.t.Fatal(err)
	}
}

// receive returns an answer; its descriptors are closed with the test.
func (b *bed) receive() (Answer, []int) {
	b.t.Helper()
	buf, oob := make([]byte, MaxMessage), make([]byte, 256)
	n, o, _, _, err := b.conn.ReadMsgUnix(buf, oob)
	if err != nil {
		b.t.Fatal(err)
	}
	a, err := ParseAnswer(buf[:n])
	if err != nil {
		b.t.Fatal(err)
	}
	fds := ipc.Descriptors(oob[:o])
	b.t.Cleanup(func() { ipc.Close(fds...) })
	return a, fds
}

func (b *bed) ask(r Request, fds ...int) (Answer, []int) {
	b.t.Helper()
	b.send(r, fds...)
	return b.receive()
}

func (b *bed) command(room uint64, memory string, command ...byte) (Answer, []int) {
	b.t.Helper()
	return b.ask(Request{Kind: Command, File: 1, Size: room, Command: command, Memory: []byte(memory)})
}

// The memory of a message is read and written, within its bounds only.
func TestMemoryOfAMessage(t *testing.T) {
	b := newBed(t)
	if a, _ := b.command(8, "", 'e', 'o', 'k'); a.Errno != 0 || string(a.Memory) != "ok" {
		t.Errorf("echo: %+v", a)
	}
	if a, _ := b.command(8, "quiet", 'u'); a.Errno != 0 || string(a.Memory) != "QUIET" {
		t.Errorf("upper case: %+v", a)
	}
	for off, want := range map[byte]syscall.Errno{0: 0, 6: 0, 7: syscall.EFAULT, 8: syscall.EFAULT, 200: syscall.EFAULT} {
		if a, _ := b.command(8, "", 'f', off); syscall.Errno(a.Errno) != want {
			t.Errorf("write of 2 octets at %d of 8: %v, want %v", off, syscall.Errno(a.Errno), want)
		}
	}
}

// Files travel with the answer, under the number that the command was told.
func TestInstalledFiles(t *testing.T) {
	b := newBed(t)
	for range 3 {
		a, fds := b.command(1, "", 'i')
		if a.Errno != 0 || len(fds) != 1 || a.Memory[0] != byte(a.First) {
			t.Fatalf("%+v, %d descriptors", a, len(fds))
		}
		p := make([]byte, 8)
		if n, err := unix.Read(fds[0], p); string(p[:max(n, 0)]) != "pipe" {
			t.Errorf("read %q, %v", p, err)
		}
	}
	// Nobody would take the one of a doorbell.
	bells := b.bells("i")
	if _, err := bells.Ring(0); err != nil {
		t.Fatal(err)
	}
	if a, fds := b.command(8, "", 'e', 'x'); len(fds) != 0 || string(a.Memory) != "x" {
		t.Errorf("after it: %+v, %d descriptors", a, len(fds))
	}
}

// A command that is answered later holds nobody up; those that wait at the end
// are cancelled, and the file is closed once.
func TestAnsweredLater(t *testing.T) {
	b := newBed(t)
	b.send(Request{Kind: Command, File: 1, Command: []byte{'l'}})
	b.send(Request{Kind: Command, File: 1, Command: []byte{'d'}})
	for i, want := range []syscall.Errno{syscall.EXDEV, 0} {
		if a, _ := b.receive(); syscall.Errno(a.Errno) != want {
			t.Errorf("answer %d: %v, want %v", i, syscall.Errno(a.Errno), want)
		}
	}
	b.send(Request{Kind: Command, File: 1, Command: []byte{'l'}})
	b.command(8, "", 'e')
	b.end()
	if b.toy.waits != nil {
		t.Error("what waited was not cancelled")
	}
	testenv.Await(t, b.toy.closed, "the toy's end") // a second Close would panic
}

// A session that is hung up ends, and the client sees it.
func TestHangUp(t *testing.T) {
	b := newBed(t)
	b.command(8, "", 'e')
	b.hangUp()
	testenv.Await(t, b.toy.closed, "the toy's end")
	if n, err := b.conn.Read(make([]byte, 10)); n != 0 {
		t.Errorf("%d octets, %v", n, err)
	}
}

func TestRefusals(t *testing.T) {
	b := newBed(t)
	for _, c := range []struct {
		what string
		r    Request
		want syscall.Errno
	}{
		{"an unknown device", Request{Kind: Open, File: 2, Command: []byte("tape")}, syscall.ENOENT},
		{"a number in use", Request{Kind: Open, File: 1, Command: []byte("toy")}, syscall.EEXIST},
		{"a command to no file", Request{Kind: Command, File: 7}, syscall.EBADF},
		{"no such file", Request{Kind: Close, File: 7}, syscall.EBADF},
		{"memory without a file", Request{Kind: Share, Addr: addr, Size: 4096}, syscall.EINVAL},
		{"no such memory", Request{Kind: Unshare, Addr: addr}, syscall.EINVAL},
	} {
		if a, _ := b.ask(c.r); syscall.Errno(a.Errno) != c.want {
			t.Errorf("%s: %v, want %v", c.what, syscall.Errno(a.Errno), c.want)
		}
	}
	b.send(Request{Kind: 99})
	testenv.Await(t, b.served, "the end by an unknown request")
}

func memfd(t *testing.T, size int64, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("shared", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.Ftruncate(fd, size), unix.Fallocate(fd, 0, 0, size)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return fd
}

// Memory is shared without a copy, and only what cannot vanish.
func TestSharedMemory(t *testing.T) {
	b := newBed(t)
	good, holed := memfd(t, 8192, unix.F_SEAL_SHRINK), memfd(t, 8192, unix.F_SEAL_SHRINK)
	if err := unix.Fallocate(holed, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 4096, 4096); err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		what       string
		addr, size uint64
		fd         int
		want       syscall.Errno
	}{
		{"memory that can shrink", addr, 4096, memfd(t, 8192, 0), syscall.EPERM},
		{"pages that are not there", addr, 4096, holed, syscall.EPERM},
		{"a file", addr, 4096, int(file.Fd()), syscall.EPERM},
		{"more than there is", addr, 8193, good, syscall.EINVAL},
		{"nothing", addr, 0, good, syscall.EINVAL},
		{"an address of messages", Base, 4096, good, syscall.EINVAL},
		{"an address that wraps", ^uint64(0) - 100, 4096, good, syscall.EINVAL},
		{"good memory", addr, 8192, good, 0},
		{"an address twice", addr + 4096, 4096, good, syscall.EEXIST},
	} {
		if a, _ := b.ask(Request{Kind: Share, Addr: c.addr, Size: c.size}, c.fd); syscall.Errno(a.Errno) != c.want {
			t.Errorf("%s: %v, want %v", c.what, syscall.Errno(a.Errno), c.want)
		}
	}
	if a, _ := b.command(0, "", 'r', 100, 3, 'n', 'e', 'w'); a.Errno != 0 {
		t.Fatalf("region: %v", syscall.Errno(a.Errno))
	}
	p := make([]byte, 3)
	if _, err := unix.Pread(good, p, 100); err != nil || string(p) != "new" {
		t.Errorf("the client reads %q, %v", p, err)
	}
	if a, _ := b.ask(Request{Kind: Unshare, Addr: addr}); a.Errno != 0 {
		t.Errorf("unshare: %v", syscall.Errno(a.Errno))
	}
	if a, _ := b.command(0, "", 'r', 100, 3); syscall.Errno(a.Errno) != syscall.EFAULT {
		t.Errorf("region of it afterwards: %v", syscall.Errno(a.Errno))
	}
	b.end()
	if err := b.toy.region.ReadAt(p, 0); err != nil || string(p) != "new" { // it is still mapped
		t.Errorf("the region of before: %q, %v", p, err)
	}
}

// Whatever a client sends, the session only ends.
func FuzzRequest(f *testing.F) {
	f.Add((&Request{Kind: Command, File: 1, Size: 8, Command: []byte("ehello"), Memory: []byte("m")}).Append(nil))
	f.Add((&Request{Kind: Share, Addr: addr, Size: 4096}).Append(nil))
	f.Add((&Request{Kind: Command, File: 1, Size: 1 << 60}).Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRequest(b)
		if err != nil {
			return
		}
		if r.Kind == Command && (uint64(len(r.Memory)) > r.Size || r.Size > MaxMemory) || len(r.Command)+len(r.Memory)+requestLen != len(b) {
			t.Errorf("%d octets became %d of command, %d of memory (of %d)", len(b), len(r.Command), len(r.Memory), r.Size)
		}
		if again := r.Append(nil); !bytes.Equal(again, b[:len(again)]) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

// Whatever messages a client sends, with or without a file, each is answered, or
// the session ends; a region lies within memory that is shared.
func FuzzSession(f *testing.F) {
	message := func(fd byte, r Request) []byte {
		b := r.Append(nil)
		return append([]byte{fd, byte(len(b)), byte(len(b) >> 8)}, b...)
	}
	f.Add(slices.Concat(
		message(1, Request{Kind: Share, Addr: addr, Size: 8192}),
		message(0, Request{Kind: Command, File: 1, Size: 8, Command: []byte{'r', 100, 3, 'n', 'e', 'w'}}),
		message(0, Request{Kind: Unshare, Addr: addr}),
		message(0, Request{Kind: Close, File: 1}),
	))
	f.Add(slices.Concat(
		message(0, Request{Kind: Open, File: 2, Command: []byte("toy")}),
		message(0, Request{Kind: Command, File: 1, Command: []byte{'l'}}),
		message(0, Request{Kind: Bell, File: 1, Size: 4, Command: []byte{'i'}}),
		message(2, Request{Kind: Share, Addr: addr + 4096, Size: 1 << 40}),
	))
	f.Add(message(0, Request{Kind: 99}))
	f.Fuzz(func(t *testing.T, in []byte) {
		b := newBed(t)
		shared := []int{memfd(t, 8192, unix.F_SEAL_SHRINK), memfd(t, 4096, 0)}
		for n := 0; len(in) >= 3 && n < 32; n++ {
			size := min(int(in[1])|int(in[2])<<8, len(in)-3)
			msg := in[3 : 3+size]
			var rights []byte
			if fd := int(in[0]); fd > 0 {
				rights = unix.UnixRights(shared[fd%2])
			}
			in = in[3+size:]
			if _, _, err := b.conn.WriteMsgUnix(msg, rights, nil); err != nil {
				break // the session has ended
			}
		}
		_ = b.conn.CloseWrite()
		_ = b.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		for buf, oob := make([]byte, MaxMessage), make([]byte, 256); ; {
			n, o, _, _, err := b.conn.ReadMsgUnix(buf, oob)
			ipc.Close(ipc.Descriptors(oob[:o])...)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the session goes on without a client")
			}
			if n == 0 || err != nil {
				break
			}
			if _, err := ParseAnswer(buf[:n]); err != nil {
				t.Fatal(err)
			}
		}
		b.end()
	})
}
