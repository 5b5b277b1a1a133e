package trap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"tapir/lab/check/testenv"
)

// A program's first goroutine stays on its first thread, to which the kernel
// gives the process's signals.
func init() {
	if os.Getenv(programEnv) != "" {
		runtime.LockOSThread()
	}
}

// TestMain makes this binary the supervised program too: with programEnv set
// it is one of the programs of programs_test.go.
func TestMain(m *testing.M) {
	Launched()
	if name := os.Getenv(programEnv); name != "" {
		os.Exit(programs[name](os.Args[1:]))
	}
	os.Exit(testAll(m))
}

// testDir holds what the tests compile, the library's cache among it.
var testDir string

func testAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tapir-trap")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	testDir = dir
	os.Setenv("XDG_CACHE_HOME", dir)
	return m.Run()
}

const programEnv = "TAPIR_TEST_PROGRAM"

// Requests of the test's device, of a type that no terminal has.
const (
	reqCount = 0x7a01 // returns how often it was made, from 1
	reqStore = 0x7a02 // copies a word in, and its successor out
	reqPut   = 0x7a03 // makes four octets readable
	reqWait  = 0x7a04 // waits for a signal
)

const nodePath = "/dev/tapir-test0"

// counter is the test's device.
type counter struct {
	mu             sync.Mutex
	opened, closed int
	calls          atomic.Int64
	interruptions  atomic.Int64
	slowEvery      int   // every slowEvery-th count lasts until a signal comes
	enough         int64 // interruptions after which a wait ends by itself; 0: none
	released       chan struct{}
}

func newCounter() *counter { return &counter{released: make(chan struct{}, 100)} }

func (d *counter) Stat() Stat { return Stat{Mode: unix.S_IFCHR | 0o600, Rdev: unix.Mkdev(250, 7)} }

func (d *counter) Open(flags int) (File, error) {
	p, err := NewPipe(flags)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened++
	return &counterFile{p, d}, nil
}

func (d *counter) files() (opened, closed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened, d.closed
}

type counterFile struct {
	*Pipe
	d *counter
}

func (f *counterFile) Release() {
	f.Pipe.Release()
	f.d.mu.Lock()
	f.d.closed++
	f.d.mu.Unlock()
	f.d.released <- struct{}{}
}

func (f *counterFile) Ioctl(c *Call, req uint32, arg uint64) Answer {
	switch req {
	case reqCount:
		n := f.d.calls.Add(1)
		if f.d.slowEvery > 0 && n%int64(f.d.slowEvery) == 0 {
			for c.Valid() && !c.Interrupted() { // until the caller's timer has hit this very call
			}
		}
		return Return(n)
	case reqStore:
		var b [8]byte
		if err := c.Read(arg, b[:]); err != nil {
			return Fail(err)
		}
		binary.NativeEndian.PutUint64(b[:], binary.NativeEndian.Uint64(b[:])+1)
		if err := c.Write(arg, b[:]); err != nil {
			return Fail(err)
		}
		return Return(0)
	case reqPut:
		if err := f.Put([]byte("ping")); err != nil {
			return Fail(err)
		}
		return Return(0)
	case reqWait:
		go func() {
			for c.Valid() {
				if c.Interrupted() {
					answer := Restart()
					if f.d.interruptions.Add(1) == f.d.enough {
						answer = Return(0)
					}
					c.Finish(answer)
					return
				}
			}
		}()
		return Later()
	}
	return Fail(unix.ENOTTY)
}

// world is a supervised program's surroundings.
type world struct {
	dev *counter
	opt Options
}

func newWorld() *world {
	w := &world{dev: newCounter()}
	files := NewFiles(Cond{Arg: 1, Mask: 0xff00, Value: 0x7a00})
	files.Add(nodePath, w.dev)
	w.opt.Handlers = []Handler{files}
	return w
}

// program makes argv one of this binary's own programs.
func (w *world) program(name string, args ...string) *world {
	w.opt.Argv = append([]string{self()}, args...)
	w.opt.Env = append(os.Environ(), programEnv+"="+name)
	return w
}

func self() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// run runs the program and returns what it printed on both streams.
func (w *world) run(t testing.TB) (out string, code int) {
	t.Helper()
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.opt.Stdout, w.opt.Stderr = pw, pw
	p, err := Start(w.opt)
	pw.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer testenv.Guard(t, p.PID(), r)()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	code, err = p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(text), code
}

func (w *world) want(t *testing.T, want string) {
	t.Helper()
	if out, code := w.run(t); out != want || code != 0 {
		t.Fatalf("exit code %d, output\n%s\nwant\n%s", code, out, want)
	}
}

// allReleased waits for the release of n open files and finds no other.
func (w *world) allReleased(t *testing.T, n int) {
	t.Helper()
	for range n {
		testenv.Await(t, w.dev.released, "the release of a file")
	}
	if opened, closed := w.dev.files(); opened != n || closed != n {
		t.Fatalf("%d files opened, %d closed; want %d", opened, closed, n)
	}
}

// mostTwice is how many commands old kernels may make twice in a test: those of
// which a signal comes in the very moment of the answer.
const mostTwice = 3

// once wants the program to make n commands and each to be carried out once.
func (w *world) once(t *testing.T, n int) {
	t.Helper()
	out, code := w.run(t)
	var made, twice int
	if _, err := fmt.Sscanf(out, "%d commands, %d twice\n", &made, &twice); err != nil || code != 0 || made != n ||
		twice > mostTwice || twice > 0 && !w.opt.Repeats {
		t.Errorf("repeats %v: exit code %d, output %s", w.opt.Repeats, code, out)
	}
}

// output is what a command prints on both streams, and its end.
func output(t *testing.T, cmd *exec.Cmd) (string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer testenv.Guard(t, cmd.Process.Pid, r)()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), cmd.Wait()
}

func devIoctl(fd int, req uint, arg unsafe.Pointer) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(arg))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// staticELF writes a static program of these amd64 instructions.
func staticELF(t *testing.T, code ...byte) string {
	t.Helper()
	const base, head = 0x400000, 64 + 56
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, v := range []any{uint16(2), uint16(62), uint32(1), uint64(base + head), uint64(64), uint64(0), uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), uint64(head + len(code)), uint64(head + len(code)), uint64(4096)} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	b.Write(code)
	name := filepath.Join(t.TempDir(), "program")
	if err := testenv.WriteProgram(name, b.Bytes()); err != nil {
		t.Fatal(err)
	}
	return name
}

// capEff is the effective capability set of this process.
func capEff() uint64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(after, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		panic(err)
	}
	return set
}

// childOf runs another program of this binary as a child.
func childOf(name string, files []*os.File, args ...string) error {
	cmd := exec.Command(self(), args...)
	cmd.Env = append(os.Environ(), programEnv+"="+name)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, files
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
